/* What happened in a simulated run, as one 64-bit hash over times, sizes and decisions, and as text
 * when asked. Never ciphertext or keys, so that the same seed gives the same hash on every compiler
 * and in every run, although TLS draws fresh randomness.
 */
#ifndef PETREL_LAB_SIM_TRACE_H
#define PETREL_LAB_SIM_TRACE_H

#include <stdint.h>
#include <stdio.h>

enum sim_mark {
    SIM_MARK_SEND,   /* host, bytes, fate (enum sim_fate), arrivals */
    SIM_MARK_ARRIVE, /* host, bytes, hostile, corrupted */
    SIM_MARK_STREAM, /* host, bytes */
    SIM_MARK_OPEN,   /* host, state of the opening, ns it took */
    SIM_MARK_BLOCK,  /* host, block, length, packed: whole at the receiver */
    SIM_MARK_ACKED,  /* host, block, length: known by the sender */
    SIM_MARK_CREDIT, /* host, buffers given so far */
    SIM_MARK_ACTION, /* host, kind, lane */
    SIM_MARK_RATE,   /* host, rate in bits a second, RTT in ns, packets lost */
    SIM_MARK_END,    /* host, error kind, result */
    SIM_MARK_COUNT
};

struct sim_trace {
    uint64_t hash;
    uint64_t count;
    FILE *out; /* NULL: no text */
};

void sim_trace_start(struct sim_trace *trace, FILE *out);
void sim_trace_add(struct sim_trace *trace, uint64_t now_ns, enum sim_mark mark, unsigned host,
                   uint64_t a, uint64_t b, uint64_t c);

#endif
