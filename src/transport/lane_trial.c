/* The trial of a lane that fell silent, or that was never heard, while the stream lane carries on.
 * A path that passes three full packets of three will carry data; small ones would prove less.
 */
#include "transport/lane_internal.h"

#define TRIAL_EVERY_NS (2 * NS_PER_S)

void trial_begin(struct lane *lane)
{
    lane->trial = (struct lane_trial){.on = true, .sent = TRIAL_PACKETS, .next_ns = lane->now_ns};
    for (unsigned i = 0; i < TRIAL_PACKETS; i++)
        lane->trial.numbers[i] = NUMBER_LIMIT; /* of no packet */
    lane->probe_timeouts = 0;
    lane->pings_due = 0;
}

void trial_hurry(struct lane *lane)
{
    lane->trial.next_ns = lane->now_ns;
}

uint64_t trial_deadline(const struct lane *lane)
{
    return lane->path.known && lane->path.proved ? lane->trial.next_ns : TIME_NEVER;
}

static void settle_last_round(struct lane *lane)
{
    for (unsigned i = 0; i < lane->trial.sent; i++) {
        struct sent_packet *packet = sent_log_find(&lane->log, lane->trial.numbers[i]);
        if (packet != NULL && packet->state == SENT_IN_FLIGHT && packet->kind == SENT_PROBE)
            sent_log_settle(&lane->log, packet, SENT_LOST);
    }
}

void trial_on_timer(struct lane *lane)
{
    uint64_t pause_ns = 3 * lane->rtt.smoothed_ns;
    settle_last_round(lane);
    /* As at a probe timeout: whoever owns the socket may think about another port. */
    if (lane->probe_timeouts++ == 0)
        lane->unanswered_ns = lane->now_ns;
    lane->trial.sent = lane->trial.answered = 0;
    lane->trial.next_ns = lane->now_ns + (pause_ns > TRIAL_EVERY_NS ? pause_ns : TRIAL_EVERY_NS);
}

bool trial_packet_due(const struct lane *lane)
{
    return lane->trial.on && lane->trial.sent < TRIAL_PACKETS && lane->path.proved;
}

void trial_packet_sent(struct lane *lane, uint64_t number)
{
    lane->trial.numbers[lane->trial.sent++] = number;
}

void trial_packet_answered(struct lane *lane, uint64_t number)
{
    struct lane_trial *trial = &lane->trial;
    for (unsigned i = 0; trial->on && i < trial->sent; i++)
        trial->answered += trial->numbers[i] == number;
}

void trial_conclude(struct lane *lane)
{
    struct event_block event = {.kind = EVENT_ALIVE};
    if (lane->trial.on && lane->trial.answered == TRIAL_PACKETS &&
        lane_report(lane, &event, sizeof(event)))
        lane->trial.on = lane->parked = false;
}
