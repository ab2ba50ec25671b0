/* The stream of a driver: handshake packets, ports packets and the stream lane's own, in frames. */
#include "base/units.h"
#include "net/driver_internal.h"
#include "transport/handshake_packet.h"
#include "transport/ports_packet.h"

#define STREAM_TURN_BYTES (512u * 1024u) /* read before the session is stepped again */
#define STREAM_ROOM_LEAST (STREAM_PACKET_MAX + STREAM_LENGTH_SIZE)

/* ---- the end ---- */

/* Nothing more can come, and nothing that we say arrives. Beside UDP only the watch goes on. */
static void end_stream(struct driver *driver, uint64_t now_ns)
{
    struct error cause = *stream_error(driver->stream);
    if (cause.kind == ERROR_NONE)
        error_set(&cause, ERROR_PEER_LOST, "the channel through ssh was closed");
    if (driver->session == NULL && !driver->udp)
        driver_fail(driver, &cause);
    if (driver->session != NULL && !driver->config.stream_for_ports)
        session_stream_ended(driver->session, &cause, now_ns);
    stream_free(driver->stream);
    driver->stream = NULL;
    if (driver->config.watch_fd == driver->config.stream_in && !driver->watching)
        driver_watch(driver, NULL);
}

/* ---- receiving ---- */

void driver_tell_refusal(struct driver *driver)
{
    static const uint8_t packet[] = {REFUSED_PACKET_TYPE};
    if (driver->stream == NULL || driver->refused_there)
        return;
    driver->refused_there = true;
    stream_write_frame(driver->stream, packet, sizeof(packet));
}

static void take_ports(struct driver *driver, const uint8_t *packet, size_t size, uint64_t now_ns)
{
    static const uint8_t heard[] = {PORTS_HEARD_PACKET_TYPE};
    struct client_port ports[PORTS_MAX];
    size_t count;
    if (driver->config.client || !ports_packet_read(packet, size, ports, &count))
        return;
    stream_write_frame(driver->stream, heard, sizeof(heard));
    struct address to = driver->config.punch_to;
    for (size_t i = 0; driver->udp && i < count; i++) {
        to.port = ports[i].port;
        if (ports[i].family == to.family)
            opening_punch(driver->opening, &to, now_ns);
    }
}

static void take_lane_packet(struct driver *driver, uint8_t *frame, size_t size, uint64_t now_ns)
{
    struct error error = {0};
    if (driver->session == NULL) {
        /* What lets a session begin goes before its packets: this is another order. */
        error_set(&error, ERROR_PROTOCOL, "the far end sent packets before the handshake's end");
        driver_fail(driver, &error);
        return;
    }
    if (!driver->confirmed && driver->config.client)
        opening_confirm(driver->opening);
    driver->confirmed = true;
    if (!lane_receive_stream(session_stream_lane(driver->session), frame, size, now_ns, &error))
        session_abort(driver->session, error.kind, error.text, now_ns);
}

static void take_frame(struct driver *driver, uint8_t *frame, size_t size, uint64_t now_ns)
{
    uint8_t *packet = frame + STREAM_LENGTH_SIZE;
    size_t packet_size = size - STREAM_LENGTH_SIZE;
    switch (packet[0]) {
    case HANDSHAKE_PACKET_TYPE:
        if (!driver->config.stream_for_ports)
            opening_receive(driver->opening, NULL, packet, packet_size, now_ns);
        break;
    case PORTS_PACKET_TYPE:
        take_ports(driver, packet, packet_size, now_ns);
        break;
    case PORTS_HEARD_PACKET_TYPE:
        driver->stream_heard_ns = now_ns;
        if (driver->stream_rtt_ns == 0 && driver->asked_ns != 0)
            driver->stream_rtt_ns = now_ns - driver->asked_ns;
        break;
    case MORE_PORTS_PACKET_TYPE:
        driver_listen_on_more(driver, now_ns);
        break;
    case REFUSED_PACKET_TYPE:
        driver->refused_there |= driver->config.client;
        break;
    case OPEN_PORTS_PACKET_TYPE:
        driver_take_more(driver, packet, packet_size, now_ns);
        break;
    default:
        if (!driver->config.stream_for_ports)
            take_lane_packet(driver, frame, size, now_ns);
    }
}

static bool session_is_behind(const struct driver *driver)
{
    return driver->session != NULL && !driver->config.stream_for_ports &&
           !lane_can_receive(session_stream_lane(driver->session), STREAM_PACKET_MAX, 1);
}

bool driver_receive_stream(struct driver *driver, uint64_t now_ns)
{
    size_t taken = 0;
    stream_flush(driver->stream);
    do {
        uint8_t *frame;
        size_t size;
        while (taken < STREAM_TURN_BYTES && !session_is_behind(driver) &&
               stream_next_frame(driver->stream, &frame, &size)) {
            take_frame(driver, frame, size, now_ns);
            taken += size;
            if (driver->phase == DRIVER_ENDED)
                return true;
            /* What follows the last flight is for the session: it has to be there first. */
            if (driver->session == NULL && opening_state(driver->opening) != OPENING_RUNNING)
                return true;
        }
    } while (taken < STREAM_TURN_BYTES && stream_read(driver->stream));
    if (taken == 0 && stream_has_ended(driver->stream))
        end_stream(driver, now_ns);
    return taken > 0;
}

/* ---- sending ---- */

uint64_t driver_stream_deadline(const struct driver *driver)
{
    /* With the pipe full, what the lane wants is no reason to wake: the pipe will tell. */
    if (driver->config.stream_for_ports || stream_room(driver->stream) < STREAM_ROOM_LEAST)
        return TIME_NEVER;
    return lane_deadline(session_stream_lane(driver->session));
}

/* The server cannot open what the lane sends before it has our last flight. */
static void precede_with_flight(struct driver *driver, uint64_t now_ns)
{
    if (!driver->config.client || driver->confirmed)
        return;
    opening_use_stream(driver->opening);
    driver_send_flights(driver, now_ns);
}

bool driver_send_stream(struct driver *driver, uint64_t now_ns)
{
    bool any = stream_flush(driver->stream);
    if (driver->config.stream_for_ports)
        return any;
    struct lane *lane = session_stream_lane(driver->session);
    while (lane_send(lane, driver->stream_train, stream_room(driver->stream), now_ns)) {
        precede_with_flight(driver, now_ns);
        stream_write(driver->stream, driver->stream_train->bytes, driver->stream_train->size);
        any = true;
    }
    return any;
}
