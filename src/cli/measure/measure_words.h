/* What two petrels say to each other about measurements, through SSH: one JSON object a line, a
 * request and its answer, under 16 KiB each (docs/protocol.md, "Measurements"). Text only: who runs
 * what is measure_far.h's and measure_link.h's business.
 */
#ifndef PETREL_CLI_MEASURE_WORDS_H
#define PETREL_CLI_MEASURE_WORDS_H

#include "cli/report/json_fields.h"
#include "measure/disk_speed.h"
#include "measure/machine.h"
#include "measure/session_run.h"
#include "measure/tcp_flow.h"
#include "measure/udp_echo.h"

#define MEASURE_LINE_MAX 16384u
#define MEASURE_KNOCKS_MAX 32u
#define MEASURE_TIME_MAX_NS (UINT64_C(3600) * NS_PER_S)

enum measure_do {
    MEASURE_PING,    /* an empty answer */
    MEASURE_FACTS,   /* struct machine_facts */
    MEASURE_DISK,    /* path, writes, time_ns: struct disk_speed */
    MEASURE_ECHO,    /* ports, token: struct measure_started, and a udp_echo runs */
    MEASURE_SESSION, /* role and so on: struct measure_started, and a session waits for its peer */
    MEASURE_TCP,     /* likewise, a tcp_flow that listens */
    /* Of an echo or a session: packets go to ports4 and ports6 of the client's address. */
    MEASURE_KNOCK,
    /* Of one of the three: waits for its end, or with `stop` ends it; struct measure_arrivals,
     * session_figures or tcp_figures. */
    MEASURE_END,
    MEASURE_DO_COUNT
};

struct measure_request {
    enum measure_do what, of;
    bool stop, sends, writes;
    bool until_ended; /* a TCP flow: as tcp_flow.h has it */
    bool stream;      /* a session in the SSH channel itself, which ends with it */
    uint16_t first_port, last_port;
    struct port_set ports4, ports6; /* at most MEASURE_KNOCKS_MAX in all */
    uint8_t token[ECHO_TOKEN_SIZE];
    uint8_t secret[START_SECRET_SIZE], session_id[SESSION_ID_SIZE];
    uint64_t size_bytes, time_ns, limit_bps, fixed_bps;
    uint64_t from_ns, until_ns; /* end of tcp: the rate of that time only, unless empty */
    uint32_t lanes, streams, policy;
    char congestion[TCP_CONGESTION_MAX];
    char path[480];
};

struct measure_started {
    uint16_t port;
    struct port_set opened, busy; /* of an echo */
};

struct measure_arrivals {
    struct port_set arrived4, arrived6;
    uint32_t loss_arrived, size_arrived, both_arrived, strangers;
    uint32_t refused; /* packets that the far system did not let out */
    char refusal[80]; /* why, in its words; "" for none */
};

/* A session_outcome as one end tells it to the other, and to programs. */
struct session_figures {
    bool started, verified;
    uint64_t bytes, sustained_bps, peak_memory_bytes;
    uint64_t sustained_from_ns, sustained_until_ns; /* by that end's clock */
    double seconds, cpu_seconds;
    uint64_t packets_sent, packets_lost, payload_sent, payload_resent, receiver_drops;
    uint64_t rtt_ns, rtt_min_ns, datagrams_received;
    uint64_t path_ns, limit_ns, credit_ns, source_ns, processor_ns; /* held up by each */
    uint32_t lanes, receive_buffer, send_buffer;
    uint16_t datagram_bytes;
    bool segmentation, coalescing;
};

struct tcp_figures {
    uint64_t bytes, sustained_bps, retransmits;
    double seconds, cpu_seconds;
};

extern const struct field measure_facts_fields[], measure_disk_fields[], measure_started_fields[],
    measure_arrivals_fields[], session_figures_fields[], tcp_figures_fields[];

/* "{...}\n"; 0 when it does not fit. */
size_t measure_write_request(const struct measure_request *request, char *line, size_t capacity);
/* `line` without its newline. Checks every limit. */
bool measure_read_request(struct measure_request *request, const char *line, struct error *error);

/* An answer: `table` and `from` may be NULL; `error` of kind NONE or NULL is success. */
size_t measure_write_answer(const struct error *failed, const struct field *table, const void *from,
                            char *line, size_t capacity);
/* Fills `into` by `table` as far as the answer goes, then fails with the far end's error if it told
 * one, or with ERROR_PROTOCOL when the line is no answer. */
bool measure_read_answer(const char *line, const struct field *table, void *into,
                         struct error *error);

void session_figures_of(struct session_figures *figures, const struct session_outcome *outcome);
/* The sustained rate is that of the window, unless it is empty. */
void tcp_figures_of(struct tcp_figures *figures, const struct tcp_flow_report *report,
                    const struct rate_window *window);

#endif
