#include "lab/link_path.h"

#include <stdlib.h>

#include "base/random.h"
#include "base/units.h"
#include "lab/link_impair.h"
#include "lab/link_queue.h"

#define TRAIN_WHOLE_NS NS_PER_MS /* trains that take longer on the wire are cut */
#define PIECE_NS (NS_PER_MS / 2)
#define FLOWS 4096u /* that have a policer of their own; flows whose hashes meet share one */

struct link_path {
    struct link_shape shape;
    struct link_store *store;
    struct link_queue queue;
    struct link_loss loss;
    struct link_limiter limiter;
    struct link_policer policer;
    struct link_policer flow_policer[FLOWS];
    struct random jitter_random, reorder_random, duplicate_random;
    struct link_counters counters;
};

/* A run of segments that stay together, while it grows. */
struct run {
    uint32_t first, count;
    uint64_t began_ns; /* departure of the segment before it: the start of its time on the wire */
    uint64_t due_ns;   /* of its last segment */
};

struct link_path *link_path_new(const struct link_shape *shape, struct link_store *store,
                                uint64_t seed, struct error *error)
{
    struct link_path *path = calloc(1, sizeof *path);
    if (path == NULL || !link_queue_init(&path->queue)) {
        free(path);
        error_set(error, ERROR_MEMORY, "no memory for a link");
        return NULL;
    }
    path->store = store;
    /* A stream for each kind: asking for jitter as well must not move the losses. */
    random_seed(&path->loss.random, seed);
    random_seed(&path->jitter_random, seed + 1);
    random_seed(&path->reorder_random, seed + 2);
    random_seed(&path->duplicate_random, seed + 3);
    if (link_path_set(path, shape, 0, error))
        return path;
    link_path_free(path);
    return NULL;
}

void link_path_free(struct link_path *path)
{
    if (path == NULL)
        return;
    struct link_entry entry;
    while (link_queue_take(&path->queue, TIME_NEVER, &entry))
        link_store_drop(path->store, entry.buffer);
    link_queue_destroy(&path->queue);
    free(path);
}

bool link_path_set(struct link_path *path, const struct link_shape *shape, uint64_t now_ns,
                   struct error *error)
{
    if (!link_loss_set(&path->loss, shape->loss_parts, shape->burst, shape->correlation_parts,
                       error))
        return false;
    link_limiter_set(&path->limiter, shape->rate_bps, shape->queue_bytes, now_ns);
    if (shape->policer_bps != path->policer.rate_bps ||
        shape->policer_bucket_bytes != path->policer.bucket_bytes)
        link_policer_set(&path->policer, shape->policer_bps, shape->policer_bucket_bytes, now_ns);
    if (shape->flow_policer_bps != path->shape.flow_policer_bps ||
        shape->flow_policer_bucket_bytes != path->shape.flow_policer_bucket_bytes)
        for (unsigned i = 0; i < FLOWS; i++)
            link_policer_set(&path->flow_policer[i], shape->flow_policer_bps,
                             shape->flow_policer_bucket_bytes, now_ns);
    path->shape = *shape;
    return true;
}

static bool is_lost(struct link_path *path)
{
    bool lost = link_loss_next(&path->loss);
    link_counters_loss(&path->counters, lost);
    return lost;
}

/* Whether a segment survives, and when its last bit leaves the line. */
static bool pass(struct link_path *path, uint64_t now_ns, uint32_t flow, uint32_t size_bytes,
                 uint64_t *departure_ns)
{
    struct link_counters *counters = &path->counters;
    if (path->shape.loss_before && is_lost(path))
        return false;
    if (path->shape.path_mtu != 0 && size_bytes > path->shape.path_mtu) {
        counters->dropped_mtu++;
        return false;
    }
    if (!link_policer_pass(&path->flow_policer[flow % FLOWS], now_ns, size_bytes) ||
        !link_policer_pass(&path->policer, now_ns, size_bytes)) {
        counters->dropped_policer++;
        return false;
    }
    uint64_t backlog_ns = link_limiter_backlog(&path->limiter, now_ns);
    if (!link_limiter_pass(&path->limiter, now_ns, size_bytes, departure_ns)) {
        counters->dropped_queue++;
        return false;
    }
    link_counters_queue(counters, backlog_ns);
    return path->shape.loss_before || !is_lost(path);
}

static uint64_t due_time(struct link_path *path, uint64_t departure_ns)
{
    uint64_t due_ns = departure_ns + path->shape.delay_ns;
    uint64_t jitter_ns = path->shape.jitter_ns;
    if (jitter_ns == 0)
        return due_ns;
    if (jitter_ns > path->shape.delay_ns)
        jitter_ns = path->shape.delay_ns;
    return due_ns - jitter_ns + random_below(&path->jitter_random, 2 * jitter_ns + 1);
}

static void put(struct link_path *path, struct link_buffer *buffer, const struct run *run,
                bool held_back)
{
    struct link_entry entry = {
        .due_ns = run->due_ns, .buffer = buffer, .first = run->first, .count = run->count};
    if (run->count == 0)
        return;
    if (link_queue_put(&path->queue, &entry, held_back))
        link_store_keep(buffer);
    else
        path->counters.dropped_memory += run->count;
}

/* Adds a segment that survived to the run, or ends the run and begins one with it. */
static void extend(struct link_path *path, struct link_buffer *buffer, struct run *run,
                   uint32_t index, uint64_t departure_ns, uint64_t piece_ns)
{
    uint64_t due_ns = due_time(path, departure_ns);
    bool reordered = random_chance(&path->reorder_random, path->shape.reorder_parts);
    bool alone = reordered || path->shape.jitter_ns != 0;
    if (run->count > 0 && (alone || departure_ns - run->began_ns > piece_ns)) {
        put(path, buffer, run, false);
        run->count = 0;
    }
    if (run->count == 0) {
        uint64_t size_bytes = link_packet_segment_size(&buffer->packet, index);
        uint64_t wire_ns =
            path->shape.rate_bps == 0 ? 0 : size_bytes * 8 * NS_PER_S / path->shape.rate_bps;
        run->first = index;
        run->began_ns = departure_ns - wire_ns;
    }
    run->count++;
    run->due_ns = reordered ? due_ns + path->shape.reorder_by_ns : due_ns;
    bool copied = random_chance(&path->duplicate_random, path->shape.duplicate_parts);
    path->counters.reordered += reordered;
    path->counters.duplicated += copied;
    if (!alone && !copied)
        return;
    put(path, buffer, run, reordered);
    if (copied) {
        struct run copy = {.first = index, .count = 1, .due_ns = run->due_ns};
        put(path, buffer, &copy, reordered);
    }
    run->count = 0;
}

static void count_arrival(struct link_counters *counters, uint64_t now_ns,
                          const struct link_packet *packet)
{
    /* The headers of a train stand on the wire once for each segment. */
    uint64_t count = packet->segment_count;
    uint64_t bytes = packet->size_bytes + (count - 1) * packet->headers_bytes;
    link_tally_add(&counters->all, now_ns, count, bytes);
    if (packet->protocol == LINK_PROTOCOL_UDP)
        link_tally_add(&counters->udp, now_ns, count, bytes);
    else if (packet->protocol == LINK_PROTOCOL_TCP)
        link_tally_add(&counters->tcp, now_ns, count, bytes);
    counters->trains += count > 1;
}

/* How long a piece of this train may be on the wire. */
static uint64_t piece_limit(const struct link_path *path, const struct link_packet *packet)
{
    if (path->shape.rate_bps == 0)
        return TIME_NEVER;
    uint64_t train_ns = (uint64_t)packet->size_bytes * 8 * NS_PER_S / path->shape.rate_bps;
    return train_ns > TRAIN_WHOLE_NS ? PIECE_NS : TIME_NEVER;
}

void link_path_receive(struct link_path *path, uint64_t now_ns, struct link_buffer *buffer)
{
    const struct link_packet *packet = &buffer->packet;
    struct run run = {0};
    uint64_t piece_ns = piece_limit(path, packet);
    count_arrival(&path->counters, now_ns, packet);
    for (uint32_t i = 0; i < packet->segment_count; i++) {
        uint64_t departure_ns;
        uint32_t size_bytes = link_packet_segment_size(packet, i);
        if (pass(path, now_ns, packet->flow, size_bytes, &departure_ns)) {
            extend(path, buffer, &run, i, departure_ns, piece_ns);
        } else {
            put(path, buffer, &run, false);
            run.count = 0;
        }
    }
    put(path, buffer, &run, false);
    link_store_drop(path->store, buffer);
}

uint64_t link_path_next(const struct link_path *path)
{
    return link_queue_next(&path->queue);
}

struct link_buffer *link_path_take(struct link_path *path, uint64_t now_ns, uint32_t *first,
                                   uint32_t *count)
{
    struct link_entry entry;
    if (!link_queue_take(&path->queue, now_ns, &entry))
        return NULL;
    const struct link_packet *packet = &entry.buffer->packet;
    uint64_t bytes = 0;
    if (entry.count == packet->segment_count) {
        bytes = packet->size_bytes + (uint64_t)(entry.count - 1) * packet->headers_bytes;
    } else {
        uint32_t last = entry.first + entry.count - 1;
        bytes = (uint64_t)(entry.count - 1) * link_packet_segment_size(packet, entry.first) +
                link_packet_segment_size(packet, last);
    }
    link_tally_add(&path->counters.delivered, now_ns, entry.count, bytes);
    link_counters_late(&path->counters, now_ns - entry.due_ns);
    *first = entry.first;
    *count = entry.count;
    return entry.buffer;
}

struct link_counters *link_path_counters(struct link_path *path)
{
    return &path->counters;
}
