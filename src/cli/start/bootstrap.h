/* The two lines that start a session through SSH: what the client tells the far end on stdin, and
 * what the far end answers on stdout. Pure text; docs/protocol.md, "Start through SSH". */
#ifndef PETREL_CLI_BOOTSTRAP_H
#define PETREL_CLI_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/options/send_policy.h"
#include "crypto/handshake.h"

#define BOOTSTRAP_LINE_MAX 1024

/* Protocol versions that a side speaks; all zero: it did not say, and its hello will. */
struct version_range {
    uint8_t lowest, highest;
};

/* The ways that a session may take, as bits; PORTS in place of SSH: only ports packets go there. */
enum session_way { WAY_UDP = 1, WAY_SSH = 2, WAY_PORTS = 4 };

/* What the far end is started for. */
enum bootstrap_job {
    JOB_COPY,
    JOB_MEASURE, /* opens ports when asked to */
    JOB_FILES,   /* something about files there, in the channel itself (cli/files/file_job.h) */
    JOB_COUNT
};

struct bootstrap_start {
    uint8_t secret[START_SECRET_SIZE];
    uint8_t session_id[SESSION_ID_SIZE];
    bool remote_sends;
    uint16_t first_port, last_port;
    unsigned lanes;
    uint64_t limit_bps;
    struct send_policy policy; /* of the sender, whichever end that is */
    struct version_range protocol;
    struct rate_memory path; /* of an earlier transfer from there; rate 0: none */
    enum bootstrap_job job;
    unsigned ways; /* 0: not said, which means UDP alone */
};

struct bootstrap_answer {
    char version[32]; /* of the program */
    struct version_range protocol;
    unsigned ways;          /* as above */
    uint16_t port;          /* 0 when the ways are without UDP */
    char address[64];       /* as in SSH_CONNECTION; "" if unknown */
    enum bootstrap_job job; /* as it was understood; but for a copy there is no port yet */
};

/* "petrel-start key=value ...\n". Both return the length, 0 if it does not fit. */
size_t bootstrap_write_start(const struct bootstrap_start *start, char *line, size_t capacity);
size_t bootstrap_write_answer(const struct bootstrap_answer *answer, char *line, size_t capacity);
size_t bootstrap_write_error(const struct error *error, char *line, size_t capacity);

/* `line` without its newline. False with ERROR_PROTOCOL when it is not such a line or lacks a
 * key; unknown keys are skipped. */
bool bootstrap_read_start(struct bootstrap_start *start, const char *line, struct error *error);
/* False also when the line is the far end's error: then that is the error. */
bool bootstrap_read_answer(struct bootstrap_answer *answer, const char *line, struct error *error);
bool version_ranges_meet(struct version_range a, struct version_range b);
/* True when the line is for us: an answer that speaks of a port, or an error; not a shell's banner,
 * whatever it says. */
bool bootstrap_is_answer(const char *line);

#endif
