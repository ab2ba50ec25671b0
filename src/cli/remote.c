/* petrel remote: the far end of a copy. Started by ssh, told its secret on stdin, it answers with
 * one line on stdout and serves one session. It ends when the session ends, or 3 seconds after the
 * SSH channel did if by then nothing came from the client. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/copy/run_transfer.h"
#include "cli/copy/squeezed_storage.h"
#include "cli/interrupt.h"
#include "cli/measure/measure_far.h"
#include "cli/remote.h"
#include "cli/report/exit_code.h"
#include "cli/report/write_all.h"
#include "cli/start/bootstrap.h"
#include "cli/start/channel_watch.h"
#include "cli/start/far_addresses.h"
#include "cli/test_hook.h"
#include "cli/version.h"
#include "tree/sink.h"
#include "tree/source.h"

#define SECRET_LIFE_NS (60 * NS_PER_S)
#define SMALL_RANGE 32
#define PORT_NAPS 33u /* three seconds and a little */
#define PORT_NAP_NS (100 * NS_PER_MS)
#define START_LINE_MS 10000 /* that it may be silent before its end */

struct remote {
    struct bootstrap_start start;
    struct channel_watch watch;
    struct remote_guest *guest; /* NULL: through ssh */
};

/* The client has sent it before we were started: what ate it on its way brings no other. */
static bool read_line(char *line, size_t capacity)
{
    size_t length = 0;
    char byte;
    struct pollfd waits = {.fd = STDIN_FILENO, .events = POLLIN};
    while (length + 1 < capacity && poll(&waits, 1, START_LINE_MS) > 0 &&
           read(STDIN_FILENO, &byte, 1) == 1) {
        if (byte == '\n') {
            line[length] = '\0';
            return true;
        }
        line[length++] = byte;
    }
    return false;
}

static void say(const char *line, size_t length)
{
    write_all(STDOUT_FILENO, line, length); /* a client that is gone shows in the handshake */
}

static int refuse(const struct error *error)
{
    char line[BOOTSTRAP_LINE_MAX];
    say(line, bootstrap_write_error(error, line, sizeof(line)));
    return exit_code_of(error->kind);
}

/* SSH_CONNECTION: "client-address client-port server-address server-port" */
static struct address client_address(void)
{
    const char *connection = getenv("SSH_CONNECTION");
    struct far_addresses found = {0};
    char client[64];
    if (connection != NULL && sscanf(connection, "%63s", client) == 1)
        far_addresses_add(&found, client, true);
    return found.list[0];
}

static void server_address(char *address, size_t capacity)
{
    const char *connection = getenv("SSH_CONNECTION");
    char server[64];
    address[0] = '\0';
    if (connection != NULL && sscanf(connection, "%*s %*s %63s", server) == 1)
        snprintf(address, capacity, "%s", server);
}

bool remote_open_storage(bool sends, const struct transfer_request *request,
                         struct storage *storage, struct error *error)
{
    *storage = (struct storage){0};
    if (test_hook_storage(sends, request, storage))
        return true;
    if (sends) {
        struct file_source *source = file_source_new_pull(request, error);
        if (source == NULL)
            return false;
        storage->source = source;
        storage->source_ops = &file_source_ops;
        storage->names = file_source_ops.names(source);
        squeezed_storage(request, storage);
        return true;
    }
    storage->sink = file_sink_new();
    storage->sink_ops = &file_sink_ops;
    squeezed_storage(request, storage);
    return storage->sink != NULL || error_set(error, ERROR_MEMORY, "no memory for the sink");
}

static bool open_storage(void *context, const struct transfer_request *request,
                         struct storage *storage, struct error *error)
{
    const struct remote *remote = context;
    const struct remote_guest *guest = remote->guest;
    bool sends = remote->start.remote_sends;
    return guest != NULL ? guest->open_storage(guest->context, sends, request, storage, error)
                         : remote_open_storage(sends, request, storage, error);
}

/* Without a listener: measurements, which open their own, or the way through ssh alone. */
static bool answer(const struct bootstrap_start *start, const struct udp_listener *listener)
{
    struct bootstrap_answer answer = {.port = listener != NULL ? udp_listener_port(listener) : 0,
                                      .job = start->job,
                                      .ways = start->ways,
                                      .protocol = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX}};
    snprintf(answer.version, sizeof(answer.version), "%s", PETREL_VERSION);
    server_address(answer.address, sizeof(answer.address));
    char line[BOOTSTRAP_LINE_MAX];
    size_t length = bootstrap_write_answer(&answer, line, sizeof(line));
    say(line, length);
    return length > 0;
}

static int serve(struct remote *remote, struct udp_listener *listener)
{
    struct error error = {0};
    struct transfer_run run = {
        .transfer = {.client = false,
                     .role = remote->start.remote_sends ? ROLE_SENDER : ROLE_RECEIVER,
                     .open_storage = open_storage,
                     .open_context = remote},
        .driver = {.listener = listener,
                   .first_port = remote->start.first_port,
                   .last_port = remote->start.last_port,
                   .stream = (remote->start.ways & (WAY_SSH | WAY_PORTS)) != 0,
                   .stream_for_ports = (remote->start.ways & WAY_PORTS) != 0,
                   .stream_in = STDIN_FILENO,
                   .stream_out = STDOUT_FILENO,
                   .punch_to = client_address(),
                   .lanes = remote->start.lanes,
                   .limit_bps = remote->start.limit_bps,
                   .policy = remote->start.policy.kind,
                   .fixed_bps = remote->start.policy.fixed_bps,
                   .remembered = remote->start.path,
                   .rtt_ns = remote->start.path.rtt_ns,
                   .open_timeout_ns = SECRET_LIFE_NS,
                   .stop = interrupt_watch(),
                   .watch_fd = STDIN_FILENO,
                   .on_watch = channel_watch_read,
                   .watch_context = &remote->watch},
        .watch = &remote->watch};
    if (remote->guest != NULL) {
        run.transfer.pool_blocks = remote->guest->pool_blocks;
        run.transfer.first_blocks = remote->guest->first_blocks;
        run.on_tick = remote->guest->on_tick;
        run.on_pace = remote->guest->on_pace;
        run.tick_context = run.pace_context = remote->guest->context;
    }
    memcpy(run.driver.secret, remote->start.secret, START_SECRET_SIZE);
    memcpy(run.driver.session_id, remote->start.session_id, SESSION_ID_SIZE);
    wipe(remote->start.secret, START_SECRET_SIZE);
    struct transfer_progress progress;
    run.flip = test_hook_flip(&run.flip_after);
    bool good = transfer_run(&run, &progress, NULL, 0, &error);
    wipe(run.driver.secret, START_SECRET_SIZE);
    if (remote->guest != NULL) {
        remote->guest->files = progress.files_done;
        remote->guest->bytes = progress.verified_bytes;
        remote->guest->error = error;
        remote->guest->on_tick(remote->guest->context, &progress);
    }
    if (!good)
        return exit_code_of(error.kind);
    return progress.files_failed > 0 ? EXIT_PARTIAL : EXIT_OK;
}

/* Another copy may have taken the last ports of a small range, only to see which of them is open.
 */
static struct udp_listener *listen_in_range(const struct bootstrap_start *start,
                                            struct error *error)
{
    const struct timespec nap = {.tv_nsec = PORT_NAP_NS};
    unsigned naps = start->last_port - start->first_port < SMALL_RANGE ? PORT_NAPS : 0;
    for (;; naps--) {
        struct error cause = {0};
        struct udp_listener *listener = driver_listen(start->first_port, start->last_port,
                                                      driver_threads(start->lanes), &cause);
        if (listener != NULL)
            return listener;
        if (naps == 0) {
            *error = cause;
            return NULL;
        }
        nanosleep(&nap, NULL);
    }
}

/* A guest comes by this stream alone, for a copy or a job on files. */
static bool confine(struct remote *remote, struct error *error)
{
    const struct remote_guest *guest = remote->guest;
    struct bootstrap_start *start = &remote->start;
    if (guest == NULL)
        return true;
    if (start->job == JOB_MEASURE)
        return error_set(error, ERROR_PERMISSION, "a listening petrel serves no measurements");
    if (start->job == JOB_COPY && (start->ways & WAY_SSH) == 0)
        return error_set(error, ERROR_PROTOCOL, "the stream was to be used, and is not wanted");
    start->ways = WAY_SSH;
    if (guest->limit_bps != 0 && (start->limit_bps == 0 || start->limit_bps > guest->limit_bps))
        start->limit_bps = guest->limit_bps;
    return true;
}

static bool read_start(struct remote *remote, struct error *error)
{
    const struct version_range own = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX};
    char line[BOOTSTRAP_LINE_MAX];
    bool good = read_line(line, sizeof(line)) ||
                error_set(error, ERROR_PROTOCOL,
                          "no start line came on stdin; what is run before petrel there may have "
                          "read it");
    good = good && bootstrap_read_start(&remote->start, line, error);
    wipe(line, sizeof(line));
    if (good && !version_ranges_meet(own, remote->start.protocol))
        return error_set(
            error, ERROR_VERSION,
            "petrel %s there speaks protocol %u to %u, this petrel %u to %u; bring both to one "
            "version",
            PETREL_VERSION, own.lowest, own.highest, remote->start.protocol.lowest,
            remote->start.protocol.highest);
    return good && confine(remote, error);
}

static int serve_by_udp(struct remote *remote)
{
    struct error error = {0};
    struct udp_listener *listener = NULL;
    if (remote->start.ways != WAY_SSH) {
        listener = listen_in_range(&remote->start, &error);
        if (listener == NULL && (remote->start.ways & WAY_SSH) == 0) {
            error.kind = ERROR_UNREACHABLE; /* whatever the cause: no UDP */
            return refuse(&error);
        }
        if (listener == NULL)
            remote->start.ways = WAY_SSH;
    }
    int code = answer(&remote->start, listener) ? serve(remote, listener) : EXIT_PROTOCOL;
    udp_listener_free(listener);
    return code;
}

int remote_run(struct remote_guest *guest)
{
    struct remote remote = {.guest = guest};
    struct error error = {0};
    if (!read_start(&remote, &error)) {
        if (guest != NULL)
            guest->error = error;
        return refuse(&error);
    }
    if (remote.start.job == JOB_MEASURE) {
        const struct address client = client_address();
        return answer(&remote.start, NULL) ? measure_serve(&client) : EXIT_PROTOCOL;
    }
    if (remote.start.job == JOB_FILES)
        return answer(&remote.start, NULL) ? file_job_serve(guest != NULL ? &guest->jobs : NULL)
                                           : EXIT_PROTOCOL;
    return serve_by_udp(&remote);
}

int command_remote(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    test_hook_measure();
    return remote_run(NULL);
}
