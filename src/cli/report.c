#include "cli/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "net/driver.h"

struct report {
    struct report_options options;
};

struct report *report_new(const struct report_options *options, struct error *error)
{
    struct report *report = calloc(1, sizeof(*report));
    if (report == NULL)
        error_set(error, ERROR_MEMORY, "no memory for the report");
    else
        report->options = *options;
    return report;
}

void report_free(struct report *report)
{
    free(report);
}

void report_line(struct report *report, const char *format, ...)
{
    va_list arguments;
    (void)report;
    va_start(arguments, format);
    fputs("petrel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void report_event(void *context, const struct transfer_event *event)
{
    struct report *report = context;
    if (event->kind == TRANSFER_FILE_FAILED)
        report_line(report, "%s: %s", event->path, event->error.text);
    else if (event->kind == TRANSFER_NOTE)
        report_line(report, "%s", event->error.text);
}

void report_tick(void *context, const struct transfer_progress *progress)
{
    (void)context;
    (void)progress;
}

void report_end(struct report *report, const struct transfer_progress *progress,
                const struct error *error, const char *hint, int exit_code)
{
    (void)exit_code;
    if (error->kind != ERROR_NONE) {
        report_line(report, "%s", error->text);
        return;
    }
    if (report->options.quiet)
        return;
    char size[24], rate[24], time[24], command[24];
    uint64_t took = progress->ended_ns - progress->started_ns;
    uint64_t bps = took ? (uint64_t)((double)progress->verified_bytes * 8e9 / (double)took) : 0;
    report_line(
        report, "%s in %llu files, transfer %s, command %s, %s, verified",
        format_size(size, sizeof(size), progress->verified_bytes),
        (unsigned long long)progress->files_done, format_time(time, sizeof(time), took),
        format_time(command, sizeof(command), driver_now() - report->options.command_start_ns),
        format_byte_rate(rate, sizeof(rate), bps));
    if (hint[0] != '\0')
        report_line(report, "%s", hint);
}
