/* What a user sees of a copy: the progress line, a line per file with -v, JSON events, the summary.
 *
 * People read stderr, programs stdout: nothing but JSON ever goes to stdout. Everything that came
 * from the peer is escaped before it is printed.
 */
#ifndef PETREL_CLI_REPORT_H
#define PETREL_CLI_REPORT_H

#include "cli/report/summary.h"
#include "transfer/transfer.h"

struct report_options {
    bool quiet, dry_run, push;
    bool stream; /* standard input or output is an end of it */
    int verbose;
    const char *json; /* NULL: none; "": stdout; else a file */
    const char *host; /* as the user wrote it */
    struct summary_limits limits;
    uint64_t command_start_ns;
};

struct report;

/* NULL when the JSON file cannot be written. Options are copied, their texts borrowed. */
struct report *report_new(const struct report_options *options, struct error *error);
void report_free(struct report *report);

/* Callbacks for a transfer_run; `context` is the report. */
void report_event(void *context, const struct transfer_event *event);
void report_tick(void *context, const struct transfer_progress *progress);

/* The session goes another way, "ssh" or "udp", because of `cause`: `text` tells people. */
void report_way(struct report *report, const char *way, const char *cause, const char *text);

/* The exit code of a copy that went to its end: 0, or what its failed files make of it. */
int report_exit_code(const struct report *report, const struct transfer_progress *progress);
/* The end: summary, or the error. `hint` is "" or a line of advice. Returns the exit code, which is
 * another one when the events that a program waits for could not be written. */
int report_end(struct report *report, const struct transfer_progress *progress,
               const struct error *error, const char *hint, int exit_code);
/* A command line that was not understood: the error on stderr, and as an event where one of the
 * words asks for --json. Returns EXIT_USAGE. */
int report_usage(int argc, char **argv, const struct error *error);
/* A line about the copy on stderr, unless quiet, and in the events. */
void report_note(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* That nothing is heard since then was told by a note, and perhaps its end will be. */
void report_silence_is_told(struct report *report, uint64_t since_ns, bool and_its_end);
/* A line for people on stderr, prefixed "petrel: ", clear of the progress line. */
void report_line(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
