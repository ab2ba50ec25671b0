/* Further ports of the server's range, while the opening's own one is not answered: a firewall may
 * let through only a part of the range. The client asks for them through the stream; the server
 * listens on some more, says which, and keeps the one on which the client came, or none of them.
 */
#include "base/units.h"
#include "net/driver_internal.h"
#include "transport/ports_packet.h"

#define MORE_FOR_NS (3 * NS_PER_S) /* others may want these ports */
#define CANDIDATES_ASKED 4u        /* addresses at which the further ports are tried */

/* ---- server ---- */

/* Half of them follow the first; the others are spread over the rest of the range. */
uint16_t driver_more_port(uint16_t first_port, uint16_t last_port, uint16_t own_port,
                          unsigned number)
{
    unsigned own = own_port, last = last_port;
    unsigned near = DRIVER_MORE_PORTS / 2;
    if (own < first_port || own >= last)
        return 0;
    unsigned port = own + 1 + number;
    if (last - own > DRIVER_MORE_PORTS && number >= near)
        port = own + near + (last - own - near) * (number - near + 1) / (DRIVER_MORE_PORTS - near);
    return port <= last ? (uint16_t)port : 0;
}

static void on_readable(void *context, int descriptor, unsigned ready)
{
    struct driver *driver = context;
    (void)descriptor;
    (void)ready;
    driver->more_readable = true;
}

static struct udp_socket *more_socket(const struct driver *driver, unsigned i)
{
    return udp_listener_socket(driver->more[i / 2], 0, i % 2 == 0 ? 4 : 6);
}

static void listen_on(struct driver *driver, uint16_t port)
{
    unsigned threads = udp_listener_threads(driver->config.listener);
    struct udp_listener *listener = driver_listen(port, port, threads, NULL);
    if (listener == NULL)
        return;
    driver->more[driver->more_count++] = listener;
    for (unsigned i = 2 * driver->more_count - 2; i < 2 * driver->more_count; i++) {
        struct udp_socket *socket = more_socket(driver, i);
        if (socket != NULL)
            loop_add(worker_loop(driver->workers[0]), udp_descriptor(socket), LOOP_READ,
                     on_readable, driver, NULL);
    }
}

void driver_listen_on_more(struct driver *driver, uint64_t now_ns)
{
    uint16_t ports[DRIVER_MORE_PORTS];
    uint8_t packet[OPEN_PORTS_PACKET_MAX];
    if (driver->config.client || !driver->udp || driver->session != NULL || driver->more_until_ns)
        return;
    if (driver->more_batch == NULL)
        driver->more_batch = udp_batch_new();
    for (unsigned i = 0; driver->more_batch != NULL && i < DRIVER_MORE_PORTS; i++) {
        uint16_t port = driver_more_port(driver->config.first_port, driver->config.last_port,
                                         udp_listener_port(driver->config.listener), i);
        if (port != 0)
            listen_on(driver, port);
    }
    driver->more_until_ns = now_ns + MORE_FOR_NS;
    for (unsigned i = 0; i < driver->more_count; i++)
        ports[i] = udp_listener_port(driver->more[i]);
    size_t size = open_ports_packet_write(ports, driver->more_count, packet, sizeof(packet));
    stream_write_frame(driver->stream, packet, size);
}

static void note_heard(struct driver *driver, const struct address *from, unsigned listener)
{
    unsigned i = 0;
    while (i < driver->heard_count && !address_equal(&driver->heard[i].from, from))
        i++;
    if (i == DRIVER_HEARD_MAX)
        return;
    driver->heard_count += i == driver->heard_count;
    driver->heard[i].from = *from;
    driver->heard[i].listener = driver->more[listener];
}

static bool receive_on(struct driver *driver, unsigned i, uint64_t now_ns)
{
    struct udp_socket *socket = more_socket(driver, i);
    const struct udp_batch *batch = driver->more_batch;
    if (socket == NULL || !udp_receive(socket, driver->more_batch))
        return false;
    for (unsigned at = 0; at < batch->count; at++) {
        const struct udp_message *message = &batch->messages[at];
        if (!opening_receive(driver->opening, &message->from, message->bytes, message->segment,
                             now_ns))
            continue;
        udp_answer_from(socket, &message->from, &message->local);
        note_heard(driver, &message->from, i / 2);
    }
    return true;
}

bool driver_receive_more(struct driver *driver, uint64_t now_ns)
{
    bool any = false;
    if (driver->more_count == 0)
        return false;
    if (now_ns >= driver->more_until_ns) {
        driver_end_more(driver);
        return false;
    }
    for (unsigned i = 0; driver->more_readable && i < 2 * driver->more_count; i++)
        any |= opening_state(driver->opening) == OPENING_RUNNING && receive_on(driver, i, now_ns);
    driver->more_readable = any;
    return any;
}

struct udp_listener *driver_listener_for(const struct driver *driver, const struct address *peer)
{
    for (unsigned i = 0; i < driver->heard_count; i++) {
        if (address_equal(&driver->heard[i].from, peer))
            return driver->heard[i].listener;
    }
    return driver->config.listener;
}

void driver_end_more(struct driver *driver)
{
    for (unsigned i = 0; i < 2 * driver->more_count; i++) {
        struct udp_socket *socket = more_socket(driver, i);
        if (socket != NULL)
            loop_remove(worker_loop(driver->workers[0]), udp_descriptor(socket));
    }
    for (unsigned i = 0; i < driver->more_count; i++)
        udp_listener_free(driver->more[i]);
    driver->more_count = driver->heard_count = 0;
    udp_batch_free(driver->more_batch);
    driver->more_batch = NULL;
}

static bool exchange(struct driver *driver, struct udp_listener *chosen, struct error *error)
{
    struct udp_listener *listener = driver->config.listener;
    for (unsigned i = 0; i < 2; i++) {
        struct udp_socket *old = udp_listener_socket(listener, 0, i == 0 ? 4 : 6);
        struct udp_socket *other = udp_listener_socket(chosen, 0, i == 0 ? 4 : 6);
        if (old != NULL)
            worker_remove_socket(driver->workers[0], old);
        if (other != NULL)
            loop_remove(worker_loop(driver->workers[0]), udp_descriptor(other));
    }
    udp_listener_exchange(listener, chosen);
    for (unsigned i = 0; i < 2; i++) {
        struct udp_socket *socket = udp_listener_socket(listener, 0, i == 0 ? 4 : 6);
        if (socket != NULL && !worker_add_socket(driver->workers[0], socket, error))
            return false;
    }
    return true;
}

bool driver_keep_port(struct driver *driver, struct error *error)
{
    if (driver->config.client || driver->more_count == 0)
        return true;
    struct udp_listener *chosen = driver_listener_for(driver, &driver->peer);
    bool good = chosen == driver->config.listener || exchange(driver, chosen, error);
    driver_end_more(driver);
    return good;
}

/* ---- client ---- */

void driver_ask_for_more(struct driver *driver, uint64_t now_ns)
{
    static const uint8_t packet[] = {MORE_PORTS_PACKET_TYPE};
    if (driver->more_asked_ns != 0 || driver->stream == NULL || !driver->udp ||
        opening_is_answered(driver->opening))
        return;
    driver->more_asked_ns = now_ns;
    stream_write_frame(driver->stream, packet, sizeof(packet));
}

void driver_take_more(struct driver *driver, const uint8_t *packet, size_t size, uint64_t now_ns)
{
    uint16_t ports[OPEN_PORTS_MAX];
    size_t count;
    const struct driver_config *config = &driver->config;
    if (!config->client || driver->more_asked_ns == 0 || driver->more_came_ns != 0 ||
        driver->session != NULL || !open_ports_packet_read(packet, size, ports, &count))
        return;
    driver->more_came_ns = now_ns;
    driver->more_told = (unsigned)count;
    for (size_t i = 0; i < count; i++) {
        for (unsigned at = 0; at < config->candidate_count && at < CANDIDATES_ASKED; at++) {
            struct address address = config->candidates[at];
            address.port = ports[i];
            opening_add_candidate(driver->opening, &address);
        }
    }
}
