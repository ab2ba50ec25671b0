#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "transport/lane_internal.h"

#define RING_UP (1024u * 1024u)
#define RING_DOWN (256u * 1024u)
#define OUTBOX (64u * 1024u)
#define STATISTICS_NS (10 * NS_PER_MS)
#define AMPLIFICATION 3u
#define DEFAULT_RTT_NS (100 * NS_PER_MS)

static bool allocate(struct lane *lane, const struct lane_config *config, struct error *error)
{
    enum packet_direction out = config->client ? CLIENT_TO_SERVER : SERVER_TO_CLIENT;
    enum packet_direction in = config->client ? SERVER_TO_CLIENT : CLIENT_TO_SERVER;
    lane->seal_keys = packet_keys_new(config->provider, config->secret, out, config->index, error);
    lane->open_keys = packet_keys_new(config->provider, config->secret, in, config->index, error);
    if (lane->seal_keys == NULL || lane->open_keys == NULL)
        return false;
    lane->down = ring_new(RING_DOWN);
    lane->up = ring_new(RING_UP);
    lane->outbox = ring_new(OUTBOX);
    if (lane->down == NULL || lane->up == NULL || lane->outbox == NULL ||
        !sent_log_init(&lane->log) || !receive_window_init(&lane->window))
        return error_set(error, ERROR_MEMORY, "no memory for a lane");
    return true;
}

struct lane *lane_new(const struct lane_config *config, uint64_t now_ns, struct error *error)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    if (lane == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a lane");
        return NULL;
    }
    lane->kind = config->kind;
    lane->index = config->index;
    lane->client = config->client;
    lane->probes_mtu = config->probes_mtu && config->kind == LANE_DATAGRAM;
    lane->own_id = config->own_id;
    lane->peer_id = config->peer_id;
    lane->now_ns = now_ns;
    lane->loss_deadline_ns = TIME_NEVER;
    lane->ack_deadline_ns = TIME_NEVER;
    lane->last_lost_number = UINT64_MAX - 1;
    lane->counters.last_heard_ns = now_ns;
    lane->last_sent_ns = now_ns;
    rtt_init(&lane->rtt, config->rtt_ns ? config->rtt_ns : DEFAULT_RTT_NS);
    block_map_init(&lane->open);
    struct random random;
    random_seed(&random, config->seed);
    lane->token_seed = random_next(&random);
    lane->interface_mtu = config->probes_mtu ? config->interface_mtu : 0;
    lane->datagram_max = config->datagram_max;
    lane->path.known = lane->path.proved = config->kind == LANE_STREAM;
    mtu_init_fixed(&lane->mtu, config->kind == LANE_STREAM ? STREAM_PACKET_MAX : DATAGRAM_MIN);
    if (!allocate(lane, config, error)) {
        lane_free(lane);
        return NULL;
    }
    return lane;
}

void lane_free(struct lane *lane)
{
    if (lane == NULL)
        return;
    packet_keys_free(lane->seal_keys);
    packet_keys_free(lane->open_keys);
    ring_free(lane->down);
    ring_free(lane->up);
    ring_free(lane->outbox);
    sent_log_release(&lane->log);
    receive_window_release(&lane->window);
    block_map_release(&lane->open);
    missing_list_release(&lane->missing);
    free(lane);
}

void lane_connect(struct lane *lane, const struct address *address, bool proved)
{
    lane->path = (struct lane_path){.address = *address, .known = true, .proved = proved};
    if (lane->kind == LANE_DATAGRAM)
        mtu_init(&lane->mtu, address->family == 6, lane->interface_mtu, lane->datagram_max,
                 lane->now_ns);
    if (lane->client && lane->index > 0)
        lane->pings_due = 1;
    trial_hurry(lane);
}

unsigned lane_index(const struct lane *lane)
{
    return lane->index;
}

enum lane_kind lane_kind(const struct lane *lane)
{
    return lane->kind;
}

const struct lane_delivery *lane_delivery(const struct lane *lane)
{
    return &lane->delivery;
}

uint64_t lane_unanswered_since(const struct lane *lane)
{
    return lane->probe_timeouts >= 2 ? lane->unanswered_ns : 0;
}

uint64_t lane_patience(const struct lane *lane)
{
    uint64_t rtt_ns = lane->rtt.measured ? lane->rtt.min_ns : 0;
    if (lane->peer_rtt_ns != 0)
        rtt_ns = lane->peer_rtt_ns;
    uint64_t patience_ns = rtt_ns / 8;
    if (!lane->joined)
        return TIME_NEVER;
    return patience_ns > NS_PER_MS ? NS_PER_MS : patience_ns;
}

bool lane_has_commands(const struct lane *lane)
{
    return !ring_is_empty(lane->down);
}

bool lane_has_events(const struct lane *lane)
{
    return !ring_is_empty(lane->up);
}

bool lane_peek_connection_id(const uint8_t *bytes, size_t size, uint32_t *id)
{
    struct packet_header header;
    if (!packet_header_decode(&header, bytes, size))
        return false;
    *id = header.connection_id;
    return true;
}

void lane_note_socket_drops(struct lane *lane, uint32_t total)
{
    lane->counters.own_socket_drops = total;
}

/* ---- events up ---- */

bool lane_report(struct lane *lane, const void *event, size_t size)
{
    return ring_put(lane->up, event, size);
}

bool lane_report_with(struct lane *lane, const void *event, size_t size, const void *bytes,
                      size_t length)
{
    uint8_t *space = ring_reserve(lane->up, size + length);
    if (space == NULL)
        return false;
    memcpy(space, event, size);
    memcpy(space + size, bytes, length);
    ring_commit(lane->up, size + length);
    return true;
}

void lane_flush_pieces(struct lane *lane)
{
    if (lane->pending.kind == 0)
        return;
    lane_report(lane, &lane->pending, sizeof(lane->pending));
    lane->pending.kind = 0;
}

void lane_report_piece(struct lane *lane, const struct event_piece *piece)
{
    struct event_piece *last = &lane->pending;
    bool control = piece->kind == EVENT_CONTROL_ACKED || piece->kind == EVENT_CONTROL_LOST;
    uint8_t flags = piece->flags & (uint8_t)~SPAN_END;
    if (last->kind == piece->kind && !(last->flags & SPAN_END) && last->flags == flags &&
        last->block == piece->block &&
        (control ? last->offset + last->length == piece->offset
                 : last->offset32 + last->length == piece->offset32)) {
        last->length += piece->length;
        last->flags = piece->flags;
        return;
    }
    lane_flush_pieces(lane);
    *last = *piece;
}

void lane_break(struct lane *lane, const char *text)
{
    if (lane->broken)
        return;
    lane->broken = true;
    size_t length = strlen(text);
    struct event_text event = {
        .kind = EVENT_BROKEN, .error_kind = ERROR_PROTOCOL, .length = (uint16_t)length};
    lane_flush_pieces(lane);
    lane_report_with(lane, &event, sizeof(event), text, length);
}

/* Now and then, and at once when all that was sent may have arrived (`heard`: an ack may have
 * come): who learns this should know how much it was. */
void lane_report_statistics(struct lane *lane, bool heard)
{
    bool all_arrived = (heard || lane->log.in_flight_data == 0) &&
                       lane->counters.data_sent != lane->told_data_sent;
    if (!all_arrived && lane->now_ns < lane->statistics_ns)
        return;
    lane->statistics_ns = lane->now_ns + STATISTICS_NS;
    lane->told_data_sent = lane->counters.data_sent;
    lane->counters.rtt_ns = lane->rtt.measured ? lane->rtt.smoothed_ns : 0;
    lane->counters.rtt_min_ns = lane->rtt.measured ? lane->rtt.min_ns : 0;
    lane->counters.probe_timeout_ns = rtt_probe_timeout(&lane->rtt);
    lane->counters.reorder_ns = lane_reorder_ns(lane);
    lane->counters.in_flight_bytes = lane->log.in_flight_bytes;
    struct event_statistics event = {.kind = EVENT_STATISTICS, .counters = lane->counters};
    lane_report(lane, &event, sizeof(event));
}

/* ---- commands down ---- */

static void close_block(struct lane *lane, uint32_t block)
{
    struct event_block event = {.kind = EVENT_BLOCK_CLOSED, .block = block};
    event.buffer = block_map_take(&lane->open, block);
    lane_flush_pieces(lane);
    if (event.buffer != NULL)
        lane_report(lane, &event, sizeof(event));
}

static void place(struct lane *lane, const struct command_bytes *command, const uint8_t *bytes)
{
    uint8_t *buffer = block_map_find(&lane->open, command->block);
    if (buffer == NULL)
        return;
    memcpy(buffer + command->offset32, bytes, command->length);
    struct event_piece piece = {.kind = EVENT_PIECE,
                                .flags = command->flags,
                                .block = command->block,
                                .offset32 = command->offset32,
                                .length = command->length};
    lane_report_piece(lane, &piece);
}

static void take_state(struct lane *lane, const struct command_state *state)
{
    if (state->credit == lane->credit && state->window == lane->control_window)
        return;
    lane->credit = state->credit;
    lane->control_window = state->window;
    /* On trial nobody looks at this lane for news. */
    if (lane->window.any && !lane->trial.on) {
        uint64_t soon = lane->now_ns + rtt_ack_interval(lane->peer_rtt_ns);
        if (soon < lane->ack_deadline_ns)
            lane->ack_deadline_ns = soon;
        lane->ack_repeats = lane->kind == LANE_STREAM ? 0 : 2;
    }
}

static void take_tuning(struct lane *lane, const struct command_tuning *tuning)
{
    if (tuning->interval != lane->tuning.interval)
        lane_interval_begin(lane, tuning->interval);
    lane->tuning = *tuning;
    if (!tuning->blocked)
        lane->asks = 0;
    if (tuning->datagram != 0 && mtu_cap(&lane->mtu, tuning->datagram, lane->now_ns))
        lane_size_changed(lane);
    pacer_set_rate(&lane->pacer, tuning->pacing_bps, tuning->whole_bps);
}

/* Carries out one command; false when it must wait, and with it all behind it. */
static bool obey(struct lane *lane, const void *message, size_t size)
{
    uint8_t kind = *(const uint8_t *)message;
    switch (kind) {
    case COMMAND_SPAN:
        lane->parked = false;
        if (lane->span_count == LANE_SPANS)
            return false;
        lane->spans[(lane->span_head + lane->span_count++) % LANE_SPANS] =
            *(const struct command_span *)message;
        return true;
    case COMMAND_CONTROL:
    case COMMAND_FRAMES:
        lane->outbox_full = !ring_put(lane->outbox, message, size);
        return !lane->outbox_full;
    case COMMAND_TUNING:
        take_tuning(lane, message);
        return true;
    case COMMAND_STATE:
        take_state(lane, message);
        return true;
    case COMMAND_BLOCK_OPEN: {
        const struct command_block *open = message;
        return block_map_set(&lane->open, open->block, open->buffer);
    }
    case COMMAND_BLOCK_CLOSE:
        if (!ring_has_room(lane->up, 4 * sizeof(struct event_piece)))
            return false;
        close_block(lane, ((const struct command_block *)message)->block);
        return true;
    case COMMAND_BLOCK_PLACE: {
        if (!ring_has_room(lane->up, 4 * sizeof(struct event_piece)))
            return false;
        const struct command_bytes *command = message;
        place(lane, command, (const uint8_t *)(command + 1));
        return true;
    }
    case COMMAND_PARK:
        if (!lane_give_up(lane))
            return false;
        if (((const struct command_park *)message)->trial)
            trial_begin(lane);
        return true;
    case COMMAND_CONNECT: {
        const struct command_connect *connect = message;
        lane_connect(lane, &connect->address, connect->proved);
        return true;
    }
    }
    return true;
}

void lane_drain_commands(struct lane *lane)
{
    size_t size;
    const void *message;
    bool any = false;
    while ((message = ring_peek(lane->down, &size)) != NULL && obey(lane, message, size)) {
        ring_release(lane->down);
        any = true;
    }
    if (any)
        lane_flush_pieces(lane);
}

/* ---- timers ---- */

void lane_flight(const struct lane *lane, uint64_t *bytes, uint64_t *cap_bytes)
{
    *bytes = lane->log.in_flight_bytes;
    *cap_bytes = lane->tuning.in_flight_bytes;
}

bool lane_may_amplify(const struct lane_path *path, size_t bytes)
{
    return path->proved || path->sent_bytes + bytes <= AMPLIFICATION * path->received_bytes;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t lane_deadline(const struct lane *lane)
{
    /* With the outbox full, commands wait for a packet to leave, which has a time of its own. */
    if (!ring_is_empty(lane->down) && !lane->outbox_full)
        return 0;
    if (lane->broken || (lane->kind == LANE_DATAGRAM && !lane->path.known))
        return TIME_NEVER;
    if (lane->challenge_due)
        return 0;
    if (!lane_may_amplify(&lane->path, DATAGRAM_MIN))
        return TIME_NEVER;
    if (!ring_is_empty(lane->outbox) || lane->pings_due > 0 || lane->response_due)
        return 0;
    uint64_t deadline = earlier(lane->ack_deadline_ns, lane_data_deadline(lane));
    deadline = earlier(deadline, lane_probe_deadline(lane));
    deadline = earlier(deadline, lane->loss_deadline_ns);
    if (lane->probes_mtu && lane->path.proved && lane->joined)
        deadline = earlier(deadline, mtu_deadline(&lane->mtu));
    return deadline;
}
