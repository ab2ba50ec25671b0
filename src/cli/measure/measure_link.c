#include "cli/measure/measure_link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/measure/measure_job.h"
#include "cli/report/write_all.h"

#define ANSWER_NS (20 * NS_PER_S)
#define END_NS (3 * NS_PER_S)

/* ---- lines ---- */

/* 1: a byte. 0: none yet. -1: the end. */
static int get_byte(struct measure_link *link, char *byte)
{
    struct pollfd waits = {.fd = link->channel.from_remote, .events = POLLIN};
    if (poll(&waits, 1, 100) <= 0)
        return 0;
    ssize_t got = read(link->channel.from_remote, byte, 1);
    if (got == 1)
        return 1;
    return got < 0 && errno == EINTR ? 0 : -1;
}

/* The next line that is a JSON object; what else a shell over there may print is passed over. Byte
 * by byte, for what follows may be a session's. */
static bool get_line(struct measure_link *link, char *line, uint64_t wait_ns, struct error *error)
{
    uint64_t until_ns = driver_now() + wait_ns;
    const volatile int *stop = link->ssh->stop;
    size_t length = 0;
    while (driver_now() < until_ns) {
        char byte = 0;
        if (stop != NULL && *stop != 0)
            return error_set(error, ERROR_INTERRUPTED, "interrupted");
        int got = get_byte(link, &byte);
        if (got < 0)
            return error_set(error, ERROR_PEER_LOST, "the SSH session to %s ended", link->host);
        if (got == 0)
            continue;
        line[length] = '\0';
        if (byte == '\n' && line[0] == '{')
            return true;
        if (byte == '\n')
            length = 0;
        else if (length + 1 < MEASURE_LINE_MAX)
            line[length++] = byte;
    }
    return error_set(error, ERROR_PEER_LOST, "petrel on %s did not answer for %u s", link->host,
                     (unsigned)(wait_ns / NS_PER_S));
}

static bool put_request(struct measure_link *link, const struct measure_request *request,
                        struct error *error)
{
    char line[MEASURE_LINE_MAX];
    size_t length = measure_write_request(request, line, sizeof(line));
    if (length == 0)
        return error_set(error, ERROR_USAGE, "a request is too long");
    link->broken = !write_all(link->channel.to_remote, line, length);
    wipe(line, sizeof(line));
    return !link->broken ||
           error_set(error, ERROR_PEER_LOST, "the SSH session to %s ended", link->host);
}

bool measure_ask(struct measure_link *link, const struct measure_request *request, uint64_t wait_ns,
                 const struct field *table, void *into, struct error *error)
{
    char line[MEASURE_LINE_MAX];
    if (link->broken)
        return error_set(error, ERROR_PEER_LOST, "the SSH session to %s ended", link->host);
    if (!put_request(link, request, error))
        return false;
    for (; !link->broken && link->unread > 0; link->unread--)
        link->broken = !get_line(link, line, wait_ns, error);
    link->broken = link->broken || !get_line(link, line, wait_ns, error);
    return !link->broken && measure_read_answer(line, table, into, error);
}

/* ---- beginning and end ---- */

bool measure_link_open(struct measure_link *link, const struct ssh_options *ssh, const char *host,
                       uint16_t first_port, uint16_t last_port, struct error *error)
{
    *link = (struct measure_link){
        .channel = {.to_remote = -1, .from_remote = -1}, .ssh = ssh, .host = host};
    struct bootstrap_start start = {.first_port = first_port,
                                    .last_port = last_port,
                                    .job = JOB_MEASURE,
                                    .protocol = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX}};
    uint64_t began_ns = driver_now();
    /* Of no use to a far end that measures, but a start line has them. */
    if (!random_bytes(start.secret, sizeof(start.secret), error) ||
        !random_bytes(start.session_id, sizeof(start.session_id), error))
        return false;
    bool good = ssh_start(&link->channel, ssh, host, &start, error);
    wipe(start.secret, sizeof(start.secret));
    link->ssh_ns = driver_now() - began_ns;
    if (!good)
        return false;
    if (link->channel.answer.job != JOB_MEASURE)
        return error_set(error, ERROR_VERSION,
                         "petrel %s on %s takes no measurements; send this one there: petrel "
                         "install %s",
                         link->channel.answer.version, host, host);
    struct measure_request ping = {.what = MEASURE_PING};
    uint64_t asked_ns = driver_now();
    good = measure_ask(link, &ping, ANSWER_NS, NULL, NULL, error);
    link->ping_ns = driver_now() - asked_ns;
    return good;
}

void measure_link_close(struct measure_link *link)
{
    ssh_close(&link->channel, END_NS);
}

/* ---- sessions ---- */

static void set_candidates(struct session_run *run, const struct measure_link *link,
                           const struct address *only, uint16_t port)
{
    struct driver_config *driver = &run->driver;
    const struct far_addresses *known = &link->channel.addresses;
    driver->candidate_count = only != NULL ? 1 : known->count;
    for (unsigned i = 0; i < driver->candidate_count; i++) {
        driver->candidates[i] = only != NULL ? *only : known->list[i];
        driver->candidates[i].port = port;
    }
}

/* The answer comes while the session has this thread: it is read, and dropped, with the next. */
static void knock_for_session(void *context, const struct client_port *ports, size_t count)
{
    struct measure_link *link = context;
    struct measure_request knock = {.what = MEASURE_KNOCK, .of = MEASURE_SESSION};
    struct error error = {0};
    for (size_t i = 0; i < count; i++)
        port_set_add(ports[i].family == 4 ? &knock.ports4 : &knock.ports6, ports[i].port);
    if (!link->broken && put_request(link, &knock, &error))
        link->unread++;
}

static void run_near(struct measure_link *link, const struct measure_request *request,
                     const struct address *only, const char *source, uint16_t port,
                     struct session_outcome *outcome)
{
    struct session_run run;
    measure_job_prepare(&run, request, true);
    memset(outcome, 0, sizeof(*outcome));
    if (!measure_job_open_disk(&run, request, &outcome->error))
        return;
    int descriptor = source != NULL && run.sends ? disk_source(source) : -1;
    if (descriptor > 0)
        run.memory.disk = descriptor;
    run.driver.stop = link->ssh->stop;
    run.driver.rtt_ns = 0;
    if (request->stream) {
        run.driver.stream_in = link->channel.from_remote;
        run.driver.stream_out = link->channel.to_remote;
    } else {
        set_candidates(&run, link, only, port);
        run.driver.tells_ports = !link->channel.jumped;
        run.driver.on_ports = knock_for_session;
        run.driver.ports_context = link;
    }
    session_run(&run, outcome);
    measure_job_release(&run);
}

static bool end_far(struct measure_link *link, bool stop, struct session_figures *far,
                    struct error *error)
{
    struct measure_request end = {.what = MEASURE_END, .of = MEASURE_SESSION, .stop = stop};
    return measure_ask(link, &end, ANSWER_NS, session_figures_fields, far, error);
}

bool measure_session(struct measure_link *link, struct measure_request *request,
                     const struct address *only, const char *source, struct session_figures *near,
                     struct session_figures *far, struct error *error)
{
    memset(near, 0, sizeof(*near));
    memset(far, 0, sizeof(*far));
    request->what = MEASURE_SESSION;
    struct measure_started started = {0};
    struct session_outcome outcome;
    if (!random_bytes(request->secret, sizeof(request->secret), error) ||
        !random_bytes(request->session_id, sizeof(request->session_id), error) ||
        !measure_ask(link, request, ANSWER_NS, measure_started_fields, &started, error))
        return false;
    run_near(link, request, only, source, started.port, &outcome);
    wipe(request->secret, sizeof(request->secret));
    session_figures_of(near, &outcome);
    struct error far_error = {0};
    if (request->stream)
        link->broken = true;
    else
        end_far(link, outcome.error.kind != ERROR_NONE, far, &far_error);
    /* An abort is told in the other end's words; what we saw ourselves says more than its echo. */
    if (outcome.error.kind != ERROR_NONE)
        return error_set(error, outcome.error.kind, "%s", outcome.error.text);
    return far_error.kind == ERROR_NONE ||
           error_set(error, far_error.kind, "%s: %s", link->host, far_error.text);
}
