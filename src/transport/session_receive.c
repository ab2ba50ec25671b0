/* The receiving half of a session: puts pieces together to blocks, within credit.
 *
 * A block's buffer is written by one thread at a time: the lane that first saw the block owns it
 * until it is closed; pieces that come in elsewhere are handed to that lane.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/session_internal.h"

#define WAITING_MAX (16u * 1024u * 1024u) /* bytes that wait for one lane */

static void free_block(struct in_block *block)
{
    range_set_release(&block->have);
    free(block);
}

void receiver_free(struct session *session)
{
    for (size_t i = 0; i < session->in.capacity; i++) {
        struct in_block *block = block_map_at(&session->in, i);
        if (block != NULL)
            free_block(block);
    }
    block_map_release(&session->in);
    range_set_release(&session->completed);
    for (unsigned i = 0; i < session->slot_count; i++)
        free(session->slots[i].waiting.bytes);
    free(session->idle);
}

void session_give_buffer(struct session *session, uint8_t *bytes)
{
    if (session->idle_count == session->idle_capacity) {
        size_t capacity = session->idle_capacity == 0 ? 64 : session->idle_capacity * 2;
        uint8_t **idle = realloc(session->idle, capacity * sizeof(*idle));
        if (idle == NULL) {
            session_fail(session, ERROR_MEMORY, "no memory for the list of buffers");
            return;
        }
        session->idle = idle;
        session->idle_capacity = capacity;
    }
    session->idle[session->idle_count++] = bytes;
    session->credit++;
}

uint8_t *session_reclaim(struct session *session)
{
    if (session->idle_count > 0)
        return session->idle[--session->idle_count];
    /* At the end: also those of blocks that will not be finished. Lanes no longer run then. */
    for (size_t i = 0; session->state == STATE_CLOSED && i < session->in.capacity; i++) {
        struct in_block *block = block_map_at(&session->in, i);
        if (block == NULL)
            continue;
        uint8_t *bytes = block->bytes;
        block_map_take(&session->in, block->number);
        free_block(block);
        return bytes;
    }
    return NULL;
}

/* ---- whole blocks ---- */

static void deliver(struct session *session, struct in_block *block)
{
    uint64_t added;
    block_map_take(&session->in, block->number);
    if (!range_set_add(&session->completed, block->number, (uint64_t)block->number + 1, &added)) {
        session_fail(session, ERROR_MEMORY, "no memory for the list of finished blocks");
    }
    struct session_event event = {.kind = SESSION_BLOCK_WHOLE,
                                  .block = block->number,
                                  .packed = block->packed,
                                  .bytes = block->bytes,
                                  .length = block->length};
    session_push_event(session, &event);
    free_block(block);
}

void receiver_on_closed(struct session *session, const struct event_block *event)
{
    struct in_block *block = block_map_find(&session->in, event->block);
    if (block != NULL)
        deliver(session, block);
}

/* ---- pieces ---- */

static struct in_block *open_block(struct session *session, unsigned lane,
                                   const struct event_piece *piece)
{
    if (session->idle_count == 0) {
        session_fail(session, ERROR_PROTOCOL, "the peer began more blocks than it was granted");
        return NULL;
    }
    struct in_block *block = calloc(1, sizeof(*block));
    if (block == NULL || !block_map_set(&session->in, piece->block, block)) {
        free(block);
        session_fail(session, ERROR_MEMORY, "no memory for a block");
        return NULL;
    }
    block->number = piece->block;
    block->packed = piece->flags & SPAN_PACKED;
    block->owner = lane;
    block->bytes = session->idle[--session->idle_count];
    block->link = session->to_open;
    session->to_open = block;
    return block;
}

/* False when the piece contradicts what is known of its block. */
static bool agrees(struct in_block *block, const struct event_piece *piece)
{
    uint32_t end = piece->offset32 + piece->length;
    if (block->packed != ((piece->flags & SPAN_PACKED) != 0))
        return false;
    if (end > block->reach)
        block->reach = end;
    if (piece->flags & SPAN_END) {
        if (block->length != 0 && block->length != end)
            return false;
        block->length = end;
    }
    return block->length == 0 || block->reach <= block->length;
}

static bool waiting_push(struct command_queue *queue, const void *message, size_t size)
{
    if (queue->at == queue->size)
        queue->at = queue->size = 0;
    size_t need = queue->size + sizeof(size) + size;
    if (need > WAITING_MAX)
        return false;
    if (need > queue->capacity) {
        size_t capacity = queue->capacity == 0 ? 64 * 1024 : queue->capacity;
        while (capacity < need)
            capacity *= 2;
        uint8_t *bytes = realloc(queue->bytes, capacity);
        if (bytes == NULL)
            return false;
        queue->bytes = bytes;
        queue->capacity = capacity;
    }
    memcpy(queue->bytes + queue->size, &size, sizeof(size));
    memcpy(queue->bytes + queue->size + sizeof(size), message, size);
    queue->size = need;
    return true;
}

/* A lane's thread may be busy elsewhere for a while: what it cannot take yet waits here, so that
 * the session goes on taking in events and no two lanes wait for each other. */
static bool hand_over(struct lane_slot *slot, const void *message, size_t size)
{
    if (slot->waiting.at == slot->waiting.size && session_command(slot, message, size))
        return true;
    return waiting_push(&slot->waiting, message, size);
}

static void hand_over_waiting(struct lane_slot *slot)
{
    struct command_queue *queue = &slot->waiting;
    while (queue->at < queue->size) {
        size_t size;
        memcpy(&size, queue->bytes + queue->at, sizeof(size));
        if (!session_command(slot, queue->bytes + queue->at + sizeof(size), size))
            return;
        queue->at += sizeof(size) + size;
    }
}

static void close_block(struct session *session, struct in_block *block)
{
    struct command_block close = {.kind = COMMAND_BLOCK_CLOSE, .block = block->number};
    if (block->closing)
        return;
    block->closing = hand_over(&session->slots[block->owner], &close, sizeof(close));
    if (!block->closing)
        session_fail(session, ERROR_PROTOCOL, "too many pieces came in on the wrong lane");
}

/* A piece whose bytes are in the event: written here while no lane has the buffer, else handed to
 * the lane that has. True when it was written. */
static bool put_orphan(struct session *session, struct in_block *block,
                       const struct event_piece *piece, const uint8_t *bytes)
{
    if (!block->opened) {
        memcpy(block->bytes + piece->offset32, bytes, piece->length);
        return true;
    }
    uint8_t message[sizeof(struct command_bytes) + STREAM_PACKET_MAX];
    struct command_bytes command = {.kind = COMMAND_BLOCK_PLACE,
                                    .flags = piece->flags,
                                    .block = piece->block,
                                    .offset32 = piece->offset32,
                                    .length = (uint16_t)piece->length};
    memcpy(message, &command, sizeof(command));
    memcpy(message + sizeof(command), bytes, piece->length);
    if (!hand_over(&session->slots[block->owner], message, sizeof(command) + piece->length))
        session_fail(session, ERROR_PROTOCOL, "too many pieces came in on the wrong lane");
    return false;
}

void receiver_on_piece(struct session *session, unsigned lane, const struct event_piece *piece,
                       const uint8_t *orphan)
{
    if (session->config.role != ROLE_RECEIVER) {
        session_fail(session, ERROR_PROTOCOL, "the receiver of files sent a block");
        return;
    }
    if (session->state == STATE_CLOSED ||
        range_set_contains(&session->completed, piece->block, (uint64_t)piece->block + 1))
        return;
    struct in_block *block = block_map_find(&session->in, piece->block);
    if (block == NULL)
        block = open_block(session, lane, piece);
    if (block == NULL)
        return;
    if (!agrees(block, piece)) {
        session_fail(session, ERROR_PROTOCOL,
                     "a piece contradicts the end or the kind of its block");
        return;
    }
    if (orphan != NULL && !put_orphan(session, block, piece, orphan))
        return;
    uint64_t added = 0;
    if (!range_set_add(&block->have, piece->offset32, (uint64_t)piece->offset32 + piece->length,
                       &added)) {
        session_fail(session, ERROR_MEMORY, "no memory for the pieces of a block");
        return;
    }
    block->have_bytes += added;
    session->payload_received += added;
    if (block->length != 0 && block->have_bytes == block->length && block->opened)
        close_block(session, block);
}

/* New blocks get their owner after everything reported so far was taken in, so that what came
 * before is already in place. Blocks that are whole by then need no owner. */
void receiver_open_blocks(struct session *session)
{
    for (unsigned i = 0; i < session->slot_count; i++)
        hand_over_waiting(&session->slots[i]);
    while (session->to_open != NULL) {
        struct in_block *block = session->to_open;
        if (block->length != 0 && block->have_bytes == block->length) {
            session->to_open = block->link;
            deliver(session, block);
            continue;
        }
        struct command_block open = {
            .kind = COMMAND_BLOCK_OPEN, .block = block->number, .buffer = block->bytes};
        if (!session_command(&session->slots[block->owner], &open, sizeof(open)))
            return;
        session->to_open = block->link;
        block->opened = true;
    }
}
