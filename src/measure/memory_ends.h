/* Two ends of a session that copies blocks from memory into nothing: what is above a driver in
 * petrel doctor, petrel bench, the memory-to-memory benchmark and the driver's tests.
 *
 * The sender offers one buffer of random bytes over and over, or a file, until a size or a time is
 * reached; the receiver drops what comes, or writes it to a file. Both hash each block, and read or
 * write it, on a thread beside the session's, as a copy does. At the end the receiver tells the sum
 * of all hashes, and the sender compares it with its own: docs/protocol.md, "Measurements". Knows
 * nothing of files, progress or SSH.
 */
#ifndef PETREL_MEASURE_MEMORY_ENDS_H
#define PETREL_MEASURE_MEMORY_ENDS_H

#include "measure/rate_samples.h"
#include "net/driver.h"

struct memory_config {
    uint64_t size_bytes; /* to be sent, 0 for no end of it */
    /* Sender: no new block after this long, 0 for no end. One of the two must be given. */
    uint64_t time_ns;
    size_t buffer_bytes;  /* sender: how much memory, at least one block */
    unsigned pool_blocks; /* receiver: memory, and credit, to begin with */
    unsigned pool_most;   /* it grows with the path up to this many; 0: it does not. A sender that
                             reads has as many buffers at most. */
    bool hash;            /* the sender hashes as it goes, as a real one would */
    /* Receiver: blocks are written to this descriptor by their numbers, as a copy writes, and
     * synced before the end; 0: they are dropped. Sender: they are read from it, over and over; 0:
     * they are those of the buffer. Stays the caller's. */
    int disk;
};

struct memory_report {
    uint64_t blocks, bytes;
    double seconds, cpu_seconds;  /* from the session's start to its end; of this process */
    uint64_t sustained_bps;       /* as rate_samples.h has it; bytes of blocks */
    struct rate_window sustained; /* when that was */
    bool started;                 /* there was a session at all */
    bool verified;                /* sender: the receiver's hashes are those of what was sent */
    struct session_statistics session;
};

struct memory_end;

struct memory_end *memory_sender_new(const struct memory_config *config, struct error *error);
struct memory_end *memory_receiver_new(const struct memory_config *config, struct error *error);
/* Before driver_free: the hashing thread wakes the driver. */
void memory_end_free(struct memory_end *end);

/* Fills role, initial_credit and upper of a driver's config. */
void memory_end_configure(struct memory_end *end, struct driver_config *config);
/* Before driver_run: whom to wake when hashing has finished a block. */
void memory_end_set_driver(struct memory_end *end, struct driver *driver);
/* After driver_run. */
void memory_end_report(const struct memory_end *end, struct memory_report *report);

#endif
