/* The session's lanes on their threads and sockets. */
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "net/driver_internal.h"

#define HANDSHAKE_TYPE 0x01
#define LANES_AUTO_MAX 4u
#define GROW_EVERY_NS NS_PER_S
#define BUSY_PERCENT 70u
#define STREAM_TURN_BYTES (512u * 1024u) /* read before the session is stepped again */

static unsigned processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > LANES_MAX ? LANES_MAX : (unsigned)count;
}

unsigned driver_default_lanes(void)
{
    unsigned half = processors() / 2;
    return half < 1 ? 1 : half > LANES_AUTO_MAX ? LANES_AUTO_MAX : half;
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
        .kind = config->stream ? LANE_STREAM : LANE_DATAGRAM,
        .lanes = 1,
        .rtt_ns = result->rtt_ns != 0 ? result->rtt_ns : config->rtt_ns,
        .limit_bps = config->limit_bps,
        .fixed_bps = config->fixed_bps,
        .policy = config->policy,
        .idle_timeout_ns = config->idle_timeout_ns,
    };
    if (result->rtt_ns != 0) /* else nothing says that it is the same path */
        session->remembered = config->remembered;
    memcpy(session->secret, result->secret, sizeof(session->secret));
    if (!config->stream) {
        struct address local = worker_local_address(driver->workers[0]);
        session->peer_address = driver->peer;
        session->interface_mtu = udp_interface_mtu(&driver->peer, &local);
    }
}

static unsigned wanted_lanes(const struct driver *driver)
{
    unsigned wanted = driver->config.lanes != 0 ? driver->config.lanes : driver_default_lanes();
    unsigned most = session_lane_count(driver->session);
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
    unsigned lanes = session_lane_count(driver->session);
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
    for (unsigned i = 0; i < session_lane_count(driver->session); i++) {
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
    bool ready = random_bytes(&session.seed, sizeof(session.seed), error);
    if (ready && config->client && !config->stream)
        ready = adopt_opening_socket(driver, error);
    if (ready)
        driver->session = session_new(&session, now_ns, error);
    wipe(session.secret, sizeof(session.secret));
    if (driver->session == NULL)
        return false;
    worker_set_connection_base(driver->workers[0], driver->hello.connection_base);
    driver->lanes_wanted = wanted_lanes(driver);
    driver->lanes_open = 1;
    if (!config->stream && config->client)
        worker_give_lane(driver->workers[0], session_lane(driver->session, 0),
                         driver->lane_sockets[0]);
    if (!config->stream && !config->client && !spread_server_lanes(driver, error))
        return false;
    driver_prepare_hint(driver);
    config->upper.attach(config->upper.context, driver->session, now_ns);
    return true;
}

/* ---- further lanes ---- */

/* The worker for lane `index`: one thread a lane as far as there are processors. */
static struct worker *worker_for_lane(struct driver *driver, unsigned index, struct error *error)
{
    unsigned threads = processors();
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

/* `--lanes auto`: one more lane when a lane's thread has little time left. */
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
    /* A lane's thread with no processor of its own beside the disk's and the hashes' only costs. */
    unsigned most = session_lane_count(driver->session);
    if (most > processors() / 2)
        most = processors() / 2;
    if (busy && driver->lanes_wanted < most)
        driver->lanes_wanted++;
}

static void open_further_lanes(struct driver *driver, uint64_t now_ns)
{
    /* Before that the server may not have the keys yet, and a lane's first packet would be lost. */
    if (!driver->confirmed)
        return;
    consider_growing(driver, now_ns);
    while (driver->lanes_open < driver->lanes_wanted) {
        if (!open_lane(driver, driver->lanes_open, now_ns)) {
            driver->lanes_wanted = driver->lanes_open; /* we do with those there are */
            break;
        }
        driver->lanes_open++;
    }
}

void driver_tend_lanes(struct driver *driver, uint64_t now_ns)
{
    if (driver->config.client && !driver->config.stream)
        open_further_lanes(driver, now_ns);
}

void driver_notify_workers(struct driver *driver)
{
    for (unsigned i = 1; i < driver->worker_count; i++)
        worker_notify(driver->workers[i]);
}

/* ---- the stream lane ---- */

static void take_frame(struct driver *driver, uint8_t *frame, size_t size, uint64_t now_ns)
{
    static const struct address nowhere;
    const uint8_t *packet = frame + STREAM_LENGTH_SIZE;
    size_t packet_size = size - STREAM_LENGTH_SIZE;
    if (packet[0] == HANDSHAKE_TYPE) {
        opening_receive(driver->opening, &nowhere, packet, packet_size, now_ns);
        return;
    }
    if (driver->session == NULL)
        return;
    struct error error = {0};
    driver->confirmed = true;
    if (!lane_receive_stream(session_lane(driver->session, 0), frame, size, now_ns, &error))
        session_abort(driver->session, error.kind, error.text, now_ns);
}

bool driver_receive_stream(struct driver *driver, uint64_t now_ns)
{
    size_t taken = 0;
    do {
        uint8_t *frame;
        size_t size;
        while (taken < STREAM_TURN_BYTES && stream_next_frame(driver->stream, &frame, &size)) {
            take_frame(driver, frame, size, now_ns);
            taken += size;
            /* What follows the last flight is for the session: it has to be there first. */
            if (driver->session == NULL && opening_state(driver->opening) != OPENING_RUNNING)
                return true;
        }
    } while (taken < STREAM_TURN_BYTES && stream_read(driver->stream));
    return taken > 0;
}

bool driver_send_stream(struct driver *driver, uint64_t now_ns)
{
    bool any = stream_flush(driver->stream);
    struct lane *lane = session_lane(driver->session, 0);
    while (lane_send(lane, driver->stream_train, stream_room(driver->stream), now_ns)) {
        stream_write(driver->stream, driver->stream_train->bytes, driver->stream_train->size);
        any = true;
    }
    return any;
}
