/* What goes out on a lane, most urgent first: proofs of address, acks and control, probes, data. */
#include <string.h>

#include "transport/lane_internal.h"

#define RTT_TELL_NS NS_PER_S
#define CACHE_LINE 64u

uint16_t lane_datagram_size(const struct lane *lane)
{
    return mtu_datagram(&lane->mtu);
}

/* ---- one packet ---- */

struct packet_plan {
    uint8_t type, flags;
    struct sent_packet record;
};

/* Seals what stands at `packet` + PACKET_HEADER_SIZE in place, records it, returns its size. */
static size_t seal(struct lane *lane, uint8_t *packet, size_t plain, const struct packet_plan *plan)
{
    struct packet_header header = {.type = plan->type,
                                   .flags = plan->flags,
                                   .connection_id = lane->peer_id,
                                   .number = lane->log.next};
    if (header.number >= NUMBER_LIMIT) {
        lane_break(lane, "a lane has used up its packet numbers");
        return 0;
    }
    packet_header_encode(&header, packet);
    uint8_t *body = packet + PACKET_HEADER_SIZE;
    if (!packet_keys_seal(lane->seal_keys, header.number, packet, PACKET_HEADER_SIZE, body, plain,
                          body))
        return 0;
    size_t size = plain + PACKET_OVERHEAD;
    struct sent_packet record = plan->record;
    bool asks = record.state == SENT_IN_FLIGHT && record.kind != SENT_PROBE;
    if (asks && lane->log.in_flight_packets == 0)
        lane->answered_ns = lane->now_ns;
    record.sent_ns = lane->now_ns;
    record.size = (uint16_t)size;
    sent_log_append(&lane->log, &record);
    lane->last_sent_ns = lane->now_ns;
    /* Probes of size are expected to vanish: they do not put the probe timer off. */
    if (asks)
        lane->last_eliciting_ns = lane->now_ns;
    lane->counters.packets_sent++;
    lane->counters.bytes_sent += size;
    return size;
}

/* ---- control packets ---- */

/* Numbers above it are told: from the largest of eight acks ago, and from what came late since
 * then, so that each is told about eight times. */
static uint64_t ack_floor(const struct lane *lane)
{
    uint64_t floor = lane->ack_reaches[lane->ack_reach_at].largest;
    if (lane->arrived_low > 0 && lane->arrived_low <= floor)
        floor = lane->arrived_low - 1;
    for (unsigned i = 0; i < LANE_ACK_HISTORY; i++) {
        uint64_t low = lane->ack_reaches[i].low;
        if (low > 0 && low <= floor)
            floor = low - 1;
    }
    return floor;
}

static void write_ack(struct lane *lane, struct writer *writer)
{
    uint8_t bitmap[ACK_BITMAP_MAX];
    uint64_t floor = ack_floor(lane);
    uint64_t bits = lane->window.largest - (floor < lane->window.largest ? floor : 0);
    if (floor >= lane->window.largest)
        bits = 0;
    bits += 64;
    size_t size = (size_t)((bits + 7) / 8);
    if (size > ACK_BITMAP_MAX)
        size = ACK_BITMAP_MAX;
    if ((uint64_t)size * 8 > lane->window.largest + 7)
        size = (size_t)((lane->window.largest + 7) / 8);
    receive_window_bitmap(&lane->window, bitmap, size);
    uint64_t delay_us = (lane->now_ns - lane->largest_time_ns) / NS_PER_US;
    struct frame frame = {.type = FRAME_ACK};
    frame.ack =
        (struct ack_frame){.largest = lane->window.largest,
                           .receive_time_us = lane->largest_time_ns / NS_PER_US,
                           .delay_us = delay_us > UINT32_MAX ? UINT32_MAX : (uint32_t)delay_us,
                           .packets = lane->counters.packets_received,
                           .bytes = lane->counters.bytes_received,
                           .duplicates = (uint32_t)lane->counters.duplicates,
                           .socket_drops = (uint32_t)lane->counters.own_socket_drops,
                           .credit = lane->credit,
                           .bitmap_size = (uint16_t)size,
                           .bitmap = bitmap};
    frame_write(writer, &frame);
    struct frame window = {.type = FRAME_WINDOW, .window = lane->control_window};
    frame_write(writer, &window);
    lane->ack_reaches[lane->ack_reach_at] =
        (struct ack_reach){.largest = lane->window.largest, .low = lane->arrived_low};
    lane->ack_reach_at = (lane->ack_reach_at + 1) % LANE_ACK_HISTORY;
    lane->arrived_low = 0;
}

static void schedule_next_ack(struct lane *lane)
{
    lane->unacked = 0;
    lane->unacked_bytes = 0;
    if (lane->ack_repeats > 0) {
        lane->ack_repeats--;
        lane->ack_deadline_ns =
            lane->now_ns +
            rtt_ack_interval(lane->peer_rtt_ns ? lane->peer_rtt_ns : lane->rtt.smoothed_ns);
    } else {
        lane->ack_deadline_ns = TIME_NEVER;
    }
}

static bool rtt_is_news(const struct lane *lane)
{
    if (!lane->rtt.measured || !lane->probes_mtu)
        return false;
    uint64_t told = lane->rtt_told_ns, is = lane->rtt.smoothed_ns;
    bool differs = is > told + told / 4 || is < told - told / 4;
    uint64_t age = lane->now_ns - lane->rtt_told_at_ns;
    return told == 0 || age > RTT_TELL_NS || (differs && age > is);
}

static void write_rtt(struct lane *lane, struct writer *writer)
{
    lane->rtt_told_ns = lane->rtt.smoothed_ns;
    lane->rtt_told_at_ns = lane->now_ns;
    uint64_t us = lane->rtt.smoothed_ns / NS_PER_US;
    struct frame frame = {.type = FRAME_RTT, .rtt_us = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us};
    frame_write(writer, &frame);
}

static void write_outbox(struct lane *lane, struct writer *writer, struct packet_plan *plan)
{
    size_t size;
    const struct command_bytes *command = ring_peek(lane->outbox, &size);
    if (command == NULL)
        return;
    const uint8_t *bytes = (const uint8_t *)(command + 1);
    if (command->kind == COMMAND_FRAMES) {
        if (command->length > writer_left(writer))
            return;
        write_bytes(writer, bytes, command->length);
        if (command->eliciting)
            plan->record.state = SENT_IN_FLIGHT;
    } else {
        if ((size_t)command->length + FRAME_CONTROL_HEADER > writer_left(writer))
            return;
        struct frame frame = {.type = FRAME_CONTROL};
        frame.control.offset = command->offset;
        frame.control.bytes = bytes;
        frame.control.size = command->length;
        frame_write(writer, &frame);
        plan->record.kind = SENT_CONTROL;
        plan->record.place = command->offset;
        plan->record.length = command->length;
        plan->record.state = SENT_IN_FLIGHT;
    }
    ring_release(lane->outbox);
}

/* One control packet with all that is due and fits; 0 when nothing is due. */
static size_t build_control(struct lane *lane, uint8_t *packet)
{
    bool ack_due = lane->ack_deadline_ns <= lane->now_ns && lane->window.any;
    bool tell_rtt = rtt_is_news(lane) && lane->log.in_flight_packets > 0;
    if (!ack_due && !tell_rtt && lane->pings_due == 0 && ring_is_empty(lane->outbox))
        return 0;
    struct packet_plan plan = {.type = PACKET_CONTROL,
                               .record = {.state = SENT_PASSIVE, .kind = SENT_OTHER}};
    struct writer writer = writer_of(packet + PACKET_HEADER_SIZE, DATAGRAM_MIN - PACKET_OVERHEAD);
    write_outbox(lane, &writer, &plan);
    if (lane->pings_due > 0 && writer_left(&writer) >= 1) {
        struct frame frame = {.type = FRAME_PING};
        frame_write(&writer, &frame);
        lane->pings_due--;
        plan.flags |= PACKET_ACK_NOW;
        plan.record.state = SENT_IN_FLIGHT;
    }
    if (tell_rtt && writer_left(&writer) >= 5)
        write_rtt(lane, &writer);
    if (lane->window.any && writer_left(&writer) >= FRAME_ACK_HEADER + ACK_BITMAP_MAX + 7) {
        write_ack(lane, &writer);
        schedule_next_ack(lane);
    }
    if (writer.failed || writer_size(&writer) == 0)
        return 0;
    return seal(lane, packet, writer_size(&writer), &plan);
}

/* ---- probes ---- */

static size_t build_probe(struct lane *lane, uint8_t *packet, size_t datagram)
{
    struct packet_plan plan = {.type = PACKET_CONTROL,
                               .flags = PACKET_ACK_NOW,
                               .record = {.state = SENT_IN_FLIGHT, .kind = SENT_PROBE}};
    struct writer writer = writer_of(packet + PACKET_HEADER_SIZE, datagram - PACKET_OVERHEAD);
    struct frame ping = {.type = FRAME_PING}, padding = {.type = FRAME_PADDING};
    frame_write(&writer, &ping);
    frame_write(&writer, &padding);
    return seal(lane, packet, writer_size(&writer), &plan);
}

/* One frame that proves an address, or asks for a proof, and nothing else: what goes to an address
 * that nobody proved must stay within three times what came from it. */
static size_t build_proof(struct lane *lane, uint8_t *packet, uint8_t type, uint64_t token)
{
    struct packet_plan plan = {.type = PACKET_CONTROL,
                               .flags = PACKET_ACK_NOW,
                               .record = {.state = SENT_IN_FLIGHT, .kind = SENT_OTHER}};
    struct writer writer = writer_of(packet + PACKET_HEADER_SIZE, DATAGRAM_MIN - PACKET_OVERHEAD);
    struct frame frame = {.type = type, .token = token};
    frame_write(&writer, &frame);
    return seal(lane, packet, writer_size(&writer), &plan);
}

/* ---- data ---- */

static bool data_may_go(const struct lane *lane)
{
    if (lane->span_count == 0)
        return false;
    const struct command_span *span = &lane->spans[lane->span_head];
    if (lane->kind == LANE_STREAM)
        return true;
    /* Nobody gets data who has not proved to live there. */
    return lane->path.proved && ((span->flags & SPAN_URGENT) || lane->tuning.in_flight_bytes == 0 ||
                                 lane->log.in_flight_bytes < lane->tuning.in_flight_bytes);
}

uint64_t lane_data_deadline(const struct lane *lane)
{
    if (!data_may_go(lane))
        return TIME_NEVER;
    return pacer_ready(&lane->pacer);
}

void lane_finish_span(struct lane *lane, const struct command_span *span)
{
    lane->consumed = span->sequence;
    lane->span_head = (lane->span_head + 1) % LANE_SPANS;
    lane->span_count--;
    lane->span_offset = 0;
}

/* The block is read once and has left the cache by now: while this packet is sealed, the next one's
 * bytes come in. */
static void prefetch_next(const struct command_span *span, uint32_t offset, uint32_t length)
{
    uint32_t end = span->length - offset < length ? span->length : offset + length;
    for (uint32_t at = offset; at < end; at += CACHE_LINE)
        __builtin_prefetch(span->bytes + at);
}

/* The next packet of the head span; returns its size, 0 when it could not be made. */
static size_t build_data(struct lane *lane, uint8_t *packet, size_t payload_max, bool late,
                         uint8_t trial)
{
    const struct command_span *span = &lane->spans[lane->span_head];
    uint32_t left = span->length - lane->span_offset;
    uint32_t length = left < payload_max ? left : (uint32_t)payload_max;
    uint32_t offset = span->offset + lane->span_offset;
    bool last = length == left;
    struct packet_plan plan = {.type = PACKET_DATA};
    plan.record = (struct sent_packet){.state = SENT_IN_FLIGHT,
                                       .kind = SENT_DATA,
                                       .flags = span->flags | (late ? SENT_LATE : 0),
                                       .trial = trial,
                                       .place = (uint64_t)span->block << 20 | offset,
                                       .length = (uint16_t)length,
                                       .interval = lane->tuning.interval};
    struct lane_interval *interval = lane_interval_find(lane, lane->tuning.interval);
    if (interval != NULL && !interval->any && lane->tuning.marks)
        plan.flags |= PACKET_ACK_NOW;
    if (last)
        plan.flags |= span->flags & (SPAN_END | SPAN_ACK_NOW);
    else
        plan.record.flags &= (uint8_t)~SPAN_END;
    plan.flags |= span->flags & SPAN_PACKED;
    uint8_t *body = packet + PACKET_HEADER_SIZE;
    packet_place_encode(span->block, offset, body);
    memcpy(body + PACKET_PLACE_SIZE, span->bytes + lane->span_offset, length);
    prefetch_next(span, lane->span_offset + length, length);
    uint64_t number = lane->log.next;
    size_t size = seal(lane, packet, PACKET_PLACE_SIZE + length, &plan);
    if (size == 0)
        return 0;
    if (interval != NULL) {
        if (!interval->any)
            interval->first_number = number;
        interval->any = true;
        interval->last_number = number;
        interval->news.sent_packets++;
        interval->news.sent_bytes += size;
    }
    lane->counters.data_sent += length;
    lane->last_data_ns = lane->now_ns;
    if (span->flags & (SPAN_ATTEMPT | SPAN_COPY))
        lane->counters.data_resent_packets++;
    lane->span_offset += length;
    lane->consumed_bytes += length;
    if (last)
        lane_finish_span(lane, span);
    return size;
}

/* A train of equal packets, ended by the first shorter one. */
static bool fill_data(struct lane *lane, struct lane_train *train, uint64_t train_ns, size_t room)
{
    size_t datagram = lane_datagram_size(lane);
    size_t payload_max = datagram - PACKET_OVERHEAD - PACKET_PLACE_SIZE;
    size_t budget = pacer_train_bytes(&lane->pacer, train_ns, datagram);
    size_t prefix = lane->kind == LANE_STREAM ? 2 : 0;
    if (budget > room)
        budget = room;
    while (lane->span_count > 0 && train->size + prefix + datagram <= budget) {
        if (train->size > 0 && !data_may_go(lane))
            break;
        if (!sent_log_reserve(&lane->log))
            break;
        size_t size = build_data(lane, train->bytes + train->size + prefix, payload_max,
                                 pacer_is_late(&lane->pacer, train->size, budget), train->trial);
        if (size == 0)
            break;
        if (prefix != 0) {
            train->bytes[train->size] = (uint8_t)(size >> 8);
            train->bytes[train->size + 1] = (uint8_t)size;
        }
        train->size += prefix + size;
        if (size < datagram && prefix == 0)
            break;
    }
    if (train->size == 0)
        return false;
    if (train->size <= datagram) /* one packet tells nothing of trains */
        sent_log_find(&lane->log, lane->log.next - 1)->trial = TRAIN_USUAL;
    else if (train->trial == TRAIN_TRIED_WHOLE)
        lane->delivery.whole_sent += (train->size + datagram - 1) / datagram;
    train->segment = (uint32_t)datagram;
    train->to = lane->path.address;
    pacer_sent(&lane->pacer, train->size, lane->now_ns);
    return true;
}

/* ---- the order of things ---- */

static bool finish_single(struct lane *lane, struct lane_train *train, size_t size,
                          struct lane_path *path, const struct address *to)
{
    if (size == 0)
        return false;
    if (lane->kind == LANE_STREAM) {
        memmove(train->bytes + 2, train->bytes, size);
        train->bytes[0] = (uint8_t)(size >> 8);
        train->bytes[1] = (uint8_t)size;
        size += 2;
    }
    train->size = size;
    train->segment = (uint32_t)size;
    train->to = *to;
    if (path != NULL && !path->proved)
        path->sent_bytes += size;
    return true;
}

static void run_timers(struct lane *lane)
{
    if (lane->loss_deadline_ns <= lane->now_ns)
        lane_detect_losses(lane);
    if (lane_probe_deadline(lane) <= lane->now_ns)
        lane_on_probe_timeout(lane);
}

static bool send_urgent(struct lane *lane, struct lane_train *train)
{
    if (lane->challenge_due && lane->kind == LANE_DATAGRAM) {
        lane->challenge_due = false;
        if (lane_may_amplify(&lane->candidate, 64))
            return finish_single(
                lane, train,
                build_proof(lane, train->bytes, FRAME_CHALLENGE, lane->candidate_token),
                &lane->candidate, &lane->candidate.address);
    }
    if (lane->response_due) {
        struct address to = lane->response_to;
        lane->response_due = false;
        return finish_single(lane, train,
                             build_proof(lane, train->bytes, FRAME_RESPONSE, lane->response_token),
                             NULL, &to);
    }
    if (lane_may_amplify(&lane->path, DATAGRAM_MIN) &&
        finish_single(lane, train, build_control(lane, train->bytes), &lane->path,
                      &lane->path.address))
        return true;
    if (trial_packet_due(lane)) {
        uint64_t number = lane->log.next;
        size_t size = build_probe(lane, train->bytes, lane_datagram_size(lane));
        trial_packet_sent(lane, number);
        return finish_single(lane, train, size, &lane->path, &lane->path.address);
    }
    if (!lane->probes_mtu || !lane->path.proved || !lane->joined)
        return false;
    size_t size = mtu_next_probe(&lane->mtu, lane->now_ns);
    if (size == 0 && mtu_canary_due(&lane->mtu, lane->rtt.smoothed_ns, lane->now_ns))
        size = DATAGRAM_MIN;
    return size != 0 && finish_single(lane, train, build_probe(lane, train->bytes, size),
                                      &lane->path, &lane->path.address);
}

bool lane_send(struct lane *lane, struct lane_train *train, size_t room, uint64_t now_ns)
{
    lane->now_ns = now_ns;
    lane_drain_commands(lane);
    train->size = 0;
    if (lane->broken || (lane->kind == LANE_DATAGRAM && !lane->path.known) ||
        room < STREAM_PACKET_MAX + 2)
        return false;
    run_timers(lane);
    if (!sent_log_reserve(&lane->log))
        return false;
    bool sent = send_urgent(lane, train);
    uint64_t train_ns = train_length_ns(&lane->train_length, &lane->rtt, now_ns);
    if (!sent && data_may_go(lane) && pacer_may_send(&lane->pacer, train_ns, now_ns))
        sent = fill_data(lane, train, train_ns, room);
    if (sent)
        lane_report_intervals(lane);
    lane_report_statistics(lane, false);
    return sent;
}
