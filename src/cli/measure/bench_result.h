/* What petrel bench has measured, and how it is printed. */
#ifndef PETREL_CLI_BENCH_RESULT_H
#define PETREL_CLI_BENCH_RESULT_H

#include "cli/measure/measure_words.h"

/* One TCP comparison. */
struct bench_tcp {
    const char *congestion;
    unsigned streams;
    struct error error; /* kind NONE: it ran */
    struct tcp_figures sender, receiver;
};

#define BENCH_TCP_MAX 3u

struct bench_result {
    const char *host;
    bool reverse;     /* from there to here */
    const char *disk; /* what arrived was written there; NULL: dropped */
    uint64_t ssh_ns;
    struct machine_facts near, far;
    struct error error; /* of petrel's own session */
    struct session_figures sender, receiver;
    struct bench_tcp tcp[BENCH_TCP_MAX];
    unsigned tcp_count;
    /* A session beside one TCP flow. */
    bool shared;
    struct error share_error;
    struct session_figures share_sender, share_receiver;
    struct tcp_figures share_tcp;
};

void bench_print(const struct bench_result *result);
/* To `out`, which json_report_open gave for `file`, and which is closed. */
bool bench_print_json(const struct bench_result *result, int exit_code, FILE *out, const char *file,
                      struct error *error);

#endif
