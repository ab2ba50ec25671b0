/* Memory-to-memory copy between two processes: what the transport and its driver can do without
 * disks. Prints "started" and, at the end, one JSON line at each end. bench/mem-to-mem runs it over
 * a veth pair.
 *
 *   mem_to_mem serve [options]              prints its port first
 *   mem_to_mem connect ADDRESS PORT [options]
 *
 * The start secret is a constant: this program is no way to move anything that matters.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "measure/memory_ends.h"
#include "net/udp.h"

struct options {
    bool client, send;
    struct address server;
    unsigned lanes, threads, pool_blocks;
    uint64_t size_bytes, limit_bps, fixed_bps, timeout_ns;
    unsigned buffer_bytes;
    bool plain, hash;
};

static void usage(void)
{
    fputs("usage: mem_to_mem serve|connect ADDRESS PORT\n"
          "  --send | --receive   this end's role (connect sends, serve receives)\n"
          "  --size SIZE          to send (4G)\n"
          "  --lanes N            client; 0: auto\n"
          "  --threads N          server; at most half of the processors serve lanes\n"
          "  --pool BLOCKS        receiver's memory in MiB (96)\n"
          "  --limit RATE, --fixed RATE\n"
          "  --timeout TIME       until no answer, or silence, is an error (20s)\n"
          "  --buffer BYTES       socket buffers to ask for\n"
          "  --plain              no segmentation\n"
          "  --fault KIND[:N]     from call N (1) on: eio, einval, emsgsize when a train is sent;\n"
          "                       swallow: trains vanish; forget: joined datagrams come uncut\n"
          "  --hash               the sender hashes too\n",
          stderr);
    exit(2);
}

static void check(bool good, const struct error *error)
{
    if (good)
        return;
    fprintf(stderr, "mem_to_mem: %s\n", error->text);
    exit(1);
}

static bool parse_address(struct address *address, const char *text, const char *port)
{
    *address = (struct address){.port = (uint16_t)atoi(port)};
    if (inet_pton(AF_INET, text, address->bytes) == 1)
        address->family = 4;
    else if (inet_pton(AF_INET6, text, address->bytes) == 1)
        address->family = 6;
    return address->family != 0;
}

static void plant(const char *text)
{
    static const struct {
        const char *name;
        int cause;
    } kinds[] = {{"eio", EIO}, {"einval", EINVAL}, {"emsgsize", EMSGSIZE}, {"swallow", 0}, {"forget", -1}};
    uint64_t from = 1;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0)
            continue;
        struct error error = {0};
        if (text[length] == ':')
            check(parse_unsigned(text + length + 1, 1u << 30, &from, &error), &error);
        if (kinds[i].cause > 0)
            udp_test_break_segmentation(kinds[i].cause, (unsigned)from);
        else if (kinds[i].cause == 0)
            udp_test_swallow_trains((unsigned)from);
        else
            udp_test_lose_coalescing((unsigned)from);
        return;
    }
    usage();
}

static void parse_option(struct options *options, const char *name, const char *value)
{
    struct error error = {0};
    uint64_t number = 0;
    if (strcmp(name, "--size") == 0)
        check(parse_size(value, &options->size_bytes, &error), &error);
    else if (strcmp(name, "--limit") == 0)
        check(parse_rate(value, &options->limit_bps, &error), &error);
    else if (strcmp(name, "--timeout") == 0)
        check(parse_time(value, &options->timeout_ns, &error), &error);
    else if (strcmp(name, "--fixed") == 0)
        check(parse_rate(value, &options->fixed_bps, &error), &error);
    else if (strcmp(name, "--fault") == 0)
        plant(value);
    else {
        check(parse_unsigned(value, 1u << 30, &number, &error), &error);
        if (strcmp(name, "--lanes") == 0)
            options->lanes = (unsigned)number;
        else if (strcmp(name, "--threads") == 0)
            options->threads = (unsigned)number;
        else if (strcmp(name, "--pool") == 0)
            options->pool_blocks = (unsigned)number;
        else if (strcmp(name, "--buffer") == 0)
            options->buffer_bytes = (unsigned)number;
        else
            usage();
    }
}

static void parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){.size_bytes = UINT64_C(4) << 30,
                                .threads = 1,
                                .pool_blocks = 96,
                                .timeout_ns = 20 * NS_PER_S};
    int at = 2;
    if (argc >= 2 && strcmp(argv[1], "serve") == 0) {
        options->client = false;
    } else if (argc >= 4 && strcmp(argv[1], "connect") == 0) {
        options->client = options->send = true;
        if (!parse_address(&options->server, argv[2], argv[3]))
            usage();
        at = 4;
    } else {
        usage();
    }
    for (; at < argc; at++) {
        if (strcmp(argv[at], "--send") == 0)
            options->send = true;
        else if (strcmp(argv[at], "--receive") == 0)
            options->send = false;
        else if (strcmp(argv[at], "--plain") == 0)
            options->plain = true;
        else if (strcmp(argv[at], "--hash") == 0)
            options->hash = true;
        else if (at + 1 < argc)
            parse_option(options, argv[at], argv[at + 1]), at++;
        else
            usage();
    }
}

/* The driver's own view of the end, with a line printed when the session begins. */
static struct driver_upper announced;

static void announce(void *context, struct session *session, uint64_t now_ns)
{
    puts("started");
    fflush(stdout);
    announced.attach(context, session, now_ns);
}

/* No more memory than is sent; the benchmark's sizes are above what a cache holds. */
static size_t memory_bytes(uint64_t size_bytes)
{
    uint64_t blocks = (size_bytes + BLOCK_SIZE - 1) / BLOCK_SIZE;
    return (size_t)(blocks < 256 ? blocks : 256) * BLOCK_SIZE;
}

static void print_report(const struct options *options, const struct memory_report *report,
                         const struct driver_statistics *net)
{
    const struct session_statistics *session = &report->session;
    double gigabytes = (double)report->bytes / 1e9;
    printf("{\"role\":\"%s\",\"verified\":%s,\"bytes\":%llu,\"seconds\":%.4f,"
           "\"gbit_per_s\":%.3f,\"mb_per_s\":%.1f,\"cpu_s\":%.3f,\"cpu_s_per_gb\":%.3f,",
           options->send ? "sender" : "receiver", report->verified ? "true" : "false",
           (unsigned long long)report->bytes, report->seconds, gigabytes * 8 / report->seconds,
           gigabytes * 1e3 / report->seconds, report->cpu_seconds, report->cpu_seconds / gigabytes);
    printf("\"packets_sent\":%llu,\"packets_received\":%llu,\"lost\":%llu,\"spurious\":%llu,"
           "\"resent_bytes\":%llu,\"duplicates\":%llu,\"forged\":%llu,\"socket_drops\":%llu,"
           "\"peer_socket_drops\":%llu,",
           (unsigned long long)session->packets_sent, (unsigned long long)session->packets_received,
           (unsigned long long)session->packets_lost, (unsigned long long)session->spurious_losses,
           (unsigned long long)session->payload_resent, (unsigned long long)session->duplicates,
           (unsigned long long)session->forged, (unsigned long long)net->socket_drops,
           (unsigned long long)session->peer_socket_drops);
    printf("\"datagram\":%u,\"lanes\":%u,\"rtt_us\":%.1f,\"rate_gbit\":%.3f,\"send_calls\":%llu,"
           "\"receive_calls\":%llu,\"datagrams_sent\":%llu,\"datagrams_received\":%llu,"
           "\"segmentation\":%s,\"coalescing\":%s,\"receive_buffer\":%u,\"threads\":%u}\n",
           session->datagram_size, session->lanes, (double)session->rtt_ns / 1e3,
           (double)session->rate_bps / 1e9, (unsigned long long)net->send_calls,
           (unsigned long long)net->receive_calls, (unsigned long long)net->datagrams_sent,
           (unsigned long long)net->datagrams_received, net->segmentation ? "true" : "false",
           net->coalescing ? "true" : "false", net->receive_buffer, net->threads);
}

int main(int argc, char **argv)
{
    struct options options;
    struct error error = {0};
    parse(&options, argc, argv);
    udp_test_buffer_bytes(options.buffer_bytes);
    if (options.plain)
        udp_test_break_segmentation(5 /* EIO */, 1);

    struct memory_config memory = {.size_bytes = options.size_bytes,
                                   .buffer_bytes = memory_bytes(options.size_bytes),
                                   .pool_blocks = options.pool_blocks,
                                   .hash = options.hash};
    struct memory_end *end =
        options.send ? memory_sender_new(&memory, &error) : memory_receiver_new(&memory, &error);
    check(end != NULL, &error);
    struct driver_config config = {.client = options.client,
                                   .secret = "a constant, for benchmarks only",
                                   .session_id = "mem to mem",
                                   .lanes = options.lanes,
                                   .limit_bps = options.limit_bps,
                                   .fixed_bps = options.fixed_bps,
                                   .open_timeout_ns = options.timeout_ns,
                                   .idle_timeout_ns = options.timeout_ns,
                                   .watch_fd = -1};
    memory_end_configure(end, &config);
    announced = config.upper;
    config.upper.attach = announce;
    struct udp_listener *listener = NULL;
    if (options.client) {
        config.candidates[0] = options.server;
        config.candidate_count = 1;
    } else {
        listener = driver_listen(60000, 61000, driver_threads(options.threads), &error);
        check(listener != NULL, &error);
        config.listener = listener;
        printf("%u\n", udp_listener_port(listener));
        fflush(stdout);
    }
    struct driver *driver = driver_new(&config, &error);
    check(driver != NULL, &error);
    memory_end_set_driver(end, driver);
    bool good = driver_run(driver, &error);
    struct memory_report report;
    struct driver_statistics net;
    memory_end_report(end, &report);
    driver_statistics(driver, &net);
    print_report(&options, &report, &net);
    memory_end_free(end);
    driver_free(driver);
    udp_listener_free(listener);
    check(good, &error);
    return options.send && !report.verified;
}
