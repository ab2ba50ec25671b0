/* How many of a session's datagram lanes are used: the trials of lane_growth.h, fed with what
 * either end can see, and what becomes of lanes that brought nothing.
 *
 * Only a client opens lanes. One that sends knows when the path alone holds it back. One that
 * receives knows that it had room for more; its sender, for whom lanes appear, asks the path for
 * more as soon as they do.
 */
#include "transport/session_internal.h"

void lanes_start(struct session *session)
{
    unsigned most = session->lane_count;
    unsigned from = session->config.grows_from;
    lane_growth_init(&session->growth, from != 0 ? from : most, most);
}

void lanes_joined(struct session *session)
{
    if (session->config.role == ROLE_SENDER)
        rate_controller_on_more_lanes(session->controller, session->now_ns);
}

unsigned session_lanes_worth(const struct session *session)
{
    return session->growth.lanes;
}

static void rest_the_others(struct session *session)
{
    for (unsigned i = 0; i < session->lane_count; i++) {
        struct lane_slot *slot = &session->slots[i];
        bool rests = i >= session->growth.lanes;
        if (rests && slot->active && !slot->resting) {
            slot->resting = true;
            sender_move_work(session, i);
        }
        slot->resting = rests;
    }
    rate_tune_lanes(session, true);
}

unsigned session_use_one_more(struct session *session)
{
    unsigned lanes = session->growth.lanes;
    if (session->config.grows_from != 0 && lanes < session->lane_count) {
        lane_growth_set(&session->growth, lanes + 1);
        rest_the_others(session);
    }
    return session->growth.lanes;
}

static unsigned joined(const struct session *session)
{
    unsigned count = 0;
    for (unsigned i = 0; i < session->lane_count; i++)
        count += session->slots[i].active && !session->slots[i].parked;
    return count;
}

void lanes_step(struct session *session, uint64_t passed_ns)
{
    if (session->config.grows_from == 0 || session->on_stream)
        return;
    bool sends = session->config.role == ROLE_SENDER;
    if (!sends && session->idle_count > 0)
        session->roomy_ns += passed_ns;
    struct lane_growth_view view = {
        .now_ns = session->now_ns,
        .rtt_ns = session->rtt_ns,
        .bytes = sends ? session->payload_acked : session->payload_received,
        .held_ns = sends ? session->limited_ns[LIMIT_PATH] : session->roomy_ns,
        .joined = joined(session),
        .settled = !sends || rate_controller_is_settled(session->controller)};
    if (lane_growth_step(&session->growth, &view))
        rest_the_others(session);
}
