#include "measure/memory_ends.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/random.h"
#include "base/units.h"
#include "crypto/tree_hash.h"
#include "measure/block_worker.h"
#include "measure/disk_file.h"

#define TELL_SIZE 8u /* the sender's count of blocks, on the control stream */
#define SMALLEST_PIECE (32u * 1024u)
#define PIECES_A_SECOND 10u
#define AHEAD_WHOLE 8u /* blocks that are read and hashed before the session wants them */
#define AHEAD_CUT 2u   /* of blocks cut short: their length is to follow the rate */

struct memory_end {
    struct memory_config config;
    bool sender;
    struct session *session;
    uint64_t blocks; /* how many there are in all, once that is known */
    /* Hashes; reads before it at a sender with a file, writes after it at a receiver with one. */
    struct block_worker *worker;
    _Atomic int disk_errno;
    uint8_t **buffers; /* all of a receiver's, or of a sender that reads */
    unsigned buffer_count;

    /* Sender. */
    uint8_t *memory;
    uint64_t memory_blocks, given, given_bytes, sent, sent_bytes;
    uint64_t *sums; /* hash of each block of the memory, first eight bytes */
    uint64_t own_sum;
    uint8_t **idle; /* of the buffers: not with the worker nor the session */
    unsigned idle_count;
    uint64_t read_at; /* the worker's */
    bool all_sent;

    /* Receiver. */
    uint64_t measured_ns, measured_bytes, fastest_bps;
    struct disk_file disk;
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
static uint64_t hash_block(const struct block_job *job)
{
    uint8_t hash[TREE_HASH_SIZE];
    uint64_t value = 0;
    tree_hash_whole(job->bytes, job->length, hash);
    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | hash[i];
    return value;
}

static bool add_buffer(struct memory_end *end)
{
    uint8_t *bytes = aligned_alloc(4096, BLOCK_SIZE);
    if (bytes == NULL)
        return false;
    end->buffers[end->buffer_count++] = bytes;
    return true;
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
        struct block_job job = {.bytes = end->memory + i * BLOCK_SIZE, .length = BLOCK_SIZE};
        end->sums[i] = hash_block(&job);
    }
}

/* On the worker's thread. The file is read as a copy reads it, from its beginning again when it has
 * ended. */
static bool read_block(struct memory_end *end, const struct block_job *job)
{
    size_t got = 0;
    bool ended = false;
    while (got < job->length) {
        ssize_t taken =
            pread(end->config.disk, job->bytes + got, job->length - got, (off_t)end->read_at);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0 || (taken == 0 && ended))
            return false;
        ended = taken == 0;
        got += (size_t)taken;
        end->read_at = ended ? 0 : end->read_at + (uint64_t)taken;
    }
    return true;
}

static void prepare_block(void *context, struct block_job *job)
{
    struct memory_end *end = context;
    errno = 0;
    if (end->config.disk > 0 && !read_block(end, job))
        end->disk_errno = errno != 0 ? errno : EIO;
    job->sum = hash_block(job);
}

static bool allocate_sender(struct memory_end *end, const struct memory_config *config)
{
    if (config->disk > 0) {
        end->buffers = calloc(config->pool_most, sizeof(*end->buffers));
        end->idle = calloc(config->pool_most, sizeof(*end->idle));
        return config->pool_most > 0 && end->buffers != NULL && end->idle != NULL;
    }
    end->memory_blocks = config->buffer_bytes / BLOCK_SIZE;
    end->memory = aligned_alloc(4096, end->memory_blocks * BLOCK_SIZE);
    end->sums = calloc(end->memory_blocks, sizeof(*end->sums));
    return end->memory != NULL && end->sums != NULL;
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
    bool good =
        allocate_sender(end, config) ||
        error_set(error, ERROR_MEMORY, "no memory for %zu bytes to send", config->buffer_bytes);
    if (good)
        end->worker = block_worker_new(prepare_block, end, error);
    if (end->worker == NULL) {
        memory_end_free(end);
        return NULL;
    }
    if (end->memory != NULL)
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
    uint64_t left = end->config.size_bytes - end->given_bytes;
    return (uint32_t)(end->config.size_bytes != 0 && left < length ? left : length);
}

static bool is_enough(const struct memory_end *end, uint64_t now_ns)
{
    const struct memory_config *config = &end->config;
    return (config->size_bytes != 0 && end->sent_bytes >= config->size_bytes) ||
           (config->time_ns != 0 && now_ns >= end->started_ns + config->time_ns) ||
           end->sent == BLOCK_NUMBER_LIMIT;
}

/* NULL: all are out, and there may be no more. */
static uint8_t *take_buffer(struct memory_end *end)
{
    if (end->memory != NULL)
        return end->memory + end->given % end->memory_blocks * BLOCK_SIZE;
    if (end->idle_count == 0 && end->buffer_count < end->config.pool_most && add_buffer(end))
        end->idle[end->idle_count++] = end->buffers[end->buffer_count - 1];
    return end->idle_count > 0 ? end->idle[--end->idle_count] : NULL;
}

/* Hands the worker what the session will want next. */
static bool prepare_blocks(struct memory_end *end)
{
    bool any = false;
    for (;;) {
        uint32_t length = next_length(end);
        uint64_t ahead = length == BLOCK_SIZE ? AHEAD_WHOLE : AHEAD_CUT;
        uint8_t *bytes = length > 0 && end->given < end->sent + ahead ? take_buffer(end) : NULL;
        struct block_job job = {.bytes = bytes, .block = (uint32_t)end->given, .length = length};
        if (bytes == NULL || !block_worker_give(end->worker, &job))
            return any;
        end->given++;
        end->given_bytes += length;
        any = true;
    }
}

/* The next block with its sum: of whole blocks that the memory's are known of, nobody has to hash.
 */
static bool next_block(struct memory_end *end, struct block_job *job)
{
    uint32_t length = next_length(end);
    bool known =
        end->memory != NULL && !end->config.hash && end->given == end->sent && length == BLOCK_SIZE;
    if (!known)
        return block_worker_take(end->worker, job);
    *job = (struct block_job){.bytes = take_buffer(end),
                              .block = (uint32_t)end->given,
                              .length = length,
                              .sum = end->sums[end->given % end->memory_blocks]};
    end->given++;
    end->given_bytes += length;
    return true;
}

static bool send_block(struct memory_end *end)
{
    struct block_job job;
    if (!next_block(end, &job))
        return false;
    if (!session_send_block(end->session, job.block, false, job.bytes, job.length, NULL)) {
        session_abort(end->session, ERROR_MEMORY, "no memory to send a block", driver_now());
        return false;
    }
    end->own_sum += job.sum;
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
    if (end->disk_errno != 0 && !end->finished) {
        struct error error = {0};
        error_set_errno(&error, end->disk_errno, "cannot read what is to be sent");
        session_abort(end->session, error.kind, error.text, now_ns);
        return end->finished = true;
    }
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
    if (!end->all_sent &&
        (end->config.hash || end->memory == NULL || next_length(end) < BLOCK_SIZE))
        prepare_blocks(end);
    return (end->all_sent && end->tell_at < TELL_SIZE && tell_count(end)) || moved;
}

/* ---- the receiver ---- */

/* On the worker's thread. Without bytes: what was written is synced, once, after the last block. */
static void take_block(void *context, struct block_job *job)
{
    struct memory_end *end = context;
    errno = 0;
    if (job->bytes == NULL) {
        if (end->config.disk > 0 && fdatasync(end->config.disk) != 0 && errno != EINVAL)
            end->disk_errno = errno;
        return;
    }
    atomic_fetch_add(&end->sum, hash_block(job));
    if (end->config.disk > 0 && end->disk_errno == 0 &&
        !disk_file_write(&end->disk, job->bytes, job->length, (uint64_t)job->block * BLOCK_SIZE))
        end->disk_errno = errno != 0 ? errno : EIO;
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
    disk_file_init(&end->disk, config->disk);
    end->buffers = calloc(end->config.pool_most, sizeof(*end->buffers));
    bool complete = end->buffers != NULL;
    for (unsigned i = 0; complete && i < config->pool_blocks; i++)
        complete = add_buffer(end);
    if (complete)
        end->worker = block_worker_new(take_block, end, error);
    if (end->worker != NULL)
        return end;
    error_set(error, ERROR_MEMORY, "no memory for %u blocks", config->pool_blocks);
    memory_end_free(end);
    return NULL;
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

static bool step_receiver(struct memory_end *end, uint64_t now_ns)
{
    bool moved = take_count(end);
    struct block_job job;
    while (block_worker_take(end->worker, &job)) {
        if (job.bytes != NULL) {
            session_give_buffer(end->session, job.bytes);
            end->hashed++;
        } else {
            end->synced = true;
        }
        moved = true;
    }
    bool all = end->told_size == TELL_SIZE && end->hashed == end->blocks;
    if (all && !end->sync_asked) {
        block_worker_give(end->worker, &(struct block_job){.bytes = NULL});
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
    for (unsigned i = 0; !end->sender && i < end->buffer_count; i++)
        session_give_buffer(session, end->buffers[i]);
}

static void take_event(struct memory_end *end, const struct session_event *event)
{
    switch (event->kind) {
    case SESSION_BLOCK_WHOLE: {
        struct block_job job = {
            .bytes = event->bytes, .block = event->block, .length = event->length};
        block_worker_give(end->worker, &job); /* never more than the pool, and one: it has room */
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
        if (end->idle != NULL)
            end->idle[end->idle_count++] = event->bytes;
        break;
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
    block_worker_set_driver(end->worker, driver);
}

void memory_end_report(const struct memory_end *end, struct memory_report *report)
{
    uint64_t until_ns = end->ended_ns != 0 ? end->ended_ns : end->sampled_ns;
    struct rate_window sustained;
    uint64_t sustained_bps = rate_samples_sustained(&end->samples, &sustained);
    *report = (struct memory_report){
        .started = end->session != NULL,
        .blocks = end->sender ? end->sent : end->hashed,
        .bytes = end->sender ? end->statistics.payload_acked : end->statistics.payload_received,
        .seconds = until_ns > end->started_ns ? (double)(until_ns - end->started_ns) / 1e9 : 0,
        .cpu_seconds = (end->ended_ns != 0 ? end->cpu_ended : cpu_now()) - end->cpu_started,
        .sustained_bps = sustained_bps,
        .sustained = sustained,
        .verified = end->verified,
        .session = end->statistics,
    };
}

void memory_end_free(struct memory_end *end)
{
    if (end == NULL)
        return;
    block_worker_free(end->worker);
    for (unsigned i = 0; end->buffers != NULL && i < end->buffer_count; i++)
        free(end->buffers[i]);
    free(end->buffers);
    free(end->idle);
    free(end->memory);
    free(end->sums);
    free(end);
}
