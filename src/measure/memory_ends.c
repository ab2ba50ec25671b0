#include "measure/memory_ends.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/random.h"
#include "base/ring.h"
#include "base/units.h"
#include "crypto/tree_hash.h"
#include "measure/quiet_thread.h"

#define RING_BYTES (64u * 1024u)
#define TELL_SIZE 8u /* the sender's count of blocks, on the control stream */
#define SMALLEST_PIECE (32u * 1024u)
#define PIECES_A_SECOND 10u

/* Between the session's thread and the hashing thread. Without bytes: what was written is synced,
 * once, after the last block. */
struct job {
    uint8_t *bytes;
    uint32_t block, length;
};

struct memory_end {
    struct memory_config config;
    bool sender;
    struct session *session;
    struct driver *driver;
    uint64_t blocks; /* how many there are in all, once that is known */

    /* Sender. */
    uint8_t *memory;
    uint64_t memory_blocks, sent, sent_bytes;
    uint64_t *sums; /* hash of each block of the memory, first eight bytes */
    uint64_t own_sum;
    bool all_sent;

    /* Receiver. */
    uint8_t **buffers;
    unsigned buffer_count;
    uint64_t measured_ns, measured_bytes, fastest_bps;
    _Atomic int disk_errno;
    struct ring *work, *done;
    pthread_t hasher;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    atomic_bool stopping;
    bool has_hasher;
    uint64_t received, hashed;
    _Atomic uint64_t sum;
    bool finished, sync_asked, synced;

    uint8_t told[TELL_SIZE];
    size_t told_size, tell_at;
    bool ended;
    uint64_t started_ns, ended_ns;
    double cpu_started, cpu_ended;
    struct rate_samples samples;
    uint64_t sampled_ns;
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

/* The first eight bytes of a block's BLAKE3, as a number. */
static uint64_t hash_block(const struct job *job)
{
    uint8_t hash[TREE_HASH_SIZE];
    uint64_t value = 0;
    tree_hash_whole(job->bytes, job->length, hash);
    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | hash[i];
    return value;
}

static void store64(uint8_t bytes[TELL_SIZE], uint64_t value)
{
    for (unsigned i = 0; i < TELL_SIZE; i++)
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
}

static uint64_t load64(const uint8_t bytes[TELL_SIZE])
{
    uint64_t value = 0;
    for (unsigned i = 0; i < TELL_SIZE; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* ---- the sender ---- */

static void fill_memory(struct memory_end *end)
{
    struct random random;
    random_seed(&random, end->config.buffer_bytes);
    uint64_t *words = (uint64_t *)(void *)end->memory;
    for (size_t i = 0; i < end->memory_blocks * BLOCK_SIZE / sizeof(*words); i++)
        words[i] = random_next(&random);
    for (uint64_t i = 0; i < end->memory_blocks; i++) {
        struct job job = {end->memory + i * BLOCK_SIZE, 0, BLOCK_SIZE};
        end->sums[i] = hash_block(&job);
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
    end->memory_blocks = config->buffer_bytes / BLOCK_SIZE;
    end->memory = aligned_alloc(4096, end->memory_blocks * BLOCK_SIZE);
    end->sums = calloc(end->memory_blocks, sizeof(*end->sums));
    if (end->memory == NULL || end->sums == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for %zu bytes to send", config->buffer_bytes);
        memory_end_free(end);
        return NULL;
    }
    fill_memory(end);
    return end;
}

/* What is handed over has to be delivered, also after the time is up: on a slow path a block of
 * full size would take seconds. */
static uint32_t piece_length(const struct memory_end *end)
{
    struct session_statistics statistics;
    session_statistics(end->session, &statistics);
    uint64_t wanted = statistics.rate_bps / 8 / PIECES_A_SECOND;
    uint32_t length = BLOCK_SIZE;
    while (length > SMALLEST_PIECE && length > wanted)
        length /= 2;
    return length;
}

static uint32_t next_length(const struct memory_end *end)
{
    uint64_t length = end->config.time_ns != 0 ? piece_length(end) : BLOCK_SIZE;
    uint64_t left = end->config.size_bytes - end->sent_bytes;
    return (uint32_t)(end->config.size_bytes != 0 && left < length ? left : length);
}

static bool is_enough(const struct memory_end *end, uint64_t now_ns)
{
    const struct memory_config *config = &end->config;
    return (config->size_bytes != 0 && end->sent_bytes >= config->size_bytes) ||
           (config->time_ns != 0 && now_ns >= end->started_ns + config->time_ns) ||
           end->sent == BLOCK_NUMBER_LIMIT;
}

static bool send_block(struct memory_end *end)
{
    uint64_t place = end->sent % end->memory_blocks;
    struct job job = {end->memory + place * BLOCK_SIZE, (uint32_t)end->sent, next_length(end)};
    if (!session_send_block(end->session, job.block, false, job.bytes, job.length, NULL))
        return false;
    bool known = job.length == BLOCK_SIZE && !end->config.hash;
    end->own_sum += known ? end->sums[place] : hash_block(&job);
    end->sent_bytes += job.length;
    end->sent++;
    return true;
}

/* The count comes last: nobody knows it before. */
static bool tell_count(struct memory_end *end)
{
    size_t went =
        session_control_write(end->session, end->told + end->tell_at, TELL_SIZE - end->tell_at);
    end->tell_at += went;
    return went > 0;
}

static bool step_sender(struct memory_end *end, uint64_t now_ns)
{
    bool moved = false;
    while (!end->all_sent && !is_enough(end, now_ns) && session_wants_block(end->session)) {
        if (!send_block(end))
            break;
        moved = true;
    }
    if (!end->all_sent && is_enough(end, now_ns)) {
        end->all_sent = true;
        end->blocks = end->sent;
        store64(end->told, end->blocks);
        session_set_tail(end->session, true);
        moved = true;
    }
    return (end->all_sent && end->tell_at < TELL_SIZE && tell_count(end)) || moved;
}

/* ---- the receiver ---- */

static bool write_block(const struct job *job, int disk)
{
    size_t done = 0;
    while (done < job->length) {
        ssize_t put = pwrite(disk, job->bytes + done, job->length - done,
                             (off_t)job->block * BLOCK_SIZE + (off_t)done);
        if (put <= 0 && errno != EINTR)
            return false;
        done += put > 0 ? (size_t)put : 0;
    }
    return true;
}

static void take_block(struct memory_end *end, const struct job *job)
{
    if (job->bytes == NULL) {
        if (end->config.disk > 0 && fdatasync(end->config.disk) != 0 && errno != EINVAL)
            end->disk_errno = errno;
        return;
    }
    atomic_fetch_add(&end->sum, hash_block(job));
    if (end->config.disk > 0 && end->disk_errno == 0 && !write_block(job, end->config.disk))
        end->disk_errno = errno != 0 ? errno : EIO;
}

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
        take_block(end, job);
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

static bool add_buffer(struct memory_end *end)
{
    uint8_t *bytes = aligned_alloc(4096, BLOCK_SIZE);
    if (bytes == NULL)
        return false;
    end->buffers[end->buffer_count++] = bytes;
    return true;
}

static bool start_hasher(struct memory_end *end, struct error *error)
{
    end->has_hasher = quiet_thread_start(&end->hasher, hash_blocks, end, error);
    return end->has_hasher;
}

struct memory_end *memory_receiver_new(const struct memory_config *config, struct error *error)
{
    struct memory_end *end = calloc(1, sizeof(*end));
    if (end == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a receiver");
        return NULL;
    }
    end->config = *config;
    if (end->config.pool_most < config->pool_blocks)
        end->config.pool_most = config->pool_blocks;
    pthread_mutex_init(&end->lock, NULL);
    pthread_cond_init(&end->wanted, NULL);
    end->work = ring_new(RING_BYTES);
    end->done = ring_new(RING_BYTES);
    end->buffers = calloc(end->config.pool_most, sizeof(*end->buffers));
    bool complete = end->work != NULL && end->done != NULL && end->buffers != NULL;
    for (unsigned i = 0; complete && i < config->pool_blocks; i++)
        complete = add_buffer(end);
    if (!complete || !start_hasher(end, error)) {
        error_set(error, ERROR_MEMORY, "no memory for %u blocks", config->pool_blocks);
        memory_end_free(end);
        return NULL;
    }
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
    end->finished = true;
    if (end->disk_errno != 0) {
        struct error error = {0};
        error_set_errno(&error, end->disk_errno, "cannot write what arrived");
        session_abort(end->session, error.kind, error.text, now_ns);
        return;
    }
    /* The count of files is of no use here: it carries the sum. */
    session_finish(end->session, 0, atomic_load(&end->sum), end->blocks, now_ns);
}

static void give_job(struct memory_end *end, const struct job *job)
{
    ring_put(end->work, job, sizeof(*job)); /* never more than the pool, and one: it has room */
    wake_hasher(end, false);
}

static bool step_receiver(struct memory_end *end, uint64_t now_ns)
{
    bool moved = take_count(end);
    size_t size;
    const struct job *job;
    while ((job = ring_peek(end->done, &size)) != NULL) {
        if (job->bytes != NULL) {
            session_give_buffer(end->session, job->bytes);
            end->hashed++;
        } else {
            end->synced = true;
        }
        ring_release(end->done);
        moved = true;
    }
    bool all = end->told_size == TELL_SIZE && end->hashed == end->blocks;
    if (all && !end->sync_asked) {
        give_job(end, &(struct job){.bytes = NULL});
        end->sync_asked = moved = true;
    }
    if (!end->finished && ((all && end->synced) || end->disk_errno != 0)) {
        finish_receiver(end, now_ns);
        moved = true;
    }
    return moved;
}

/* As a real receiver does: four times what is in flight at the fastest rate seen. */
static void grow_pool(struct memory_end *end, uint64_t now_ns)
{
    const struct session_statistics *now = &end->statistics;
    uint64_t passed_ns = now_ns - end->measured_ns;
    if (passed_ns < now->rtt_ns || passed_ns < RATE_SAMPLE_NS)
        return;
    double bytes = (double)(now->payload_received - end->measured_bytes);
    uint64_t rate_bps = (uint64_t)(bytes * 8e9 / (double)passed_ns);
    if (rate_bps > end->fastest_bps)
        end->fastest_bps = rate_bps;
    end->measured_ns = now_ns;
    end->measured_bytes = now->payload_received;
    double in_flight = (double)end->fastest_bps / 8 * (double)now->rtt_ns / 1e9;
    double target = 4 * in_flight / BLOCK_SIZE;
    while (end->buffer_count < end->config.pool_most && (double)end->buffer_count < target &&
           add_buffer(end))
        session_give_buffer(end->session, end->buffers[end->buffer_count - 1]);
}

/* ---- both ---- */

static void attach(void *context, struct session *session, uint64_t now_ns)
{
    struct memory_end *end = context;
    end->session = session;
    end->started_ns = end->measured_ns = now_ns;
    end->cpu_started = cpu_now();
    rate_samples_start(&end->samples, now_ns);
    for (unsigned i = 0; i < end->buffer_count; i++)
        session_give_buffer(session, end->buffers[i]);
}

static void take_event(struct memory_end *end, const struct session_event *event)
{
    switch (event->kind) {
    case SESSION_BLOCK_WHOLE: {
        struct job job = {event->bytes, event->block, event->length};
        give_job(end, &job);
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
        rate_samples_add(&end->samples, end->ended_ns,
                         end->sender ? end->statistics.payload_acked
                                     : end->statistics.payload_received);
        break;
    case SESSION_BLOCK_RELEASED:
    case SESSION_BLOCK_ACKED:
        break;
    }
}

static void sample(struct memory_end *end, uint64_t now_ns)
{
    if (end->ended || now_ns < end->sampled_ns + RATE_SAMPLE_NS)
        return;
    end->sampled_ns = now_ns;
    session_statistics(end->session, &end->statistics);
    const struct session_statistics *now = &end->statistics;
    rate_samples_add(&end->samples, now_ns,
                     end->sender ? now->payload_acked : now->payload_received);
    if (!end->sender)
        grow_pool(end, now_ns);
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
    sample(end, now_ns);
    return (end->sender ? step_sender(end, now_ns) : step_receiver(end, now_ns)) || moved;
}

static uint64_t deadline(void *context)
{
    const struct memory_end *end = context;
    if (end->session == NULL || end->ended)
        return TIME_NEVER;
    uint64_t next_ns = end->sampled_ns + RATE_SAMPLE_NS;
    uint64_t stop_ns = end->started_ns + end->config.time_ns;
    return end->config.time_ns != 0 && !end->all_sent && stop_ns < next_ns ? stop_ns : next_ns;
}

static bool is_ended(void *context)
{
    return ((struct memory_end *)context)->ended;
}

static void interrupt(void *context, uint64_t now_ns)
{
    struct memory_end *end = context;
    if (end->session != NULL)
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
    uint64_t until_ns = end->ended_ns != 0 ? end->ended_ns : end->sampled_ns;
    *report = (struct memory_report){
        .started = end->session != NULL,
        .blocks = end->sender ? end->sent : end->hashed,
        .bytes = end->sender ? end->statistics.payload_acked : end->statistics.payload_received,
        .seconds = until_ns > end->started_ns ? (double)(until_ns - end->started_ns) / 1e9 : 0,
        .cpu_seconds = (end->ended_ns != 0 ? end->cpu_ended : cpu_now()) - end->cpu_started,
        .sustained_bps = rate_samples_sustained(&end->samples),
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
    for (unsigned i = 0; end->buffers != NULL && i < end->buffer_count; i++)
        free(end->buffers[i]);
    free(end->buffers);
    ring_free(end->work);
    ring_free(end->done);
    free(end->memory);
    free(end->sums);
    free(end);
}
