/* Which way a session's blocks and control go: by its datagram lanes or by the stream lane beside
 * them. Each end decides for what it sends; both can be heard on either way at any time.
 */
#include "transport/session_internal.h"

#define SILENCE_NS (3 * NS_PER_S)

static bool has_stream(const struct session *session)
{
    return session->stream < LANE_SLOTS && session->slots[session->stream].active;
}

bool session_lane_usable(const struct session *session, unsigned index)
{
    const struct lane_slot *slot = &session->slots[index];
    return slot->active && !slot->parked && !slot->resting &&
           (index == session->stream) == session->on_stream;
}

bool session_is_on_stream(const struct session *session)
{
    return session->on_stream;
}

void way_start(struct session *session)
{
    const struct session_config *config = &session->config;
    session->on_stream = session->lane_count == 0 || (config->channel && config->starts_on_channel);
    if (session->stream < LANE_SLOTS)
        session->slots[session->stream].active = true;
    if (session->on_stream)
        return;
    session->slots[0].active = true;
    lane_connect(session->slots[0].lane, &config->peer_address, true);
}

/* ---- to the stream ---- */

/* Every datagram lane has to pass a trial before it is used again, also one that nobody has opened
 * yet. A lane whose ring is full is told at the next step. */
static void park_datagrams(struct session *session)
{
    struct command_park park = {.kind = COMMAND_PARK, .trial = true};
    for (unsigned i = 0; i < session->lane_count; i++) {
        struct lane_slot *slot = &session->slots[i];
        if (slot->tried || !session_command(slot, &park, sizeof(park)))
            continue;
        slot->tried = slot->parked = true;
        slot->silent = false;
        sender_move_work(session, i);
    }
}

/* Since when no datagram lane has been answered; TIME_NEVER while one is. */
static uint64_t all_silent_since(const struct session *session)
{
    uint64_t since_ns = 0;
    for (unsigned i = 0; i < session->lane_count; i++) {
        const struct lane_slot *slot = &session->slots[i];
        if (!slot->active)
            continue;
        if (!slot->silent)
            return TIME_NEVER;
        if (slot->silent_since_ns > since_ns)
            since_ns = slot->silent_since_ns;
    }
    return since_ns == 0 ? TIME_NEVER : since_ns;
}

uint64_t way_deadline(const struct session *session)
{
    if (session->on_stream || !has_stream(session))
        return TIME_NEVER;
    uint64_t since_ns = all_silent_since(session);
    return since_ns == TIME_NEVER ? TIME_NEVER : since_ns + SILENCE_NS;
}

/* The peer speaks on the stream, and has been silent by datagrams for as long as it takes to be
 * given up: then ours do not arrive either, as far as anybody can tell, and an end that has had
 * nothing to say learns it at once. */
static bool peer_went_over(const struct session *session)
{
    uint64_t newest_ns = 0;
    if (session->on_stream || !has_stream(session))
        return false;
    for (unsigned i = 0; i < session->lane_count; i++) {
        const struct lane_slot *slot = &session->slots[i];
        if (slot->active && slot->counters.last_heard_ns > newest_ns)
            newest_ns = slot->counters.last_heard_ns;
    }
    return session->slots[session->stream].counters.last_heard_ns > newest_ns + SILENCE_NS;
}

static void recall_stream(struct session *session)
{
    struct command_park park = {.kind = COMMAND_PARK};
    if (session->stream_recall &&
        session_command(&session->slots[session->stream], &park, sizeof(park)))
        session->stream_recall = false;
}

void way_step(struct session *session)
{
    recall_stream(session);
    if (session->now_ns >= way_deadline(session) || peer_went_over(session)) {
        session->on_stream = true;
        session->way_changes++;
        session->stream_recall = false;
        rate_tune_lanes(session, true);
    }
    if (session->on_stream)
        park_datagrams(session);
}

/* ---- to the datagram lanes, and among them ---- */

static bool others_alive(const struct session *session, unsigned index)
{
    for (unsigned i = 0; i < session->lane_count; i++) {
        if (i != index && session_lane_usable(session, i) && !session->slots[i].silent)
            return true;
    }
    return false;
}

void way_on_silent(struct session *session, unsigned index, const struct event_silent *event)
{
    struct lane_slot *slot = &session->slots[index];
    struct command_park park = {.kind = COMMAND_PARK};
    if (!slot->silent) {
        slot->silent = true;
        slot->silent_since_ns = event->since_ns;
    }
    if (!slot->active || slot->parked || !others_alive(session, index) ||
        !session_command(slot, &park, sizeof(park)))
        return;
    slot->parked = true;
    sender_move_work(session, index);
    rate_tune_lanes(session, true);
}

void way_on_alive(struct session *session, unsigned index)
{
    struct lane_slot *slot = &session->slots[index];
    slot->silent = slot->tried = slot->parked = false;
    /* It was answered just now; its counts may come later than this, and until then the peer's
     * talk on the stream would look as if it had been silent here. */
    if (slot->counters.last_heard_ns < session->now_ns)
        slot->counters.last_heard_ns = session->now_ns;
    if (session->on_stream && index < session->lane_count) {
        session->on_stream = false;
        session->way_changes++;
        /* What is under way on the stream may take long to arrive, if the path was gone. */
        session->stream_recall = true;
        recall_stream(session);
        sender_move_work(session, session->stream);
        rate_controller_on_new_path(session->controller, session->now_ns);
    }
    rate_tune_lanes(session, true);
}
