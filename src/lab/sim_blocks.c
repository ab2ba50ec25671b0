/* See sim_blocks.h. */
#include "lab/sim_blocks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/random.h"
#include "base/units.h"

#define SENDER_BUFFERS_MIN 48u
#define ARENA_GUARD ((size_t)BLOCK_SIZE)

enum block_state { BLOCK_UNKNOWN, BLOCK_SENT, BLOCK_ARRIVED };

struct due {
    uint64_t at_ns;
    uint8_t *buffer;
};

struct blocks {
    struct sim_blocks_config config;
    enum transfer_role role;
    struct session *session;
    struct sim_trace *trace; /* borrowed */
    const uint64_t *world_now_ns;
    unsigned host;
    /* Buffers: cut from one arena, untouched pages cost nothing. */
    uint8_t *arena, **idle;
    bool *out; /* by place in the arena: lent to the session */
    uint32_t buffers, idle_count;
    uint8_t *states; /* enum block_state by number */
    uint8_t *released, *acked;
    uint32_t next;     /* sender: first block not handed over */
    uint32_t whole;    /* receiver */
    uint64_t bytes;    /* progress */
    uint64_t ready_ns; /* sender: when the source has the next block */
    struct due *disk;  /* receiver: a ring of what is being written */
    uint32_t disk_first, disk_count;
    uint64_t disk_ns;
    uint64_t given;
    uint64_t control_sent, control_read;
    bool tail_set, finished, done_received;
    uint64_t done_ns;
    struct error error;
    char failure[200];
};

static void fail(struct blocks *blocks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct blocks *blocks, const char *format, ...)
{
    if (blocks->failure[0] != '\0') {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(blocks->failure, sizeof(blocks->failure), format, arguments);
    va_end(arguments);
}

static void *must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

/* ---- what every block and control byte must be ---- */

static uint64_t word_at(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t word = seed ^ stream * UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ index) * UINT64_C(0xBF58476D1CE4E5B9);
    return word ^ word >> 31;
}

static uint32_t length_of(const struct sim_blocks_config *config, uint32_t block)
{
    uint64_t span = config->length_max - config->length_min + 1;
    return config->length_min + (uint32_t)(word_at(config->seed, 7, block) % span);
}

static bool packed_of(const struct sim_blocks_config *config, uint32_t block)
{
    return (word_at(config->seed, 8, block) & 3) == 0;
}

static void fill(uint64_t seed, uint32_t block, uint8_t *bytes, uint32_t length)
{
    uint32_t at = 0;
    for (; at + 8 <= length; at += 8) {
        uint64_t word = word_at(seed, 1000 + (uint64_t)block, at / 8);
        memcpy(bytes + at, &word, 8);
    }
    uint64_t word = word_at(seed, 1000 + (uint64_t)block, at / 8);
    memcpy(bytes + at, &word, length - at);
}

static bool is_right(uint64_t seed, uint32_t block, const uint8_t *bytes, uint32_t length)
{
    uint32_t at = 0;
    for (; at + 8 <= length; at += 8) {
        uint64_t word = word_at(seed, 1000 + (uint64_t)block, at / 8);
        if (memcmp(bytes + at, &word, 8) != 0) {
            return false;
        }
    }
    uint64_t word = word_at(seed, 1000 + (uint64_t)block, at / 8);
    return memcmp(bytes + at, &word, length - at) == 0;
}

static uint8_t control_byte(const struct blocks *blocks, enum transfer_role from, uint64_t at)
{
    return (uint8_t)word_at(blocks->config.seed, 9 + from, at);
}

uint64_t sim_blocks_total(const struct sim_blocks_config *config)
{
    uint64_t total = 0;
    for (uint32_t block = 0; block < config->count; block++) {
        total += length_of(config, block);
    }
    return total;
}

/* ---- buffers ---- */

static uint8_t *take_buffer(struct blocks *blocks)
{
    return blocks->idle_count > 0 ? blocks->idle[--blocks->idle_count] : NULL;
}

static void lend(struct blocks *blocks, const uint8_t *buffer)
{
    blocks->out[(size_t)(buffer - blocks->arena) / BLOCK_SIZE] = true;
}

/* A buffer comes back from the session; false when it was not lent. */
static bool come_back(struct blocks *blocks, const uint8_t *buffer)
{
    size_t at = (size_t)(buffer - blocks->arena);
    if (buffer < blocks->arena || at % BLOCK_SIZE != 0 || at / BLOCK_SIZE >= blocks->buffers ||
        !blocks->out[at / BLOCK_SIZE]) {
        fail(blocks, "a buffer came back that was not lent");
        return false;
    }
    blocks->out[at / BLOCK_SIZE] = false;
    return true;
}

static void give(struct blocks *blocks, uint8_t *buffer)
{
    lend(blocks, buffer);
    blocks->given++;
    session_give_buffer(blocks->session, buffer);
}

/* ---- the sender ---- */

static bool send_blocks(struct blocks *blocks, uint64_t now_ns)
{
    const struct sim_blocks_config *config = &blocks->config;
    bool moved = false;
    while (blocks->next < config->count && blocks->ready_ns <= now_ns &&
           session_wants_block(blocks->session)) {
        uint8_t *buffer = take_buffer(blocks);
        if (buffer == NULL) {
            break;
        }
        uint32_t block = blocks->next++, length = length_of(config, block);
        struct error error = {0};
        fill(config->seed, block, buffer, length);
        lend(blocks, buffer);
        blocks->states[block] = BLOCK_SENT;
        if (!session_send_block(blocks->session, block, packed_of(config, block), buffer, length,
                                &error)) {
            fail(blocks, "the session refused block %" PRIu32 ": %s", block, error.text);
            return true;
        }
        if (config->source_bps != 0) {
            uint64_t from_ns = blocks->ready_ns > now_ns ? blocks->ready_ns : now_ns;
            blocks->ready_ns = from_ns + length * 8 * NS_PER_S / config->source_bps;
        }
        moved = true;
    }
    if (blocks->next == config->count && !blocks->tail_set) {
        session_set_tail(blocks->session, true);
        blocks->tail_set = true;
        moved = true;
    }
    return moved;
}

static void on_released(struct blocks *blocks, const struct session_event *event)
{
    if (event->block >= blocks->config.count || blocks->states[event->block] != BLOCK_SENT ||
        blocks->released[event->block]++ != 0) {
        fail(blocks, "block %" PRIu32 " was released, it was not sent or is for the second time",
             event->block);
    } else if (come_back(blocks, event->bytes)) {
        blocks->idle[blocks->idle_count++] = event->bytes;
    }
}

static void on_acked(struct blocks *blocks, const struct session_event *event)
{
    if (event->block >= blocks->config.count || blocks->states[event->block] != BLOCK_SENT ||
        blocks->acked[event->block]++ != 0) {
        fail(blocks, "block %" PRIu32 " was acked, it was not sent or is for the second time",
             event->block);
        return;
    }
    blocks->bytes += event->length;
    sim_trace_add(blocks->trace, *blocks->world_now_ns, SIM_MARK_ACKED, blocks->host, event->block,
                  event->length, 0);
}

/* ---- the receiver ---- */

static void on_whole(struct blocks *blocks, const struct session_event *event, uint64_t now_ns)
{
    const struct sim_blocks_config *config = &blocks->config;
    uint32_t block = event->block;
    if (block >= config->count || blocks->states[block] != BLOCK_UNKNOWN) {
        fail(blocks, "block %" PRIu32 " came twice or was never sent", block);
        return;
    }
    blocks->states[block] = BLOCK_ARRIVED;
    if (!come_back(blocks, event->bytes)) {
        return;
    }
    if (event->length != length_of(config, block) || event->packed != packed_of(config, block)) {
        fail(blocks, "block %" PRIu32 " has length %" PRIu32 " instead of %" PRIu32, block,
             event->length, length_of(config, block));
        return;
    }
    if (!is_right(config->seed, block, event->bytes, event->length)) {
        fail(blocks, "block %" PRIu32 " holds wrong bytes", block);
        return;
    }
    blocks->whole++;
    blocks->bytes += event->length;
    sim_trace_add(blocks->trace, *blocks->world_now_ns, SIM_MARK_BLOCK, blocks->host, block,
                  event->length, event->packed);
    uint64_t from_ns = blocks->disk_ns > now_ns ? blocks->disk_ns : now_ns;
    blocks->disk_ns = from_ns;
    if (config->disk_bps != 0) {
        blocks->disk_ns += event->length * 8 * NS_PER_S / config->disk_bps;
    }
    uint32_t at = (blocks->disk_first + blocks->disk_count++) % blocks->buffers;
    blocks->disk[at] = (struct due){blocks->disk_ns, event->bytes};
}

static bool write_disk(struct blocks *blocks, uint64_t now_ns)
{
    bool moved = false;
    while (blocks->disk_count > 0 && blocks->disk[blocks->disk_first].at_ns <= now_ns) {
        give(blocks, blocks->disk[blocks->disk_first].buffer);
        blocks->disk_first = (blocks->disk_first + 1) % blocks->buffers;
        blocks->disk_count--;
        moved = true;
    }
    return moved;
}

static bool finish(struct blocks *blocks, uint64_t now_ns)
{
    const struct sim_blocks_config *config = &blocks->config;
    if (blocks->finished || blocks->whole < config->count || blocks->disk_count > 0 ||
        blocks->control_read < config->control_bytes) {
        return false;
    }
    blocks->finished = true;
    blocks->done_ns = *blocks->world_now_ns;
    session_finish(blocks->session, 0, 1, config->count, now_ns);
    return true;
}

/* ---- both ---- */

static bool move_control(struct blocks *blocks)
{
    uint8_t bytes[4096];
    bool moved = false;
    enum transfer_role peer = blocks->role == ROLE_SENDER ? ROLE_RECEIVER : ROLE_SENDER;
    while (blocks->control_sent < blocks->config.control_bytes) {
        uint64_t left = blocks->config.control_bytes - blocks->control_sent;
        size_t size = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = control_byte(blocks, blocks->role, blocks->control_sent + i);
        }
        size_t took = session_control_write(blocks->session, bytes, size);
        blocks->control_sent += took;
        moved |= took > 0;
        if (took < size) {
            break;
        }
    }
    size_t got;
    while ((got = session_control_read(blocks->session, bytes, sizeof(bytes))) > 0) {
        for (size_t i = 0; i < got; i++) {
            if (bytes[i] != control_byte(blocks, peer, blocks->control_read + i)) {
                fail(blocks, "control byte %" PRIu64 " is wrong", blocks->control_read + i);
                return true;
            }
        }
        blocks->control_read += got;
        blocks->bytes += got;
        moved = true;
    }
    if (blocks->control_read > blocks->config.control_bytes) {
        fail(blocks, "more control bytes than were sent");
    }
    return moved;
}

static bool take_events(struct blocks *blocks, uint64_t now_ns)
{
    struct session_event event;
    bool moved = false;
    while (session_next_event(blocks->session, &event)) {
        moved = true;
        switch (event.kind) {
        case SESSION_BLOCK_RELEASED:
            on_released(blocks, &event);
            break;
        case SESSION_BLOCK_ACKED:
            on_acked(blocks, &event);
            break;
        case SESSION_BLOCK_WHOLE:
            on_whole(blocks, &event, now_ns);
            break;
        case SESSION_DONE_RECEIVED:
            blocks->done_received = true;
            blocks->done_ns = *blocks->world_now_ns;
            if (event.result != 0 || event.blocks != blocks->config.count) {
                fail(blocks, "DONE says result %u, %" PRIu64 " blocks", event.result, event.blocks);
            }
            break;
        case SESSION_CLOSED:
            break;
        }
    }
    return moved;
}

static bool blocks_step(void *context, uint64_t now_ns)
{
    struct blocks *blocks = context;
    bool moved = take_events(blocks, now_ns);
    if (session_is_closed(blocks->session)) {
        return moved;
    }
    moved |= move_control(blocks);
    if (blocks->role == ROLE_SENDER) {
        moved |= send_blocks(blocks, now_ns);
    } else {
        moved |= write_disk(blocks, now_ns);
        moved |= finish(blocks, now_ns);
    }
    return moved;
}

static void blocks_attach(void *context, struct session *session, uint64_t now_ns)
{
    struct blocks *blocks = context;
    blocks->session = session;
    blocks->ready_ns = now_ns;
    if (blocks->role == ROLE_RECEIVER) {
        while (blocks->idle_count > 0) {
            give(blocks, take_buffer(blocks));
        }
    }
}

static uint64_t blocks_deadline(void *context)
{
    struct blocks *blocks = context;
    if (blocks->session == NULL || session_is_closed(blocks->session)) {
        return TIME_NEVER;
    }
    if (blocks->disk_count > 0) {
        return blocks->disk[blocks->disk_first].at_ns;
    }
    /* A block that is ready but not wanted waits for the session, not for time. */
    if (blocks->role == ROLE_SENDER && blocks->next < blocks->config.count &&
        blocks->config.source_bps != 0 && session_wants_block(blocks->session) &&
        blocks->idle_count > 0) {
        return blocks->ready_ns;
    }
    return TIME_NEVER;
}

static bool blocks_is_ended(void *context)
{
    struct blocks *blocks = context;
    return blocks->session != NULL && session_is_closed(blocks->session);
}

static void blocks_abort(void *context, uint64_t now_ns)
{
    struct blocks *blocks = context;
    error_set(&blocks->error, ERROR_INTERRUPTED, "stopped by the user");
    session_abort(blocks->session, ERROR_INTERRUPTED, "stopped by the user", now_ns);
}

static const struct error *blocks_error(void *context)
{
    return &((struct blocks *)context)->error;
}

static const char *blocks_failure(void *context)
{
    struct blocks *blocks = context;
    return blocks->failure[0] != '\0' ? blocks->failure : NULL;
}

static uint64_t blocks_progress(void *context)
{
    struct blocks *blocks = context;
    return blocks->bytes + blocks->given + blocks->control_sent + blocks->next + blocks->finished +
           blocks->done_received;
}

static bool blocks_succeeded(void *context)
{
    struct blocks *blocks = context;
    bool said = blocks->role == ROLE_SENDER ? blocks->done_received : blocks->finished;
    return said && blocks->session != NULL && session_error(blocks->session)->kind == ERROR_NONE;
}

static uint64_t blocks_done_ns(void *context)
{
    return ((struct blocks *)context)->done_ns;
}

static void blocks_enter(void *context, struct sim_trace *trace, unsigned host,
                         const uint64_t *now_ns)
{
    struct blocks *blocks = context;
    blocks->trace = trace;
    blocks->host = host;
    blocks->world_now_ns = now_ns;
}

static void blocks_free(void *context)
{
    struct blocks *blocks = context;
    munmap(blocks->arena - ARENA_GUARD, (size_t)blocks->buffers * BLOCK_SIZE + 2 * ARENA_GUARD);
    free(blocks->idle);
    free(blocks->out);
    free(blocks->states);
    free(blocks->released);
    free(blocks->acked);
    free(blocks->disk);
    free(blocks);
}

/* Of pages of its own: malloc may fill all that it gives (MALLOC_PERTURB_), and most buffers of
 * most runs are never used. Who writes in front of it or behind it ends there. */
static uint8_t *new_arena(size_t size)
{
    uint8_t *memory = mmap(NULL, size + 2 * ARENA_GUARD, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + ARENA_GUARD, size, PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
    return memory + ARENA_GUARD;
}

struct sim_upper sim_blocks_new(const struct sim_blocks_config *config, enum transfer_role role)
{
    struct blocks *blocks = must(calloc(1, sizeof(*blocks)));
    blocks->config = *config;
    blocks->role = role;
    blocks->buffers = config->buffers;
    if (role == ROLE_SENDER && blocks->buffers < SENDER_BUFFERS_MIN) {
        blocks->buffers = SENDER_BUFFERS_MIN;
    }
    blocks->arena = new_arena((size_t)blocks->buffers * BLOCK_SIZE);
    blocks->idle = must(calloc(blocks->buffers, sizeof(*blocks->idle)));
    blocks->out = must(calloc(blocks->buffers, sizeof(*blocks->out)));
    blocks->states = must(calloc(config->count + 1, 1));
    blocks->released = must(calloc(config->count + 1, 1));
    blocks->acked = must(calloc(config->count + 1, 1));
    blocks->disk = must(calloc(blocks->buffers, sizeof(*blocks->disk)));
    for (uint32_t i = blocks->buffers; i > 0; i--) {
        blocks->idle[blocks->idle_count++] = blocks->arena + (size_t)(i - 1) * BLOCK_SIZE;
    }
    return (struct sim_upper){.context = blocks,
                              .initial_credit = role == ROLE_RECEIVER ? config->buffers : 0,
                              .enter = blocks_enter,
                              .attach = blocks_attach,
                              .step = blocks_step,
                              .deadline = blocks_deadline,
                              .is_ended = blocks_is_ended,
                              .abort = blocks_abort,
                              .error = blocks_error,
                              .failure = blocks_failure,
                              .progress = blocks_progress,
                              .succeeded = blocks_succeeded,
                              .done_ns = blocks_done_ns,
                              .free = blocks_free};
}
