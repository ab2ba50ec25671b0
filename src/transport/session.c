#include "transport/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/session_internal.h"

#define IDLE_NS (90 * NS_PER_S)
#define WINDOW_NEWS (CONTROL_WINDOW / 8)

/* ---- making and freeing ---- */

static bool make_lane(struct session *session, unsigned index, uint64_t now_ns, struct error *error)
{
    const struct session_config *config = &session->config;
    bool stream = index == session->stream;
    struct lane_config lane = {
        .kind = stream ? LANE_STREAM : LANE_DATAGRAM,
        .index = stream ? STREAM_LANE : index,
        .client = config->client,
        .provider = aead_best(config->suite),
        .secret = config->secret,
        .own_id = config->own.connection_base + (stream ? 0 : index),
        .peer_id = config->peer.connection_base + (stream ? 0 : index),
        .interface_mtu = config->interface_mtu ? config->interface_mtu : 1500,
        .datagram_max = config->peer.datagram_max,
        .probes_mtu = config->role == ROLE_SENDER,
        .rtt_ns = config->rtt_ns,
        .seed = config->seed + index,
    };
    if (lane.provider == NULL)
        return error_set(error, ERROR_CRYPTO, "no provider for the packets' cipher");
    session->slots[index].lane = lane_new(&lane, now_ns, error);
    return session->slots[index].lane != NULL;
}

static unsigned lane_limit(const struct session_config *config)
{
    unsigned most = config->own.lanes_max < config->peer.lanes_max ? config->own.lanes_max
                                                                   : config->peer.lanes_max;
    if (config->kind == LANE_STREAM)
        return 0;
    return most < 1 ? 1 : most < LANES_MAX ? most : LANES_MAX;
}

struct session *session_new(const struct session_config *config, uint64_t now_ns,
                            struct error *error)
{
    struct session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a session");
        return NULL;
    }
    session->config = *config;
    session->now_ns = session->created_ns = session->rate_stepped_ns = now_ns;
    session->lane_count = session->slot_count = lane_limit(config);
    session->stream = LANE_SLOTS;
    if (config->kind == LANE_STREAM || config->channel)
        session->stream = session->slot_count++;
    session->peer_credit = config->peer.credit;
    session->datagram = config->kind == LANE_STREAM ? STREAM_PACKET_MAX : DATAGRAM_MIN;
    block_map_init(&session->out);
    block_map_init(&session->in);
    bool good = control_stream_init(&session->control);
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory for the control stream");
    for (unsigned i = 0; good && i < session->slot_count; i++)
        good = make_lane(session, i, now_ns, error);
    good = good && rate_start(session, error);
    wipe(session->config.secret, sizeof(session->config.secret));
    if (!good) {
        session_free(session);
        return NULL;
    }
    way_start(session);
    lanes_start(session);
    bool more = config->client && !session->on_stream;
    for (unsigned i = 1; more && i < config->lanes && i < session->lane_count; i++)
        session_open_lane(session, &config->peer_address, LANE_DATAGRAM, now_ns, NULL);
    rate_tune_lanes(session, true);
    return session;
}

void session_free(struct session *session)
{
    if (session == NULL)
        return;
    sender_free(session);
    receiver_free(session);
    for (unsigned i = 0; i < session->slot_count; i++) {
        lane_free(session->slots[i].lane);
        free(session->slots[i].resends.entries);
    }
    rate_controller_free(session->controller);
    control_stream_release(&session->control);
    free(session->events);
    free(session);
}

struct lane *session_lane(struct session *session, unsigned index)
{
    return index < session->slot_count ? session->slots[index].lane : NULL;
}

unsigned session_lane_count(const struct session *session)
{
    return session->slot_count;
}

unsigned session_datagram_lanes(const struct session *session)
{
    return session->lane_count;
}

struct lane *session_stream_lane(struct session *session)
{
    return session->stream < LANE_SLOTS ? session->slots[session->stream].lane : NULL;
}

bool session_open_lane(struct session *session, const struct address *to, enum lane_kind kind,
                       uint64_t now_ns, struct error *error)
{
    if (kind != LANE_DATAGRAM)
        return error_set(error, ERROR_USAGE, "a session has at most one stream lane");
    for (unsigned i = 0; i < session->lane_count; i++) {
        struct lane_slot *slot = &session->slots[i];
        if (slot->active || slot->asked)
            continue;
        struct command_connect connect = {.kind = COMMAND_CONNECT, .proved = true, .address = *to};
        if (!session_command(slot, &connect, sizeof(connect)))
            return error_set(error, ERROR_MEMORY, "lane %u has no room for commands", i);
        slot->asked = true;
        session->now_ns = now_ns;
        return true;
    }
    return error_set(error, ERROR_USAGE, "no more than %u lanes can be used with this peer",
                     session->lane_count);
}

/* ---- events to the user ---- */

void session_push_event(struct session *session, const struct session_event *event)
{
    if (session->event_count == session->event_capacity) {
        size_t capacity = session->event_capacity == 0 ? 64 : session->event_capacity * 2;
        struct session_event *events = malloc(capacity * sizeof(*events));
        if (events == NULL) {
            session->state = STATE_CLOSED;
            error_set(&session->error, ERROR_MEMORY, "no memory for a session's events");
            return;
        }
        for (size_t i = 0; i < session->event_count; i++)
            events[i] = session->events[(session->event_head + i) % session->event_capacity];
        free(session->events);
        session->events = events;
        session->event_head = 0;
        session->event_capacity = capacity;
    }
    session->events[(session->event_head + session->event_count++) % session->event_capacity] =
        *event;
}

bool session_next_event(struct session *session, struct session_event *event)
{
    if (session->event_count == 0)
        return false;
    *event = session->events[session->event_head];
    session->event_head = (session->event_head + 1) % session->event_capacity;
    session->event_count--;
    return true;
}

/* ---- frames on all lanes ---- */

void session_send_frames(struct session *session, const uint8_t *frames, size_t size,
                         unsigned copies)
{
    uint8_t message[sizeof(struct command_bytes) + FRAME_ABORT_TEXT_MAX + 32];
    struct command_bytes command = {.kind = COMMAND_FRAMES, .length = (uint16_t)size};
    memcpy(message, &command, sizeof(command));
    memcpy(message + sizeof(command), frames, size);
    for (unsigned i = 0; i < session->slot_count; i++) {
        for (unsigned copy = 0; session->slots[i].active && copy < copies; copy++)
            session_command(&session->slots[i], message, sizeof(command) + size);
    }
}

void session_ask(struct session *session, uint64_t now_ns)
{
    static const uint8_t ping[] = {FRAME_PING};
    session->now_ns = now_ns;
    if (session->state != STATE_CLOSED)
        session_send_frames(session, ping, sizeof(ping), 1);
}

uint64_t session_probe_timeout(const struct session *session)
{
    uint64_t timeout = session->slots[0].counters.probe_timeout_ns;
    return timeout ? timeout : 3 * session->rtt_ns;
}

/* ---- lanes ---- */

bool session_command(struct lane_slot *slot, const void *command, size_t size)
{
    return ring_put(slot->lane->down, command, size);
}

static void on_joined(struct session *session, struct lane_slot *slot)
{
    slot->parked = slot->tried;
    if (!slot->active) {
        slot->active = true;
        session_command(slot, &session->told_state, sizeof(session->told_state));
        lanes_joined(session);
    }
    rate_tune_lanes(session, true);
}

static void on_state(struct session *session, const struct event_state *event)
{
    if (event->credit > session->peer_credit)
        session->peer_credit = event->credit;
    if (event->has_window)
        control_stream_set_window(&session->control, event->window);
}

static void on_new_path(struct session *session, const struct event_path *event)
{
    if (event->same_host)
        return;
    session->datagram_cap = 0;
    rate_controller_on_new_path(session->controller, session->now_ns);
}

/* A lane that falls takes the others with it: what one finds out at the price of 32 packets the
 * others need not pay again. */
static void on_datagram_size(struct session *session, struct lane_slot *slot,
                             const struct event_size *event)
{
    bool fell = event->datagram < slot->datagram;
    slot->datagram = event->datagram;
    if (fell && (session->datagram_cap == 0 || event->largest < session->datagram_cap))
        session->datagram_cap = event->largest;
    uint16_t largest = DATAGRAM_MIN;
    for (unsigned i = 0; i < session->lane_count; i++) {
        if (session->slots[i].datagram > largest)
            largest = session->slots[i].datagram;
    }
    session->datagram = largest;
    rate_controller_set_datagram(session->controller, largest);
    rate_tune_lanes(session, true);
}

static void on_broken(struct session *session, const struct event_text *event)
{
    char text[256];
    size_t length = event->length < sizeof(text) - 1 ? event->length : sizeof(text) - 1;
    memcpy(text, event + 1, length);
    text[length] = '\0';
    session_fail(session, ERROR_PROTOCOL, text);
}

static void on_control(struct session *session, const struct event_piece *piece)
{
    if (!control_stream_received(&session->control, piece->offset, (const uint8_t *)(piece + 1),
                                 piece->length))
        session_fail(session, ERROR_PROTOCOL, "control bytes came past the window");
}

static void on_event(struct session *session, unsigned index, const void *message)
{
    struct lane_slot *slot = &session->slots[index];
    const struct event_piece *piece = message;
    switch (*(const uint8_t *)message) {
    case EVENT_ACKED:
        sender_on_acked(session, piece);
        break;
    case EVENT_LOST:
        sender_on_lost(session, piece);
        break;
    case EVENT_DOUBT:
        sender_on_doubt(session, piece, index);
        break;
    case EVENT_CONTROL_ACKED:
        control_stream_acked(&session->control, piece->offset, piece->length);
        break;
    case EVENT_CONTROL_LOST:
        control_stream_lost(&session->control, piece->offset, piece->length);
        break;
    case EVENT_PIECE:
        receiver_on_piece(session, index, piece, NULL);
        break;
    case EVENT_ORPHAN:
        receiver_on_piece(session, index, piece, (const uint8_t *)(piece + 1));
        break;
    case EVENT_BLOCK_CLOSED:
        receiver_on_closed(session, message);
        break;
    case EVENT_CONTROL:
        on_control(session, piece);
        break;
    case EVENT_STATE:
        on_state(session, message);
        break;
    case EVENT_ENDING:
        ending_on_frame(session, message);
        break;
    case EVENT_INTERVAL:
        rate_on_interval(session, slot, message);
        break;
    case EVENT_RTT:
        rate_on_rtt(session, slot, message);
        break;
    case EVENT_STATISTICS:
        slot->counters = ((const struct event_statistics *)message)->counters;
        break;
    case EVENT_DATAGRAM_SIZE:
        on_datagram_size(session, slot, message);
        break;
    case EVENT_JOINED:
        on_joined(session, slot);
        break;
    case EVENT_ALIVE:
        way_on_alive(session, index);
        break;
    case EVENT_NEW_PATH:
        on_new_path(session, message);
        break;
    case EVENT_SILENT:
        way_on_silent(session, index, message);
        break;
    case EVENT_BROKEN:
        on_broken(session, message);
        break;
    }
}

static void drain_events(struct session *session)
{
    for (unsigned i = 0; i < session->slot_count; i++) {
        struct ring *up = session->slots[i].lane->up;
        size_t size;
        const void *message;
        while ((message = ring_peek(up, &size)) != NULL) {
            on_event(session, i, message);
            ring_release(up);
        }
    }
    ending_take_done(session);
}

/* ---- the control stream ---- */

unsigned session_best_lane(const struct session *session)
{
    for (unsigned i = 0; i < session->slot_count; i++) {
        if (session_lane_usable(session, i))
            return i;
    }
    return session->on_stream ? session->stream : 0;
}

static void hand_out_control(struct session *session)
{
    uint8_t message[sizeof(struct command_bytes) + CONTROL_PIECE_MAX];
    struct lane_slot *slot = &session->slots[session_best_lane(session)];
    while (ring_has_room(slot->lane->down, sizeof(message))) {
        struct command_bytes command = {.kind = COMMAND_CONTROL};
        size_t size =
            control_stream_next(&session->control, &command.offset, message + sizeof(command));
        if (size == 0)
            return;
        command.length = (uint16_t)size;
        memcpy(message, &command, sizeof(command));
        session_command(slot, message, sizeof(command) + size);
    }
}

size_t session_control_write(struct session *session, const void *bytes, size_t size)
{
    return control_stream_write(&session->control, bytes, size);
}

size_t session_control_read(struct session *session, void *bytes, size_t capacity)
{
    return control_stream_read(&session->control, bytes, capacity);
}

/* ---- the step ---- */

static void tell_state(struct session *session)
{
    struct command_state state = {.kind = COMMAND_STATE,
                                  .credit = session->credit,
                                  .window = control_stream_window(&session->control)};
    bool news = state.credit != session->told_state.credit ||
                state.window >= session->told_state.window + WINDOW_NEWS;
    if (!news)
        return;
    bool told = true;
    for (unsigned i = 0; i < session->slot_count; i++) {
        if (session->slots[i].active || i == 0)
            told = session_command(&session->slots[i], &state, sizeof(state)) && told;
    }
    if (told) /* else all hear it again, when there is room */
        session->told_state = state;
}

static uint64_t last_heard(const struct session *session)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < session->slot_count; i++) {
        if (session->slots[i].counters.last_heard_ns > last)
            last = session->slots[i].counters.last_heard_ns;
    }
    return last > session->created_ns ? last : session->created_ns;
}

static uint64_t idle_limit(const struct session *session)
{
    return session->config.idle_timeout_ns ? session->config.idle_timeout_ns : IDLE_NS;
}

static void check_silence(struct session *session)
{
    uint64_t heard = last_heard(session);
    if (session->now_ns < heard + idle_limit(session))
        return;
    char text[128], time[24];
    snprintf(text, sizeof(text), "nothing was heard from the peer for %s",
             format_time(time, sizeof(time), session->now_ns - heard));
    session_fail(session, ERROR_PEER_LOST, text);
}

void session_step(struct session *session, uint64_t now_ns)
{
    uint64_t before_ns = session->now_ns;
    session->now_ns = now_ns;
    drain_events(session);
    if (session->state == STATE_CLOSED)
        return;
    if (session->config.role == ROLE_SENDER && now_ns > before_ns)
        rate_book_time(session, now_ns - before_ns);
    way_step(session);
    lanes_step(session, now_ns > before_ns ? now_ns - before_ns : 0);
    receiver_open_blocks(session);
    tell_state(session);
    hand_out_control(session);
    sender_release(session);
    sender_hand_out(session);
    rate_step(session);
    ending_repeat_done(session);
    check_silence(session);
}

uint64_t session_deadline(const struct session *session)
{
    for (unsigned i = 0; i < session->slot_count; i++) {
        if (!ring_is_empty(session->slots[i].lane->up))
            return 0;
    }
    if (session->state == STATE_CLOSED)
        return TIME_NEVER;
    uint64_t deadline = last_heard(session) + idle_limit(session);
    if (way_deadline(session) < deadline)
        deadline = way_deadline(session);
    if (session->state == STATE_FINISHING && session->ending_next_ns < deadline)
        deadline = session->ending_next_ns;
    if (session->done.type == FRAME_DONE && session->done_by_ns < deadline)
        deadline = session->done_by_ns;
    if (rate_deadline(session) < deadline)
        deadline = rate_deadline(session);
    if (sender_deadline(session) < deadline)
        deadline = sender_deadline(session);
    return deadline;
}

/* ---- statistics ---- */

void session_statistics(const struct session *session, struct session_statistics *statistics)
{
    memset(statistics, 0, sizeof(*statistics));
    for (unsigned i = 0; i < session->slot_count; i++) {
        const struct lane_slot *slot = &session->slots[i];
        const struct lane_counters *counters = &slot->counters;
        statistics->packets_sent += counters->packets_sent;
        statistics->packets_received += counters->packets_received;
        statistics->packets_lost += counters->packets_lost;
        statistics->packets_acked += counters->packets_acked;
        statistics->duplicates += counters->duplicates;
        statistics->spurious_losses += counters->spurious;
        statistics->bytes_sent += counters->bytes_sent;
        statistics->bytes_received += counters->bytes_received;
        statistics->payload_sent += counters->data_sent;
        statistics->peer_socket_drops += counters->peer_socket_drops;
        statistics->own_socket_drops += counters->own_socket_drops;
        statistics->forged += counters->forged;
        statistics->in_flight_bytes += counters->in_flight_bytes;
        statistics->lanes += slot->active && i < session->lane_count;
        if (statistics->rtt_min_ns == 0 ||
            (counters->rtt_min_ns != 0 && counters->rtt_min_ns < statistics->rtt_min_ns))
            statistics->rtt_min_ns = counters->rtt_min_ns;
    }
    statistics->payload_resent = session->payload_resent;
    statistics->payload_acked = session->payload_acked;
    statistics->payload_received = session->payload_received;
    statistics->on_stream = session->on_stream;
    statistics->way_changes = session->way_changes;
    statistics->rtt_ns = session->rtt_ns;
    statistics->rate_bps = session->decision.pacing_bps;
    if (session->controller != NULL)
        statistics->memory_use = rate_controller_recall(session->controller, &statistics->path);
    statistics->datagram_size = session->datagram;
    statistics->last_heard_ns = last_heard(session);
    memcpy(statistics->limited_ns, session->limited_ns, sizeof(statistics->limited_ns));
}
