/* Plain TCP over the path that petrel takes, to compare with: one to sixteen streams of random
 * bytes for some seconds, under a named congestion control. Neither sealed nor verified.
 *
 * One end listens and the other connects; one sends and the other counts what arrives. Streams
 * prove themselves by a token that came through SSH. Runs on a thread of its own.
 */
#ifndef PETREL_MEASURE_TCP_FLOW_H
#define PETREL_MEASURE_TCP_FLOW_H

#include "base/address.h"
#include "base/error.h"
#include "base/units.h"
#include "measure/rate_samples.h"

#define TCP_TOKEN_SIZE 16u
#define TCP_STREAMS_MAX 16u
#define TCP_CONGESTION_MAX 16u

struct tcp_flow_config {
    bool listens, sends;
    uint16_t first_port, last_port; /* listening: one of these */
    struct address to;              /* connecting */
    uint8_t token[TCP_TOKEN_SIZE];
    unsigned streams;
    uint64_t time_ns; /* of sending */
    bool until_ended; /* beside something else, which may take longer: until tcp_flow_end */
    char congestion[TCP_CONGESTION_MAX]; /* of the sending end; "": the system's */
};

struct tcp_flow_report {
    struct error error; /* kind NONE: it ran for its time */
    uint64_t bytes;     /* received; of a sending end: handed to the system */
    double seconds;     /* from the first byte to the last */
    double cpu_seconds; /* of the flow's own thread */
    uint64_t sustained_bps, retransmits;
    struct rate_samples samples;
};

struct tcp_flow;

/* ERROR_NOT_FOUND when the system has no such congestion control, ERROR_PERMISSION when it has but
 * does not let us, ERROR_IO when no port is free. Connecting happens on the flow's thread. */
struct tcp_flow *tcp_flow_start(const struct tcp_flow_config *config, struct error *error);
/* Its thread has nothing left to do: tcp_flow_end will not wait. */
bool tcp_flow_is_done(const struct tcp_flow *flow);
uint16_t tcp_flow_port(const struct tcp_flow *flow);
/* Waits for its end (it has one: the time, and 10 s for the streams to come), or ends it now with
 * `stop`; fills the report (may be NULL) and frees. Takes NULL. */
void tcp_flow_end(struct tcp_flow *flow, bool stop, struct tcp_flow_report *report);

#endif
