#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/copy/copy_internal.h"
#include "cli/copy/copy_listening.h"
#include "cli/copy/path_memory.h"
#include "cli/copy/run_transfer.h"
#include "cli/report/exit_code.h"
#include "cli/start/install_offer.h"
#include "cli/test_hook.h"

#define OPEN_TIMEOUT_NS (10 * NS_PER_S)
#define REMOTE_END_NS (3 * NS_PER_S)
#define SHORT_END_NS (500 * NS_PER_MS) /* when its exit status tells nothing new */

/* ---- the far end ---- */

/* Whether sending petrel helps: there is none over there, or one that speaks another language. A
 * petrel that the user named (--remote-petrel) is the user's business. */
static bool may_send(const struct copy *copy, const struct error *cause)
{
    const struct copy_options *options = &copy->options;
    return copy->channel.missing ||
           (cause->kind == ERROR_VERSION && options->install && options->ssh.remote_petrel == NULL);
}

/* Where petrel is missing it can be sent there first. */
static bool reach_remote(struct copy *copy, struct error *error)
{
    const struct copy_options *options = &copy->options;
    struct error cause = {0};
    if (ssh_start(&copy->channel, &options->ssh, options->host, &copy->start, &cause))
        return true;
    if (!may_send(copy, &cause))
        return error_set(error, cause.kind, "%s", cause.text);
    char said[1024];
    if (!install_offer(&options->ssh, options->host, cause.text, options->install, said,
                       sizeof(said), error))
        return false;
    if (!options->quiet)
        report_line(copy->report, "%s", said);
    return ssh_start(&copy->channel, &options->ssh, options->host, &copy->start, error);
}

static bool has_way_through_ssh(const struct copy *copy)
{
    return (copy->start.ways & copy->channel.answer.ways & WAY_SSH) != 0;
}

/* Through the channel a far end's firewall can be opened, also where it may carry nothing else. */
static bool has_channel_for_ports(const struct copy *copy)
{
    return (copy->start.ways & copy->channel.answer.ways & WAY_PORTS) != 0;
}

struct copy_situation copy_situation_of(const struct copy *copy)
{
    return (struct copy_situation){.host = copy->options.host,
                                   .first_port = copy->options.first_port,
                                   .last_port = copy->options.last_port,
                                   .ports_are_used = copy->ports_are_used,
                                   .jumped = copy->channel.jumped};
}

/* Through ssh as it was asked for, or by TCP to a petrel that listens. */
static bool is_stream_alone(const struct copy *copy)
{
    return copy->options.udp == UDP_NEVER || copy->options.ssh.listening != NULL;
}

static bool start_remote(struct copy *copy, struct error *error)
{
    const struct copy_options *options = &copy->options;
    if (!options->no_memory)
        path_memory_read(options->host, options->push, &copy->remembered);
    copy->start =
        (struct bootstrap_start){.remote_sends = !options->push,
                                 .first_port = options->first_port,
                                 .last_port = options->last_port,
                                 .lanes = options->lanes,
                                 .limit_bps = options->limit_bps,
                                 .policy = options->policy,
                                 .path = copy->remembered,
                                 .ways = options->udp == UDP_ONLY ? WAY_UDP | WAY_PORTS
                                         : is_stream_alone(copy)  ? WAY_SSH
                                                                  : WAY_UDP | WAY_SSH,
                                 .protocol = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX}};
    if (!reach_remote(copy, error))
        return false;
    copy->ports_are_used = !is_stream_alone(copy) && copy->channel.answer.port == 0;
    if (is_stream_alone(copy) || copy->ports_are_used)
        copy->channel.addresses.count = 0;
    if (has_way_through_ssh(copy))
        return true;
    if (is_stream_alone(copy))
        return error_set(error, ERROR_VERSION,
                         "petrel %s on %s cannot go through ssh; send this one there: petrel "
                         "install %s (or copy with --install)",
                         copy->channel.answer.version, options->host, options->host);
    if (copy->channel.addresses.count > 0)
        return true;
    struct copy_situation situation = copy_situation_of(copy);
    copy_words_no_address(&situation, error);
    return false;
}

static void on_way(void *context, const struct driver_way *way)
{
    struct copy *copy = context;
    struct copy_situation situation = copy_situation_of(copy);
    char cause[COPY_WORDS_CAUSE], text[COPY_WORDS_WAY];
    if (is_stream_alone(copy))
        return;
    copy_words_way(&situation, way, cause, text);
    /* A further try goes the way of the one before: nobody has to hear that twice. */
    if (strcmp(text, copy->told_way) == 0)
        return;
    memcpy(copy->told_way, text, sizeof(text));
    report_way(copy->report, way->stream ? "ssh" : "udp", cause, text);
}

static void on_event(void *context, const struct transfer_event *event)
{
    struct copy *copy = context;
    if (copy->manifest != NULL)
        copy_manifest_event(copy->manifest, event);
    report_event(copy->report, event);
}

static void tick(void *context, const struct transfer_progress *progress)
{
    const struct copy *copy = context;
    struct transfer_progress sum = *progress;
    retry_add(&sum, &copy->before);
    report_tick(copy->report, &sum);
}

/* What is the same whichever way it goes. */
static struct transfer_run begin_run(struct copy *copy)
{
    const struct copy_options *options = &copy->options;
    struct transfer_run run = {.transfer = {.client = true,
                                            .role = options->push ? ROLE_SENDER : ROLE_RECEIVER,
                                            .request = &copy->request,
                                            .open_storage = copy_open_storage,
                                            .open_context = copy,
                                            .on_event = on_event,
                                            .event_context = copy,
                                            .read_list = copy_read_list,
                                            .list_context = copy},
                               .driver = {.lanes = options->lanes,
                                          .limit_bps = options->limit_bps,
                                          .policy = options->policy.kind,
                                          .fixed_bps = options->policy.fixed_bps,
                                          .remembered = copy->remembered,
                                          .rtt_ns = copy->remembered.rtt_ns,
                                          .open_timeout_ns = OPEN_TIMEOUT_NS,
                                          .stop = copy->stop,
                                          .watch_fd = -1},
                               .on_tick = tick,
                               .tick_context = copy};
    run.flip = test_hook_flip(&run.flip_after);
    return run;
}

/* Over the channel that was started, and by UDP beside it. */
static void run(struct copy *copy, struct copy_try *try)
{
    struct transfer_run run = begin_run(copy);
    struct driver_config *driver = &run.driver;
    driver->candidate_count = copy->channel.addresses.count;
    driver->stream = has_way_through_ssh(copy) || has_channel_for_ports(copy);
    driver->stream_for_ports = has_channel_for_ports(copy);
    driver->stream_in = copy->channel.from_remote;
    driver->stream_out = copy->channel.to_remote;
    driver->tells_ports = !copy->channel.jumped && copy->channel.relay == NULL;
    driver->on_way = on_way;
    driver->way_context = copy;
    driver->watch_fd = copy->channel.from_remote;
    driver->on_watch = channel_watch_read;
    driver->watch_context = &copy->watch;
    run.watch = &copy->watch;
    memcpy(driver->secret, copy->start.secret, START_SECRET_SIZE);
    memcpy(driver->session_id, copy->start.session_id, SESSION_ID_SIZE);
    _Static_assert(sizeof(driver->candidates) == sizeof(copy->channel.addresses.list), "");
    memcpy(driver->candidates, copy->channel.addresses.list, sizeof(driver->candidates));
    wipe(copy->start.secret, START_SECRET_SIZE);
    bool good = transfer_run(&run, &try->progress, try->hint, sizeof(try->hint), &try->error);
    struct copy_situation situation = copy_situation_of(copy);
    try->udp_failed = !good && run.udp_end.is_cause;
    if (try->udp_failed)
        copy_words_open_ports(&situation, &run.udp_end, &try->error);
    wipe(driver->secret, START_SECRET_SIZE);
}

/* By UDP to a petrel that listens. False when nothing answers, and TCP is to be tried. */
static bool run_listening(struct copy *copy, struct copy_try *try)
{
    const struct copy_options *options = &copy->options;
    struct transfer_run run = begin_run(copy);
    bool alone = options->udp == UDP_ONLY, silent = false;
    bool goes_over = !alone && !options->stream && options->retry_for_ns != 0;
    if (options->udp == UDP_NEVER)
        return false;
    copy_listening_run(&run, &options->ssh, alone, goes_over, &try->progress, try->hint,
                       sizeof(try->hint), &silent, &try->error);
    if (!silent || alone)
        return true;
    snprintf(copy->udp_cause, sizeof(copy->udp_cause), "%s", try->error.text);
    error_clear(&try->error);
    return false;
}

/* The same for TCP, which is like a channel of ssh's from here on. */
static bool start_listening(struct copy *copy, struct error *error)
{
    char text[COPY_WORDS_WAY];
    if (!start_remote(copy, error)) {
        copy_words_neither(copy->udp_cause, error);
        return false;
    }
    copy_words_tcp(copy->options.host, copy->udp_cause, text);
    if (copy->options.udp != UDP_NEVER && strcmp(text, copy->told_way) != 0)
        report_way(copy->report, "tcp", copy->udp_cause, text);
    memcpy(copy->told_way, text, sizeof(text));
    return true;
}

/* What a copy under another policy or at a fixed rate found says little about the path. */
static void keep_memory(const struct copy *copy, const struct transfer_progress *progress)
{
    const struct copy_options *options = &copy->options;
    const struct sender_figures *sender = &progress->sender;
    if (!options->no_memory && options->policy.kind == RATE_AUTO && options->policy.fixed_bps == 0)
        path_memory_note(options->host, options->push, &sender->path, sender->memory_use);
}

/* A sender that missed the receiver's last word may take its exit status for it, where nothing of
 * the user's own stands between that status and us. */
static bool is_confirmed(const struct copy *copy, const struct error *error, int ssh_status)
{
    const struct copy_options *options = &copy->options;
    return options->push && options->ssh.remote_petrel == NULL && options->ssh.command == NULL &&
           error->kind == ERROR_PEER_LOST && ssh_status == EXIT_OK;
}

void copy_try_once(struct copy *copy, struct copy_try *try)
{
    *try = (struct copy_try){.ssh_status = -1};
    copy->watch = (struct channel_watch){0};
    bool listening = copy->options.ssh.listening != NULL;
    bool started = copy_prepare(copy, &try->error);
    if (listening && !copy->options.no_memory)
        path_memory_read(copy->options.host, copy->options.push, &copy->remembered);
    if (started && listening && run_listening(copy, try)) {
        keep_memory(copy, &try->progress);
        return;
    }
    started = started &&
              (listening ? start_listening(copy, &try->error) : start_remote(copy, &try->error));
    if (started && !listening && copy->retry.heard_ns != 0) {
        char time[24];
        format_time(time, sizeof(time), driver_now() - copy->retry.heard_ns);
        report_note(copy->report, "%s answers again, after %s", copy->options.host, time);
    }
    if (started) {
        run(copy, try);
        keep_memory(copy, &try->progress);
    }
    /* A far end that nobody reached by UDP would only wait to see its channel end. */
    bool is_known = *copy->stop > 0 || try->udp_failed;
    try->ssh_status = ssh_close(&copy->channel, is_known ? SHORT_END_NS : REMOTE_END_NS);
    /* Ctrl-C in a terminal is for ssh as well, whose end is then no news. */
    if (*copy->stop > 0 && (try->error.kind == ERROR_PEER_LOST || try->error.kind == ERROR_SSH)) {
        error_clear(&try->error);
        error_set(&try->error, ERROR_INTERRUPTED, "interrupted");
    }
    if (!started || !is_confirmed(copy, &try->error, try->ssh_status))
        return;
    error_clear(&try->error);
    report_line(copy->report,
                "%s's last packets were lost; its exit status says that all was verified",
                copy->options.host);
}
