#include "measure/tcp_flow.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "measure/quiet_thread.h"
#include "measure/tcp_open.h"
#include "net/driver.h"

#define OPEN_NS (10 * NS_PER_S)
#define LINGER_NS (5 * NS_PER_S) /* a receiver waits this much longer than a sender sends */
#define PIECE_BYTES (256u * 1024u)
#define TURN_MS 20

struct tcp_flow {
    struct tcp_flow_config config;
    int listener;
    uint16_t port;
    int descriptors[TCP_STREAMS_MAX];
    unsigned alive;
    uint8_t *bytes;
    pthread_t thread;
    bool has_thread;
    atomic_bool stop, done;
    uint64_t began_ns, ended_ns, sampled_ns;
    struct tcp_flow_report report;
};

/* ---- moving bytes ---- */

static void close_stream(struct tcp_flow *flow, unsigned i)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);
    if (getsockopt(flow->descriptors[i], IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
        flow->report.retransmits += info.tcpi_total_retrans;
    close(flow->descriptors[i]);
    flow->descriptors[i] = -1;
    flow->alive--;
}

static void note_bytes(struct tcp_flow *flow, size_t size)
{
    uint64_t now_ns = driver_now();
    if (flow->report.bytes == 0) {
        flow->began_ns = now_ns;
        rate_samples_start(&flow->report.samples, now_ns);
    }
    flow->report.bytes += size;
    flow->ended_ns = now_ns;
    if (now_ns >= flow->sampled_ns + RATE_SAMPLE_NS) {
        flow->sampled_ns = now_ns;
        rate_samples_add(&flow->report.samples, now_ns, flow->report.bytes);
    }
}

/* False when the stream has ended. */
static bool move(struct tcp_flow *flow, int descriptor)
{
    ssize_t moved = flow->config.sends ? write(descriptor, flow->bytes, PIECE_BYTES)
                                       : read(descriptor, flow->bytes, PIECE_BYTES);
    if (moved > 0)
        note_bytes(flow, (size_t)moved);
    return moved > 0 || (moved < 0 && (errno == EAGAIN || errno == EINTR));
}

static void move_all(struct tcp_flow *flow, uint64_t until_ns)
{
    struct pollfd waits[TCP_STREAMS_MAX];
    while (flow->alive > 0 && !atomic_load(&flow->stop) && driver_now() < until_ns) {
        for (unsigned i = 0; i < flow->config.streams; i++)
            waits[i] = (struct pollfd){.fd = flow->descriptors[i], /* -1: ignored */
                                       .events = flow->config.sends ? POLLOUT : POLLIN};
        if (poll(waits, flow->config.streams, TURN_MS) <= 0)
            continue;
        for (unsigned i = 0; i < flow->config.streams; i++) {
            if (waits[i].revents != 0 && flow->descriptors[i] >= 0 &&
                !move(flow, flow->descriptors[i]))
                close_stream(flow, i);
        }
    }
}

/* What still waits in a sender's buffers is given up: on a slow path it would take long, and the
 * receiver has counted what came. The receiver sees a reset, which ends the stream. */
static void drop_unsent(struct tcp_flow *flow)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    for (unsigned i = 0; i < flow->config.streams; i++) {
        if (flow->descriptors[i] < 0)
            continue;
        if (flow->config.sends)
            setsockopt(flow->descriptors[i], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        close_stream(flow, i);
    }
}

static double thread_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A flow until its end cannot be too short at the end that receives: there the other one's end
 * comes first. */
static bool is_too_short(const struct tcp_flow *flow)
{
    if (flow->config.until_ended)
        return flow->config.sends;
    return flow->report.seconds * 1e9 < (double)flow->config.time_ns / 2;
}

static void check_length(struct tcp_flow *flow)
{
    struct tcp_flow_report *report = &flow->report;
    report->sustained_bps = rate_samples_sustained(&report->samples, NULL);
    if (flow->ended_ns > flow->began_ns)
        report->seconds = (double)(flow->ended_ns - flow->began_ns) / 1e9;
    if (report->error.kind == ERROR_NONE && !atomic_load(&flow->stop) && is_too_short(flow))
        error_set(&report->error, ERROR_PEER_LOST, "the TCP streams broke after %.1f s",
                  report->seconds);
}

static void *run(void *context)
{
    struct tcp_flow *flow = context;
    const struct tcp_flow_config *config = &flow->config;
    uint64_t until_ns = driver_now() + OPEN_NS;
    struct error *error = &flow->report.error;
    bool opened = config->listens
                      ? tcp_accept_all(config, flow->listener, flow->descriptors, &flow->stop,
                                       until_ns, error)
                      : tcp_connect_all(config, flow->descriptors, &flow->stop, until_ns, error);
    double cpu = thread_seconds();
    for (unsigned i = 0; i < config->streams; i++)
        flow->alive += flow->descriptors[i] >= 0;
    if (opened)
        move_all(flow, driver_now() + config->time_ns + (config->sends ? 0 : LINGER_NS));
    drop_unsent(flow);
    flow->report.cpu_seconds = thread_seconds() - cpu;
    check_length(flow);
    atomic_store(&flow->done, true);
    return NULL;
}

/* ---- beginning and end ---- */

static bool open_listener(struct tcp_flow *flow, struct error *error)
{
    if (!flow->config.listens)
        return true;
    flow->listener = tcp_listen(&flow->config, &flow->port, error);
    return flow->listener >= 0 &&
           (!flow->config.sends ||
            tcp_set_congestion(flow->listener, flow->config.congestion, error));
}

static bool fill_bytes(struct tcp_flow *flow, struct error *error)
{
    struct random random;
    flow->bytes = malloc(PIECE_BYTES);
    if (flow->bytes == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for a TCP flow");
    random_seed(&random, 1);
    for (size_t i = 0; i < PIECE_BYTES / 8; i++) {
        uint64_t word = random_next(&random);
        memcpy(flow->bytes + 8 * i, &word, sizeof(word));
    }
    return true;
}

static bool start(struct tcp_flow *flow, struct error *error)
{
    flow->has_thread = quiet_thread_start(&flow->thread, run, flow, error);
    return flow->has_thread;
}

struct tcp_flow *tcp_flow_start(const struct tcp_flow_config *config, struct error *error)
{
    struct tcp_flow *flow = calloc(1, sizeof(*flow));
    if (flow == NULL || config->streams == 0 || config->streams > TCP_STREAMS_MAX) {
        error_set(error, flow == NULL ? ERROR_MEMORY : ERROR_USAGE, "no TCP flow of %u streams",
                  config->streams);
        free(flow);
        return NULL;
    }
    flow->config = *config;
    flow->listener = -1;
    for (unsigned i = 0; i < TCP_STREAMS_MAX; i++)
        flow->descriptors[i] = -1;
    if (!fill_bytes(flow, error) || !open_listener(flow, error) || !start(flow, error)) {
        tcp_flow_end(flow, true, NULL);
        return NULL;
    }
    return flow;
}

bool tcp_flow_is_done(const struct tcp_flow *flow)
{
    return atomic_load(&flow->done);
}

uint16_t tcp_flow_port(const struct tcp_flow *flow)
{
    return flow->port;
}

void tcp_flow_end(struct tcp_flow *flow, bool stop, struct tcp_flow_report *report)
{
    if (flow == NULL)
        return;
    if (stop)
        atomic_store(&flow->stop, true);
    if (flow->has_thread)
        pthread_join(flow->thread, NULL);
    if (flow->listener >= 0)
        close(flow->listener);
    if (report != NULL)
        *report = flow->report;
    free(flow->bytes);
    free(flow);
}
