#include "cli/measure/measure_far.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/interrupt.h"
#include "cli/measure/measure_job.h"
#include "cli/measure/measure_words.h"
#include "cli/report/exit_code.h"
#include "cli/report/write_all.h"
#include "cli/test_hook.h"
#include "measure/quiet_thread.h"
#include "net/stream.h"
#include "transport/ports_packet.h"

#define PATIENCE_NS (120 * NS_PER_S)

/* One session, on a thread of its own so that requests are heard meanwhile. */
struct session_job {
    struct session_run run;
    struct session_outcome outcome;
    struct udp_listener *listener;
    /* The driver's channel for ports, in the place of the SSH channel, which is ours. */
    int ports[2];
    pthread_t thread;
    bool running;
    volatile int stop;
};

struct far_end {
    struct address client;
    struct udp_echo *echo;
    struct tcp_flow *flow;
    struct session_job session;
    char line[MEASURE_LINE_MAX];
    size_t length;
};

/* ---- lines ---- */

static void say(const struct error *failed, const struct field *table, const void *from)
{
    static char line[MEASURE_LINE_MAX];
    size_t length = measure_write_answer(failed, table, from, line, sizeof(line));
    write_all(STDOUT_FILENO, line, length); /* whoever asked is gone, which stdin will tell */
}

/* Byte by byte, for what follows a line may belong to a session. False at the end of input, after
 * long silence, or at a signal. */
static bool read_request_line(struct far_end *far, const volatile int *stop)
{
    uint64_t until_ns = driver_now() + PATIENCE_NS;
    far->length = 0;
    while (*stop == 0 && driver_now() < until_ns) {
        struct pollfd waits = {.fd = STDIN_FILENO, .events = POLLIN};
        char byte;
        if (poll(&waits, 1, 200) <= 0)
            continue;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        if (got < 0)
            continue;
        far->line[far->length] = '\0';
        if (byte == '\n')
            return true;
        if (far->length + 1 < sizeof(far->line))
            far->line[far->length++] = byte;
    }
    return false;
}

/* ---- what can be asked ---- */

static void answer_facts(void)
{
    struct machine_facts facts;
    machine_facts(&facts);
    say(NULL, measure_facts_fields, &facts);
}

static void answer_disk(const struct measure_request *request)
{
    struct disk_speed speed;
    struct error error = {0};
    if (request->writes)
        disk_write_speed(request->path, request->time_ns, &speed, &error);
    else
        disk_read_speed(request->path, request->time_ns, &speed, &error);
    say(&error, measure_disk_fields, &speed);
}

static void start_echo(struct far_end *far, const struct measure_request *request)
{
    struct error error = {0};
    struct measure_started started = {0};
    udp_echo_end(far->echo, NULL);
    far->echo = udp_echo_new(request->first_port, request->last_port, request->token, &error);
    if (far->echo != NULL) {
        started.opened = *udp_echo_opened(far->echo);
        started.busy = *udp_echo_busy(far->echo);
    }
    say(&error, measure_started_fields, &started);
}

static void end_echo(struct far_end *far)
{
    static struct echo_report report;
    memset(&report, 0, sizeof(report));
    udp_echo_end(far->echo, &report);
    far->echo = NULL;
    struct measure_arrivals arrivals = {.arrived4 = report.arrived4,
                                        .arrived6 = report.arrived6,
                                        .loss_arrived = report.loss_arrived,
                                        .size_arrived = report.size_arrived,
                                        .both_arrived = report.both_arrived,
                                        .strangers = report.strangers,
                                        .refused = report.refused};
    if (report.refused_errno != 0)
        snprintf(arrivals.refusal, sizeof(arrivals.refusal), "%s", strerror(report.refused_errno));
    say(NULL, measure_arrivals_fields, &arrivals);
}

static void start_flow(struct far_end *far, const struct measure_request *request)
{
    struct error error = {0};
    struct tcp_flow_config config = {.listens = true,
                                     .sends = request->sends,
                                     .first_port = request->first_port,
                                     .last_port = request->last_port,
                                     .streams = request->streams,
                                     .time_ns = request->time_ns,
                                     .until_ended = request->until_ended};
    memcpy(config.token, request->token, sizeof(config.token));
    memcpy(config.congestion, request->congestion, sizeof(config.congestion));
    tcp_flow_end(far->flow, true, NULL);
    far->flow = tcp_flow_start(&config, &error);
    struct measure_started started = {.port = far->flow != NULL ? tcp_flow_port(far->flow) : 0};
    say(&error, measure_started_fields, &started);
}

static void end_flow(struct far_end *far, const struct measure_request *request)
{
    struct tcp_flow_report report = {0};
    struct rate_window window = {request->from_ns, request->until_ns};
    struct tcp_figures figures;
    if (far->flow == NULL)
        error_set(&report.error, ERROR_PROTOCOL, "there is no TCP flow to end");
    tcp_flow_end(far->flow, request->stop, &report);
    far->flow = NULL;
    tcp_figures_of(&figures, &report, &window);
    say(&report.error, tcp_figures_fields, &figures);
}

static void *run_session(void *context)
{
    struct session_job *job = context;
    session_run(&job->run, &job->outcome);
    return NULL;
}

static void finish_session(struct session_job *job, bool stop)
{
    if (stop)
        job->stop = 2;
    if (job->running)
        pthread_join(job->thread, NULL);
    job->running = false;
    udp_listener_free(job->listener);
    job->listener = NULL;
    for (unsigned i = 0; i < 2; i++) {
        if (job->ports[i] > 0)
            close(job->ports[i]);
        job->ports[i] = 0;
    }
    measure_job_release(&job->run);
}

/* Knocks are heard of while the session's thread is at work; a copy's server reads them itself. */
static bool open_ports_channel(struct far_end *far, struct error *error)
{
    struct session_job *job = &far->session;
    if (far->client.family == 0)
        return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, job->ports) != 0)
        return error_set_errno(error, errno, "cannot make a pair of sockets");
    job->run.driver.stream = job->run.driver.stream_for_ports = true;
    job->run.driver.stream_in = job->run.driver.stream_out = job->ports[0];
    job->run.driver.punch_to = far->client;
    return true;
}

static void start_session(struct far_end *far, const struct measure_request *request)
{
    struct session_job *job = &far->session;
    struct error error = {0};
    finish_session(job, true);
    memset(job, 0, sizeof(*job));
    measure_job_prepare(&job->run, request, false);
    job->run.driver.stop = &job->stop;
    bool good =
        measure_job_open_disk(&job->run, request, &error) && open_ports_channel(far, &error);
    if (good)
        job->listener = driver_listen(request->first_port, request->last_port,
                                      driver_threads(request->lanes), &error);
    job->run.driver.listener = job->listener;
    job->running =
        job->listener != NULL && quiet_thread_start(&job->thread, run_session, job, &error);
    good = job->running;
    struct measure_started started = {.port = good ? udp_listener_port(job->listener) : 0};
    if (!good)
        finish_session(job, true);
    say(&error, measure_started_fields, &started);
}

static void end_session(struct far_end *far, bool stop)
{
    struct session_job *job = &far->session;
    struct session_figures figures;
    if (!job->running)
        error_set(&job->outcome.error, ERROR_PROTOCOL, "there is no session to end");
    finish_session(job, stop);
    session_figures_of(&figures, &job->outcome);
    say(&job->outcome.error, session_figures_fields, &figures);
    memset(&job->outcome, 0, sizeof(job->outcome));
}

/* The channel is the session's from here on, and nobody else's afterwards. */
static int serve_stream(struct far_end *far, const struct measure_request *request)
{
    struct session_job *job = &far->session;
    struct measure_started started = {0};
    finish_session(job, true);
    memset(job, 0, sizeof(*job));
    measure_job_prepare(&job->run, request, false);
    job->run.driver.stop = interrupt_watch();
    job->run.driver.stream_in = STDIN_FILENO;
    job->run.driver.stream_out = STDOUT_FILENO;
    say(NULL, measure_started_fields, &started);
    session_run(&job->run, &job->outcome);
    return exit_code_of(job->outcome.error.kind);
}

/* ---- knocking ---- */

static void add_ports(struct client_port *ports, size_t *count, uint8_t family,
                      const struct port_set *set)
{
    for (unsigned port = 1; port < 65536 && *count < MEASURE_KNOCKS_MAX; port++) {
        if (port_set_has(set, (uint16_t)port))
            ports[(*count)++] = (struct client_port){.family = family, .port = (uint16_t)port};
    }
}

static void knock_of_session(struct session_job *job, const struct client_port *ports, size_t count)
{
    uint8_t frame[STREAM_LENGTH_SIZE + PORTS_PACKET_MAX], heard[64];
    _Static_assert(MEASURE_KNOCKS_MAX <= PORTS_MAX, "");
    size_t size = ports_packet_write(ports, count, frame + STREAM_LENGTH_SIZE, PORTS_PACKET_MAX);
    if (!job->running || job->ports[1] <= 0 || size == 0)
        return;
    frame[0] = (uint8_t)(size >> 8);
    frame[1] = (uint8_t)size;
    while (recv(job->ports[1], heard, sizeof(heard), MSG_DONTWAIT) > 0)
        ; /* what the driver answers is of no interest */
    ssize_t sent =
        send(job->ports[1], frame, STREAM_LENGTH_SIZE + size, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* a session that has ended needs no knocking */
}

static void serve_knock(struct far_end *far, const struct measure_request *request)
{
    struct client_port ports[MEASURE_KNOCKS_MAX];
    size_t count = 0;
    add_ports(ports, &count, 4, &request->ports4);
    add_ports(ports, &count, 6, &request->ports6);
    if (request->of == MEASURE_SESSION)
        knock_of_session(&far->session, ports, count);
    struct address to = far->client;
    for (size_t i = 0; request->of == MEASURE_ECHO && far->echo != NULL && i < count; i++) {
        to.port = ports[i].port;
        if (ports[i].family == to.family)
            udp_echo_knock(far->echo, &to);
    }
    say(NULL, NULL, NULL);
}

static void serve_end(struct far_end *far, const struct measure_request *request)
{
    struct error error = {0};
    if (request->of == MEASURE_ECHO)
        end_echo(far);
    else if (request->of == MEASURE_TCP)
        end_flow(far, request);
    else if (request->of == MEASURE_SESSION)
        end_session(far, request->stop);
    else
        say((error_set(&error, ERROR_PROTOCOL, "that has no end"), &error), NULL, NULL);
}

static void serve_request(struct far_end *far, const struct measure_request *request)
{
    switch (request->what) {
    case MEASURE_FACTS:
        answer_facts();
        break;
    case MEASURE_DISK:
        answer_disk(request);
        break;
    case MEASURE_ECHO:
        start_echo(far, request);
        break;
    case MEASURE_SESSION:
        start_session(far, request);
        break;
    case MEASURE_TCP:
        start_flow(far, request);
        break;
    case MEASURE_KNOCK:
        serve_knock(far, request);
        break;
    case MEASURE_END:
        serve_end(far, request);
        break;
    case MEASURE_PING:
    case MEASURE_DO_COUNT:
        say(NULL, NULL, NULL);
        break;
    }
}

int measure_serve(const struct address *client)
{
    test_hook_measure();
    const volatile int *stop = interrupt_watch();
    struct far_end *far = calloc(1, sizeof(*far));
    int code = far != NULL ? EXIT_OK : EXIT_MEMORY;
    if (far != NULL)
        far->client = *client;
    while (far != NULL && read_request_line(far, stop)) {
        struct measure_request request;
        struct error error = {0};
        if (!measure_read_request(&request, far->line, &error)) {
            say(&error, NULL, NULL);
            continue;
        }
        wipe(far->line, sizeof(far->line));
        if (request.what == MEASURE_SESSION && request.stream) {
            code = serve_stream(far, &request);
            break;
        }
        serve_request(far, &request);
    }
    if (far != NULL) {
        udp_echo_end(far->echo, NULL);
        tcp_flow_end(far->flow, true, NULL);
        finish_session(&far->session, true);
    }
    free(far);
    return code;
}
