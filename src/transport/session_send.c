/* The sending half of a session: which bytes go next, and what is kept until they arrived.
 *
 * A block belongs to one lane, so that at the far end one lane writes into its buffer; only probes,
 * copies in the tail and the work of a silent lane go elsewhere. A block's buffer is given back
 * once every byte of it has been reported once; what is then still missing is kept in a remnant.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/session_internal.h"

#define QUEUE_AHEAD 2u
#define LANE_QUEUE_NS (4 * NS_PER_MS)
#define LANE_QUEUE_MIN (128u * 1024u)
#define LANE_QUEUE_MAX (512u * 1024u)
#define COPY_SPACING_NS (5 * NS_PER_MS) /* and at most an eighth of a round trip */
#define COPY_SPACING_LEAST_NS (NS_PER_MS / 2)
#define COPIES_MAX 4u
#define ATTEMPT_MAX 3u
#define TAIL_LOSSY_PERCENT 3u /* then a copy more */

/* ---- resend queues ---- */

bool resend_push(struct resend_queue *queue, const struct resend *resend)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity == 0 ? 64 : queue->capacity * 2;
        struct resend *entries = malloc(capacity * sizeof(*entries));
        if (entries == NULL)
            return false;
        for (size_t i = 0; i < queue->count; i++)
            entries[i] = queue->entries[(queue->head + i) % queue->capacity];
        free(queue->entries);
        queue->entries = entries;
        queue->head = 0;
        queue->capacity = capacity;
    }
    queue->entries[(queue->head + queue->count++) % queue->capacity] = *resend;
    return true;
}

static struct resend *resend_first(struct resend_queue *queue)
{
    return queue->count == 0 ? NULL : &queue->entries[queue->head];
}

static void resend_pop(struct resend_queue *queue)
{
    queue->head = (queue->head + 1) % queue->capacity;
    queue->count--;
}

/* ---- blocks ---- */

static void free_block(struct out_block *block)
{
    range_set_release(&block->acked);
    range_set_release(&block->reported);
    free(block->remnant);
    free(block);
}

void sender_free(struct session *session)
{
    for (size_t i = 0; i < session->out.capacity; i++) {
        struct out_block *block = block_map_at(&session->out, i);
        if (block != NULL)
            free_block(block);
    }
    block_map_release(&session->out);
    while (session->retiring != NULL) {
        struct out_block *next = session->retiring->link;
        free_block(session->retiring);
        session->retiring = next;
    }
    free(session->delayed.entries);
}

bool session_wants_block(const struct session *session)
{
    return session->state == STATE_OPEN && session->queued < QUEUE_AHEAD &&
           session->begun + session->queued < session->peer_credit;
}

void session_set_tail(struct session *session, bool tail)
{
    session->tail = tail;
}

bool session_send_block(struct session *session, uint32_t number, bool packed, uint8_t *bytes,
                        uint32_t length, struct error *error)
{
    if (number >= BLOCK_NUMBER_LIMIT || length == 0 || length > BLOCK_SIZE ||
        block_map_find(&session->out, number) != NULL)
        return error_set(error, ERROR_USAGE, "block %u of %u bytes cannot be sent", number, length);
    struct out_block *block = calloc(1, sizeof(*block));
    if (block == NULL || !block_map_set(&session->out, number, block)) {
        free(block);
        return error_set(error, ERROR_MEMORY, "no memory for a block");
    }
    block->number = number;
    block->length = length;
    block->packed = packed;
    block->bytes = bytes;
    if (session->queue_tail != NULL)
        session->queue_tail->link = block;
    else
        session->queue_head = block;
    session->queue_tail = block;
    session->queued++;
    return true;
}

/* True when no lane still has to read the block's memory. */
static bool is_untouched(const struct session *session, const struct out_block *block)
{
    for (unsigned i = 0; i < session->slot_count; i++) {
        if ((int32_t)(session->slots[i].consumed - block->last_sequence[i]) < 0)
            return false;
    }
    return true;
}

static void give_back(struct session *session, struct out_block *block)
{
    struct session_event event = {
        .kind = SESSION_BLOCK_RELEASED, .block = block->number, .bytes = block->bytes};
    block->bytes = NULL;
    session_push_event(session, &event);
}

/* Keeps the missing pieces and gives the buffer back, once everything has been reported. */
static void shrink(struct session *session, struct out_block *block)
{
    if (block->bytes == NULL || block->reported_bytes < block->length ||
        !is_untouched(session, block))
        return;
    size_t pieces = block->acked.count + 1;
    size_t size = (size_t)(block->length - block->acked_bytes);
    struct remnant *remnant =
        malloc(sizeof(*remnant) + pieces * sizeof(struct remnant_piece) + size);
    if (remnant == NULL)
        return;
    remnant->piece_count = 0;
    remnant->size = size;
    remnant->bytes = (uint8_t *)(remnant->pieces + pieces);
    struct range gap;
    size_t position = 0;
    for (uint64_t at = 0; range_set_first_gap(&block->acked, at, block->length, &gap);
         at = gap.end) {
        uint32_t length = (uint32_t)(gap.end - gap.start);
        remnant->pieces[remnant->piece_count++] = (struct remnant_piece){
            .offset = (uint32_t)gap.start, .length = length, .position = position};
        memcpy(remnant->bytes + position, block->bytes + gap.start, length);
        position += length;
    }
    block->remnant = remnant;
    give_back(session, block);
}

/* Where the bytes of an unacknowledged piece are. */
static const uint8_t *bytes_of(const struct out_block *block, uint32_t offset)
{
    if (block->bytes != NULL)
        return block->bytes + offset;
    const struct remnant *remnant = block->remnant;
    for (size_t i = 0; i < remnant->piece_count; i++) {
        const struct remnant_piece *piece = &remnant->pieces[i];
        if (offset >= piece->offset && offset - piece->offset < piece->length)
            return remnant->bytes + piece->position + (offset - piece->offset);
    }
    return NULL;
}

void sender_release(struct session *session)
{
    struct out_block **link = &session->retiring;
    while (*link != NULL) {
        struct out_block *block = *link;
        if (!is_untouched(session, block)) {
            link = &block->link;
            continue;
        }
        *link = block->link;
        if (block->bytes != NULL)
            give_back(session, block);
        free_block(block);
    }
}

/* ---- what lanes report ---- */

static bool mark_reported(struct out_block *block, const struct event_piece *piece)
{
    uint64_t added = 0;
    if (!range_set_add(&block->reported, piece->offset32, (uint64_t)piece->offset32 + piece->length,
                       &added))
        return false;
    block->reported_bytes += added;
    return true;
}

static void finish_block(struct session *session, struct out_block *block)
{
    block_map_take(&session->out, block->number);
    block->whole = true;
    for (unsigned i = 0; i < session->slot_count; i++) {
        if (session->slots[i].current == block)
            session->slots[i].current = NULL;
    }
    struct session_event event = {
        .kind = SESSION_BLOCK_ACKED, .block = block->number, .length = block->length};
    session_push_event(session, &event);
    block->link = session->retiring;
    session->retiring = block;
}

void sender_on_acked(struct session *session, const struct event_piece *piece)
{
    struct out_block *block = block_map_find(&session->out, piece->block);
    if (block == NULL)
        return;
    uint64_t added = 0;
    if (!mark_reported(block, piece) ||
        !range_set_add(&block->acked, piece->offset32, (uint64_t)piece->offset32 + piece->length,
                       &added)) {
        session_fail(session, ERROR_MEMORY, "no memory for acknowledgements");
        return;
    }
    block->acked_bytes += added;
    session->payload_acked += added;
    session->slots[block->lane].delivered_bytes += added;
    if (block->acked_bytes == block->length)
        finish_block(session, block);
    else
        shrink(session, block);
}

static uint8_t next_attempt(uint8_t flags)
{
    unsigned attempt = (flags & SPAN_ATTEMPT) >> SPAN_ATTEMPT_SHIFT;
    attempt = attempt < ATTEMPT_MAX ? attempt + 1 : ATTEMPT_MAX;
    return (uint8_t)(attempt << SPAN_ATTEMPT_SHIFT);
}

/* In the tail there is nothing else to send: further copies save round trips. They are spread in
 * time so that one burst of loss does not take them all. */
static void add_copies(struct session *session, const struct resend *first)
{
    uint64_t spacing = session->rtt_ns / 8;
    spacing = spacing < COPY_SPACING_NS ? spacing : COPY_SPACING_NS;
    spacing = spacing > COPY_SPACING_LEAST_NS ? spacing : COPY_SPACING_LEAST_NS;
    unsigned attempt = (first->flags & SPAN_ATTEMPT) >> SPAN_ATTEMPT_SHIFT;
    uint64_t settled = session->payload_acked + session->payload_lost;
    bool lossy = session->payload_lost > settled / 100 * TAIL_LOSSY_PERCENT;
    unsigned copies = attempt + 1 + lossy;
    copies = copies < COPIES_MAX ? copies : COPIES_MAX;
    for (unsigned i = 1; i < copies; i++) {
        struct resend copy = *first;
        copy.flags |= SPAN_COPY;
        copy.not_before_ns = session->now_ns + i * spacing;
        resend_push(&session->delayed, &copy);
    }
}

static bool in_tail(const struct session *session)
{
    if (!session->tail || session->queue_head != NULL)
        return false;
    for (unsigned i = 0; i < session->slot_count; i++) {
        if (session->slots[i].current != NULL)
            return false;
    }
    return true;
}

static bool queue_resend(struct session *session, const struct out_block *block, uint64_t start,
                         uint64_t end, uint8_t flags)
{
    struct resend resend = {.block = block->number,
                            .offset = (uint32_t)start,
                            .length = (uint32_t)(end - start),
                            .flags = flags};
    if (in_tail(session))
        add_copies(session, &resend);
    return resend_push(&session->slots[block->lane].resends, &resend);
}

void sender_on_lost(struct session *session, const struct event_piece *piece)
{
    struct out_block *block = block_map_find(&session->out, piece->block);
    if (block == NULL || (piece->flags & SPAN_COPY))
        return;
    bool good = mark_reported(block, piece);
    session->payload_lost += piece->length;
    uint64_t limit = (uint64_t)piece->offset32 + piece->length;
    struct range gap;
    for (uint64_t at = piece->offset32; good && range_set_first_gap(&block->acked, at, limit, &gap);
         at = gap.end)
        good = queue_resend(session, block, gap.start, gap.end, next_attempt(piece->flags));
    if (!good) {
        session_fail(session, ERROR_MEMORY, "no memory for resends");
        return;
    }
    shrink(session, block);
}

void sender_on_doubt(struct session *session, const struct event_piece *piece, unsigned lane)
{
    struct out_block *block = block_map_find(&session->out, piece->block);
    if (block == NULL)
        return;
    struct resend resend = {.block = piece->block,
                            .offset = piece->offset32,
                            .length = piece->length,
                            .flags = SPAN_COPY | SPAN_URGENT | SPAN_ACK_NOW};
    resend_push(&session->slots[lane].resends, &resend);
}

/* ---- handing out ---- */

static uint64_t lane_quota(const struct session *session, unsigned index)
{
    if (index == session->stream)
        return LANE_QUEUE_MIN * 2;
    uint64_t bytes = rate_lane_bps(session, index) / 8 * LANE_QUEUE_NS / NS_PER_S;
    if (bytes < LANE_QUEUE_MIN)
        return LANE_QUEUE_MIN;
    return bytes < LANE_QUEUE_MAX ? bytes : LANE_QUEUE_MAX;
}

static bool hand_span(struct session *session, unsigned index, struct out_block *block,
                      uint32_t offset, uint32_t length, uint8_t flags)
{
    struct lane_slot *slot = &session->slots[index];
    struct command_span span = {.kind = COMMAND_SPAN,
                                .flags = flags,
                                .block = block->number,
                                .offset = offset,
                                .length = length,
                                .sequence = slot->handed_sequence + 1,
                                .bytes = bytes_of(block, offset)};
    if (block->packed)
        span.flags |= SPAN_PACKED;
    if (offset + length == block->length)
        span.flags |= SPAN_END;
    if (span.bytes == NULL || !session_command(slot, &span, sizeof(span)))
        return false;
    slot->handed_sequence++;
    slot->handed_bytes += length;
    block->last_sequence[index] = slot->handed_sequence;
    return true;
}

/* A train's worth of full packets: a remainder would be a short packet, which ends its train. */
static uint32_t span_most(const struct session *session, unsigned index)
{
    uint32_t size = index == session->stream ? STREAM_PACKET_MAX : session->datagram;
    uint32_t packets = TRAIN_BYTES_MAX / size;
    if (packets > TRAIN_PACKETS_MAX)
        packets = TRAIN_PACKETS_MAX;
    return packets * (size - PACKET_OVERHEAD - PACKET_PLACE_SIZE);
}

/* The head of the lane's resend queue, cut to what is still missing. False when the ring is full.
 */
static bool hand_resend(struct session *session, unsigned index)
{
    struct lane_slot *slot = &session->slots[index];
    struct resend *resend = resend_first(&slot->resends);
    struct out_block *block = block_map_find(&session->out, resend->block);
    struct range gap;
    uint64_t limit = (uint64_t)resend->offset + resend->length;
    if (block == NULL || !range_set_first_gap(&block->acked, resend->offset, limit, &gap)) {
        resend_pop(&slot->resends);
        return true;
    }
    uint32_t start = (uint32_t)gap.start;
    uint32_t length = (uint32_t)(gap.end - gap.start);
    uint32_t most = span_most(session, index);
    if (length > most)
        length = most;
    if (!hand_span(session, index, block, start, length, resend->flags))
        return false;
    session->payload_resent += length;
    if (start + length >= limit) {
        resend_pop(&slot->resends);
    } else {
        resend->length = (uint32_t)(limit - (start + length));
        resend->offset = start + length;
    }
    return true;
}

static struct out_block *begin_block(struct session *session, unsigned index)
{
    struct out_block *block = session->queue_head;
    if (block == NULL || session->begun >= session->peer_credit)
        return NULL;
    session->queue_head = block->link;
    if (session->queue_head == NULL)
        session->queue_tail = NULL;
    block->link = NULL;
    block->lane = index;
    session->queued--;
    session->begun++;
    session->slots[index].current = block;
    return block;
}

static bool hand_new(struct session *session, unsigned index)
{
    struct lane_slot *slot = &session->slots[index];
    struct out_block *block = slot->current;
    if (block == NULL)
        block = begin_block(session, index);
    if (block == NULL)
        return false;
    uint32_t length = block->length - block->next;
    uint32_t most = span_most(session, index);
    if (length > most)
        length = most;
    bool last_of_all = block->next + length == block->length && session->queue_head == NULL;
    if (!hand_span(session, index, block, block->next, length, last_of_all ? SPAN_ACK_NOW : 0))
        return false;
    block->next += length;
    if (block->next == block->length)
        slot->current = NULL;
    return true;
}

static void move_delayed(struct session *session)
{
    struct resend *resend;
    unsigned lane = 0;
    while ((resend = resend_first(&session->delayed)) != NULL &&
           resend->not_before_ns <= session->now_ns) {
        /* Copies take the next active lane after the block's own. */
        struct out_block *block = block_map_find(&session->out, resend->block);
        lane = block != NULL ? block->lane : 0;
        for (unsigned step = 1; step <= session->slot_count; step++) {
            unsigned next = (lane + step) % session->slot_count;
            if (session_lane_usable(session, next)) {
                lane = next;
                break;
            }
        }
        resend_push(&session->slots[lane].resends, resend);
        resend_pop(&session->delayed);
    }
}

static bool lane_has_room(const struct session *session, unsigned index)
{
    const struct lane_slot *slot = &session->slots[index];
    return session_lane_usable(session, index) &&
           slot->handed_bytes - slot->consumed_bytes < lane_quota(session, index);
}

/* What holds sending up now; the time until the next step is booked on it. */
static void judge_limit(struct session *session, bool lanes_full)
{
    uint64_t limit_bps = session->config.limit_bps, fixed_bps = session->config.fixed_bps;
    if (fixed_bps != 0 && (limit_bps == 0 || fixed_bps < limit_bps))
        limit_bps = fixed_bps;
    bool empty = true;
    for (unsigned i = 0; i < session->slot_count; i++) {
        const struct lane_slot *slot = &session->slots[i];
        empty = empty && slot->handed_bytes == slot->consumed_bytes && slot->resends.count == 0;
    }
    session->pieces_wait = lanes_full || !empty;
    if (session->pieces_wait || session->tail)
        session->limit = limit_bps != 0 && session->decision.base_bps >= limit_bps / 100 * 97
                             ? LIMIT_OPTION
                             : LIMIT_PATH;
    else if (session->begun + session->queued >= session->peer_credit)
        session->limit = LIMIT_CREDIT;
    else
        session->limit = LIMIT_SOURCE;
}

void sender_hand_out(struct session *session)
{
    if (session->config.role != ROLE_SENDER)
        return;
    move_delayed(session);
    bool full = false;
    for (unsigned i = 0; i < session->slot_count; i++) {
        while (lane_has_room(session, i)) {
            bool moved = session->slots[i].resends.count > 0 ? hand_resend(session, i)
                                                             : hand_new(session, i);
            if (!moved)
                break;
        }
        full = full || (session_lane_usable(session, i) && !lane_has_room(session, i));
    }
    judge_limit(session, full);
}

uint64_t sender_deadline(const struct session *session)
{
    const struct resend_queue *delayed = &session->delayed;
    return delayed->count > 0 ? delayed->entries[delayed->head].not_before_ns : TIME_NEVER;
}

/* Blocks of a silent lane belong to another from now on. */
void sender_move_work(struct session *session, unsigned from)
{
    unsigned to = from;
    for (unsigned step = 1; step < session->slot_count; step++) {
        unsigned next = (from + step) % session->slot_count;
        if (session_lane_usable(session, next)) {
            to = next;
            break;
        }
    }
    if (to == from)
        return;
    struct lane_slot *old = &session->slots[from];
    for (size_t i = 0; i < session->out.capacity; i++) {
        struct out_block *block = block_map_at(&session->out, i);
        if (block != NULL && block->lane == from)
            block->lane = to;
    }
    struct out_block *block = old->current;
    old->current = NULL;
    if (block != NULL && block->next < block->length) {
        struct resend rest = {
            .block = block->number, .offset = block->next, .length = block->length - block->next};
        block->next = block->length;
        resend_push(&session->slots[to].resends, &rest);
    }
    struct resend *resend;
    while ((resend = resend_first(&old->resends)) != NULL) {
        resend_push(&session->slots[to].resends, resend);
        resend_pop(&old->resends);
    }
}
