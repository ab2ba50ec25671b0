#include "lab/link_emulator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "lab/link_space.h"
#include "lab/link_tun.h"

#define READ_BATCH 32u
#define DELIVER_BATCH 64u
#define SLACK_MAX_NS (50 * NS_PER_US)
#define SLACK_SHARE 100u /* of the one-way delay */
#define PAUSE_MIN_NS LINK_LATENESS_MAX_NS
#define PAUSE_MAX_NS NS_PER_MS
#define PAUSE_SHARE 4u

struct link_emulator {
    struct link_options options;
    struct link_tun tun[LINK_ENDS];
    int space[LINK_ENDS];
    struct link_store *store[LINK_DIRECTIONS];
    struct link_path *path[LINK_DIRECTIONS];
    struct link_buffer *spare[LINK_DIRECTIONS]; /* read into next */
    struct link_buffer *overflow;               /* read into when memory is used up */
    uint64_t start_ns;                          /* of the counters */
    double cpu_before;
    uint64_t drops_before[LINK_ENDS][2]; /* device drops at the last reset */
};

uint64_t link_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool make_ends(struct link_emulator *emulator, struct error *error)
{
    static const char *const addresses[LINK_ENDS][2] = {{LINK_NEAR_IPV4, LINK_NEAR_IPV6},
                                                        {LINK_FAR_IPV4, LINK_FAR_IPV6}};
    if (!link_space_prepare(error))
        return false;
    for (unsigned end = 0; end < LINK_ENDS; end++) {
        emulator->space[end] = link_space_new(error);
        if (emulator->space[end] < 0 ||
            !link_tun_open(&emulator->tun[end], addresses[end][0], addresses[end][1],
                           (uint32_t)emulator->options.mtu, error))
            return false;
    }
    return true;
}

static bool make_paths(struct link_emulator *emulator, struct error *error)
{
    const struct link_options *options = &emulator->options;
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        struct link_shape shape;
        link_options_shape(options, i, &shape);
        emulator->store[i] = link_store_new(options->memory_bytes);
        if (emulator->store[i] == NULL)
            return error_set(error, ERROR_MEMORY, "no memory for a link");
        /* Far apart, so that the streams of the directions do not meet. */
        uint64_t seed = options->seed + i * UINT64_C(0x100000000);
        emulator->path[i] = link_path_new(&shape, emulator->store[i], seed, error);
        if (emulator->path[i] == NULL)
            return false;
    }
    return true;
}

struct link_emulator *link_emulator_new(const struct link_options *options, struct error *error)
{
    struct link_emulator *emulator = calloc(1, sizeof *emulator);
    if (emulator == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a link");
        return NULL;
    }
    emulator->options = *options;
    emulator->start_ns = link_now();
    for (unsigned end = 0; end < LINK_ENDS; end++) {
        emulator->space[end] = -1;
        emulator->tun[end].fd = emulator->tun[end].status_fd = -1;
    }
    emulator->overflow = malloc(sizeof *emulator->overflow + LINK_PACKET_MAX);
    /* The paths first: a shape that is impossible needs no namespaces to be refused. */
    if (emulator->overflow != NULL && make_paths(emulator, error) && make_ends(emulator, error))
        return emulator;
    error_set(error, ERROR_MEMORY, "no memory for a link");
    link_emulator_free(emulator);
    return NULL;
}

void link_emulator_free(struct link_emulator *emulator)
{
    if (emulator == NULL)
        return;
    for (unsigned end = 0; end < LINK_ENDS; end++) {
        link_tun_close(&emulator->tun[end]);
        if (emulator->space[end] >= 0)
            close(emulator->space[end]);
    }
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        link_path_free(emulator->path[i]);
        link_store_free(emulator->store[i]);
    }
    free(emulator->overflow);
    free(emulator);
}

int link_emulator_device(const struct link_emulator *emulator, unsigned end)
{
    return emulator->tun[end].fd;
}

int link_emulator_space(const struct link_emulator *emulator, unsigned end)
{
    return emulator->space[end];
}

const char *link_emulator_offload(const struct link_emulator *emulator, bool *whole)
{
    const struct link_tun *tun = emulator->tun;
    *whole = tun[LINK_NEAR].has_udp_offload && tun[LINK_FAR].has_udp_offload;
    if (*whole)
        return "TCP and UDP trains cross whole";
    if (tun[LINK_NEAR].has_offload && tun[LINK_FAR].has_offload)
        return "TCP trains cross whole, UDP as single datagrams (this kernel has no USO)";
    return "single packets (this kernel's TUN has no offloads)";
}

/* Direction i reads from end i and writes to the other. */
static bool read_one(struct link_emulator *emulator, unsigned i)
{
    struct link_store *store = emulator->store[i];
    struct link_counters *counters = link_path_counters(emulator->path[i]);
    if (emulator->spare[i] == NULL)
        emulator->spare[i] = link_store_take(store);
    struct link_buffer *spare = emulator->spare[i];
    struct link_buffer *buffer = spare != NULL ? spare : emulator->overflow;
    int got = link_tun_read(&emulator->tun[i], buffer);
    if (got <= 0)
        return got < 0;
    if (buffer->packet.is_multicast) {
        counters->ignored++;
        return true;
    }
    if (spare == NULL) {
        counters->dropped_memory += buffer->packet.segment_count;
        return true;
    }
    buffer = link_store_shrink(store, spare, buffer->packet.size_bytes);
    if (buffer == spare)
        emulator->spare[i] = NULL;
    link_path_receive(emulator->path[i], link_now(), buffer);
    return true;
}

static void deliver(struct link_emulator *emulator, unsigned i)
{
    struct link_path *path = emulator->path[i];
    uint64_t now_ns = link_now();
    for (unsigned n = 0; n < DELIVER_BATCH; n++) {
        struct link_piece piece;
        uint32_t first, count;
        struct link_buffer *buffer = link_path_take(path, now_ns, &first, &count);
        if (buffer == NULL)
            return;
        link_packet_cut(&buffer->packet, first, count, &piece);
        if (!link_tun_write(&emulator->tun[1 - i], &piece))
            link_path_counters(path)->dropped_write += count;
        link_store_drop(emulator->store[i], buffer);
    }
}

uint64_t link_emulator_turn(struct link_emulator *emulator, bool *busy)
{
    uint64_t next_ns = TIME_NEVER;
    *busy = false;
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        unsigned count = 0;
        while (count < READ_BATCH && read_one(emulator, i))
            count++;
        *busy |= count > 0;
        if (count == READ_BATCH) /* there is more: come back at once */
            next_ns = 0;
        for (unsigned j = 0; j < LINK_DIRECTIONS; j++)
            deliver(emulator, j);
    }
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        uint64_t due_ns = link_path_next(emulator->path[i]);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

uint64_t link_emulator_slack(const struct link_emulator *emulator)
{
    uint64_t slack_ns = emulator->options.rtt_ns / 2 / SLACK_SHARE;
    return slack_ns < SLACK_MAX_NS ? slack_ns : SLACK_MAX_NS;
}

uint64_t link_emulator_pause(const struct link_emulator *emulator)
{
    uint64_t pause_ns = emulator->options.rtt_ns / 2 / PAUSE_SHARE;
    if (pause_ns < PAUSE_MIN_NS)
        return PAUSE_MIN_NS;
    return pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
}

bool link_emulator_set(struct link_emulator *emulator, const struct link_options *options,
                       struct error *error)
{
    uint64_t now_ns = link_now();
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        struct link_shape shape;
        link_options_shape(options, i, &shape);
        if (!link_path_set(emulator->path[i], &shape, now_ns, error))
            return false;
    }
    uint64_t mtu = emulator->options.mtu, seed = emulator->options.seed;
    emulator->options = *options;
    emulator->options.mtu = mtu;
    emulator->options.seed = seed;
    return true;
}

const struct link_options *link_emulator_options(const struct link_emulator *emulator)
{
    return &emulator->options;
}

/* Of the emulator itself: what a measurement of both ends must leave out. */
static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void link_emulator_reset_counters(struct link_emulator *emulator)
{
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++)
        memset(link_path_counters(emulator->path[i]), 0, sizeof(struct link_counters));
    for (unsigned end = 0; end < LINK_ENDS; end++)
        link_tun_drops(&emulator->tun[end], &emulator->drops_before[end][0],
                       &emulator->drops_before[end][1]);
    emulator->start_ns = link_now();
    emulator->cpu_before = processor_seconds();
}

json_t *link_emulator_report(struct link_emulator *emulator)
{
    static const char *const names[LINK_DIRECTIONS] = {"forward", "back"};
    json_t *report = json_object();
    bool whole;
    json_object_set_new(report, "start_ns", json_integer((json_int_t)emulator->start_ns));
    json_object_set_new(report, "now_ns", json_integer((json_int_t)link_now()));
    json_object_set_new(report, "cpu_seconds",
                        json_real(processor_seconds() - emulator->cpu_before));
    json_object_set_new(report, "offload", json_string(link_emulator_offload(emulator, &whole)));
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        json_t *direction = link_counters_json(link_path_counters(emulator->path[i]));
        uint64_t sent[LINK_ENDS], received[LINK_ENDS];
        for (unsigned end = 0; end < LINK_ENDS; end++) {
            link_tun_drops(&emulator->tun[end], &sent[end], &received[end]);
            sent[end] -= emulator->drops_before[end][0];
            received[end] -= emulator->drops_before[end][1];
        }
        json_object_set_new(direction, "device_drops_sent", json_integer((json_int_t)sent[i]));
        json_object_set_new(direction, "device_drops_received",
                            json_integer((json_int_t)received[1 - i]));
        json_object_set_new(report, names[i], direction);
    }
    return report;
}
