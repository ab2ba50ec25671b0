#include "net/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "net/driver_internal.h"

#define TICK_NS (100 * NS_PER_MS)
#define CLOSING_NS (200 * NS_PER_MS) /* for the session's last packets to leave */
#define STEPS_A_TURN 64u             /* of session and upper, before the network is served */
#define SPINNING_BPS UINT64_C(5000000000)
#define IDLE_NS (90 * NS_PER_S)

static uint64_t test_idle_ns;

uint64_t driver_now(void)
{
    return loop_now();
}

/* ---- making and freeing ---- */

static bool fill_hello(struct driver *driver, struct error *error)
{
    const struct driver_config *config = &driver->config;
    unsigned lanes = driver->udp ? LANES_MAX : 1;
    if (config->client && config->lanes != 0 && config->lanes < lanes)
        lanes = config->lanes; /* the server makes no more than these ready */
    driver->hello = (struct hello){
        .version_min = PROTOCOL_VERSION_MIN,
        .version_max = PROTOCOL_VERSION_MAX,
        .role = (uint8_t)config->role,
        .lanes_max = (uint8_t)lanes,
        .aes_hardware = aead_has_aes_hardware(),
        .credit = config->initial_credit,
        .datagram_max = DATAGRAM_MAX,
    };
    uint32_t base;
    if (!random_bytes(&base, sizeof(base), error))
        return false;
    driver->hello.connection_base = base & ~(uint32_t)(LANES_MAX - 1);
    if (config->seat != 0)
        driver->hello.connection_base =
            (uint32_t)config->seat << 16 | (driver->hello.connection_base & 0xffff);
    return true;
}

static bool set_up(struct driver *driver, struct error *error)
{
    const struct driver_config *config = &driver->config;
    driver->udp = config->client ? config->candidate_count > 0 : config->listener != NULL;
    if (!driver->udp && !config->stream)
        return error_set(error, ERROR_USAGE,
                         config->client ? "no address to reach the server at"
                                        : "a server needs a listener");
    struct worker_hooks hooks = {.context = driver,
                                 .on_other = driver_on_other,
                                 .on_events = driver_on_events,
                                 .before_send = driver_before_send};
    driver->workers[0] = worker_new(NULL, &hooks, error);
    if (driver->workers[0] == NULL)
        return false;
    driver->worker_count = 1;
    if (config->stream) {
        driver->stream_train = malloc(sizeof(*driver->stream_train));
        if (driver->stream_train == NULL)
            return error_set(error, ERROR_MEMORY, "out of memory for a stream");
    }
    return fill_hello(driver, error) && driver_prepare_opening(driver, error);
}

struct driver *driver_new(const struct driver_config *config, struct error *error)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for the network");
        return NULL;
    }
    driver->config = *config;
    if (driver->config.idle_timeout_ns == 0)
        driver->config.idle_timeout_ns = test_idle_ns != 0 ? test_idle_ns : IDLE_NS;
    if (!set_up(driver, error)) {
        driver_free(driver);
        return NULL;
    }
    return driver;
}

/* Threads first, then the session whose lanes they served, then the sockets. */
static void tear_down(struct driver *driver)
{
    for (unsigned i = 1; i < driver->worker_count; i++) {
        worker_free(driver->workers[i]);
        driver->workers[i] = NULL;
    }
    if (driver->worker_count > 1)
        driver->worker_count = 1;
    driver_end_more(driver);
    driver_leave_handed(driver);
    opening_free(driver->opening);
    driver->opening = NULL;
}

void driver_free(struct driver *driver)
{
    if (driver == NULL)
        return;
    tear_down(driver);
    session_free(driver->session);
    stream_free(driver->stream);
    worker_free(driver->workers[0]);
    for (unsigned i = 0; i < 2; i++)
        udp_close(driver->opening_sockets[i]);
    for (unsigned i = 0; i < LANES_MAX; i++)
        udp_close(driver->lane_sockets[i]);
    free(driver->stream_train);
    wipe(driver->config.secret, sizeof(driver->config.secret));
    free(driver);
}

void driver_wake(struct driver *driver)
{
    loop_wake(worker_loop(driver->workers[0]));
}

/* ---- the loop ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void enter(struct driver *driver, enum driver_phase phase)
{
    driver->phase = phase;
}

void driver_fail(struct driver *driver, const struct error *error)
{
    if (driver->error.kind == ERROR_NONE)
        driver->error = *error;
    enter(driver, DRIVER_ENDED);
}

/* The session and what is above it, until neither moves anything. */
static bool step_session(struct driver *driver, uint64_t now_ns)
{
    const struct driver_upper *upper = &driver->config.upper;
    bool moved = false;
    for (unsigned i = 0; i < STEPS_A_TURN; i++) {
        session_step(driver->session, now_ns);
        if (!upper->step(upper->context, now_ns))
            break;
        moved = true;
    }
    return moved;
}

static bool send_all(struct driver *driver, uint64_t now_ns)
{
    driver_notify_workers(driver);
    bool any = driver->stream != NULL && driver_send_stream(driver, now_ns);
    return worker_send(driver->workers[0], now_ns) || any;
}

static bool step_opening(struct driver *driver, uint64_t now_ns)
{
    driver_send_flights(driver, now_ns);
    driver_tell_ports(driver, now_ns);
    switch (opening_state(driver->opening)) {
    case OPENING_RUNNING:
        return false;
    case OPENING_FAILED:
        driver_repeat_refusal(driver, now_ns);
        driver_fail(driver, opening_error(driver->opening));
        driver_explain_failure(driver);
        return false;
    case OPENING_FINISHED:
        break;
    }
    struct error error = {0};
    if (driver_start_session(driver, now_ns, &error))
        enter(driver, DRIVER_RUNNING);
    else
        driver_fail(driver, &error);
    return true;
}

static void note_confirmation(struct driver *driver)
{
    if (driver->confirmed || worker_heard(driver->workers[0]) == 0)
        return;
    driver->confirmed = true;
    if (driver->config.client)
        opening_confirm(driver->opening);
}

static bool step_running(struct driver *driver, uint64_t now_ns)
{
    note_confirmation(driver);
    /* A listening server judges our key last. */
    if (!driver->confirmed && opening_state(driver->opening) == OPENING_FAILED) {
        driver_fail(driver, opening_error(driver->opening));
        return false;
    }
    bool moved = step_session(driver, now_ns);
    driver_tend_lanes(driver, now_ns);
    driver_send_flights(driver, now_ns);
    moved = send_all(driver, now_ns) || moved;
    /* What was sent makes room for more: better now than after another look at the sockets. */
    if (worker_has_events(driver->workers[0])) {
        moved = step_session(driver, now_ns) || moved;
        moved = send_all(driver, now_ns) || moved;
    }
    const struct driver_upper *upper = &driver->config.upper;
    if (session_is_closed(driver->session) && upper->is_ended(upper->context)) {
        driver->closing_ns = now_ns + CLOSING_NS;
        enter(driver, DRIVER_CLOSING);
        return true;
    }
    return moved;
}

static bool step_closing(struct driver *driver, uint64_t now_ns)
{
    session_step(driver->session, now_ns);
    bool moved = send_all(driver, now_ns);
    bool flushed = worker_is_flushed(driver->workers[0]) &&
                   (driver->stream == NULL || stream_unwritten(driver->stream) == 0);
    if ((!moved && flushed) || now_ns >= driver->closing_ns)
        enter(driver, DRIVER_ENDED);
    return moved;
}

static bool step_ended(struct driver *driver, uint64_t now_ns)
{
    (void)driver;
    (void)now_ns;
    return false;
}

static bool (*const phase_steps[DRIVER_PHASE_COUNT])(struct driver *, uint64_t) = {
    [DRIVER_OPENING] = step_opening,
    [DRIVER_RUNNING] = step_running,
    [DRIVER_CLOSING] = step_closing,
    [DRIVER_ENDED] = step_ended,
};

static bool receive(struct driver *driver, uint64_t now_ns)
{
    bool received = worker_receive(driver->workers[0], now_ns);
    received = driver_receive_handed(driver, now_ns) || received;
    driver_hear_rejections(driver);
    if (driver->stream != NULL)
        received = driver_receive_stream(driver, now_ns) || received;
    return driver_receive_more(driver, now_ns) || received;
}

static void obey_stop(struct driver *driver, uint64_t now_ns)
{
    int stop = driver->config.stop != NULL ? *driver->config.stop : 0;
    if (stop == 0 || driver->phase == DRIVER_ENDED)
        return;
    const struct driver_upper *upper = &driver->config.upper;
    if (stop >= 2 || driver->phase == DRIVER_OPENING) {
        struct error error = {.kind = ERROR_INTERRUPTED, .text = "interrupted"};
        driver_fail(driver, &error);
    } else if (!driver->interrupted) {
        driver->interrupted = true;
        if (upper->interrupt != NULL)
            upper->interrupt(upper->context, now_ns);
    }
}

static void tick(struct driver *driver, uint64_t now_ns)
{
    if (now_ns < driver->next_tick_ns)
        return;
    driver->next_tick_ns = now_ns + TICK_NS;
    const struct driver_upper *upper = &driver->config.upper;
    if (upper->tick != NULL)
        upper->tick(upper->context, now_ns);
    if (driver->session == NULL)
        return;
    driver_tell_ports(driver, now_ns); /* a socket that was opened anew has another one */
    struct session_statistics statistics;
    session_statistics(driver->session, &statistics);
    for (unsigned i = 0; i < driver->worker_count; i++)
        worker_set_spinning(driver->workers[i], statistics.rate_bps > SPINNING_BPS);
}

static uint64_t deadline(const struct driver *driver)
{
    const struct driver_upper *upper = &driver->config.upper;
    uint64_t deadline_ns = driver->next_tick_ns;
    deadline_ns = earlier(deadline_ns, opening_deadline(driver->opening));
    if (driver->session == NULL)
        return deadline_ns;
    deadline_ns = earlier(deadline_ns, session_deadline(driver->session));
    if (upper->deadline != NULL)
        deadline_ns = earlier(deadline_ns, upper->deadline(upper->context));
    if (driver->stream != NULL)
        deadline_ns = earlier(deadline_ns, driver_stream_deadline(driver));
    return deadline_ns;
}

static void on_watched(void *context, int descriptor, unsigned ready)
{
    struct driver *driver = context;
    (void)ready;
    if (!driver->config.on_watch(driver->config.watch_context, descriptor)) {
        loop_remove(worker_loop(driver->workers[0]), descriptor);
        driver->watching = false;
    }
}

bool driver_watch(struct driver *driver, struct error *error)
{
    const struct driver_config *config = &driver->config;
    if (config->watch_fd < 0 || config->on_watch == NULL)
        return true;
    driver->watching = loop_add(worker_loop(driver->workers[0]), config->watch_fd, LOOP_READ,
                                on_watched, driver, error);
    return driver->watching;
}

static bool start(struct driver *driver, struct error *error)
{
    const struct driver_config *config = &driver->config;
    bool same = driver->stream != NULL && config->watch_fd == config->stream_in;
    if (!same && !driver_watch(driver, error))
        return false;
    loop_adopt_thread();
    driver->started_ns = loop_now();
    if (!driver_take_handed(driver, error))
        return false;
    return driver_start_opening(driver, driver->started_ns, error);
}

static void finish(struct driver *driver)
{
    if (driver->watching)
        loop_remove(worker_loop(driver->workers[0]), driver->config.watch_fd);
    driver->watching = false;
    driver_tell_way_at_end(driver);
    driver_notify_workers(driver);
    tear_down(driver);
    if (driver->stream != NULL)
        stream_unregister(driver->stream);
    if (driver->error.kind == ERROR_NONE && driver->session != NULL)
        driver->error = *session_error(driver->session);
    driver_explain_silence(driver);
}

bool driver_run(struct driver *driver, struct error *error)
{
    struct error cause = {0};
    if (!start(driver, &cause))
        driver_fail(driver, &cause);
    while (driver->phase != DRIVER_ENDED) {
        uint64_t now_ns = loop_now();
        obey_stop(driver, now_ns);
        bool moved = receive(driver, now_ns);
        if (driver->phase != DRIVER_ENDED)
            driver_tend_way(driver, now_ns);
        moved = phase_steps[driver->phase](driver, now_ns) || moved;
        tick(driver, now_ns);
        if (driver->phase != DRIVER_ENDED)
            worker_sleep(driver->workers[0], moved, deadline(driver));
    }
    finish(driver);
    if (driver->error.kind == ERROR_NONE)
        return true;
    if (error != NULL && error->kind == ERROR_NONE)
        *error = driver->error;
    return false;
}

/* ---- what it was like ---- */

void driver_udp_end(const struct driver *driver, struct driver_udp_end *end)
{
    *end = (struct driver_udp_end){.is_cause = driver->udp_is_cause,
                                   .refusal = driver_refusal(driver)};
}

void driver_test_idle(uint64_t timeout_ns)
{
    test_idle_ns = timeout_ns;
}

static void add_socket(struct driver_statistics *sum, const struct udp_socket *socket)
{
    if (socket == NULL)
        return;
    struct udp_statistics one;
    udp_get_statistics(socket, &one);
    bool first = sum->receive_buffer == 0;
    sum->send_calls += one.send_calls;
    sum->receive_calls += one.receive_calls;
    sum->datagrams_sent += one.datagrams_sent;
    sum->datagrams_received += one.datagrams_received;
    sum->refused += one.refused;
    sum->socket_drops += one.drops;
    if (first || one.receive_buffer < sum->receive_buffer)
        sum->receive_buffer = one.receive_buffer;
    if (first || one.send_buffer < sum->send_buffer)
        sum->send_buffer = one.send_buffer;
    sum->segmentation = (first || sum->segmentation) && one.segmentation;
    sum->coalescing = (first || sum->coalescing) && one.coalescing;
}

void driver_statistics(const struct driver *driver, struct driver_statistics *statistics)
{
    struct driver_statistics sum = {.threads = driver->worker_count};
    const struct driver_config *config = &driver->config;
    for (unsigned i = 0; i < 2; i++)
        add_socket(&sum, driver->opening_sockets[i]);
    for (unsigned i = 0; i < LANES_MAX; i++)
        add_socket(&sum, driver->lane_sockets[i]);
    if (!config->client && driver->udp) {
        for (unsigned thread = 0; thread < udp_listener_threads(config->listener); thread++)
            for (unsigned i = 0; i < 2; i++)
                add_socket(&sum, udp_listener_socket(config->listener, thread, i == 0 ? 4 : 6));
    }
    *statistics = sum;
}

void driver_prepare_hint(struct driver *driver)
{
    struct driver_statistics statistics;
    driver_statistics(driver, &statistics);
    bool receive = statistics.receive_buffer < UDP_BUFFER_SMALL;
    bool send = statistics.send_buffer < UDP_BUFFER_SMALL;
    if (session_is_on_stream(driver->session) || (!receive && !send))
        return;
    snprintf(driver->hint, sizeof(driver->hint),
             "the system allows UDP buffers of only %u KiB, which costs speed on fast or long "
             "paths; to allow more: sudo sysctl -w%s%s",
             (receive ? statistics.receive_buffer : statistics.send_buffer) / 1024,
             receive ? UDP_RECEIVE_HINT : "", send ? UDP_SEND_HINT : "");
}

const char *driver_buffer_hint(const struct driver *driver)
{
    return driver->hint[0] != '\0' ? driver->hint : NULL;
}
