#include "measure/block_worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/ring.h"
#include "measure/quiet_thread.h"

#define RING_BYTES (64u * 1024u)

struct block_worker {
    void (*run)(void *context, struct block_job *job);
    void *context;
    struct driver *driver;
    struct ring *work, *done;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    atomic_bool stopping;
    bool has_thread;
};

static void *work(void *context)
{
    struct block_worker *worker = context;
    for (;;) {
        size_t size;
        const struct block_job *job = ring_peek(worker->work, &size);
        if (atomic_load(&worker->stopping))
            return NULL;
        if (job == NULL) {
            pthread_mutex_lock(&worker->lock);
            while (ring_is_empty(worker->work) && !atomic_load(&worker->stopping))
                pthread_cond_wait(&worker->wanted, &worker->lock);
            pthread_mutex_unlock(&worker->lock);
            continue;
        }
        struct block_job mine = *job;
        ring_release(worker->work);
        worker->run(worker->context, &mine);
        ring_put(worker->done, &mine, sizeof(mine)); /* the owner gives no more than fit */
        if (worker->driver != NULL)
            driver_wake(worker->driver);
    }
}

static void wake(struct block_worker *worker, bool stop)
{
    pthread_mutex_lock(&worker->lock);
    if (stop)
        atomic_store(&worker->stopping, true);
    pthread_cond_signal(&worker->wanted);
    pthread_mutex_unlock(&worker->lock);
}

struct block_worker *block_worker_new(void (*run)(void *context, struct block_job *job),
                                      void *context, struct error *error)
{
    struct block_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a thread's jobs");
        return NULL;
    }
    worker->run = run;
    worker->context = context;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wanted, NULL);
    worker->work = ring_new(RING_BYTES);
    worker->done = ring_new(2 * RING_BYTES); /* holds what both have room for, and one in hand */
    if (worker->work == NULL || worker->done == NULL)
        error_set(error, ERROR_MEMORY, "no memory for a thread's jobs");
    else
        worker->has_thread = quiet_thread_start(&worker->thread, work, worker, error);
    if (worker->has_thread)
        return worker;
    block_worker_free(worker);
    return NULL;
}

void block_worker_free(struct block_worker *worker)
{
    if (worker == NULL)
        return;
    if (worker->has_thread) {
        wake(worker, true);
        pthread_join(worker->thread, NULL);
    }
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->wanted);
    ring_free(worker->work);
    ring_free(worker->done);
    free(worker);
}

void block_worker_set_driver(struct block_worker *worker, struct driver *driver)
{
    worker->driver = driver;
}

bool block_worker_give(struct block_worker *worker, const struct block_job *job)
{
    bool room = ring_put(worker->work, job, sizeof(*job));
    wake(worker, false);
    return room;
}

bool block_worker_take(struct block_worker *worker, struct block_job *job)
{
    size_t size;
    const struct block_job *done = ring_peek(worker->done, &size);
    if (done == NULL)
        return false;
    *job = *done;
    ring_release(worker->done);
    return true;
}
