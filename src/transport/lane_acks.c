/* What became of a lane's packets: acknowledgements, loss (after RFC 8985 and RFC 9002), the probe
 * timer, and the counts of measurement intervals.
 *
 * A number is lost when an ack covered it, later ones arrived, and a reordering time has passed
 * since it was found missing. A number that no ack covered is unknown and left to a longer timer.
 */
#include <string.h>

#include "transport/lane_internal.h"

#define REORDER_PACKETS 3u
#define PROBE_BACKOFF_MAX 6u
#define PROBE_PERIOD_MAX NS_PER_S
#define KEEPALIVE_NS (10 * NS_PER_S)
#define LISTEN_NS (300 * NS_PER_MS)
#define SILENT_TIMEOUTS 3u
#define LATE_RTTS 16u /* how long a late arrival is remembered, at least */
#define LATE_MOST_NS (250 * NS_PER_MS)
#define TAIL_LEAST_NS (2 * NS_PER_MS)

/* ---- measurement intervals ---- */

struct lane_interval *lane_interval_find(struct lane *lane, uint32_t id)
{
    struct lane_interval *interval = &lane->intervals[id % LANE_INTERVALS];
    return id != 0 && interval->id == id ? interval : NULL;
}

void lane_interval_begin(struct lane *lane, uint32_t id)
{
    struct lane_interval *last = lane_interval_find(lane, lane->tuning.interval);
    if (last != NULL)
        last->closed = true;
    lane_report_intervals(lane);
    struct lane_interval *interval = &lane->intervals[id % LANE_INTERVALS];
    *interval = (struct lane_interval){.id = id};
    interval->news.kind = EVENT_INTERVAL;
    interval->news.interval = id;
}

static void report_interval(struct lane *lane, struct lane_interval *interval)
{
    struct event_interval *news = &interval->news;
    /* Spans that were given up are consumed without a packet: the session must hear of it. */
    if (news->sent_packets == 0 && news->delivered_packets == 0 && news->lost_packets == 0 &&
        lane->consumed == lane->consumed_told)
        return;
    news->receiver_first_us = interval->receiver_first_us;
    news->receiver_last_us = interval->receiver_last_us;
    news->consumed = lane->consumed;
    news->consumed_bytes = lane->consumed_bytes;
    if (!lane_report(lane, news, sizeof(*news)))
        return;
    lane->consumed_told = news->consumed;
    *news = (struct event_interval){.kind = EVENT_INTERVAL, .interval = interval->id};
}

void lane_report_intervals(struct lane *lane)
{
    for (unsigned i = 0; i < LANE_INTERVALS; i++) {
        if (lane->intervals[i].id != 0)
            report_interval(lane, &lane->intervals[i]);
    }
}

static void count_delivered(struct lane *lane, const struct sent_packet *packet)
{
    struct lane_interval *interval = lane_interval_find(lane, packet->interval);
    if (interval == NULL)
        return;
    interval->news.delivered_packets++;
    interval->news.delivered_bytes += packet->size;
}

static void count_lost(struct lane *lane, const struct sent_packet *packet, uint64_t number)
{
    struct lane_interval *interval = lane_interval_find(lane, packet->interval);
    if (interval == NULL)
        return;
    interval->news.lost_packets++;
    if (number != lane->last_lost_number + 1)
        interval->news.loss_events++;
    lane->last_lost_number = number;
}

static uint64_t sent_at(const struct lane *lane, uint64_t number)
{
    const struct sent_packet *packet = sent_log_find(&lane->log, number);
    return packet != NULL ? packet->sent_ns : 0;
}

/* The receiver's clock at `number`, between two acks whose clocks are known: in proportion to when
 * packets were sent. (By numbers alone a lane that rests between two bursts, one of sixteen, would
 * seem to have sent its burst over the whole rest.) */
static uint64_t clock_at(const struct lane *lane, uint64_t number, const struct ack_point *from,
                         const struct ack_point *to)
{
    uint64_t span_us = to->clock_us - from->clock_us, at_ns = sent_at(lane, number);
    if (at_ns >= from->sent_ns && at_ns <= to->sent_ns && from->sent_ns < to->sent_ns)
        return from->clock_us + (uint64_t)((double)span_us * (double)(at_ns - from->sent_ns) /
                                           (double)(to->sent_ns - from->sent_ns));
    return from->clock_us + span_us * (number - from->number) / (to->number - from->number);
}

static void note_receiver_clock(struct lane *lane, uint64_t largest, uint64_t time_us)
{
    struct ack_point from = lane->ack_point;
    struct ack_point to = {
        .number = largest, .clock_us = time_us, .sent_ns = sent_at(lane, largest)};
    lane->ack_point = to;
    if (from.clock_us == 0 || largest <= from.number || time_us < from.clock_us)
        return;
    for (unsigned i = 0; i < LANE_INTERVALS; i++) {
        struct lane_interval *interval = &lane->intervals[i];
        if (!interval->any)
            continue;
        if (interval->first_number > from.number && interval->first_number <= largest)
            interval->receiver_first_us = clock_at(lane, interval->first_number, &from, &to);
        if (interval->closed && interval->last_number > from.number &&
            interval->last_number <= largest)
            interval->receiver_last_us = clock_at(lane, interval->last_number, &from, &to);
    }
}

/* ---- settling ---- */

static void report_settled(struct lane *lane, const struct sent_packet *packet, bool acked)
{
    struct event_piece piece = {.flags = packet->flags & (uint8_t)~SENT_LATE,
                                .length = packet->length};
    if (packet->kind == SENT_DATA) {
        piece.kind = acked ? EVENT_ACKED : EVENT_LOST;
        piece.block = (uint32_t)(packet->place >> 20);
        piece.offset32 = (uint32_t)(packet->place & (BLOCK_SIZE - 1));
    } else if (packet->kind == SENT_CONTROL) {
        piece.kind = acked ? EVENT_CONTROL_ACKED : EVENT_CONTROL_LOST;
        piece.offset = packet->place;
    } else {
        return;
    }
    lane_report_piece(lane, &piece);
}

void lane_size_changed(struct lane *lane)
{
    struct event_size event = {.kind = EVENT_DATAGRAM_SIZE,
                               .datagram = mtu_datagram(&lane->mtu),
                               .largest = mtu_largest(&lane->mtu)};
    lane_report(lane, &event, sizeof(event));
}

static void note_size_arrived(struct lane *lane, const struct sent_packet *packet, uint64_t number)
{
    bool changed = false;
    if (packet->kind == SENT_PROBE && packet->size <= DATAGRAM_MIN)
        changed = mtu_canary_arrived(&lane->mtu, number, lane->now_ns);
    else if (packet->kind == SENT_PROBE)
        changed = mtu_probe_arrived(&lane->mtu, packet->size);
    else if (packet->kind == SENT_DATA)
        changed = mtu_data_arrived(&lane->mtu, packet->size, number);
    if (changed)
        lane_size_changed(lane);
}

static void note_place_in_train(struct lane *lane, const struct sent_packet *packet, bool lost)
{
    if (packet->kind == SENT_DATA)
        train_length_settled(&lane->train_length, &lane->rtt, packet->flags & SENT_LATE, lost,
                             lane->now_ns);
}

static void count_delivery(struct lane *lane, const struct sent_packet *packet, bool acked)
{
    struct lane_delivery *count = &lane->delivery;
    ++*(acked ? &count->acked : &count->lost);
    if (packet->trial == TRAIN_TRIED_WHOLE)
        ++*(acked ? &count->whole_acked : &count->whole_lost);
    if (packet->trial == TRAIN_TRIED_CUT)
        ++*(acked ? &count->cut_acked : &count->cut_lost);
}

static void settle_acked(struct lane *lane, struct sent_packet *packet, uint64_t number)
{
    bool was_lost = packet->state == SENT_LOST;
    if (!was_lost && packet->state != SENT_IN_FLIGHT)
        return;
    sent_log_settle(&lane->log, packet, SENT_ACKED);
    lane->counters.packets_acked++;
    if (packet->kind == SENT_DATA)
        count_delivery(lane, packet, true);
    if (packet->kind == SENT_PROBE)
        trial_packet_answered(lane, number);
    report_settled(lane, packet, true);
    note_size_arrived(lane, packet, number);
    if (was_lost) {
        lane->counters.spurious++;
        return;
    }
    note_place_in_train(lane, packet, false);
    count_delivered(lane, packet);
}

static void settle_lost(struct lane *lane, struct sent_packet *packet, uint64_t number)
{
    sent_log_settle(&lane->log, packet, SENT_LOST);
    note_place_in_train(lane, packet, true);
    if (packet->kind == SENT_DATA) {
        lane->counters.packets_lost++;
        count_delivery(lane, packet, false);
        mtu_data_lost(&lane->mtu, packet->size, number, lane->now_ns);
    }
    count_lost(lane, packet, number);
    report_settled(lane, packet, false);
}

/* ---- missing packets ---- */

/* Room for what one packet can tell; without it the packet is left for a later ack. */
static bool has_room(const struct lane *lane)
{
    return ring_has_room(lane->up, 8 * sizeof(struct event_piece));
}

/* A packet came that others had overtaken: by how much the path mixes them up is seen from those
 * that still come in time, before one is taken for lost. */
static void note_late(struct lane *lane, uint64_t late_ns)
{
    if (lane->now_ns - lane->late_since_ns > LATE_RTTS * lane->rtt.smoothed_ns) {
        lane->late_before_ns = lane->late_ns;
        lane->late_ns = 0;
        lane->late_since_ns = lane->now_ns;
    }
    if (late_ns > lane->late_ns)
        lane->late_ns = late_ns;
}

uint64_t lane_reorder_ns(const struct lane *lane)
{
    uint64_t base = lane->rtt.min_ns / 8 > NS_PER_MS ? lane->rtt.min_ns / 8 : NS_PER_MS;
    uint64_t late = lane->late_ns > lane->late_before_ns ? lane->late_ns : lane->late_before_ns;
    if (late == 0 || lane->now_ns - lane->late_since_ns > 2 * LATE_RTTS * lane->rtt.smoothed_ns)
        return base;
    /* Later ones may still be on their way, and acks are late as well. */
    uint64_t wait = 2 * late + rtt_ack_interval(lane->rtt.smoothed_ns) + lane->rtt.variation_ns;
    uint64_t most = rtt_probe_timeout(&lane->rtt);
    most = most > LATE_MOST_NS ? most : LATE_MOST_NS;
    wait = wait < most ? wait : most;
    return wait > base ? wait : base;
}

static struct missing_waits waits_of(const struct lane *lane)
{
    uint64_t wait = lane_reorder_ns(lane), timeout = rtt_probe_timeout(&lane->rtt);
    uint64_t longer = lane->rtt.smoothed_ns / 4;
    struct missing_waits waits = {.usual_ns = wait,
                                  .near_ns = 2 * wait > longer ? 2 * wait : longer,
                                  .unsure_ns = wait > timeout ? wait : timeout};
    if (lane->largest_acked >= REORDER_PACKETS)
        waits.far_below = lane->largest_acked - REORDER_PACKETS + 1;
    return waits;
}

void lane_detect_losses(struct lane *lane)
{
    struct missing_waits waits = waits_of(lane);
    struct missing_packet *missing;
    size_t at = 0;
    lane->loss_deadline_ns = TIME_NEVER;
    while ((missing = missing_list_due(&lane->missing, &at, &waits, lane->now_ns,
                                       &lane->loss_deadline_ns)) != NULL) {
        struct sent_packet *packet = sent_log_find(&lane->log, missing->number);
        if (packet == NULL || packet->state != SENT_IN_FLIGHT) {
            missing->state = MISSING_OVER;
            continue;
        }
        if (!has_room(lane)) {
            lane->loss_deadline_ns = lane->now_ns;
            break;
        }
        settle_lost(lane, packet, missing->number);
        missing->state = MISSING_LOST;
    }
    uint64_t kept_ns = 2 * (lane->rtt.smoothed_ns + waits.usual_ns) + 20 * NS_PER_MS;
    if (lane->now_ns > kept_ns)
        missing_list_forget(&lane->missing, lane->now_ns - kept_ns);
    lane_flush_pieces(lane);
}

/* ---- acks ---- */

static bool bit_of(const struct ack_frame *ack, uint64_t number)
{
    if (number == ack->largest)
        return true;
    uint64_t bit = ack->largest - 1 - number;
    return bit / 8 < ack->bitmap_size && (ack->bitmap[bit / 8] >> (bit % 8) & 1);
}

/* The lowest number that the bitmap tells of. */
static uint64_t bitmap_floor(const struct ack_frame *ack)
{
    uint64_t bits = 8 * (uint64_t)ack->bitmap_size;
    return ack->largest > bits ? ack->largest - bits : 0;
}

static void settle_new_range(struct lane *lane, const struct ack_frame *ack)
{
    uint64_t floor = bitmap_floor(ack);
    uint64_t number = lane->covered_next;
    for (; number <= ack->largest && has_room(lane); number++) {
        struct sent_packet *packet = sent_log_find(&lane->log, number);
        if (packet == NULL || packet->state != SENT_IN_FLIGHT)
            continue;
        bool arrived = number >= floor && bit_of(ack, number);
        if (arrived)
            settle_acked(lane, packet, number);
        else if (!missing_list_add(&lane->missing, number, number < floor, lane->now_ns))
            break;
    }
    lane->covered_next = number;
}

static void settle_missing(struct lane *lane, const struct ack_frame *ack)
{
    uint64_t floor = bitmap_floor(ack);
    bool later = ack->receive_time_us >= lane->ack_point.clock_us; /* acks may come mixed up, too */
    struct missing_list *list = &lane->missing;
    for (size_t i = missing_list_find(list, floor); i < list->end && has_room(lane); i++) {
        struct missing_packet *missing = &list->packets[i];
        list->looked++;
        if (missing->number > ack->largest)
            break;
        if (!bit_of(ack, missing->number)) {
            missing->confirmed = missing->confirmed || later;
            continue;
        }
        if (missing->state == MISSING_OVER)
            continue;
        missing->state = MISSING_OVER;
        struct sent_packet *packet = sent_log_find(&lane->log, missing->number);
        if (packet == NULL || packet->state == SENT_ACKED)
            continue;
        if (!missing->unknown)
            note_late(lane, lane->now_ns - missing->since_ns);
        settle_acked(lane, packet, missing->number);
    }
}

static void take_rtt_sample(struct lane *lane, const struct ack_frame *ack)
{
    const struct sent_packet *packet = sent_log_find(&lane->log, ack->largest);
    if (packet == NULL || packet->state != SENT_IN_FLIGHT || packet->kind == SENT_PROBE)
        return;
    uint64_t sample = lane->arrived_ns > packet->sent_ns ? lane->arrived_ns - packet->sent_ns : 0;
    uint64_t delay = (uint64_t)ack->delay_us * NS_PER_US;
    sample = sample > delay ? sample - delay : 1;
    rtt_sample(&lane->rtt, sample);
    train_length_sample(&lane->train_length, &lane->rtt, sample);
    struct event_rtt event = {
        .kind = EVENT_RTT, .sample_ns = sample, .smoothed_ns = lane->rtt.smoothed_ns};
    lane_report(lane, &event, sizeof(event));
}

static void take_credit(struct lane *lane, const struct ack_frame *ack)
{
    lane->counters.peer_socket_drops = ack->socket_drops;
    if (ack->credit <= lane->peer_credit)
        return;
    struct event_state event = {.kind = EVENT_STATE, .credit = ack->credit};
    if (lane_report(lane, &event, sizeof(event)))
        lane->peer_credit = ack->credit;
    lane->asks = 0;
}

void lane_on_ack(struct lane *lane, const struct ack_frame *ack)
{
    if (ack->largest >= lane->log.next) {
        lane_break(lane, "the peer acknowledged a packet that was never sent");
        return;
    }
    take_credit(lane, ack);
    uint64_t fresh = ack->largest >= lane->covered_next ? ack->largest + 1 - lane->covered_next : 0;
    if (fresh > 0) {
        take_rtt_sample(lane, ack);
        note_receiver_clock(lane, ack->largest, ack->receive_time_us);
    }
    settle_missing(lane, ack);
    if (fresh > 0) {
        if (ack->largest > lane->largest_acked)
            lane->largest_acked = ack->largest;
        settle_new_range(lane, ack);
        bool silent = lane->probe_timeouts >= SILENT_TIMEOUTS || lane->parked;
        if (silent && lane->kind == LANE_DATAGRAM && !lane->trial.on) {
            struct event_block event = {.kind = EVENT_ALIVE};
            lane->parked = !lane_report(lane, &event, sizeof(event)) && lane->parked;
        }
        lane->probe_timeouts = 0;
        lane->answered_ns = lane->now_ns;
        trial_conclude(lane);
    }
    lane_detect_losses(lane);
}

/* ---- giving up a silent lane ---- */

/* Control that waited for this lane goes another way. Frames went to all lanes, or come again. */
static void give_up_control(struct lane *lane)
{
    size_t size;
    const struct command_bytes *command;
    while (has_room(lane) && (command = ring_peek(lane->outbox, &size)) != NULL) {
        if (command->kind == COMMAND_CONTROL) {
            struct event_piece piece = {
                .kind = EVENT_CONTROL_LOST, .offset = command->offset, .length = command->length};
            lane_report_piece(lane, &piece);
        }
        ring_release(lane->outbox);
    }
}

bool lane_give_up(struct lane *lane)
{
    const size_t room = 4 * sizeof(struct event_piece);
    lane->parked = true;
    give_up_control(lane);
    while (lane->span_count > 0 && ring_has_room(lane->up, room)) {
        const struct command_span *span = &lane->spans[lane->span_head];
        struct event_piece piece = {.kind = EVENT_LOST,
                                    .flags = span->flags,
                                    .length = span->length - lane->span_offset,
                                    .block = span->block,
                                    .offset32 = span->offset + lane->span_offset};
        lane_report_piece(lane, &piece);
        lane->consumed_bytes += piece.length;
        lane_finish_span(lane, span);
    }
    struct sent_packet *packet;
    while (lane->span_count == 0 && (packet = sent_log_oldest(&lane->log)) != NULL &&
           ring_has_room(lane->up, room))
        settle_lost(lane, packet, lane->log.oldest);
    lane_flush_pieces(lane);
    lane_report_intervals(lane);
    return lane->span_count == 0 && lane->log.in_flight_packets == 0 && ring_is_empty(lane->outbox);
}

/* ---- the probe timer ---- */

/* When a lane with nothing in flight says something after all. A client that only receives, behind
 * a NAT that gave it another port or with another address, would else never be found again: what
 * is sent to it goes astray, and it has nothing to answer. */
static uint64_t keepalive_deadline(const struct lane *lane)
{
    if (!lane->client || lane->probes_mtu || !lane->joined)
        return lane->last_sent_ns + KEEPALIVE_NS;
    uint64_t heard_ns = lane->counters.last_heard_ns, sent_ns = lane->last_sent_ns;
    bool asked = sent_ns >= heard_ns + LISTEN_NS;
    return (asked ? sent_ns : heard_ns) + LISTEN_NS;
}

/* Nobody knows that the last packets are missing before a later number arrives. When there is
 * nothing more to send, tiny ones follow soon, so that the last data are missed as early as any. */
static uint64_t tail_deadline(const struct lane *lane)
{
    if (lane->span_count > 0 || lane->log.in_flight_packets == 0 || lane->parked ||
        lane->last_data_ns <= lane->tail_probe_ns)
        return TIME_NEVER;
    uint64_t wait = lane->rtt.smoothed_ns / 8;
    uint64_t due = lane->last_data_ns + (wait > TAIL_LEAST_NS ? wait : TAIL_LEAST_NS);
    uint64_t next = lane->tail_probe_ns + lane->rtt.smoothed_ns; /* an idle source is no tail */
    return due > next ? due : next;
}

uint64_t lane_probe_deadline(const struct lane *lane)
{
    if (lane->kind == LANE_STREAM)
        return lane->last_sent_ns + KEEPALIVE_NS;
    if (lane->trial.on)
        return trial_deadline(lane);
    bool idle = lane->log.in_flight_packets == 0 && !lane->parked;
    if (idle && !lane->tuning.blocked)
        return keepalive_deadline(lane);
    unsigned backoff = idle ? lane->asks : lane->probe_timeouts;
    if (backoff > PROBE_BACKOFF_MAX)
        backoff = PROBE_BACKOFF_MAX;
    uint64_t timeout = rtt_probe_timeout(&lane->rtt);
    uint64_t longest = 2 * timeout > PROBE_PERIOD_MAX ? 2 * timeout : PROBE_PERIOD_MAX;
    uint64_t wait = timeout << backoff;
    uint64_t due = lane->last_eliciting_ns + (wait < longest ? wait : longest);
    uint64_t tail = tail_deadline(lane);
    return due < tail ? due : tail;
}

static void doubt(struct lane *lane, const struct sent_packet *packet)
{
    if (packet == NULL || packet->state != SENT_IN_FLIGHT || packet->kind == SENT_PROBE)
        return;
    if (packet->kind == SENT_CONTROL) {
        report_settled(lane, packet, false); /* the control stream may be sent again freely */
        return;
    }
    if (packet->kind != SENT_DATA)
        return;
    struct event_piece piece = {.kind = EVENT_DOUBT,
                                .flags = packet->flags,
                                .length = packet->length,
                                .block = (uint32_t)(packet->place >> 20),
                                .offset32 = (uint32_t)(packet->place & (BLOCK_SIZE - 1))};
    lane_report_piece(lane, &piece);
}

/* Two packets ask for news: the next acks, not this timer, decide what was lost. */
void lane_on_probe_timeout(struct lane *lane)
{
    if (lane->trial.on) {
        trial_on_timer(lane);
        return;
    }
    if ((lane->log.in_flight_packets == 0 && !lane->parked) || lane->kind == LANE_STREAM) {
        lane->pings_due = 1; /* keepalive, or asking for credit: the less often, the longer */
        lane->asks += lane->tuning.blocked;
        return;
    }
    if (tail_deadline(lane) <= lane->now_ns) {
        lane->tail_probe_ns = lane->now_ns;
        lane->pings_due = REORDER_PACKETS;
        return;
    }
    if (lane->probe_timeouts++ == 0)
        lane->unanswered_ns = lane->last_eliciting_ns;
    lane->pings_due = 2;
    lane->last_eliciting_ns = lane->now_ns;
    if (lane->probe_timeouts <= 2 && ring_has_room(lane->up, 512)) {
        struct sent_packet *oldest = sent_log_oldest(&lane->log);
        struct sent_packet *newest = sent_log_find(&lane->log, lane->log.next - 1);
        doubt(lane, oldest);
        if (newest != oldest)
            doubt(lane, newest);
        lane_flush_pieces(lane);
    }
    if (lane->probe_timeouts % SILENT_TIMEOUTS == 0) {
        struct event_silent event = {.kind = EVENT_SILENT, .since_ns = lane->answered_ns};
        lane_report(lane, &event, sizeof(event));
    }
}
