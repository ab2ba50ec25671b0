#include "cli/report/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/report/event_log.h"
#include "cli/report/exit_code.h"
#include "cli/report/progress_line.h"
#include "cli/report/stillness.h"
#include "cli/report/summary.h"
#include "net/driver.h"
#include "tree/display.h"

#define NAME_SHOWN 1024
#define LINES_A_KIND 20u /* of files that failed for one reason; then they are only counted */

struct report {
    struct report_options options;
    struct progress_line line;
    struct stillness stillness;
    struct event_log *log;    /* NULL: none */
    struct summary_file only; /* the one file, while there is no second */
    struct failures failures;
    bool lost;                         /* something that was asked for could not be kept */
    uint64_t failed[ERROR_KIND_COUNT]; /* by kind */
    uint64_t files, bytes;             /* done, or of a dry run: that would be sent */
};

struct report *report_new(const struct report_options *options, struct error *error)
{
    struct report *report = calloc(1, sizeof(*report));
    if (report == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for the report");
        return NULL;
    }
    report->options = *options;
    progress_line_init(&report->line, !options->quiet);
    if (options->json != NULL) {
        report->log = event_log_new(options->json, error);
        if (report->log == NULL) {
            free(report);
            return NULL;
        }
        event_log_start(report->log, options);
    }
    return report;
}

void report_free(struct report *report)
{
    if (report == NULL)
        return;
    progress_line_clear(&report->line);
    event_log_free(report->log);
    free(report);
}

void report_line(struct report *report, const char *format, ...)
{
    va_list arguments;
    progress_line_clear(&report->line);
    va_start(arguments, format);
    fputs("petrel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void report_note(struct report *report, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!report->options.quiet)
        report_line(report, "%s", text);
    if (report->log != NULL)
        event_log_note(report->log, text);
}

static void remember_file(struct report *report, const struct transfer_event *event)
{
    report->files++;
    report->bytes += event->size;
    report->only.known = report->files == 1 && !report->options.dry_run;
    memcpy(report->only.hash, event->hash, sizeof(report->only.hash));
    display_name(report->only.name, sizeof(report->only.name), event->path);
}

static const char *would(const struct report *report)
{
    if (!report->options.dry_run)
        return "";
    return report->options.push ? "would send " : "would fetch ";
}

static void report_failure(struct report *report, const struct transfer_event *event,
                           const char *name, const char *text)
{
    enum error_kind kind = event->error.kind < ERROR_KIND_COUNT ? event->error.kind : ERROR_PEER;
    failures_add(&report->failures, event->error.kind);
    if (report->failed[kind]++ < LINES_A_KIND || report->options.verbose > 0)
        report_line(report, "%s%s%s: %s", event->is_peers ? report->options.host : "",
                    event->is_peers ? ": " : "", name, text);
}

static void report_unsaid(struct report *report)
{
    for (unsigned kind = 0; kind < ERROR_KIND_COUNT && report->options.verbose == 0; kind++) {
        if (report->failed[kind] > LINES_A_KIND)
            report_line(report, "... and %llu more of that kind (%s); -v names each",
                        (unsigned long long)(report->failed[kind] - LINES_A_KIND),
                        error_kind_name((enum error_kind)kind));
    }
}

void report_event(void *context, const struct transfer_event *event)
{
    struct report *report = context;
    char name[NAME_SHOWN], text[sizeof(event->error.text)];
    display_name(name, sizeof(name), event->path != NULL ? event->path : "");
    display_name(text, sizeof(text), event->error.text);
    switch (event->kind) {
    case TRANSFER_FILE_DONE:
        remember_file(report, event);
        if (report->options.verbose > 0 || report->options.dry_run)
            report_line(report, "%s%s", would(report), name);
        break;
    case TRANSFER_FILE_SKIPPED:
        if (report->options.verbose > 1)
            report_line(report, "%s is already there", name);
        break;
    case TRANSFER_FILE_FAILED:
        report_failure(report, event, name, text);
        break;
    case TRANSFER_FILE_DELETED:
        if (report->options.verbose > 0 || report->options.dry_run)
            report_line(report, "%s %s", report->options.dry_run ? "would delete" : "deleted",
                        name);
        break;
    case TRANSFER_LOST:
    case TRANSFER_NOTE:
        report->lost = report->lost || event->kind == TRANSFER_LOST;
        report_line(report, "%s", text);
        if (report->log != NULL && event->kind == TRANSFER_LOST)
            event_log_lost(report->log, text);
        else if (report->log != NULL)
            event_log_note(report->log, text);
        return;
    }
    if (report->log != NULL)
        event_log_file(report->log, event);
}

void report_way(struct report *report, const char *way, const char *cause, const char *text)
{
    if (!report->options.quiet)
        report_line(report, "%s", text);
    if (report->log != NULL)
        event_log_way(report->log, way, cause, text);
}

static void tell_stillness(struct report *report, const struct stillness_news *news)
{
    char time[24];
    const char *host = report->options.host;
    format_time(time, sizeof(time), news->for_ns);
    if (news->kind == STILLNESS_SILENT && news->over)
        report_note(report, "%s answers again, after %s", host, time);
    else if (news->kind == STILLNESS_SILENT)
        report_note(report, "no answer from %s for %s, waiting; Ctrl-C ends the copy%s", host, time,
                    report->options.stream ? "" : " and keeps what has arrived");
    else if (news->kind == STILLNESS_IDLE && news->over)
        report_note(report, "goes on, after %s", time);
    else if (news->kind == STILLNESS_IDLE)
        report_note(report, "%s is alive but has %s nothing for %s: %s there", host,
                    report->options.push ? "taken" : "sent", time,
                    report->options.limits.guests ? "paused, limited or busy" : "busy");
}

void report_silence_is_told(struct report *report, uint64_t since_ns, bool and_its_end)
{
    stillness_is_told(&report->stillness, since_ns, and_its_end);
}

void report_tick(void *context, const struct transfer_progress *progress)
{
    struct report *report = context;
    uint64_t now_ns = driver_now();
    struct transfer_progress shown = *progress;
    struct stillness_news news = stillness_look(&report->stillness, &shown, now_ns);
    uint64_t idle_ns = stillness_idle_ns(&report->stillness, &shown, now_ns);
    tell_stillness(report, &news);
    progress_line_draw(&report->line, &shown, idle_ns, now_ns);
    if (report->log != NULL && progress->phase == PHASE_MOVING)
        event_log_progress(report->log, &shown, idle_ns, now_ns);
}

static void print_summary(struct report *report, const struct transfer_progress *progress,
                          uint64_t command_ns)
{
    char text[2048];
    if (report->options.dry_run)
        summary_dry_run(text, sizeof(text), progress, report->files, report->bytes);
    else
        summary_text(text, sizeof(text), progress, &report->only, &report->options.limits,
                     command_ns);
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line != '\0')
            report_line(report, "%s", line);
    }
}

/* The value of --json among words that could not be parsed; NULL for none. */
static const char *find_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--json=-") == 0)
            return "";
        if (strncmp(argv[i], "--json=", 7) == 0)
            return argv[i] + 7;
    }
    return NULL;
}

int report_usage(int argc, char **argv, const struct error *error)
{
    const char *json = find_json(argc, argv);
    char text[sizeof(error->text)];
    fprintf(stderr, "petrel: %s\n", display_name(text, sizeof(text), error->text));
    struct event_log *log = json != NULL ? event_log_new(json, NULL) : NULL;
    if (log != NULL) {
        const struct transfer_progress nothing = {0};
        event_log_end(log, &nothing, error, 0, EXIT_USAGE);
    }
    event_log_free(log);
    return EXIT_USAGE;
}

static uint64_t good_files(const struct transfer_progress *progress)
{
    return progress->files_done + progress->files_skipped;
}

int report_exit_code(const struct report *report, const struct transfer_progress *progress)
{
    if (report->failures.count == 0 && progress->files_failed == 0)
        return report->lost ? EXIT_LOST : EXIT_OK;
    return exit_code_of_failures(&report->failures, good_files(progress));
}

/* Of a single file that failed all is said by its own line. */
static bool has_summary(const struct report *report, const struct transfer_progress *progress)
{
    return !report->options.quiet && (good_files(progress) > 0 || report->failures.count != 1);
}

int report_end(struct report *report, const struct transfer_progress *progress,
               const struct error *error, const char *hint, int exit_code)
{
    uint64_t command_ns = driver_now() - report->options.command_start_ns;
    progress_line_clear(&report->line);
    struct error named = {0};
    report_unsaid(report);
    if (progress->error_is_peers && error->kind != ERROR_NONE) {
        error_set(&named, error->kind, "%s: %s", report->options.host, error->text);
        error = &named;
    }
    if (error->kind != ERROR_NONE) {
        char text[sizeof(error->text)];
        report_line(report, "%s", display_name(text, sizeof(text), error->text));
    } else if (has_summary(report, progress)) {
        print_summary(report, progress, command_ns);
    }
    if (hint[0] != '\0' && !report->options.quiet)
        report_line(report, "%s", hint);
    if (report->log == NULL || event_log_end(report->log, progress, error, command_ns, exit_code))
        return exit_code;
    report_line(report, "the events of --json could not all be written");
    return exit_code == EXIT_OK ? EXIT_FILE_IO : exit_code;
}
