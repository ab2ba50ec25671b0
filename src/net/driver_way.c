/* A client with two ways: when the handshake goes through the stream as well, what the server is
 * told of our ports, and what people are told of the way that is taken.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "net/driver_internal.h"
#include "transport/ports_packet.h"

#define BOTH_NS NS_PER_S /* and three round trips: the handshake goes both ways */
#define BOTH_RTTS 3u
#define MORE_NS (NS_PER_S / 2) /* and one and a half round trips: further ports are asked for */
#define TELL_NS (2 * NS_PER_S) /* and five: only then people are told of it */
#define TELL_RTTS 5u
#define ASK_SILENT_NS                                                                              \
    (5 * NS_PER_S) /* of UDP, before the far end is asked through ssh; and again */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- ports ---- */

static void add_port(struct client_port *ports, size_t *count, uint16_t *told,
                     const struct udp_socket *socket)
{
    uint16_t port = socket != NULL ? udp_local_port(socket) : 0;
    if (port == 0 || port == *told)
        return;
    *told = port;
    ports[(*count)++] = (struct client_port){.family = udp_family(socket), .port = port};
}

void driver_tell_ports(struct driver *driver, uint64_t now_ns)
{
    struct client_port ports[LANES_MAX + 2];
    _Static_assert(LANES_MAX + 2 <= PORTS_MAX, "");
    uint8_t packet[PORTS_PACKET_MAX];
    size_t count = 0;
    bool told = driver->config.on_ports != NULL || driver->stream != NULL;
    if (!told || !driver->udp || !driver->config.client)
        return;
    for (unsigned i = 0; driver->config.tells_ports && i < 2; i++)
        add_port(ports, &count, &driver->told_ports[LANES_MAX + i], driver->opening_sockets[i]);
    for (unsigned i = 0; driver->config.tells_ports && i < LANES_MAX; i++)
        add_port(ports, &count, &driver->told_ports[i], driver->lane_sockets[i]);
    if (driver->config.on_ports != NULL) {
        if (count > 0)
            driver->config.on_ports(driver->config.ports_context, ports, count);
        return;
    }
    if (count == 0 && driver->asked_ns != 0)
        return;
    /* The first one also measures the round trip. */
    if (driver->asked_ns == 0)
        driver->asked_ns = now_ns;
    size_t size = ports_packet_write(ports, count, packet, sizeof(packet));
    stream_write_frame(driver->stream, packet, size);
}

/* ---- what people are told ---- */

static void list_candidates(const struct driver *driver, char *text, size_t capacity)
{
    size_t used = 0;
    const struct driver_config *config = &driver->config;
    for (unsigned i = 0; i < config->candidate_count && used + 110 < capacity; i++) {
        char address[64];
        address_format(address, sizeof(address), &config->candidates[i]);
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i > 0 ? ", " : "", address);
    }
    if (driver->more_told > 0)
        snprintf(text + used, capacity - used, " nor from %u further ports there",
                 driver->more_told);
}

enum driver_refusal driver_refusal(const struct driver *driver)
{
    return driver->refusal[0] != '\0' ? REFUSAL_HERE
           : driver->refused_there    ? REFUSAL_THERE
                                      : REFUSAL_NONE;
}

static void tell(struct driver *driver, bool stream)
{
    const char *said = driver->refused_there ? REFUSED_THERE : driver->rejection;
    char cause[640] = "", address[512] = "";
    struct driver_way way = {.stream = stream,
                             .worked = driver->was_on_udp,
                             .refusal = driver_refusal(driver),
                             .cause = cause};
    if (driver->lanes_open > 0)
        address_format(address, sizeof(address), &driver->peer);
    else
        list_candidates(driver, address, sizeof(address));
    if (!stream)
        snprintf(cause, sizeof(cause), "UDP %s answers", address);
    else if (driver->was_on_udp)
        snprintf(cause, sizeof(cause), "UDP %s fell silent", address);
    else if (driver->udp && way.refusal == REFUSAL_HERE)
        snprintf(cause, sizeof(cause), "no UDP leaves this machine: %s", driver->refusal);
    else if (driver->udp)
        snprintf(cause, sizeof(cause), "no answer from UDP %s%s%s", address,
                 said[0] != '\0' ? ", " : "", said);
    driver->told_way = true;
    driver->way_is_stream = stream;
    if (driver->config.on_way != NULL)
        driver->config.on_way(driver->config.way_context, &way);
}

void driver_tell_way_at_end(struct driver *driver)
{
    if (driver->config.client && driver->session != NULL && !driver->told_way &&
        !driver->config.stream_for_ports && session_is_on_stream(driver->session))
        tell(driver, true);
}

static void consider_telling(struct driver *driver, uint64_t now_ns)
{
    bool stream = session_is_on_stream(driver->session);
    uint64_t first_ns = driver->started_ns + later(TELL_NS, TELL_RTTS * driver->stream_rtt_ns);
    driver->was_on_udp |= !stream;
    bool first_wait = driver->udp && !driver->was_on_udp && now_ns < first_ns;
    if (stream == driver->way_is_stream || (stream && first_wait) ||
        session_is_closed(driver->session))
        return;
    tell(driver, stream);
}

/* ---- silence where UDP alone may carry the session ---- */

static uint64_t last_heard(const struct driver *driver)
{
    struct session_statistics statistics;
    session_statistics(driver->session, &statistics);
    return statistics.last_heard_ns;
}

/* An empty ports packet now and then, while nothing comes by UDP: is there anybody? */
static void ask_through_stream(struct driver *driver, uint64_t now_ns)
{
    uint8_t packet[PORTS_PACKET_MAX];
    if (driver->session == NULL || driver->stream == NULL ||
        now_ns < driver->stream_asked_ns + ASK_SILENT_NS ||
        now_ns < last_heard(driver) + ASK_SILENT_NS)
        return;
    driver->stream_asked_ns = now_ns;
    size_t size = ports_packet_write(NULL, 0, packet, sizeof(packet));
    stream_write_frame(driver->stream, packet, size);
}

void driver_explain_silence(struct driver *driver)
{
    struct error *error = &driver->error;
    if (!driver->config.client || driver->session == NULL || driver->lanes_open == 0 ||
        error->kind != ERROR_PEER_LOST || session_error_is_peers(driver->session) ||
        session_is_on_stream(driver->session))
        return;
    uint64_t heard_ns = last_heard(driver), silent_ns = loop_now() - heard_ns;
    if (silent_ns < driver->config.idle_timeout_ns)
        return; /* it ended for another reason */
    char address[64], time[24];
    address_format(address, sizeof(address), &driver->peer);
    error_clear(error);
    error_set(error, ERROR_PEER_LOST, "UDP %s fell silent: nothing came from there for %s%s",
              address, format_time(time, sizeof(time), silent_ns),
              driver->stream_heard_ns > heard_ns ? ", while ssh gets through" : "");
    driver->udp_is_cause = driver->stream == NULL || driver->stream_heard_ns > heard_ns;
}

/* ---- when ---- */

static uint64_t more_time(const struct driver *driver)
{
    return later(MORE_NS, driver->stream_rtt_ns * 3 / 2);
}

static void consider_more_ports(struct driver *driver, uint64_t now_ns)
{
    if (driver->session == NULL && driver->stream_rtt_ns != 0 &&
        now_ns >= driver->started_ns + more_time(driver))
        driver_ask_for_more(driver, now_ns);
}

/* Further ports get their chance first: their names are awaited as long again, and then an answer
 * by one of them. */
static uint64_t both_ways_at(const struct driver *driver)
{
    uint64_t at_ns = driver->started_ns + later(BOTH_NS, BOTH_RTTS * driver->stream_rtt_ns);
    if (driver->more_came_ns != 0)
        return later(at_ns, driver->more_came_ns + more_time(driver));
    return driver->more_asked_ns != 0 ? later(at_ns, driver->more_asked_ns + 2 * more_time(driver))
                                      : at_ns;
}

void driver_tend_way(struct driver *driver, uint64_t now_ns)
{
    if (!driver->config.client)
        return;
    consider_more_ports(driver, now_ns);
    if (driver->config.stream_for_ports) {
        ask_through_stream(driver, now_ns);
        return;
    }
    if (driver->session != NULL)
        consider_telling(driver, now_ns);
    if (driver->confirmed || driver->stream == NULL || driver->stream_rtt_ns == 0)
        return;
    if (now_ns >= both_ways_at(driver))
        opening_use_stream(driver->opening);
}
