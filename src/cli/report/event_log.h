/* The copy as JSON, one event a line, for programs: docs/man/petrel.1, "JSON EVENTS". */
#ifndef PETREL_CLI_EVENT_LOG_H
#define PETREL_CLI_EVENT_LOG_H

#include "cli/report/report.h"

#define EVENT_SCHEMA 1

struct event_log;

/* To stdout when `file` is "". NULL with an error when the file cannot be written. */
struct event_log *event_log_new(const char *file, struct error *error);
void event_log_free(struct event_log *log);

void event_log_start(struct event_log *log, const struct report_options *options);
/* At most one a second; `progress` and `idle_ns` as in cli/report/stillness.h. */
void event_log_progress(struct event_log *log, const struct transfer_progress *progress,
                        uint64_t idle_ns, uint64_t now_ns);
void event_log_file(struct event_log *log, const struct transfer_event *event);
void event_log_note(struct event_log *log, const char *text);
void event_log_lost(struct event_log *log, const char *text);
/* The session goes "ssh" or "udp" from now on. */
void event_log_way(struct event_log *log, const char *way, const char *cause, const char *text);
/* "error" when error->kind is set, then "summary" in every case. False when any of the events could
 * not be written. */
bool event_log_end(struct event_log *log, const struct transfer_progress *progress,
                   const struct error *error, uint64_t command_ns, int exit_code);

#endif
