/* petrel bench: how fast the transport is on this path, over the real start and with nothing but
 * memory at either end, and what plain TCP makes of the same path between the same two programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/measure/bench_result.h"
#include "cli/measure/measure_link.h"
#include "cli/measure/measure_options.h"
#include "cli/options/send_policy.h"
#include "cli/report/exit_code.h"
#include "cli/test_hook.h"
#include "tree/display.h"

#define ANSWER_NS (20 * NS_PER_S)
#define TIME_DEFAULT_NS (10 * NS_PER_S)
#define TCP_LEAST_NS (3 * NS_PER_S)
#define TCP_MOST_NS (10 * NS_PER_S)
#define SHARE_SLACK_NS (60 * NS_PER_S) /* for a session to begin and to end */

struct bench_options {
    struct measure_options common;
    uint64_t size_bytes, limit_bps;
    unsigned lanes;
    struct send_policy policy;
    const char *disk;
    bool reverse, share, no_tcp;
};

struct bench {
    struct bench_options options;
    struct measure_link link;
    struct bench_result result;
    bool tcp_is_blocked; /* found out the slow way: not tried again */
};

/* ---- options ---- */

static bool parse_lanes(void *target, const char *value, struct error *error)
{
    return lanes_parse(value, &((struct bench_options *)target)->lanes, error);
}

static bool parse_amount(void *target, const char *value, struct error *error)
{
    struct bench_options *options = target;
    struct error cause = {0};
    return (parse_size(value, &options->size_bytes, &cause) && options->size_bytes > 0 &&
            options->size_bytes <= UINT64_C(1) << 48) ||
           error_set(error, ERROR_USAGE, "--size is an amount such as 5G, not %s", value);
}

static bool parse_policy(void *target, const char *value, struct error *error)
{
    return send_policy_parse(value, &((struct bench_options *)target)->policy, error);
}

_Static_assert(offsetof(struct bench_options, common) == 0, "as MEASURE_OPTION_ROWS has it");
#define OPTION_OF(name) offsetof(struct bench_options, name)

static const struct option table[] = {
    MEASURE_OPTION_ROWS("of each run (10s, or as long as --size takes)"),
    {0, "size", OPTION_CUSTOM, 0, "SIZE", "how much petrel sends, e.g. 5G", parse_amount},
    {0, "reverse", OPTION_FLAG, OPTION_OF(reverse), NULL, "from there to here", NULL},
    {0, "lanes", OPTION_CUSTOM, 0, "auto|N", "parallel UDP lanes, 1 to 16", parse_lanes},
    {0, "limit", OPTION_RATE, OPTION_OF(limit_bps), "RATE", "send no faster", NULL},
    {0, "policy", OPTION_CUSTOM, 0, "auto|fair|background|fixed:RATE",
     "how to behave towards others on the path", parse_policy},
    {0, "disk", OPTION_TEXT, OPTION_OF(disk), "PATH", "the receiving end writes what arrives there",
     NULL},
    {0, "share", OPTION_FLAG, OPTION_OF(share), NULL, "also beside one TCP flow", NULL},
    {0, "no-tcp", OPTION_FLAG, OPTION_OF(no_tcp), NULL, "petrel alone", NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *bench_options_table(void)
{
    return table;
}

/* ---- petrel ---- */

static bool session_request(const struct bench *bench, uint64_t size_bytes, uint64_t time_ns,
                            struct measure_request *request, struct error *error)
{
    const struct bench_options *options = &bench->options;
    *request = (struct measure_request){.sends = options->reverse,
                                        .first_port = options->common.first_port,
                                        .last_port = options->common.last_port,
                                        .size_bytes = size_bytes,
                                        .time_ns = time_ns,
                                        .limit_bps = options->limit_bps,
                                        .fixed_bps = options->policy.fixed_bps,
                                        .policy = options->policy.kind,
                                        .lanes = options->lanes};
    const char *disk = options->disk != NULL ? options->disk : "";
    return (size_t)snprintf(request->path, sizeof(request->path), "%s", disk) <
               sizeof(request->path) ||
           error_set(error, ERROR_USAGE, "--disk is too long");
}

static bool run_session(struct bench *bench, uint64_t size_bytes, uint64_t time_ns,
                        struct session_figures *sender, struct session_figures *receiver,
                        struct error *error)
{
    bool reverse = bench->options.reverse;
    struct measure_request request;
    return session_request(bench, size_bytes, time_ns, &request, error) &&
           measure_session(&bench->link, &request, NULL, NULL, reverse ? receiver : sender,
                           reverse ? sender : receiver, error);
}

/* ---- TCP ---- */

/* `beside`: it runs until its end is asked for. */
static bool start_flow(struct bench *bench, const char *congestion, unsigned streams, bool beside,
                       uint64_t time_ns, struct tcp_flow **flow, struct error *error)
{
    const struct bench_options *options = &bench->options;
    struct measure_request request = {.what = MEASURE_TCP,
                                      .sends = options->reverse,
                                      .first_port = options->common.first_port,
                                      .last_port = options->common.last_port,
                                      .streams = streams,
                                      .time_ns = time_ns,
                                      .until_ended = beside};
    struct tcp_flow_config config = {
        .sends = !options->reverse, .streams = streams, .time_ns = time_ns, .until_ended = beside};
    struct measure_started started = {0};
    snprintf(request.congestion, sizeof(request.congestion), "%s", congestion);
    snprintf(config.congestion, sizeof(config.congestion), "%s", congestion);
    if (!random_bytes(request.token, sizeof(request.token), error) ||
        !measure_ask(&bench->link, &request, ANSWER_NS, measure_started_fields, &started, error))
        return false;
    memcpy(config.token, request.token, sizeof(config.token));
    config.to = bench->link.channel.addresses.list[0];
    config.to.port = started.port;
    *flow = tcp_flow_start(&config, error);
    return *flow != NULL;
}

static void wait_for_flow(const struct bench *bench, const struct tcp_flow *flow)
{
    const struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
    while (!tcp_flow_is_done(flow) && *bench->options.common.ssh.stop == 0)
        nanosleep(&nap, NULL);
}

static void end_near_flow(struct tcp_flow *flow, bool stop, const struct rate_window *window,
                          struct tcp_figures *figures, struct error *error)
{
    struct tcp_flow_report report = {0};
    tcp_flow_end(flow, stop, &report);
    tcp_figures_of(figures, &report, window);
    if (report.error.kind != ERROR_NONE)
        error_set(error, report.error.kind, "%s", report.error.text);
}

static void end_far_flow(struct bench *bench, bool stop, const struct rate_window *window,
                         struct tcp_figures *figures, struct error *error)
{
    const struct measure_request end = {.what = MEASURE_END,
                                        .of = MEASURE_TCP,
                                        .stop = stop,
                                        .from_ns = window->from_ns,
                                        .until_ns = window->until_ns};
    measure_ask(&bench->link, &end, ANSWER_NS, tcp_figures_fields, figures, error);
}

/* Both ends' figures; what we saw ourselves of a failure comes first. `window` is of the receiving
 * end's clock, and is for its figures alone. Of a flow that is stopped the sender ends first: to
 * it, the receiver's end is a broken stream. */
static void end_flow(struct bench *bench, struct tcp_flow *flow, bool stop,
                     const struct rate_window *window, struct tcp_figures *sender,
                     struct tcp_figures *receiver, struct error *error)
{
    const struct rate_window whole = {0};
    struct error near_error = {0}, far_error = {0};
    if (!bench->options.reverse) {
        end_near_flow(flow, stop, &whole, sender, &near_error);
        end_far_flow(bench, stop || near_error.kind != ERROR_NONE, window, receiver, &far_error);
    } else if (stop) {
        end_far_flow(bench, stop, &whole, sender, &far_error);
        end_near_flow(flow, stop, window, receiver, &near_error);
    } else {
        end_near_flow(flow, stop, window, receiver, &near_error);
        end_far_flow(bench, near_error.kind != ERROR_NONE, &whole, sender, &far_error);
    }
    const struct error *first = near_error.kind != ERROR_NONE ? &near_error : &far_error;
    if (first->kind != ERROR_NONE)
        error_set(error, first->kind, "%s", first->text);
}

static void name_open_ports(struct bench *bench, struct error *error)
{
    if (error->kind != ERROR_UNREACHABLE)
        return;
    bench->tcp_is_blocked = true;
    struct error plain = *error;
    error_clear(error);
    error_set(error, plain.kind, "%s; to compare, open TCP %u-%u on %s too", plain.text,
              bench->options.common.first_port, bench->options.common.last_port,
              bench->result.host);
}

static void compare_tcp(struct bench *bench, const char *congestion, unsigned streams,
                        uint64_t time_ns)
{
    struct bench_tcp *tcp = &bench->result.tcp[bench->result.tcp_count++];
    struct tcp_flow *flow = NULL;
    const struct rate_window whole = {0};
    *tcp = (struct bench_tcp){.congestion = congestion, .streams = streams};
    if (bench->tcp_is_blocked) {
        error_set(&tcp->error, ERROR_UNREACHABLE, "as above");
        return;
    }
    if (start_flow(bench, congestion, streams, false, time_ns, &flow, &tcp->error)) {
        wait_for_flow(bench, flow);
        end_flow(bench, flow, *bench->options.common.ssh.stop != 0, &whole, &tcp->sender,
                 &tcp->receiver, &tcp->error);
    }
    name_open_ports(bench, &tcp->error);
}

/* ---- both at once ---- */

/* The flow begins first and ends last, and both rates are those of the time in which petrel's is
 * sustained: rates of different times say nothing about how a path is shared. */
static void share_path(struct bench *bench, uint64_t time_ns)
{
    struct bench_result *result = &bench->result;
    struct tcp_figures sender = {0};
    struct tcp_flow *flow = NULL;
    result->shared = true;
    if (start_flow(bench, "", 1, true, time_ns + SHARE_SLACK_NS, &flow, &result->share_error)) {
        run_session(bench, 0, time_ns, &result->share_sender, &result->share_receiver,
                    &result->share_error);
        struct rate_window window = {result->share_receiver.sustained_from_ns,
                                     result->share_receiver.sustained_until_ns};
        end_flow(bench, flow, true, &window, &sender, &result->share_tcp, &result->share_error);
    }
    name_open_ports(bench, &result->share_error);
}

/* ---- all of it ---- */

static uint64_t tcp_time(const struct bench *bench)
{
    if (bench->options.common.time_ns != 0)
        return bench->options.common.time_ns;
    uint64_t time_ns = (uint64_t)(bench->result.sender.seconds * 1e9);
    return time_ns < TCP_LEAST_NS ? TCP_LEAST_NS : time_ns > TCP_MOST_NS ? TCP_MOST_NS : time_ns;
}

static void say_what_runs(const struct bench *bench, const char *what)
{
    if (bench->options.common.json == NULL)
        fprintf(stderr, "petrel: %s ...\n", what);
}

static bool measure(struct bench *bench)
{
    struct bench_result *result = &bench->result;
    const struct bench_options *options = &bench->options;
    struct error *error = &result->error;
    struct measure_request facts = {.what = MEASURE_FACTS};
    uint64_t time_ns = options->common.time_ns;
    if (time_ns == 0 && options->size_bytes == 0)
        time_ns = TIME_DEFAULT_NS;
    if (!measure_link_open(&bench->link, &options->common.ssh, result->host,
                           options->common.first_port, options->common.last_port, error))
        return false;
    result->ssh_ns = bench->link.ssh_ns;
    machine_facts(&result->near);
    if (!measure_ask(&bench->link, &facts, ANSWER_NS, measure_facts_fields, &result->far, error))
        return false;
    if (bench->link.channel.addresses.count == 0)
        return error_set(error, ERROR_UNREACHABLE,
                         "%s is reached through a jump host and has no public address, so no UDP "
                         "can go there",
                         result->host);
    say_what_runs(bench, "a session of memory blocks");
    return run_session(bench, options->size_bytes, time_ns, &result->sender, &result->receiver,
                       error);
}

static void compare(struct bench *bench)
{
    static const struct {
        const char *congestion;
        unsigned streams;
    } flows[BENCH_TCP_MAX] = {{"cubic", 1}, {"bbr", 1}, {"bbr", 8}};
    uint64_t time_ns = tcp_time(bench);
    for (unsigned i = 0; !bench->options.no_tcp && i < BENCH_TCP_MAX; i++) {
        char what[64];
        snprintf(what, sizeof(what), "%u TCP %s", flows[i].streams, flows[i].congestion);
        say_what_runs(bench, what);
        compare_tcp(bench, flows[i].congestion, flows[i].streams, time_ns);
    }
    if (bench->options.share) {
        say_what_runs(bench, "petrel beside one TCP flow");
        share_path(bench, time_ns);
    }
}

static int report(struct bench *bench)
{
    const char *json = bench->options.common.json;
    struct error *error = &bench->result.error;
    int code = exit_code_of(error->kind);
    if (*bench->options.common.ssh.stop > 0)
        code = EXIT_INTERRUPTED;
    if (error->kind != ERROR_NONE) {
        char text[1024];
        fprintf(stderr, "petrel: %s%s%s\n", display_name(text, sizeof(text), error->text),
                error->kind == ERROR_UNREACHABLE ? "; see why: petrel doctor " : "",
                error->kind == ERROR_UNREACHABLE ? bench->result.host : "");
    } else if (json == NULL || json[0] != '\0') {
        bench_print(&bench->result);
    }
    struct error failed = {0};
    FILE *out = bench->options.common.json_out;
    if (json != NULL && !bench_print_json(&bench->result, code, out, json, &failed)) {
        fprintf(stderr, "petrel: %s\n", failed.text);
        return exit_code_of(failed.kind);
    }
    return code;
}

int command_bench(int argc, char **argv)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        fputs("petrel: no memory\n", stderr);
        return EXIT_MEMORY;
    }
    struct measure_options *options = &bench->options.common;
    int code;
    if (measure_options_parse(options, table, argc, argv, &code)) {
        test_hook_measure();
        options->ssh.stop = interrupt_watch();
        bench->result.host = options->host.host;
        bench->result.reverse = bench->options.reverse;
        bench->result.disk = bench->options.disk;
        if (measure(bench))
            compare(bench);
        measure_link_close(&bench->link);
        code = report(bench);
    }
    measure_options_release(options);
    free(bench);
    return code;
}
