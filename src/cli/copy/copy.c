/* petrel copy: files and trees to or from a host that ssh reaches. */
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/copy/copy_internal.h"
#include "cli/interrupt.h"
#include "cli/report/exit_code.h"
#include "cli/start/ssh_process.h"
#include "cli/test_hook.h"
#include "cli/version.h"
#include "tree/display.h"

#define TELL_WAIT_NS (5 * NS_PER_S) /* of silence from ssh, after which a word is due */

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
    struct copy_try try;
    copy->retry.limit_ns = copy->options.retry_for_ns;
    if (copy->options.stream && !copy->options.quiet)
        report_line(copy->report, "standard %s cannot be gone on with after an interruption",
                    copy->options.push ? "input" : "output");
    do
        copy_try_once(copy, &try);
    while (copy_goes_on(copy, &try));
    retry_add(&try.progress, &copy->before);
    struct copy_situation situation = copy_situation_of(copy);
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
    struct report_options report = {
        .quiet = copy.options.quiet,
        .dry_run = copy.options.dry_run,
        .push = copy.options.push,
        .stream = copy.options.stream,
        .verbose = copy.options.verbose,
        .json = copy.options.json,
        .host = copy.options.host,
        .limits = {.own = copy.options.limit_bps != 0 || copy.options.policy.fixed_bps != 0,
                   .guests = copy.options.ssh.listening != NULL},
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
