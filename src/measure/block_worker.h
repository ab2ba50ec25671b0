/* A thread that does one thing to one block after another, beside the session's thread: as a
 * copy's disk thread hashes, reads and writes. One owner thread gives and takes. */
#ifndef PETREL_MEASURE_BLOCK_WORKER_H
#define PETREL_MEASURE_BLOCK_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "net/driver.h"

struct block_job {
    uint8_t *bytes;
    uint32_t block, length;
    uint64_t sum; /* for the worker to fill */
};

struct block_worker;

/* `run` is called on the thread, which may change the job but not keep it. */
struct block_worker *block_worker_new(void (*run)(void *context, struct block_job *job),
                                      void *context, struct error *error);
/* Waits for the job in hand, leaves the others. Before driver_free. Takes NULL. */
void block_worker_free(struct block_worker *worker);
/* Whom to wake when a job is done; before the first job. */
void block_worker_set_driver(struct block_worker *worker, struct driver *driver);

/* False when more than a thousand jobs wait. */
bool block_worker_give(struct block_worker *worker, const struct block_job *job);
/* Jobs that are done, in the order given. False when there is none yet. */
bool block_worker_take(struct block_worker *worker, struct block_job *job);

#endif
