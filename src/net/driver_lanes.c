/* The session's lanes on their threads and sockets. */
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "net/driver_internal.h"

#define LANES_AUTO_MAX 4u
#define GROW_EVERY_NS NS_PER_S
#define BUSY_PERCENT 70u

unsigned driver_threads(unsigned lanes)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned half = processors < 2 ? 1 : (unsigned)processors / 2;
    unsigned most = lanes == 0 ? LANES_AUTO_MAX : lanes;
    return half < most ? half : most;
}

/* ---- starting ---- */

/* The opening's socket of the proved family becomes lane 0's, from the port that the server knows;
 * the other one goes. */
static bool adopt_opening_socket(struct driver *driver, struct error *error)
{
    struct worker *worker = driver->workers[0];
    unsigned kept = driver->peer.family == 4 ? 0 : 1;
    for (unsigned i = 0; i < 2; i++) {
        if (driver->opening_sockets[i] == NULL)
            continue;
        worker_remove_socket(worker, driver->opening_sockets[i]);
        udp_hear_rejections(driver->opening_sockets[i], false);
        if (i == kept)
            driver->lane_sockets[0] = driver->opening_sockets[i];
        else
            udp_close(driver->opening_sockets[i]);
        driver->opening_sockets[i] = NULL;
    }
    if (driver->lane_sockets[0] == NULL)
        return error_set(error, ERROR_UNREACHABLE, "the server answered from an unknown family");
    return udp_connect(driver->lane_sockets[0], &driver->peer, error);
}

static void fill_session_config(struct driver *driver, struct session_config *session)
{
    const struct driver_config *config = &driver->config;
    const struct opening_result *result = opening_result(driver->opening);
    *session = (struct session_config){
        .client = config->client,
        .role = config->role,
        .own = driver->hello,
        .peer = result->peer,
        .suite = result->suite,
        .kind = driver->udp ? LANE_DATAGRAM : LANE_STREAM,
        .channel = driver->udp && driver->stream != NULL && !config->stream_for_ports,
        .starts_on_channel = result->address.family == 0,
        .lanes = 1,
        .grows_from = config->client && config->lanes == 0 ? driver_threads(0) : 0,
        .rtt_ns = result->rtt_ns != 0 ? result->rtt_ns : config->rtt_ns,
        .limit_bps = config->limit_bps,
        .fixed_bps = config->fixed_bps,
        .policy = config->policy,
        .idle_timeout_ns = config->idle_timeout_ns,
    };
    uint64_t guest_bps = config->guest_limit_bps != NULL ? *config->guest_limit_bps : 0;
    if (guest_bps != 0 && (session->limit_bps == 0 || session->limit_bps > guest_bps))
        session->limit_bps = guest_bps;
    if (result->rtt_ns != 0) /* else nothing says that it is the same path */
        session->remembered = config->remembered;
    memcpy(session->secret, result->secret, sizeof(session->secret));
    if (driver->peer.family != 0) {
        struct address local = worker_local_address(driver->workers[0]);
        session->peer_address = driver->peer;
        session->interface_mtu = udp_interface_mtu(&driver->peer, &local);
    }
}

static unsigned wanted_lanes(const struct driver *driver)
{
    unsigned wanted = driver->config.lanes != 0 ? driver->config.lanes : driver_threads(0);
    unsigned most = session_datagram_lanes(driver->session);
    return wanted < most ? wanted : most;
}

static bool add_worker(struct driver *driver, struct error *error)
{
    struct worker *worker = worker_new(worker_loop(driver->workers[0]), NULL, error);
    if (worker == NULL)
        return false;
    worker_set_connection_base(worker, driver->hello.connection_base);
    driver->workers[driver->worker_count++] = worker;
    return true;
}

static unsigned listener_threads(const struct driver *driver)
{
    unsigned threads = udp_listener_threads(driver->config.listener);
    unsigned lanes = session_datagram_lanes(driver->session);
    return threads < lanes ? threads : lanes;
}

/* One socket family may be missing; both missing cannot be here. */
static bool add_listener_sockets(struct driver *driver, unsigned thread, struct error *error)
{
    for (unsigned i = 0; i < 2; i++) {
        struct udp_socket *socket =
            udp_listener_socket(driver->config.listener, thread, i == 0 ? 4 : 6);
        if (socket != NULL && !worker_add_socket(driver->workers[thread], socket, error))
            return false;
    }
    return true;
}

/* The server's lanes, each on the thread that the listener steers its packets to. They join when
 * their first packet comes. */
static bool spread_server_lanes(struct driver *driver, struct error *error)
{
    const struct udp_listener *listener = driver->config.listener;
    unsigned threads = listener_threads(driver);
    for (unsigned thread = 1; thread < threads; thread++) {
        if (!add_worker(driver, error) || !add_listener_sockets(driver, thread, error))
            return false;
    }
    for (unsigned i = 0; i < session_datagram_lanes(driver->session); i++) {
        unsigned thread = i % udp_listener_threads(listener);
        worker_give_lane(driver->workers[thread], session_lane(driver->session, i), NULL);
    }
    for (unsigned thread = 1; thread < threads; thread++)
        if (!worker_start_thread(driver->workers[thread], error))
            return false;
    return true;
}

bool driver_start_session(struct driver *driver, uint64_t now_ns, struct error *error)
{
    const struct driver_config *config = &driver->config;
    driver->peer = opening_result(driver->opening)->address;
    struct session_config session;
    fill_session_config(driver, &session);
    bool ready =
        random_bytes(&session.seed, sizeof(session.seed), error) && driver_keep_port(driver, error);
    if (ready && config->client && driver->peer.family != 0)
        ready = adopt_opening_socket(driver, error);
    if (ready)
        driver->session = session_new(&session, now_ns, error);
    wipe(session.secret, sizeof(session.secret));
    if (driver->session == NULL)
        return false;
    worker_set_connection_base(driver->workers[0], driver->hello.connection_base);
    driver->lanes_wanted = wanted_lanes(driver);
    driver->lanes_open = driver->peer.family != 0;
    if (driver->lanes_open > 0 && config->client)
        worker_give_lane(driver->workers[0], session_lane(driver->session, 0),
                         driver->lane_sockets[0]);
    if (driver->udp && !config->client && !spread_server_lanes(driver, error))
        return false;
    driver_prepare_hint(driver);
    config->upper.attach(config->upper.context, driver->session, now_ns);
    return true;
}

/* ---- further lanes ---- */

/* The worker for lane `index`: one thread a lane as far as there are processors. */
static struct worker *worker_for_lane(struct driver *driver, unsigned index, struct error *error)
{
    unsigned threads = driver_threads(LANES_MAX);
    unsigned at = index % threads;
    while (driver->worker_count <= at)
        if (!add_worker(driver, error))
            return NULL;
    struct worker *worker = driver->workers[at];
    if (at > 0 && !worker_has_thread(worker) && !worker_start_thread(worker, error))
        return NULL;
    return worker;
}

static bool open_lane(struct driver *driver, unsigned index, uint64_t now_ns)
{
    struct worker *worker = worker_for_lane(driver, index, NULL);
    struct udp_socket *socket = udp_open(driver->peer.family, NULL, false, NULL);
    if (worker == NULL || socket == NULL || !udp_connect(socket, &driver->peer, NULL) ||
        !session_open_lane(driver->session, &driver->peer, LANE_DATAGRAM, now_ns, NULL)) {
        udp_close(socket);
        return false;
    }
    driver->lane_sockets[index] = socket;
    worker_give_lane(worker, session_lane(driver->session, index), socket);
    return true;
}

/* `--lanes auto`: one more lane when a lane's thread has little time left, and as many as the
 * session finds worth it. */
static void consider_growing(struct driver *driver, uint64_t now_ns)
{
    if (driver->config.lanes != 0 || now_ns < driver->grow_at_ns)
        return;
    bool busy = false;
    for (unsigned i = 0; i < driver->worker_count; i++) {
        uint64_t slept_ns = worker_slept_ns(driver->workers[i]);
        uint64_t rested_ns = slept_ns - driver->grow_slept_ns[i];
        driver->grow_slept_ns[i] = slept_ns;
        if (driver->grow_at_ns != 0 && rested_ns * 100 < GROW_EVERY_NS * (100 - BUSY_PERCENT))
            busy = true;
    }
    driver->grow_at_ns = now_ns + GROW_EVERY_NS;
    unsigned most = session_datagram_lanes(driver->session);
    if (most > driver_threads(LANES_MAX))
        most = driver_threads(LANES_MAX);
    if (busy && session_lanes_worth(driver->session) < most)
        session_use_one_more(driver->session);
}

static void open_further_lanes(struct driver *driver, uint64_t now_ns)
{
    /* Before that the server may not have the keys yet, and a lane's first packet would be lost. */
    if (!driver->confirmed || session_is_on_stream(driver->session))
        return;
    consider_growing(driver, now_ns);
    if (driver->config.lanes == 0 && session_lanes_worth(driver->session) > driver->lanes_worth) {
        driver->lanes_worth = session_lanes_worth(driver->session);
        driver->lanes_wanted = driver->lanes_worth;
    }
    while (driver->lanes_open < driver->lanes_wanted) {
        if (!open_lane(driver, driver->lanes_open, now_ns)) {
            driver->lanes_wanted = driver->lanes_open; /* we do with those there are */
            break;
        }
        driver->lanes_open++;
    }
}

/* The session began on the stream, and an address has answered since: lane 0 goes there, on trial.
 */
static void open_first_lane(struct driver *driver, uint64_t now_ns)
{
    if (driver->lanes_open > 0 || !driver->confirmed ||
        !opening_found(driver->opening, &driver->peer))
        return;
    driver->lanes_open = 1;
    if (adopt_opening_socket(driver, NULL) &&
        session_open_lane(driver->session, &driver->peer, LANE_DATAGRAM, now_ns, NULL))
        worker_give_lane(driver->workers[0], session_lane(driver->session, 0),
                         driver->lane_sockets[0]);
}

void driver_tend_lanes(struct driver *driver, uint64_t now_ns)
{
    if (!driver->config.client || !driver->udp)
        return;
    unsigned before = driver->lanes_open;
    open_first_lane(driver, now_ns);
    open_further_lanes(driver, now_ns);
    if (driver->lanes_open > before)
        driver_tell_ports(driver, now_ns);
}

void driver_notify_workers(struct driver *driver)
{
    for (unsigned i = 1; i < driver->worker_count; i++)
        worker_notify(driver->workers[i]);
}
