/* The handshake on real sockets: which socket a flight leaves from, and what to say when none can.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "net/driver_internal.h"

#define FLIGHT_MAX 2048u

static bool open_for_family(struct driver *driver, uint8_t family, struct error *error)
{
    unsigned i = family == 4 ? 0 : 1;
    if (driver->opening_sockets[i] != NULL)
        return true;
    driver->opening_sockets[i] = udp_open(family, NULL, false, error);
    if (driver->opening_sockets[i] == NULL)
        return false;
    udp_hear_rejections(driver->opening_sockets[i], true);
    return true;
}

/* One socket for each family among the candidates. A family that this system lacks is skipped as
 * long as another works. */
static bool open_candidates(struct driver *driver, struct error *error)
{
    bool any = false;
    struct error first = {0};
    for (unsigned i = 0; i < driver->config.candidate_count; i++)
        any |= open_for_family(driver, driver->config.candidates[i].family, &first);
    if (any || (driver->config.stream && !driver->config.stream_for_ports))
        return true;
    if (first.kind == ERROR_NONE)
        return error_set(error, ERROR_USAGE, "no address to reach the server at");
    *error = first;
    return false;
}

bool driver_prepare_opening(struct driver *driver, struct error *error)
{
    const struct driver_config *config = &driver->config;
    if (config->stream) {
        driver->stream = stream_new(config->stream_in, config->stream_out, error);
        if (driver->stream == NULL ||
            !stream_register(driver->stream, worker_loop(driver->workers[0]), error))
            return false;
    }
    if (config->client && driver->udp && !open_candidates(driver, error))
        return false;
    for (unsigned i = 0; driver->udp && i < 2; i++) {
        struct udp_socket *socket = config->client
                                        ? driver->opening_sockets[i]
                                        : udp_listener_socket(config->listener, 0, i == 0 ? 4 : 6);
        if (socket != NULL && !worker_add_socket(driver->workers[0], socket, error))
            return false;
    }
    return true;
}

bool driver_start_opening(struct driver *driver, uint64_t now_ns, struct error *error)
{
    const struct driver_config *config = &driver->config;
    struct opening_config opening = {
        .client = config->client,
        .hello = driver->hello,
        .rtt_ns = config->rtt_ns,
        .timeout_ns = config->open_timeout_ns,
        .stream = config->stream && !driver->udp,
        .channel = config->stream && driver->udp && !config->stream_for_ports,
    };
    memcpy(opening.secret, config->secret, sizeof(opening.secret));
    memcpy(opening.session_id, config->session_id, sizeof(opening.session_id));
    opening.identity = config->identity;
    memcpy(opening.own_id, config->own_id, sizeof(opening.own_id));
    memcpy(opening.peer_id, config->peer_id, sizeof(opening.peer_id));
    opening.says_wishes = config->says_wishes;
    opening.wishes = config->wishes;
    if (config->client && driver->udp) {
        memcpy(opening.candidates, config->candidates, sizeof(opening.candidates));
        opening.candidate_count = config->candidate_count;
    }
    driver->opening = opening_new(&opening, now_ns, error);
    wipe(opening.secret, sizeof(opening.secret));
    return driver->opening != NULL;
}

static struct udp_socket *flight_socket(const struct driver *driver, const struct address *to)
{
    if (!driver->config.client && driver->config.listener != NULL)
        return udp_listener_socket(driver_listener_for(driver, to), 0, to->family);
    if (driver->lane_sockets[0] != NULL)
        return driver->lane_sockets[0];
    return driver->opening_sockets[to->family == 4 ? 0 : 1];
}

static void note_refusal(struct driver *driver, const struct address *to, int os_errno)
{
    char address[64];
    address_format(address, sizeof(address), to);
    if ((os_errno == EPERM || os_errno == EACCES) && !driver->config.client)
        driver_tell_refusal(driver);
    if (os_errno == EPERM || os_errno == EACCES)
        snprintf(driver->refusal, sizeof(driver->refusal),
                 "a local firewall rule refused to send to %s", address);
    else
        snprintf(driver->refusal, sizeof(driver->refusal), "cannot send to %s: %s", address,
                 strerror(os_errno));
}

static void send_flight(struct driver *driver, const struct address *to, const uint8_t *bytes,
                        size_t size, uint64_t now_ns)
{
    struct udp_socket *socket = flight_socket(driver, to);
    if (socket == NULL)
        return;
    struct udp_statistics before, after;
    udp_get_statistics(socket, &before);
    if (udp_send_datagram(socket, to, bytes, size, now_ns))
        return;
    /* Not sent now: the opening sends it again in time. */
    udp_get_statistics(socket, &after);
    if (after.refused > before.refused)
        note_refusal(driver, to, after.last_refusal);
}

void driver_hear_rejections(struct driver *driver)
{
    struct udp_rejection said;
    for (unsigned i = 0; i < 2; i++) {
        struct udp_socket *socket = driver->opening_sockets[i];
        while (socket != NULL && udp_next_rejection(socket, &said)) {
            char by[64] = "";
            if (said.by.family != 0) {
                address_format(by, sizeof(by), &said.by);
                *strrchr(by, ':') = '\0'; /* it has no port */
            }
            snprintf(driver->rejection, sizeof(driver->rejection), "%s (ICMP %s%s%s)",
                     said.by_rule ? "rejected by a firewall" : "undeliverable", said.reason,
                     by[0] != '\0' ? " from " : "", by);
        }
    }
}

void driver_send_flights(struct driver *driver, uint64_t now_ns)
{
    uint8_t bytes[FLIGHT_MAX];
    struct address to;
    size_t size;
    while ((size = opening_send(driver->opening, &to, bytes, sizeof(bytes), now_ns)) > 0) {
        if (to.family != 0)
            send_flight(driver, &to, bytes, size, now_ns);
        else if (driver->stream != NULL)
            stream_write_frame(driver->stream, bytes, size);
    }
}

bool driver_on_other(void *context, const struct address *from, const uint8_t *bytes, size_t size,
                     uint64_t now_ns)
{
    struct driver *driver = context;
    return driver->opening != NULL && opening_receive(driver->opening, from, bytes, size, now_ns);
}

/* A new block gets its buffer before the next message comes: what comes before that is copied once
 * more. */
void driver_on_events(void *context, uint64_t now_ns)
{
    struct driver *driver = context;
    if (driver->session != NULL && driver->config.role == ROLE_RECEIVER)
        session_step(driver->session, now_ns);
}

void driver_before_send(void *context, uint64_t now_ns)
{
    struct driver *driver = context;
    if (!driver->config.client || driver->confirmed || driver->session == NULL)
        return;
    opening_resend_last(driver->opening);
    driver_send_flights(driver, now_ns);
}

void driver_explain_failure(struct driver *driver)
{
    struct error *error = &driver->error;
    if (error->kind != ERROR_UNREACHABLE)
        return;
    /* A far end that lives answers to our ports at once. */
    if (driver->config.client && driver->udp && driver->asked_ns != 0 &&
        driver->stream_rtt_ns == 0) {
        error_clear(error);
        error_set(
            error, ERROR_PEER_LOST,
            "the far end has answered through ssh once and then fell silent, there and by UDP");
        return;
    }
    driver->udp_is_cause = driver->config.client && driver->udp;
    size_t length = strlen(error->text);
    const char *said = driver->refusal[0] != '\0' ? driver->refusal
                       : driver->refused_there    ? REFUSED_THERE
                                                  : driver->rejection;
    if (said[0] != '\0')
        snprintf(error->text + length, sizeof(error->text) - length, "; %s", said);
}
