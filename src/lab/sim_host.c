/* See sim_host.h. */
#include "lab/sim_host.h"

#include <string.h>

#include "base/units.h"
#include "lab/sim_world.h"

/* A host that runs this often without virtual time moving is in a loop. */
#define RUNS_AT_INSTANT_MAX 2000u
#define STREAM_FRAME_HEADER 2u
#define STREAM_ROOM_MIN (STREAM_PACKET_MAX + STREAM_FRAME_HEADER)
#define BATCH_MAX 16u
#define TRACE_EVERY_NS (100 * NS_PER_MS)
#define BOTH_WAYS_NS NS_PER_S /* as net/driver_way.c; and three round trips */

static uint64_t own_now(const struct sim_host *host)
{
    return host->world->now_ns + host->config.clock_offset_ns;
}

static uint64_t world_time(const struct sim_host *host, uint64_t own_ns)
{
    if (own_ns == TIME_NEVER) {
        return TIME_NEVER;
    }
    return own_ns > host->config.clock_offset_ns ? own_ns - host->config.clock_offset_ns : 0;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct address lane_address(unsigned host, bool client, unsigned lane)
{
    struct address address = {.family = 4,
                              .bytes = {192, 0, 2, (uint8_t)(10 + host)},
                              .port = (uint16_t)(client ? 40000 + lane : 60001)};
    return address;
}

void sim_host_init(struct sim_host *host, struct sim_world *world, unsigned index,
                   const struct sim_host_config *config, const struct sim_upper *upper)
{
    *host = (struct sim_host){.world = world,
                              .index = index,
                              .config = *config,
                              .upper = *upper,
                              .wake_at_ns = TIME_NEVER,
                              .own_deadline_ns = config->start_ns};
    host->inbox_tail = &host->inbox;
    upper->enter(upper->context, &world->trace, index, &world->now_ns);
    for (unsigned lane = 0; lane < LANES_MAX; lane++) {
        host->addresses[lane] = lane_address(index, config->client, config->client ? lane : 0);
    }
    struct random random;
    random_seed(&random, sim_seed(world->config.seed, 100 + index));
    /* Distinct for each host: the oracle tells them apart by it. */
    host->connection_base = ((uint32_t)random_next(&random) & 0xFFFFF000u) | (uint32_t)(index + 1)
                                                                                 << 4;
}

void sim_host_release(struct sim_host *host)
{
    while (host->inbox != NULL) {
        struct sim_event *event = host->inbox;
        host->inbox = event->next_free;
        sim_queue_give(host->world->queue, event);
    }
    host->inbox_tail = &host->inbox;
    if (host->upper.free != NULL) {
        host->upper.free(host->upper.context);
    }
    session_free(host->session);
    opening_free(host->opening);
}

static bool has_stream(const struct sim_host *host)
{
    return host->config.stream || host->config.channel;
}

static void end(struct sim_host *host)
{
    if (host->ended) {
        return;
    }
    host->ended = true;
    if (has_stream(host)) {
        sim_world_stream_end(host->world, host);
    }
    sim_trace_add(&host->world->trace, host->world->now_ns, SIM_MARK_END, host->index,
                  sim_host_error(host)->kind, host->upper.succeeded(host->upper.context), 0);
}

void sim_host_vanish(struct sim_host *host)
{
    if (has_stream(host) && !host->ended) {
        sim_world_stream_end(host->world, host);
    }
    host->gone = true;
    host->ended = true;
}

/* ---- the opening ---- */

static struct opening_config opening_config_of(const struct sim_host *host)
{
    const struct sim_host_config *config = &host->config;
    const struct sim_host *peer = &host->world->hosts[config->peer];
    struct opening_config opening = {
        .client = config->client,
        .hello = {.version_min = config->version_min ? config->version_min : PROTOCOL_VERSION_MIN,
                  .version_max = config->version_max ? config->version_max : PROTOCOL_VERSION_MAX,
                  .role = (uint8_t)config->role,
                  .lanes_max = config->lanes_max ? config->lanes_max : LANES_MAX,
                  .aes_hardware = !config->no_aes,
                  .connection_base = host->connection_base,
                  .credit = host->upper.initial_credit,
                  .datagram_max = config->datagram_max ? config->datagram_max : DATAGRAM_MAX},
        .rtt_ns = config->rtt_ns,
        .timeout_ns = config->open_timeout_ns ? config->open_timeout_ns : 20 * NS_PER_S,
        .stream = config->stream,
        .channel = config->channel};
    memcpy(opening.secret, host->world->secret, sizeof(opening.secret));
    opening.secret[0] ^= config->wrong_secret;
    unsigned pair = host->index < config->peer ? host->index : config->peer;
    memcpy(opening.session_id, host->world->session_ids[pair], sizeof(opening.session_id));
    if (config->client && !config->stream) {
        for (unsigned i = 0; i < config->false_candidates; i++) {
            opening.candidates[opening.candidate_count++] =
                (struct address){.family = 4, .bytes = {198, 51, 100, (uint8_t)(i + 1)}, .port = 9};
        }
        opening.candidates[opening.candidate_count++] = peer->addresses[0];
    }
    return opening;
}

static void start(struct sim_host *host)
{
    struct opening_config config = opening_config_of(host);
    host->started = true;
    host->opening = opening_new(&config, own_now(host), &host->error);
    if (host->opening == NULL) {
        end(host);
    }
}

static void begin_session(struct sim_host *host)
{
    const struct opening_result *result = opening_result(host->opening);
    struct opening_config opening = opening_config_of(host);
    struct session_config config = {.client = host->config.client,
                                    .role = host->config.role,
                                    .own = opening.hello,
                                    .peer = result->peer,
                                    .suite = result->suite,
                                    .peer_address = result->address,
                                    .kind = host->config.stream ? LANE_STREAM : LANE_DATAGRAM,
                                    .channel = host->config.channel,
                                    .starts_on_channel = result->address.family == 0,
                                    .lanes = host->config.lanes ? host->config.lanes : 1,
                                    .grows_from = host->config.grows ? host->config.lanes : 0,
                                    .rtt_ns = result->rtt_ns,
                                    .limit_bps = host->config.limit_bps,
                                    .fixed_bps = host->config.fixed_bps,
                                    .interface_mtu = (uint16_t)host->config.interface_mtu,
                                    .idle_timeout_ns = host->config.idle_timeout_ns,
                                    .seed = sim_seed(host->world->config.seed, 200 + host->index)};
    memcpy(config.secret, result->secret, sizeof(config.secret));
    sim_oracle_grant(host->world->oracle, host->index, result->peer.credit);
    sim_trace_add(&host->world->trace, host->world->now_ns, SIM_MARK_OPEN, host->index,
                  opening_state(host->opening), host->world->now_ns - host->config.start_ns,
                  result->rtt_ns);
    host->session = session_new(&config, own_now(host), &host->error);
    if (host->session == NULL) {
        end(host);
        return;
    }
    host->opened_at_ns = host->world->now_ns;
    host->upper.attach(host->upper.context, host->session, own_now(host));
}

/* ---- sending ---- */

static void send_framed(struct sim_host *host, const uint8_t *bytes, size_t size)
{
    uint8_t frame[STREAM_PACKET_MAX + STREAM_FRAME_HEADER];
    frame[0] = (uint8_t)(size >> 8);
    frame[1] = (uint8_t)size;
    memcpy(frame + STREAM_FRAME_HEADER, bytes, size);
    sim_world_stream(host->world, host, frame, size + STREAM_FRAME_HEADER);
}

static void send_opening(struct sim_host *host)
{
    uint8_t bytes[DATAGRAM_MAX];
    struct address to;
    size_t size;
    if (host->opening == NULL) {
        return;
    }
    while ((size = opening_send(host->opening, &to, bytes, sizeof(bytes), own_now(host))) > 0) {
        if (to.family == 0) {
            send_framed(host, bytes, size);
        } else {
            sim_world_send(host->world, host, 0, &to, bytes, (uint32_t)size);
        }
    }
}

static void send_train(struct sim_host *host, unsigned lane, const struct lane_train *train)
{
    if (train->size == 0 || train->size > sizeof(train->bytes) || train->segment == 0) {
        sim_world_fail(host->world, "host %u: a train of %zu bytes in segments of %u", host->index,
                       train->size, train->segment);
        return;
    }
    for (size_t at = 0; at < train->size; at += train->segment) {
        size_t left = train->size - at;
        sim_world_send(host->world, host, lane, &train->to, train->bytes + at,
                       (uint32_t)(left < train->segment ? left : train->segment));
    }
}

static void send_stream(struct sim_host *host, struct lane *lane, struct lane_train *train)
{
    uint64_t half_at_ns;
    size_t room = sim_world_stream_room(host->world, host, &half_at_ns);
    sim_oracle_on_stream(host->world->oracle, true);
    while (room >= STREAM_ROOM_MIN && lane_send(lane, train, room, own_now(host))) {
        if (host->config.client && !host->confirmed) {
            opening_use_stream(host->opening);
            send_opening(host);
        }
        sim_world_stream(host->world, host, train->bytes, train->size);
        room = sim_world_stream_room(host->world, host, &half_at_ns);
    }
    sim_oracle_on_stream(host->world->oracle, false);
}

static void send_lane(struct sim_host *host, unsigned index)
{
    static struct lane_train train; /* large; one simulation at a time */
    struct lane *lane = session_lane(host->session, index);
    if (lane == NULL) {
        return;
    }
    if (lane_kind(lane) == LANE_STREAM) {
        send_stream(host, lane, &train);
        return;
    }
    uint64_t before, after, cap;
    lane_flight(lane, &before, &cap);
    while (lane_send(lane, &train, SIZE_MAX, own_now(host))) {
        /* Probes and control go past the cap; a train of data may end just beyond it. */
        lane_flight(lane, &after, &cap);
        if (train.size > DATAGRAM_MAX && cap != 0 && before < after &&
            before > 2 * cap + DATAGRAM_MAX) {
            sim_world_fail(host->world,
                           "host %u lane %u: a train of %zu with %llu in flight of %llu",
                           host->index, index, train.size, (unsigned long long)before,
                           (unsigned long long)cap);
        }
        before = after;
        if (host->config.client && !host->confirmed) {
            opening_resend_last(host->opening);
            send_opening(host);
        }
        send_train(host, index, &train);
        if (host->world->failure[0] != '\0') {
            return;
        }
    }
}

/* ---- receiving ---- */

static void heard_sealed(struct sim_host *host)
{
    if (host->config.client && !host->confirmed) {
        host->confirmed = true;
        opening_confirm(host->opening);
    }
}

static struct lane *lane_of_id(struct sim_host *host, const uint8_t *bytes, size_t size)
{
    uint32_t id;
    if (host->session == NULL || !lane_peek_connection_id(bytes, size, &id) ||
        (id & ~15u) != host->connection_base) {
        return NULL;
    }
    return session_lane(host->session, id & 15u);
}

static void take_datagram(struct sim_host *host, struct sim_event *event)
{
    if (host->opening != NULL &&
        opening_receive(host->opening, &event->from, event->bytes, event->size, own_now(host))) {
        return;
    }
    struct lane *lane = lane_of_id(host, event->bytes, event->size);
    if (lane == NULL) {
        return;
    }
    if (!lane_can_receive(lane, event->size, 1)) {
        session_step(host->session, own_now(host));
    }
    if (lane_receive(lane, &event->from, event->bytes, event->size, event->size, own_now(host))) {
        heard_sealed(host);
    }
}

/* One whole packet of a stream, with its length before it. */
static void take_frame(struct sim_host *host, uint8_t *frame, size_t size)
{
    const uint8_t *packet = frame + STREAM_FRAME_HEADER;
    if (host->opening != NULL &&
        opening_receive(host->opening, NULL, packet, size - STREAM_FRAME_HEADER, own_now(host))) {
        /* A client's session may follow in the same piece. */
        if (host->session == NULL && opening_state(host->opening) == OPENING_FINISHED) {
            begin_session(host);
        }
        return;
    }
    struct lane *lane = host->session != NULL ? session_stream_lane(host->session) : NULL;
    if (lane == NULL) {
        sim_world_fail(host->world, "host %u: a packet on the stream before the session",
                       host->index);
        return;
    }
    /* The lane must cope with any cut: give it two pieces. */
    size_t cut = 1 + random_below(&host->world->random, size - 1);
    struct error error = {0};
    sim_oracle_on_stream(host->world->oracle, true);
    bool good = lane_receive_stream(lane, frame, cut, own_now(host), &error) &&
                lane_receive_stream(lane, frame + cut, size - cut, own_now(host), &error);
    sim_oracle_on_stream(host->world->oracle, false);
    if (!good) {
        sim_world_fail(host->world, "host %u: stream lane: %s", host->index, error.text);
        return;
    }
    heard_sealed(host);
}

static void take_stream(struct sim_host *host, const struct sim_event *event)
{
    host->stream_ended |= event->size == 0;
    memcpy(host->stream_bytes + host->stream_size, event->bytes, event->size);
    host->stream_size += event->size;
    size_t at = 0;
    while (host->stream_size - at >= STREAM_FRAME_HEADER) {
        size_t size = (size_t)host->stream_bytes[at] << 8 | host->stream_bytes[at + 1];
        size += STREAM_FRAME_HEADER;
        if (size > STREAM_PACKET_MAX + STREAM_FRAME_HEADER) {
            sim_world_fail(host->world, "host %u: a stream packet of %zu bytes", host->index, size);
            return;
        }
        if (host->stream_size - at < size) {
            break;
        }
        take_frame(host, host->stream_bytes + at, size);
        at += size;
    }
    memmove(host->stream_bytes, host->stream_bytes + at, host->stream_size - at);
    host->stream_size -= at;
}

static void drain_inbox(struct sim_host *host)
{
    unsigned taken = 0;
    while (host->inbox != NULL) {
        struct sim_event *event = host->inbox;
        host->inbox = event->next_free;
        if (host->inbox == NULL) {
            host->inbox_tail = &host->inbox;
        }
        if (host->started && !host->ended) {
            if (event->kind == SIM_EVENT_STREAM) {
                take_stream(host, event);
            } else {
                take_datagram(host, event);
            }
            /* What a driver takes from a socket at once; then the session gets its turn. */
            if (++taken % BATCH_MAX == 0 && host->session != NULL) {
                session_step(host->session, own_now(host));
            }
        }
        sim_queue_give(host->world->queue, event);
    }
}

void sim_host_arrive(struct sim_host *host, struct sim_event *event)
{
    event->next_free = NULL;
    *host->inbox_tail = event;
    host->inbox_tail = &event->next_free;
    host->wake_at_ns = earliest(host->wake_at_ns, host->world->now_ns + host->config.wake_delay_ns);
}

/* ---- running ---- */

static void step_above(struct sim_host *host)
{
    unsigned rounds = 0;
    do {
        session_step(host->session, own_now(host));
        if (++rounds > RUNS_AT_INSTANT_MAX) {
            sim_world_fail(host->world, "host %u: what is above the session never rests",
                           host->index);
            return;
        }
    } while (host->upper.step(host->upper.context, own_now(host)));
}

/* As net/driver_lanes: the session began on the stream, and an address has answered since. */
static void open_first_lane(struct sim_host *host)
{
    struct address found;
    if (host->config.client && host->confirmed && !host->searched &&
        opening_result(host->opening)->address.family == 0 &&
        opening_found(host->opening, &found)) {
        host->searched = true;
        session_open_lane(host->session, &found, LANE_DATAGRAM, own_now(host), NULL);
    }
}

/* As net/driver_lanes, under --lanes auto. */
static void open_further_lanes(struct sim_host *host)
{
    while (host->config.grows && host->confirmed &&
           session_lanes_worth(host->session) > host->config.lanes + host->lanes_opened) {
        uint64_t before = host->lanes_opened;
        sim_host_open_lane(host);
        if (host->lanes_opened == before) {
            return;
        }
    }
}

static void run_session(struct sim_host *host)
{
    step_above(host);
    open_first_lane(host);
    open_further_lanes(host);
    unsigned lanes = session_lane_count(host->session);
    for (unsigned lane = 0; lane < lanes; lane++) {
        send_lane(host, lane);
    }
    struct sim_world *world = host->world;
    if (world->now_ns - host->traced_at_ns >= TRACE_EVERY_NS) {
        struct session_statistics statistics;
        session_statistics(host->session, &statistics);
        sim_trace_add(&world->trace, world->now_ns, SIM_MARK_RATE, host->index, statistics.rate_bps,
                      statistics.rtt_ns, statistics.packets_lost);
        host->traced_at_ns = world->now_ns;
    }
    if (session_is_closed(host->session) && host->upper.is_ended(host->upper.context)) {
        end(host);
    }
}

/* As net/driver does when the channel through ssh closes. */
static void note_stream_end(struct sim_host *host)
{
    struct error cause = {0};
    if (!host->stream_ended) {
        return;
    }
    error_set(&cause, ERROR_PEER_LOST, "the channel through ssh was closed");
    if (host->session == NULL && !host->config.channel) {
        host->error = cause;
        end(host);
    } else if (host->session != NULL && !session_is_closed(host->session)) {
        session_stream_ended(host->session, &cause, own_now(host));
        run_session(host);
    }
}

static uint64_t session_deadline_of(const struct sim_host *host)
{
    uint64_t next =
        earliest(session_deadline(host->session), host->upper.deadline(host->upper.context));
    uint64_t stream_ns = TIME_NEVER;
    unsigned lanes = session_lane_count(host->session);
    for (unsigned i = 0; i < lanes; i++) {
        struct lane *lane = session_lane(host->session, i);
        if (lane == NULL) {
            continue;
        }
        uint64_t half_at_ns;
        if (lane_kind(lane) == LANE_STREAM &&
            sim_world_stream_room(host->world, (struct sim_host *)host, &half_at_ns) <
                STREAM_ROOM_MIN) {
            stream_ns = half_at_ns; /* poll() would not wake it earlier */
        } else {
            next = earliest(next, lane_deadline(lane));
        }
    }
    return earliest(world_time(host, next), stream_ns);
}

/* When a client with both ways begins to use the stream. */
static uint64_t both_ways_at(const struct sim_host *host)
{
    uint64_t wait_ns = 3 * host->config.rtt_ns;
    if (!host->config.channel || !host->config.client || host->confirmed) {
        return TIME_NEVER;
    }
    return host->config.start_ns + (wait_ns > BOTH_WAYS_NS ? wait_ns : BOTH_WAYS_NS);
}

static uint64_t next_deadline(const struct sim_host *host)
{
    if (host->ended) {
        return TIME_NEVER;
    }
    uint64_t next = TIME_NEVER;
    if (host->session != NULL) {
        next = session_deadline_of(host);
    }
    if (host->opening != NULL &&
        (host->session == NULL || !host->config.client || host->config.channel)) {
        next = earliest(next, world_time(host, opening_deadline(host->opening)));
    }
    if (both_ways_at(host) > host->world->now_ns) {
        next = earliest(next, both_ways_at(host));
    }
    return next;
}

static void watch_for_loops(struct sim_host *host)
{
    if (host->last_run_ns != host->world->now_ns) {
        host->last_run_ns = host->world->now_ns;
        host->runs_at_instant = 0;
    } else if (++host->runs_at_instant > RUNS_AT_INSTANT_MAX) {
        sim_world_fail(host->world, "host %u wants to run again and again at the same instant",
                       host->index);
    }
}

void sim_host_run(struct sim_host *host)
{
    watch_for_loops(host);
    host->wake_at_ns = TIME_NEVER;
    if (!host->started && host->world->now_ns >= host->config.start_ns && !host->ended) {
        start(host);
    }
    drain_inbox(host);
    if (host->opening != NULL && host->world->now_ns >= both_ways_at(host)) {
        opening_use_stream(host->opening);
    }
    if (host->ended || !host->started) {
        host->own_deadline_ns = host->ended ? TIME_NEVER : host->config.start_ns;
        return;
    }
    send_opening(host);
    if (host->session == NULL) {
        if (opening_state(host->opening) == OPENING_FAILED) {
            host->error = *opening_error(host->opening);
            end(host);
        } else if (opening_state(host->opening) == OPENING_FINISHED) {
            begin_session(host);
        }
    }
    if (host->session != NULL && !host->ended) {
        run_session(host);
    }
    note_stream_end(host);
    host->own_deadline_ns = next_deadline(host);
}

uint64_t sim_host_deadline(const struct sim_host *host)
{
    if (host->gone) {
        return TIME_NEVER;
    }
    return earliest(host->wake_at_ns, host->own_deadline_ns);
}

void sim_host_abort(struct sim_host *host)
{
    if (host->session != NULL && !host->ended) {
        host->upper.abort(host->upper.context, own_now(host));
        host->own_deadline_ns = host->world->now_ns;
    }
}

void sim_host_open_lane(struct sim_host *host)
{
    if (host->session == NULL || host->ended || !host->config.client) {
        return;
    }
    struct error error = {0};
    const struct sim_host *peer = &host->world->hosts[host->config.peer];
    if (session_open_lane(host->session, &peer->addresses[0], LANE_DATAGRAM, own_now(host),
                          &error)) {
        host->lanes_opened++;
    }
    host->own_deadline_ns = host->world->now_ns;
}

const struct error *sim_host_error(const struct sim_host *host)
{
    if (host->error.kind != ERROR_NONE) {
        return &host->error;
    }
    const struct error *above = host->upper.error(host->upper.context);
    if (above->kind != ERROR_NONE || host->session == NULL) {
        return above;
    }
    return session_error(host->session);
}
