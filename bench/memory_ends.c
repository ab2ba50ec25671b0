#include "memory_ends.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/random.h"
#include "base/ring.h"
#include "base/units.h"
#include "crypto/tree_hash.h"

#define RING_BYTES (64u * 1024u)
#define TELL_SIZE 8u /* the sender's count of blocks, on the control stream */

/* Between the session's thread and the hashing thread. */
struct job {
    uint8_t *bytes;
    uint32_t block, length;
};

struct memory_end {
    struct memory_config config;
    bool sender;
    struct session *session;
    struct driver *driver;
    uint64_t blocks, last_length;

    /* Sender. */
    uint8_t *memory;
    uint64_t memory_blocks, sent;
    uint64_t *sums; /* hash of each block of the memory, first eight bytes */
    uint64_t own_sum;

    /* Receiver. */
    uint8_t **buffers;
    struct ring *work, *done;
    pthread_t hasher;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    atomic_bool stopping;
    bool has_hasher;
    uint64_t received, hashed;
    _Atomic uint64_t sum;
    bool finished;

    uint8_t told[TELL_SIZE];
    size_t told_size, tell_at;
    bool ended;
    uint64_t started_ns, ended_ns;
    double cpu_started, cpu_ended;
    struct session_statistics statistics;
    bool verified;
};

static double cpu_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) / 1e6;
}

static uint64_t first_bytes(const uint8_t hash[TREE_HASH_SIZE])
{
    uint64_t value;
    memcpy(&value, hash, sizeof(value));
    return value;
}

static uint64_t hash_block(const struct job *job)
{
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_block(job->bytes, job->length, 1, hash);
    return first_bytes(hash);
}

static void store64(uint8_t bytes[TELL_SIZE], uint64_t value)
{
    for (unsigned i = 0; i < TELL_SIZE; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t load64(const uint8_t bytes[TELL_SIZE])
{
    uint64_t value = 0;
    for (unsigned i = 0; i < TELL_SIZE; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* ---- the sender ---- */

static uint32_t block_length(const struct memory_end *end, uint64_t block)
{
    return block + 1 == end->blocks ? (uint32_t)end->last_length : BLOCK_SIZE;
}

static void hash_memory(struct memory_end *end)
{
    for (uint64_t i = 0; i < end->memory_blocks; i++) {
        struct job job = {end->memory + i * BLOCK_SIZE, 0, BLOCK_SIZE};
        end->sums[i] = hash_block(&job);
    }
    for (uint64_t block = 0; block < end->blocks; block++) {
        uint64_t place = block % end->memory_blocks;
        struct job job = {end->memory + place * BLOCK_SIZE, 0, block_length(end, block)};
        end->own_sum += job.length == BLOCK_SIZE ? end->sums[place] : hash_block(&job);
    }
}

struct memory_end *memory_sender_new(const struct memory_config *config, struct error *error)
{
    struct memory_end *end = calloc(1, sizeof(*end));
    if (end == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a sender");
        return NULL;
    }
    end->config = *config;
    end->sender = true;
    end->blocks = (config->size_bytes + BLOCK_SIZE - 1) / BLOCK_SIZE;
    end->last_length = config->size_bytes - (end->blocks - 1) * BLOCK_SIZE;
    end->memory_blocks = config->buffer_bytes / BLOCK_SIZE;
    end->memory = aligned_alloc(4096, end->memory_blocks * BLOCK_SIZE);
    end->sums = calloc(end->memory_blocks, sizeof(*end->sums));
    if (end->memory == NULL || end->sums == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for %zu bytes to send", config->buffer_bytes);
        memory_end_free(end);
        return NULL;
    }
    struct random random;
    random_seed(&random, config->size_bytes);
    uint64_t *words = (uint64_t *)end->memory;
    for (size_t i = 0; i < end->memory_blocks * BLOCK_SIZE / sizeof(*words); i++)
        words[i] = random_next(&random);
    hash_memory(end);
    store64(end->told, end->blocks);
    return end;
}

static bool step_sender(struct memory_end *end)
{
    bool moved = false;
    while (end->tell_at < TELL_SIZE) {
        size_t went =
            session_control_write(end->session, end->told + end->tell_at, TELL_SIZE - end->tell_at);
        if (went == 0)
            break;
        end->tell_at += went;
        moved = true;
    }
    while (end->sent < end->blocks && session_wants_block(end->session)) {
        uint64_t block = end->sent;
        uint64_t place = block % end->memory_blocks;
        struct job job = {end->memory + place * BLOCK_SIZE, (uint32_t)block,
                          block_length(end, block)};
        if (end->config.hash)
            end->sums[place] = job.length == BLOCK_SIZE ? hash_block(&job) : end->sums[place];
        if (!session_send_block(end->session, job.block, false, job.bytes, job.length, NULL))
            break;
        end->sent++;
        moved = true;
        if (end->sent == end->blocks)
            session_set_tail(end->session, true);
    }
    return moved;
}

/* ---- the receiver ---- */

static void *hash_blocks(void *context)
{
    struct memory_end *end = context;
    for (;;) {
        size_t size;
        const struct job *job = ring_peek(end->work, &size);
        if (job == NULL) {
            if (atomic_load(&end->stopping))
                return NULL;
            pthread_mutex_lock(&end->lock);
            while (ring_is_empty(end->work) && !atomic_load(&end->stopping))
                pthread_cond_wait(&end->wanted, &end->lock);
            pthread_mutex_unlock(&end->lock);
            continue;
        }
        atomic_fetch_add(&end->sum, hash_block(job));
        struct job back = *job;
        ring_release(end->work);
        ring_put(end->done, &back, sizeof(back)); /* as large as the ring before it */
        if (end->driver != NULL)
            driver_wake(end->driver);
    }
}

static void wake_hasher(struct memory_end *end, bool stop)
{
    pthread_mutex_lock(&end->lock);
    if (stop)
        atomic_store(&end->stopping, true);
    pthread_cond_signal(&end->wanted);
    pthread_mutex_unlock(&end->lock);
}

struct memory_end *memory_receiver_new(const struct memory_config *config, struct error *error)
{
    struct memory_end *end = calloc(1, sizeof(*end));
    if (end == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a receiver");
        return NULL;
    }
    end->config = *config;
    pthread_mutex_init(&end->lock, NULL);
    pthread_cond_init(&end->wanted, NULL);
    end->work = ring_new(RING_BYTES);
    end->done = ring_new(RING_BYTES);
    end->buffers = calloc(config->pool_blocks, sizeof(*end->buffers));
    bool complete = end->work != NULL && end->done != NULL && end->buffers != NULL;
    for (unsigned i = 0; complete && i < config->pool_blocks; i++) {
        end->buffers[i] = aligned_alloc(4096, BLOCK_SIZE);
        complete = end->buffers[i] != NULL;
    }
    if (!complete || pthread_create(&end->hasher, NULL, hash_blocks, end) != 0) {
        error_set(error, ERROR_MEMORY, "no memory for %u blocks", config->pool_blocks);
        memory_end_free(end);
        return NULL;
    }
    end->has_hasher = true;
    return end;
}

static bool take_count(struct memory_end *end)
{
    if (end->told_size == TELL_SIZE)
        return false;
    size_t got =
        session_control_read(end->session, end->told + end->told_size, TELL_SIZE - end->told_size);
    end->told_size += got;
    if (end->told_size == TELL_SIZE)
        end->blocks = load64(end->told);
    return got > 0;
}

static void finish_receiver(struct memory_end *end, uint64_t now_ns)
{
    /* The count of files is of no use here: it carries the sum. */
    session_finish(end->session, 0, atomic_load(&end->sum), end->blocks, now_ns);
    end->finished = true;
}

static bool step_receiver(struct memory_end *end, uint64_t now_ns)
{
    bool moved = take_count(end);
    size_t size;
    const struct job *job;
    while ((job = ring_peek(end->done, &size)) != NULL) {
        session_give_buffer(end->session, job->bytes);
        ring_release(end->done);
        end->hashed++;
        moved = true;
    }
    if (!end->finished && end->told_size == TELL_SIZE && end->hashed == end->blocks) {
        finish_receiver(end, now_ns);
        moved = true;
    }
    return moved;
}

/* ---- both ---- */

static void attach(void *context, struct session *session, uint64_t now_ns)
{
    struct memory_end *end = context;
    end->session = session;
    end->started_ns = now_ns;
    end->cpu_started = cpu_now();
    if (!end->sender)
        for (unsigned i = 0; i < end->config.pool_blocks; i++)
            session_give_buffer(session, end->buffers[i]);
}

static void take_event(struct memory_end *end, const struct session_event *event)
{
    switch (event->kind) {
    case SESSION_BLOCK_WHOLE: {
        struct job job = {event->bytes, event->block, event->length};
        ring_put(end->work, &job, sizeof(job)); /* never more than the pool: it has room */
        wake_hasher(end, false);
        end->received++;
        break;
    }
    case SESSION_DONE_RECEIVED:
        end->verified = event->files == end->own_sum && event->blocks == end->blocks;
        break;
    case SESSION_CLOSED:
        end->ended = true;
        end->ended_ns = driver_now();
        end->cpu_ended = cpu_now();
        session_statistics(end->session, &end->statistics);
        break;
    case SESSION_BLOCK_RELEASED:
    case SESSION_BLOCK_ACKED:
        break;
    }
}

static bool step(void *context, uint64_t now_ns)
{
    struct memory_end *end = context;
    struct session_event event;
    bool moved = false;
    while (session_next_event(end->session, &event)) {
        take_event(end, &event);
        moved = true;
    }
    return (end->sender ? step_sender(end) : step_receiver(end, now_ns)) || moved;
}

static uint64_t deadline(void *context)
{
    (void)context;
    return TIME_NEVER;
}

static bool is_ended(void *context)
{
    return ((struct memory_end *)context)->ended;
}

static void interrupt(void *context, uint64_t now_ns)
{
    struct memory_end *end = context;
    session_abort(end->session, ERROR_INTERRUPTED, "interrupted", now_ns);
}

void memory_end_configure(struct memory_end *end, struct driver_config *config)
{
    config->role = end->sender ? ROLE_SENDER : ROLE_RECEIVER;
    config->initial_credit = end->sender ? 0 : end->config.pool_blocks;
    config->upper = (struct driver_upper){.context = end,
                                          .attach = attach,
                                          .step = step,
                                          .deadline = deadline,
                                          .is_ended = is_ended,
                                          .interrupt = interrupt};
}

void memory_end_set_driver(struct memory_end *end, struct driver *driver)
{
    end->driver = driver;
}

void memory_end_report(const struct memory_end *end, struct memory_report *report)
{
    *report = (struct memory_report){
        .blocks = end->sender ? end->sent : end->hashed,
        .bytes = end->sender ? end->statistics.payload_acked : end->statistics.payload_received,
        .seconds = (double)(end->ended_ns - end->started_ns) / 1e9,
        .cpu_seconds = end->cpu_ended - end->cpu_started,
        .verified = end->verified,
        .session = end->statistics,
    };
}

void memory_end_free(struct memory_end *end)
{
    if (end == NULL)
        return;
    if (end->has_hasher) {
        wake_hasher(end, true);
        pthread_join(end->hasher, NULL);
    }
    if (!end->sender) {
        pthread_mutex_destroy(&end->lock);
        pthread_cond_destroy(&end->wanted);
    }
    for (unsigned i = 0; end->buffers != NULL && i < end->config.pool_blocks; i++)
        free(end->buffers[i]);
    free(end->buffers);
    ring_free(end->work);
    ring_free(end->done);
    free(end->memory);
    free(end->sums);
    free(end);
}
