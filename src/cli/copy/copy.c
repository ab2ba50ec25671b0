/* petrel copy: files and trees to or from a host that ssh reaches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/copy/copy_listening.h"
#include "cli/copy/copy_manifest.h"
#include "cli/copy/copy_request.h"
#include "cli/copy/copy_words.h"
#include "cli/copy/path_memory.h"
#include "cli/copy/run_transfer.h"
#include "cli/interrupt.h"
#include "cli/options/copy_options.h"
#include "cli/options/retry.h"
#include "cli/options/ssh_option_rows.h"
#include "cli/report/exit_code.h"
#include "cli/report/report.h"
#include "cli/start/channel_watch.h"
#include "cli/start/install_offer.h"
#include "cli/start/squeezed_storage.h"
#include "cli/start/ssh_answer.h"
#include "cli/start/ssh_process.h"
#include "cli/test_hook.h"
#include "cli/version.h"
#include "tree/display.h"
#include "tree/pipe_sink.h"
#include "tree/pipe_source.h"
#include "tree/sink.h"
#include "tree/source.h"

#define OPEN_TIMEOUT_NS (10 * NS_PER_S)
#define REMOTE_END_NS (3 * NS_PER_S)
#define SHORT_END_NS (500 * NS_PER_MS) /* when its exit status tells nothing new */
#define NAP_NS (100 * NS_PER_MS)
#define TELL_WAIT_NS (5 * NS_PER_S) /* of silence from ssh, after which a word is due */

struct copy {
    struct copy_options options;
    struct transfer_request request;
    struct copy_lists lists;
    bool stream_begun; /* standard input is being read, or output written: there is no way back */
    struct file_source *source; /* until the transfer has taken it */
    struct ssh_channel channel;
    struct bootstrap_start start;
    struct report *report;
    struct copy_manifest *manifest; /* --manifest, or NULL */
    const volatile int *stop;
    struct channel_watch watch;
    struct rate_memory remembered; /* of the path, by an earlier copy */
    struct retry retry;
    struct transfer_progress before; /* what earlier tries brought */
    struct transfer_progress shown;  /* while nothing is under way */
    char told_way[COPY_WORDS_WAY];   /* the last line about the way */
    char udp_cause[480];             /* petrel://: why it does not go by UDP; "" */
    uint64_t waits_since_ns;         /* for the first answer; 0: not yet */
    bool told_wait;
    bool ports_are_used; /* no port of the range was free over there */
};

/* ssh's question for a password stays as it stands: the line it stands on has no echo. */
static bool is_password_asked(void)
{
    struct termios terminal;
    return tcgetattr(STDERR_FILENO, &terminal) == 0 && (terminal.c_lflag & ECHO) == 0;
}

/* Once, where somebody looks on who is not being asked something. */
static void tell_wait(struct copy *copy)
{
    uint64_t now_ns = driver_now();
    if (copy->waits_since_ns == 0)
        copy->waits_since_ns = now_ns;
    if (copy->told_wait || copy->options.quiet || now_ns < copy->waits_since_ns + TELL_WAIT_NS ||
        !isatty(STDERR_FILENO) || is_password_asked() || ssh_process_asks(copy->channel.pid))
        return;
    copy->told_wait = true;
    report_line(copy->report, "still waiting for %s to answer through ssh", copy->options.host);
}

/* While ssh starts the other end, or does so again. */
static void on_ssh_waits(void *context)
{
    struct copy *copy = context;
    if (copy->retry.heard_ns == 0)
        tell_wait(copy);
    else if (!is_password_asked())
        report_tick(copy->report, &copy->shown);
}

/* One connection to the other end, and what came of it. */
struct
try {
    struct error error;
    struct transfer_progress progress;
    char hint[256];
    bool udp_failed; /* that is the error */
    int ssh_status;
};

/* ---- what is asked for ---- */

/* Standard input cannot be read twice. */
static bool prepare_stream(struct copy *copy, struct error *error)
{
    return transfer_request_add(&copy->request, "-", false) ||
           error_set(error, ERROR_MEMORY, "no memory for the request");
}

static bool prepare_push(struct copy *copy, struct error *error)
{
    const struct copy_options *options = &copy->options;
    if (options->stream)
        return prepare_stream(copy, error);
    if (copy->source != NULL) /* of a try that did not come to it */
        file_source_ops.close(copy->source);
    copy->source = NULL;
    char **paths = calloc(options->source_count, sizeof(*paths));
    bool good = paths != NULL;
    for (size_t i = 0; good && i < options->source_count; i++)
        good = (paths[i] = copy_request_path(options, i)) != NULL;
    if (good)
        copy->source = file_source_new_push((const char *const *)paths, options->source_count,
                                            &copy->request, error);
    for (size_t i = 0; paths != NULL && i < options->source_count; i++)
        free(paths[i]);
    free(paths);
    if (!good)
        return error_set(error, ERROR_MEMORY, "no memory for the sources");
    return copy->source != NULL && (copy->lists.files == NULL ||
                                    file_source_set_list(copy->source, copy->lists.files, error));
}

static bool prepare(struct copy *copy, struct error *error)
{
    transfer_request_release(&copy->request);
    return copy_request_fill(&copy->options, &copy->lists, &copy->request, error) &&
           (!copy->options.push || prepare_push(copy, error));
}

static ptrdiff_t read_list(void *context, uint64_t offset, uint8_t *bytes, size_t capacity,
                           struct error *error)
{
    const struct copy *copy = context;
    return file_list_read(copy->lists.files, offset, bytes, capacity, error);
}

static bool open_stream(struct copy *copy, struct storage *storage, struct error *error)
{
    copy->stream_begun = true;
    if (copy->options.push) {
        storage->source = pipe_source_new(STDIN_FILENO, 0666, (int64_t)time(NULL));
        storage->source_ops = &pipe_source_ops;
    } else {
        storage->sink = pipe_sink_new(STDOUT_FILENO);
        storage->sink_ops = &pipe_sink_ops;
    }
    return storage->source != NULL || storage->sink != NULL ||
           error_set(error, ERROR_MEMORY, "no memory for a pipe");
}

static bool open_storage(void *context, const struct transfer_request *request,
                         struct storage *storage, struct error *error)
{
    struct copy *copy = context;
    *storage = (struct storage){0};
    if (copy->manifest != NULL && !copy->options.push)
        copy_manifest_set_names(copy->manifest, request);
    if (test_hook_storage(copy->options.push, request, storage))
        return true;
    if (copy->options.stream)
        return open_stream(copy, storage, error);
    if (copy->options.push) {
        storage->source = copy->source;
        storage->source_ops = &file_source_ops;
        copy->source = NULL;
        squeezed_storage(request, storage);
        return true;
    }
    storage->sink = file_sink_new();
    storage->sink_ops = &file_sink_ops;
    squeezed_storage(request, storage);
    if (storage->sink != NULL && copy->lists.files != NULL)
        file_sink_set_list(storage->sink, copy->lists.files);
    return storage->sink != NULL || error_set(error, ERROR_MEMORY, "no memory for the sink");
}

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

static struct copy_situation situation_of(const struct copy *copy)
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
    struct copy_situation situation = situation_of(copy);
    copy_words_no_address(&situation, error);
    return false;
}

static void on_way(void *context, const struct driver_way *way)
{
    struct copy *copy = context;
    struct copy_situation situation = situation_of(copy);
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
                                            .open_storage = open_storage,
                                            .open_context = copy,
                                            .on_event = on_event,
                                            .event_context = copy,
                                            .read_list = read_list,
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
static void run(struct copy *copy, struct try *try)
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
    struct copy_situation situation = situation_of(copy);
    try->udp_failed = !good && run.udp_end.is_cause;
    if (try->udp_failed)
        copy_words_open_ports(&situation, &run.udp_end, &try->error);
    wipe(driver->secret, START_SECRET_SIZE);
}

/* By UDP to a petrel that listens. False when nothing answers, and TCP is to be tried. */
static bool run_listening(struct copy *copy, struct try *try)
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

/* ---- one try, and the next ---- */

static void try_once(struct copy *copy, struct try *try)
{
    *try = (struct try){.ssh_status = -1};
    copy->watch = (struct channel_watch){0};
    bool listening = copy->options.ssh.listening != NULL;
    bool started = prepare(copy, &try->error);
    if (listening && !copy->options.no_memory)
        path_memory_read(copy->options.host, copy->options.push, &copy->remembered);
    if (started && listening && run_listening(copy, try)) {
        keep_memory(copy, &try->progress);
        return;
    }
    started = started &&
              (listening ? start_listening(copy, &try->error) : start_remote(copy, &try->error));
    if (started && copy->retry.heard_ns != 0) {
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

/* The error of a copy that is not tried again, although it might have been. */
static void explain_end(const struct copy *copy, enum retry_verdict verdict, struct error *error)
{
    const char *host = copy->options.host, *said = copy->channel.last_words;
    char time[24];
    format_time(time, sizeof(time), driver_now() - copy->retry.heard_ns);
    struct error last = *error;
    error_clear(error);
    if (verdict == RETRY_REFUSED)
        error_set(error, ERROR_PEER_LOST,
                  "the connection to %s was lost, and a new login was refused%s: %s", host,
                  ssh_user_is_there(&copy->options.ssh) ? "" : " where nobody can type a password",
                  said);
    else if (verdict == RETRY_FRUITLESS)
        error_set(error, ERROR_PEER_LOST, "%.300s, several times at the same point", last.text);
    else if (last.kind == ERROR_PEER_LOST)
        error_set(error, ERROR_PEER_LOST, "%.300s", last.text);
    else
        error_set(error, ERROR_PEER_LOST, "no answer from %s for %s; the last try: %.300s", host,
                  time, last.text);
}

/* False when the user had enough of it. */
static bool wait_until(struct copy *copy, uint64_t at_ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    while (*copy->stop == 0 && driver_now() < at_ns) {
        report_tick(copy->report, &copy->shown);
        nanosleep(&nap, NULL);
    }
    return *copy->stop == 0;
}

static void tell_loss(struct copy *copy, const char *text)
{
    char time[24];
    uint64_t limit_ns = copy->retry.limit_ns, minutes = limit_ns / (60 * NS_PER_S);
    if (minutes > 0 && limit_ns % (60 * NS_PER_S) == 0)
        snprintf(time, sizeof(time), "%llu min", (unsigned long long)minutes);
    else
        format_time(time, sizeof(time), limit_ns);
    report_note(copy->report, "%s; trying again for up to %s", text, time);
}

static bool goes_on(struct copy *copy, struct try *try)
{
    if (copy->stream_begun)
        return false;
    struct retry_outcome outcome = {.error = &try->error,
                                    .refused = retry_is_refusal(copy->channel.last_words),
                                    .missing = copy->channel.missing,
                                    .progress = &try->progress};
    uint64_t at_ns = 0;
    bool was_reached = try->progress.session.last_heard_ns != 0;
    enum retry_verdict verdict = retry_judge(&copy->retry, &outcome, driver_now(), &at_ns);
    if (verdict == RETRY_NOT)
        return false;
    if (verdict != RETRY_AGAIN) {
        explain_end(copy, verdict, &try->error);
        return false;
    }
    if (was_reached)
        tell_loss(copy, try->error.text);
    copy->shown = try->progress;
    retry_add(&copy->shown, &copy->before);
    copy->shown.session.last_heard_ns = copy->retry.heard_ns;
    bool good = ssh_options_retry(&copy->options.ssh, copy->retry.failures, &try->error) &&
                wait_until(copy, at_ns);
    if (!good) {
        error_clear(&try->error);
        return error_set(&try->error, ERROR_INTERRUPTED, "interrupted");
    }
    retry_add(&try->progress, &copy->before);
    copy->before = try->progress;
    return true;
}

static void unlisted(void *context, const char *path, const struct error *error)
{
    struct copy *copy = context;
    char name[1024];
    report_line(copy->report, "not in the manifest: %s: %s", display_name(name, sizeof(name), path),
                error->text);
}

/* Also of a copy that did not bring everything: it lists what it brought. */
static int write_manifest(struct copy *copy, int code)
{
    struct error error = {0};
    const struct copy_options *options = &copy->options;
    const char **sources = calloc(options->source_count, sizeof(*sources));
    for (size_t i = 0; sources != NULL && i < options->source_count; i++)
        sources[i] = options->sources[i].path;
    bool good = sources != NULL &&
                copy_manifest_write(copy->manifest, &copy->request, options->push ? sources : NULL,
                                    options->source_count, unlisted, copy, &error);
    free(sources);
    if (good)
        return code;
    error_set(&error, ERROR_MEMORY, "no memory for the manifest");
    report_line(copy->report, "%s", error.text);
    return code == EXIT_OK ? exit_code_of(error.kind) : code;
}

static int copy_files(struct copy *copy)
{
    struct try try;
    copy->retry.limit_ns = copy->options.retry_for_ns;
    if (copy->options.stream && !copy->options.quiet)
        report_line(copy->report, "standard %s cannot be gone on with after an interruption",
                    copy->options.push ? "input" : "output");
    do
        try_once(copy, &try);
    while (goes_on(copy, &try));
    retry_add(&try.progress, &copy->before);
    struct copy_situation situation = situation_of(copy);
    copy_words_end(&situation, try.ssh_status, copy->channel.last_words, &try.error);
    int code = try.error.kind != ERROR_NONE ? exit_code_of(try.error.kind)
                                            : report_exit_code(copy->report, &try.progress);
    if (copy->manifest != NULL && try.error.kind == ERROR_NONE && !copy->options.dry_run)
        code = write_manifest(copy, code);
    return report_end(copy->report, &try.progress, &try.error, try.hint, code);
}

static void print_help(void)
{
    printf("petrel [copy] [OPTION...] FILE... [user@]host:PATH    send\n"
           "petrel [copy] [OPTION...] [user@]host:FILE... PATH    fetch\n\nOptions:\n");
    copy_options_print_help();
}

int command_copy(int argc, char **argv)
{
    struct copy copy = {.channel = {.to_remote = -1, .from_remote = -1}};
    struct error error = {0};
    uint64_t started_ns = driver_now();
    copy.stop = interrupt_watch();
    test_hook_measure();
    if (!copy_options_parse(&copy.options, argc, argv, &error))
        return report_usage(argc, argv, &error);
    copy.options.ssh.stop = copy.stop;
    copy.options.ssh.on_wait = on_ssh_waits;
    copy.options.ssh.wait_context = &copy;
    if (copy.options.help || copy.options.version) {
        if (copy.options.version)
            printf("petrel %s\n", PETREL_VERSION);
        else
            print_help();
        copy_options_release(&copy.options);
        return EXIT_OK;
    }
    struct report_options report = {.quiet = copy.options.quiet,
                                    .dry_run = copy.options.dry_run,
                                    .push = copy.options.push,
                                    .verbose = copy.options.verbose,
                                    .json = copy.options.json,
                                    .host = copy.options.host,
                                    .command_start_ns = started_ns};
    copy.report = report_new(&report, &error);
    for (size_t i = 0; copy.report != NULL && !report.quiet && i < copy.options.remarks.count; i++)
        report_line(copy.report, "%s", copy.options.remarks.values[i]);
    bool good = copy.report != NULL && copy_lists_read(&copy.options, &copy.lists, &error);
    if (good && copy.options.manifest != NULL) {
        copy.manifest = copy_manifest_new(copy.options.manifest, &error);
        good = copy.manifest != NULL;
    }
    int code = good ? copy_files(&copy) : exit_code_of(error.kind);
    if (copy.report != NULL && !good)
        code = report_end(copy.report, &copy.before, &error, "", code);
    copy_manifest_free(copy.manifest);
    if (copy.report == NULL)
        fprintf(stderr, "petrel: %s\n", error.text);
    report_free(copy.report);
    if (copy.source != NULL)
        file_source_ops.close(copy.source);
    transfer_request_release(&copy.request);
    copy_lists_release(&copy.lists);
    copy_options_release(&copy.options);
    return code;
}
