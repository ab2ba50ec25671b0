/* One rate for the whole session: measurement intervals for the controller, shares for lanes. */
#include <string.h>

#include "transport/session_internal.h"

#define FIRST_RTT_NS (100 * NS_PER_MS)
#define RTTS_LONGEST 6u
#define SILENCE_LEAST_NS (70 * NS_PER_MS) /* and two RTTs: acks are at most 10 ms apart */
#define STARVED_SHARE 20u                 /* app-limited from a twentieth of the interval on */
#define UNUSED_PERCENT 85u /* or when less than this share of what pacing allowed was sent */

static struct interval_record *record_of(struct session *session, uint32_t id)
{
    return &session->intervals[id % SESSION_INTERVALS];
}

static void begin_interval(struct session *session)
{
    uint32_t id = ++session->interval_now;
    struct interval_record *record = record_of(session, id);
    memset(record, 0, sizeof(*record));
    record->sum.id = id;
    record->sum.start_ns = session->now_ns;
    rate_controller_begin_interval(session->controller, id, session->now_ns);
    rate_controller_decide(session->controller, &session->decision);
    rate_tune_lanes(session, true);
}

bool rate_start(struct session *session, struct error *error)
{
    session->rtt_ns = session->config.rtt_ns ? session->config.rtt_ns : FIRST_RTT_NS;
    struct rate_config config = {.rtt_ns = session->rtt_ns,
                                 .datagram_bytes = session->datagram,
                                 .limit_bps = session->config.limit_bps,
                                 .fixed_bps = session->config.fixed_bps,
                                 .policy = session->config.policy,
                                 .seed = session->config.seed};
    if (session->config.rtt_ns != 0) /* a guess cannot tell whether it is the same path */
        config.remembered = session->config.remembered;
    session->controller = rate_controller_new(&config, session->now_ns);
    if (session->controller == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for the rate controller");
    session->interval_first = 1;
    session->rate_heard_ns = session->now_ns;
    rate_controller_decide(session->controller, &session->decision);
    begin_interval(session);
    return true;
}

/* ---- shares ---- */

/* A lane without work needs no share: in the tail the last blocks belong to a few lanes, which
 * would else be held to a fraction of the rate while the rest goes unused. */
static bool has_work(const struct lane_slot *slot)
{
    return slot->current != NULL || slot->resends.count > 0 ||
           slot->handed_bytes != slot->consumed_bytes;
}

static unsigned lanes_in_use(const struct session *session)
{
    unsigned alive = 0, working = 0;
    for (unsigned i = 0; i < session->slot_count; i++) {
        const struct lane_slot *slot = &session->slots[i];
        bool usable = session_lane_usable(session, i);
        alive += usable;
        working += usable && has_work(slot);
    }
    if (working > 0 && session->queue_head == NULL)
        return working;
    return alive > 0 ? alive : 1;
}

uint64_t rate_lane_bps(const struct session *session, unsigned lane)
{
    return session->slots[lane].active ? session->decision.pacing_bps / lanes_in_use(session) : 0;
}

static bool is_blocked(const struct session *session)
{
    bool credit = session->queue_head != NULL && session->begun >= session->peer_credit;
    /* A sender with nothing queued and no credit left waits for news of it as well. */
    bool starved = session->config.role == ROLE_SENDER && !session->tail &&
                   session->begun + session->queued >= session->peer_credit;
    /* Everything arrived, DONE is awaited: a NAT may give an idle sender another port meanwhile, of
     * which only a packet from here can tell the receiver. */
    bool waits_for_done = session->tail && session->out.count == 0;
    return session->state == STATE_OPEN &&
           (credit || starved || waits_for_done || control_stream_is_blocked(&session->control));
}

static bool differs(uint64_t a, uint64_t b)
{
    uint64_t more = a > b ? a : b, less = a > b ? b : a;
    return more - less > more / 200;
}

static struct command_tuning tuning_of(const struct session *session, unsigned index,
                                       unsigned count)
{
    const struct session_config *config = &session->config;
    struct command_tuning tuning = {.kind = COMMAND_TUNING, .interval = session->interval_now};
    if (index == session->stream) {
        /* The pipe paces; the controller knows nothing of it, the user's limit holds there too. */
        tuning.pacing_bps = config->fixed_bps ? config->fixed_bps : config->limit_bps;
        tuning.whole_bps = tuning.pacing_bps;
        return tuning;
    }
    tuning.marks = session->decision.mark_interval;
    tuning.datagram = session->datagram_cap;
    tuning.pacing_bps = session->decision.pacing_bps / count;
    tuning.whole_bps = session->decision.pacing_bps;
    tuning.in_flight_bytes = session->decision.inflight_cap_bytes / count;
    return tuning;
}

void rate_tune_lanes(struct session *session, bool all)
{
    unsigned count = lanes_in_use(session);
    bool blocked = is_blocked(session);
    unsigned asking = session_best_lane(session); /* the answer is for all of them */
    for (unsigned i = 0; i < session->slot_count; i++) {
        struct lane_slot *slot = &session->slots[i];
        if (!slot->active)
            continue;
        struct command_tuning tuning = tuning_of(session, i, count);
        tuning.blocked = blocked && i == asking;
        const struct command_tuning *told = &slot->told;
        if (!all && tuning.blocked == told->blocked && tuning.datagram == told->datagram &&
            tuning.interval == told->interval && !differs(tuning.pacing_bps, told->pacing_bps) &&
            !differs(tuning.in_flight_bytes, told->in_flight_bytes))
            continue;
        if (session_command(slot, &tuning, sizeof(tuning)))
            slot->told = tuning;
    }
}

void session_set_limit(struct session *session, uint64_t limit_bps)
{
    if (limit_bps == session->config.limit_bps)
        return;
    session->config.limit_bps = limit_bps;
    rate_controller_set_limit(session->controller, limit_bps);
    rate_controller_decide(session->controller, &session->decision);
    rate_tune_lanes(session, true);
}

static bool is_stream(const struct session *session, const struct lane_slot *slot)
{
    return session->stream < LANE_SLOTS && slot == &session->slots[session->stream];
}

/* ---- what lanes report ---- */

static void add_receiver_clock(struct interval_record *record, const struct event_interval *event)
{
    if (event->receiver_first_us != 0 &&
        (record->receiver_first_us == 0 || event->receiver_first_us < record->receiver_first_us))
        record->receiver_first_us = event->receiver_first_us;
    if (event->receiver_last_us > record->receiver_last_us)
        record->receiver_last_us = event->receiver_last_us;
}

void rate_on_interval(struct session *session, struct lane_slot *slot,
                      const struct event_interval *event)
{
    slot->consumed = event->consumed;
    slot->consumed_bytes = event->consumed_bytes;
    if (is_stream(session, slot) || event->interval < session->interval_first ||
        event->interval > session->interval_now)
        return;
    struct interval_record *record = record_of(session, event->interval);
    record->sum.sent_packets += event->sent_packets;
    record->sum.sent_bytes += event->sent_bytes;
    record->sum.delivered_packets += event->delivered_packets;
    record->sum.delivered_bytes += event->delivered_bytes;
    record->sum.lost_packets += event->lost_packets;
    record->sum.loss_events += event->loss_events;
    add_receiver_clock(record, event);
}

/* After a long silence the intervals still open tell of an outage, and nothing of the rate: those
 * sent near its end are settled as soon as the path is back, all lost. */
static void note_silence(struct session *session)
{
    uint64_t silence = session->now_ns - session->rate_heard_ns;
    session->rate_heard_ns = session->now_ns;
    if (silence <= 2 * session->rtt_ns + SILENCE_LEAST_NS)
        return;
    for (uint32_t id = session->interval_first; id <= session->interval_now; id++)
        record_of(session, id)->sum.outage = true;
}

void rate_on_rtt(struct session *session, const struct lane_slot *slot,
                 const struct event_rtt *event)
{
    if (is_stream(session, slot)) {
        if (session->lane_count == 0)
            session->rtt_ns = event->smoothed_ns;
        return;
    }
    note_silence(session);
    session->rtt_ns = event->smoothed_ns;
    rate_controller_on_rtt(session->controller, event->sample_ns, session->now_ns);
    /* The sample belongs to the packets being acknowledged now: the oldest open interval. */
    struct interval_record *record = record_of(session, session->interval_first);
    if (record->sum.rtt_min_ns == 0 || event->sample_ns < record->sum.rtt_min_ns)
        record->sum.rtt_min_ns = event->sample_ns;
    record->rtt_sum_ns += event->sample_ns;
    record->rtt_count++;
}

/* ---- closing intervals ---- */

static bool is_settled(const struct interval_record *record)
{
    return record->sum.delivered_packets + record->sum.lost_packets >= record->sum.sent_packets;
}

/* What was not sent although it could have been is the processor's fault, not the path's. */
static void book_processor(struct session *session, const struct interval_record *record)
{
    if (record->capped || record->sum.sent_bytes * 100 >= record->owed_bytes * UNUSED_PERCENT)
        return;
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        session->limited_ns[i] -= record->owed_ns[i];
        session->limited_ns[LIMIT_PROCESSOR] += record->owed_ns[i];
    }
}

static void feed(struct session *session, struct interval_record *record)
{
    struct rate_interval *sum = &record->sum;
    sum->settled_ns = session->now_ns;
    sum->rtt_mean_ns = record->rtt_count ? record->rtt_sum_ns / record->rtt_count : 0;
    if (record->receiver_first_us != 0 && record->receiver_last_us > record->receiver_first_us)
        sum->receiver_span_ns = (record->receiver_last_us - record->receiver_first_us) * NS_PER_US;
    /* A processor that cannot keep up with the rate says as little about the path as an idle disk.
     */
    bool unused = sum->sent_bytes * 100 < record->allowed_bytes * UNUSED_PERCENT;
    sum->app_limited = record->starved_ns * STARVED_SHARE > sum->end_ns - sum->start_ns ||
                       (unused && !record->capped);
    book_processor(session, record);
    rate_controller_on_interval(session->controller, sum, session->now_ns);
}

static uint64_t longest_reorder_ns(const struct session *session)
{
    uint64_t longest = 0;
    for (unsigned i = 0; i < session->lane_count; i++)
        if (session->slots[i].counters.reorder_ns > longest)
            longest = session->slots[i].counters.reorder_ns;
    return longest;
}

static void feed_settled(struct session *session)
{
    uint64_t reorder_ns = longest_reorder_ns(session);
    while (session->interval_first < session->interval_now) {
        struct interval_record *record = record_of(session, session->interval_first);
        uint64_t patience = 4 * session->rtt_ns + session_probe_timeout(session) + reorder_ns;
        if (!is_settled(record)) {
            if (session->now_ns < record->sum.end_ns + patience)
                return;
            record->sum.outage = true;
        }
        if (record->sum.sent_packets > 0)
            feed(session, record);
        session->interval_first++;
    }
}

static uint64_t interval_end(const struct session *session, const struct interval_record *record)
{
    uint64_t shortest = record->sum.start_ns + session->decision.interval_ns;
    uint64_t longest = record->sum.start_ns + RTTS_LONGEST * session->rtt_ns;
    if (record->sum.sent_packets >= session->decision.interval_packets || longest < shortest)
        return shortest;
    return longest;
}

static uint64_t allowed_bytes(const struct session *session, uint64_t passed_ns)
{
    return (uint64_t)((double)session->decision.pacing_bps * (double)passed_ns / 8e9);
}

void rate_book_time(struct session *session, uint64_t passed_ns)
{
    struct interval_record *record = record_of(session, session->interval_now);
    session->limited_ns[session->limit] += passed_ns;
    if (session->pieces_wait) {
        record->owed_bytes += allowed_bytes(session, passed_ns);
        record->owed_ns[session->limit] += passed_ns;
    }
}

static void book_use(struct session *session, struct interval_record *record)
{
    uint64_t passed_ns = session->now_ns - session->rate_stepped_ns;
    uint64_t in_flight = 0;
    for (unsigned i = 0; i < session->lane_count; i++)
        in_flight += session->slots[i].counters.in_flight_bytes;
    if (in_flight >= session->decision.inflight_cap_bytes / 8 * 7)
        record->capped = true;
    record->allowed_bytes += allowed_bytes(session, passed_ns);
    bool starved = session->limit == LIMIT_SOURCE || session->limit == LIMIT_CREDIT;
    if (starved && session->now_ns > session->rate_stepped_ns)
        record->starved_ns += session->now_ns - session->rate_stepped_ns;
}

void rate_step(struct session *session)
{
    if (session->config.role != ROLE_SENDER)
        return;
    struct interval_record *record = record_of(session, session->interval_now);
    book_use(session, record);
    session->rate_stepped_ns = session->now_ns;
    feed_settled(session);
    if (record->sum.sent_packets == 0) {
        record->sum.start_ns = session->now_ns;
        record->starved_ns = 0;
        record->allowed_bytes = record->owed_bytes = 0;
        memset(record->owed_ns, 0, sizeof(record->owed_ns));
    } else if (session->now_ns >= interval_end(session, record) &&
               session->interval_now - session->interval_first + 2 < SESSION_INTERVALS) {
        record->sum.end_ns = session->now_ns;
        begin_interval(session);
        return;
    }
    rate_controller_decide(session->controller, &session->decision);
    rate_tune_lanes(session, false);
}

uint64_t rate_deadline(const struct session *session)
{
    if (session->config.role != ROLE_SENDER || session->out.count == 0)
        return TIME_NEVER;
    const struct interval_record *record =
        &session->intervals[session->interval_now % SESSION_INTERVALS];
    if (record->sum.sent_packets == 0)
        return TIME_NEVER;
    uint64_t end = interval_end(session, record);
    return end > session->now_ns ? end : session->now_ns + NS_PER_MS;
}
