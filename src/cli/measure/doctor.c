/* petrel doctor: looks at everything that a copy to a host depends on, and says what is wrong, what
 * is slow, and what to do about it. Facts come through SSH, so that they come also when UDP does
 * not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/measure/doctor_print.h"
#include "cli/measure/measure_link.h"
#include "cli/measure/measure_options.h"
#include "cli/report/exit_code.h"
#include "cli/test_hook.h"
#include "net/udp.h"
#include "transport/limits.h"

#define ANSWER_NS (20 * NS_PER_S)
#define DISK_NS (NS_PER_S / 2)
#define TIME_LEAST_NS (2 * NS_PER_S)
#define TIME_MOST_NS (10 * NS_PER_S)
#define TIME_RTTS 16u
#define LOSS_PACKETS 800u /* fewer when less than TIME_LEAST_NS is asked for */
#define LOSS_PACKETS_LEAST 100u
#define MTU_PROBED_MOST 9216u
#define SIZE_SURE 100u /* the light packets that went well before */
#define SIZE_STEP 40u  /* how near to the limit is near enough */
#define LONGER_TURNS 3u
#define FAST_BPS UINT64_C(200000000)

struct doctor_options {
    struct measure_options common;
    const char *source, *destination;
    bool no_disk;
};

struct doctor {
    struct doctor_options options;
    struct measure_link link;
    struct doctor_facts facts;
};

_Static_assert(offsetof(struct doctor_options, common) == 0, "as MEASURE_OPTION_ROWS has it");
#define OPTION_OF(name) offsetof(struct doctor_options, name)

static const struct option table[] = {
    MEASURE_OPTION_ROWS("of each of the two transfers (2s to 10s)"),
    {0, "source", OPTION_TEXT, OPTION_OF(source), "PATH", "what a copy would read here (.)", NULL},
    {0, "destination", OPTION_TEXT, OPTION_OF(destination), "PATH",
     "where a copy would write there (the home directory)", NULL},
    {0, "no-disk", OPTION_FLAG, OPTION_OF(no_disk), NULL, "leave the disks alone", NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *doctor_options_table(void)
{
    return table;
}

/* ---- what is asked of the far end ---- */

static bool note(struct doctor *doctor, const struct error *error)
{
    struct error *kept = &doctor->facts.far_error;
    if (doctor->link.broken && kept->kind == ERROR_NONE)
        *kept = *error;
    return !doctor->link.broken;
}

static bool ask_facts(struct doctor *doctor)
{
    struct measure_request request = {.what = MEASURE_FACTS};
    struct error error = {0};
    doctor->facts.has_far = measure_ask(&doctor->link, &request, ANSWER_NS, measure_facts_fields,
                                        &doctor->facts.far, &error);
    return note(doctor, &error);
}

static bool look_at_disks(struct doctor *doctor)
{
    const struct doctor_options *options = &doctor->options;
    struct doctor_facts *facts = &doctor->facts;
    struct measure_request request = {.what = MEASURE_DISK, .writes = true, .time_ns = DISK_NS};
    struct error error = {0};
    if (options->no_disk)
        return true;
    facts->source.tried = facts->destination.tried = true;
    disk_read_speed(options->source, DISK_NS, &facts->source.speed, &facts->source.error);
    if ((size_t)snprintf(request.path, sizeof(request.path), "%s", options->destination) >=
        sizeof(request.path))
        return error_set(&facts->destination.error, ERROR_USAGE, "--destination is too long");
    measure_ask(&doctor->link, &request, 2 * ANSWER_NS, measure_disk_fields,
                &facts->destination.speed, &facts->destination.error);
    error = facts->destination.error;
    return note(doctor, &error);
}

/* ---- UDP ---- */

/* A copy's server takes the first free port, and where that does not answer some further ones. */
static bool choose_port(struct doctor_facts *facts, uint16_t port)
{
    for (unsigned i = 0; i < facts->target_count && facts->chosen < 0; i++) {
        if (port == 0 || !port_set_has(&facts->targets[i].answered, port))
            continue;
        facts->chosen_port = port;
        facts->chosen = (int)i;
    }
    return facts->chosen >= 0;
}

static void choose_target(struct doctor_facts *facts)
{
    uint16_t own = port_set_first(&facts->echo.opened);
    bool found = choose_port(facts, own);
    for (unsigned i = 0; i < DRIVER_MORE_PORTS && !found; i++)
        found = choose_port(facts, driver_more_port(facts->first_port, facts->last_port, own, i));
}

/* A session's packets are of at least DATAGRAM_MIN bytes. Asked only where most light ones pass. */
static void probe_least(struct udp_prober *prober, struct doctor_facts *facts,
                        const struct address *to)
{
    unsigned passing = SIZE_SURE, least = DATAGRAM_MIN + (to->family == 4 ? 28u : 48u);
    struct probe_size size;
    if (facts->interface_mtu < least || facts->loss.answered < facts->loss.sent / 2)
        return;
    udp_probe_size(prober, to, least, true, &size);
    if (size.answered > 0)
        return;
    struct probe_size there;
    udp_probe_size(prober, to, least, false, &there);
    for (unsigned lost = least; lost - passing > SIZE_STEP;) {
        unsigned middle = passing + (lost - passing) / 2;
        udp_probe_size(prober, to, middle, true, &size);
        *(size.answered > 0 ? &passing : &lost) = middle;
    }
    facts->size_passing = passing;
    facts->large_arrive = there.answered > 0;
}

static void probe_sizes(struct udp_prober *prober, struct doctor_facts *facts,
                        const struct address *to)
{
    facts->interface_mtu = udp_interface_mtu(to, NULL);
    if (facts->interface_mtu > MTU_PROBED_MOST)
        return;
    udp_probe_size(prober, to, facts->interface_mtu, true, &facts->size_both);
    if (facts->size_both.answered > 0)
        return;
    udp_probe_size(prober, to, facts->interface_mtu, false, &facts->size_there);
    probe_least(prober, facts, to);
}

static unsigned loss_packets(const struct doctor *doctor)
{
    uint64_t time_ns = doctor->options.common.time_ns;
    if (time_ns == 0 || time_ns >= TIME_LEAST_NS)
        return LOSS_PACKETS;
    unsigned count = (unsigned)(LOSS_PACKETS * time_ns / TIME_LEAST_NS);
    return count < LOSS_PACKETS_LEAST ? LOSS_PACKETS_LEAST : count;
}

static bool have_knocked(void *context, uint16_t port4, uint16_t port6)
{
    struct doctor *doctor = context;
    struct measure_request knock = {.what = MEASURE_KNOCK, .of = MEASURE_ECHO};
    struct error error = {0};
    if (port4 != 0)
        port_set_add(&knock.ports4, port4);
    if (port6 != 0)
        port_set_add(&knock.ports6, port6);
    return measure_ask(&doctor->link, &knock, ANSWER_NS, NULL, NULL, &error);
}

static void run_probes(struct doctor *doctor, const uint8_t token[ECHO_TOKEN_SIZE])
{
    struct doctor_facts *facts = &doctor->facts;
    struct udp_prober prober = {.rtt_ns = doctor->link.ping_ns,
                                .stop = doctor->options.common.ssh.stop,
                                .knock = doctor->link.channel.jumped ? NULL : have_knocked,
                                .knock_context = doctor};
    memcpy(prober.token, token, sizeof(prober.token));
    if (!udp_prober_open(&prober, &facts->echo_error))
        return;
    udp_probe_ports(&prober, &facts->echo.opened, facts->targets, facts->target_count);
    choose_target(facts);
    if (facts->chosen >= 0) {
        struct address to = facts->targets[facts->chosen].address;
        to.port = facts->chosen_port;
        udp_probe_loss(&prober, &to, loss_packets(doctor), &facts->loss);
        probe_sizes(&prober, facts, &to);
    }
    udp_prober_close(&prober);
}

static bool look_at_udp(struct doctor *doctor)
{
    struct doctor_facts *facts = &doctor->facts;
    const struct far_addresses *known = &doctor->link.channel.addresses;
    struct measure_request start = {
        .what = MEASURE_ECHO, .first_port = facts->first_port, .last_port = facts->last_port};
    struct measure_request end = {.what = MEASURE_END, .of = MEASURE_ECHO};
    struct error error = {0};
    facts->target_count = known->count;
    for (unsigned i = 0; i < known->count; i++)
        facts->targets[i].address = known->list[i];
    if (known->count == 0)
        return true;
    if (!random_bytes(start.token, sizeof(start.token), &facts->echo_error) ||
        !measure_ask(&doctor->link, &start, ANSWER_NS, measure_started_fields, &facts->echo,
                     &facts->echo_error))
        return note(doctor, &facts->echo_error);
    run_probes(doctor, start.token);
    measure_ask(&doctor->link, &end, ANSWER_NS, measure_arrivals_fields, &facts->arrivals, &error);
    return note(doctor, &error);
}

/* ---- sessions ---- */

static bool goes_by_ssh(const struct doctor_facts *facts)
{
    enum error_kind kind = facts->to.error.kind;
    return facts->chosen < 0 || kind == ERROR_UNREACHABLE || kind == ERROR_PEER_LOST;
}

static uint64_t session_time(const struct doctor *doctor)
{
    if (doctor->options.common.time_ns != 0)
        return doctor->options.common.time_ns;
    uint64_t time_ns = TIME_RTTS * doctor->facts.loss.rtt_mean_ns;
    return time_ns < TIME_LEAST_NS  ? TIME_LEAST_NS
           : time_ns > TIME_MOST_NS ? TIME_MOST_NS
                                    : time_ns;
}

static struct measure_request session_request(const struct doctor *doctor)
{
    return (struct measure_request){.first_port = doctor->facts.chosen_port,
                                    .last_port = doctor->facts.chosen_port,
                                    .time_ns = session_time(doctor)};
}

/* A session of few blocks has no sustained rate: then its whole time counts. */
static void settle_rate(struct session_figures *figures)
{
    if (figures->sustained_bps == 0 && figures->seconds > 0)
        figures->sustained_bps = (uint64_t)((double)figures->bytes * 8 / figures->seconds);
}

/* Long enough to be believed? A busy machine or a slow path may have nothing verified in the time,
 * or so little that the path would be called slow for it: the latter is looked at once more. */
static bool says_enough(const struct session_figures *receiver, unsigned turn)
{
    return receiver->sustained_bps >= DOCTOR_RATE_SMALL_BPS ||
           (turn > 1 && receiver->sustained_bps != 0);
}

static bool run_request(struct doctor *doctor, struct measure_request *request, const char *source,
                        struct doctor_run *run)
{
    struct doctor_facts *facts = &doctor->facts;
    const struct address *target = &facts->targets[facts->chosen].address;
    const volatile int *stop = doctor->options.common.ssh.stop;
    bool to = !request->sends;
    run->tried = true;
    for (unsigned turn = 1;; turn++) {
        measure_session(&doctor->link, request, target, source, to ? &run->sender : &run->receiver,
                        to ? &run->receiver : &run->sender, &run->error);
        if (says_enough(&run->receiver, turn) || run->error.kind != ERROR_NONE ||
            turn == LONGER_TURNS || request->time_ns >= TIME_MOST_NS || *stop != 0)
            break;
        request->time_ns *= 4;
    }
    settle_rate(&run->receiver);
    return note(doctor, &run->error);
}

static bool run_session(struct doctor *doctor, bool to, struct doctor_run *run)
{
    struct measure_request request = session_request(doctor);
    request.sends = !to;
    return run_request(doctor, &request, NULL, run);
}

/* Over UDP, both ways. Where a session cannot even begin, a copy goes through ssh. */
static bool run_sessions(struct doctor *doctor)
{
    struct doctor_facts *facts = &doctor->facts;
    if (facts->chosen < 0)
        return true;
    if (!run_session(doctor, true, &facts->to))
        return false;
    return goes_by_ssh(facts) || run_session(doctor, false, &facts->from);
}

/* Where disks are near the path's speed, or all is fast enough for the processors to matter, the
 * three are measured at work together. */
static bool disks_matter(const struct doctor_facts *facts)
{
    const struct doctor_disk *source = &facts->source, *destination = &facts->destination;
    if (!source->tried || source->error.kind != ERROR_NONE ||
        destination->error.kind != ERROR_NONE || facts->to.error.kind != ERROR_NONE)
        return false;
    uint64_t path_bps = facts->to.receiver.sustained_bps, disk_bps = source->speed.rate_bps;
    if (destination->speed.rate_bps < disk_bps)
        disk_bps = destination->speed.rate_bps;
    return disk_bps > path_bps / 2 && (path_bps >= FAST_BPS || disk_bps < 2 * path_bps);
}

static bool run_with_disks(struct doctor *doctor)
{
    struct doctor_facts *facts = &doctor->facts;
    struct doctor_run *run = &facts->with_disks;
    if (goes_by_ssh(facts) || !disks_matter(facts))
        return true;
    struct measure_request request = session_request(doctor);
    snprintf(request.path, sizeof(request.path), "%s", doctor->options.destination);
    if (request.path[0] == '\0')
        snprintf(request.path, sizeof(request.path), ".");
    return run_request(doctor, &request, doctor->options.source, run);
}

/* The channel is the session's afterwards: this comes last. */
static void run_through_ssh(struct doctor *doctor)
{
    struct doctor_run *run = &doctor->facts.through_ssh;
    struct measure_request request = {.stream = true, .time_ns = session_time(doctor)};
    run->tried = true;
    measure_session(&doctor->link, &request, NULL, NULL, &run->sender, &run->receiver, &run->error);
    settle_rate(&run->sender);
}

static void examine(struct doctor *doctor)
{
    struct doctor_facts *facts = &doctor->facts;
    const struct doctor_options *options = &doctor->options;
    bool started = measure_link_open(&doctor->link, &options->common.ssh, facts->host,
                                     facts->first_port, facts->last_port, &facts->start_error);
    facts->ssh_ns = doctor->link.ssh_ns;
    facts->login_ns = doctor->link.channel.login_ns;
    facts->fault = doctor->link.channel.fault;
    facts->ssh_reused = doctor->link.channel.reused;
    facts->ping_ns = doctor->link.ping_ns;
    facts->jumped = doctor->link.channel.jumped;
    snprintf(facts->far_version, sizeof(facts->far_version), "%s",
             doctor->link.channel.answer.version);
    machine_facts(&facts->near);
    if (!started || !ask_facts(doctor) || !look_at_udp(doctor))
        return;
    if (run_sessions(doctor) && look_at_disks(doctor) && run_with_disks(doctor) &&
        goes_by_ssh(facts))
        run_through_ssh(doctor);
}

static int report(struct doctor *doctor)
{
    struct findings findings;
    struct error error = {0};
    doctor_judge(&doctor->facts, &findings);
    int code = findings_exit_code(&findings);
    if (doctor->options.common.ssh.stop != NULL && *doctor->options.common.ssh.stop > 0)
        code = EXIT_INTERRUPTED;
    const char *json = doctor->options.common.json;
    FILE *out = doctor->options.common.json_out;
    if (json != NULL && !doctor_print_json(&doctor->facts, &findings, code, out, json, &error)) {
        fprintf(stderr, "petrel: %s\n", error.text);
        return exit_code_of(error.kind);
    }
    if (json == NULL || json[0] != '\0')
        doctor_print(&findings);
    return code;
}

int command_doctor(int argc, char **argv)
{
    struct doctor *doctor = calloc(1, sizeof(*doctor));
    if (doctor == NULL) {
        fputs("petrel: no memory\n", stderr);
        return EXIT_MEMORY;
    }
    struct measure_options *options = &doctor->options.common;
    int code;
    doctor->options.source = ".";
    doctor->options.destination = "";
    if (measure_options_parse(options, table, argc, argv, &code)) {
        test_hook_measure();
        options->ssh.stop = interrupt_watch();
        doctor->facts.host = options->host.host;
        doctor->facts.ssh = &options->ssh;
        doctor->facts.first_port = options->first_port;
        doctor->facts.last_port = options->last_port;
        doctor->facts.chosen = -1;
        examine(doctor);
        measure_link_close(&doctor->link);
        code = report(doctor);
    }
    measure_options_release(options);
    free(doctor);
    return code;
}
