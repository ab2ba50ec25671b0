#include "cli/report/event_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/units.h"
#include "cli/report/stillness.h"
#include "tree/display.h"

#define PROGRESS_NS NS_PER_S

struct event_log {
    FILE *out;
    bool owned, dry_run;
    uint64_t next_progress_ns;
};

struct event_log *event_log_new(const char *file, struct error *error)
{
    struct event_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for the event log");
        return NULL;
    }
    log->owned = file[0] != '\0';
    log->out = log->owned ? fopen(file, "we") : stdout;
    if (log->out == NULL) {
        error_set_errno(error, errno, "cannot write the events to %s", file);
        free(log);
        return NULL;
    }
    return log;
}

void event_log_free(struct event_log *log)
{
    if (log == NULL)
        return;
    if (log->owned)
        fclose(log->out);
    free(log);
}

static void emit(struct event_log *log, json_t *event)
{
    if (event == NULL)
        return;
    json_dumpf(event, log->out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    fputc('\n', log->out);
    fflush(log->out);
    json_decref(event);
}

static json_t *begin(const char *name)
{
    return json_pack("{s:s, s:i}", "event", name, "schema", EVENT_SCHEMA);
}

static void put_number(json_t *event, const char *name, uint64_t value)
{
    json_object_set_new(event, name, json_integer((json_int_t)value));
}

static void put_seconds(json_t *event, const char *name, uint64_t ns)
{
    json_object_set_new(event, name, json_real((double)ns / 1e9));
}

/* Names need not be UTF-8: what is not is shown escaped, as on the terminal. */
static void put_text(json_t *event, const char *name, const char *text)
{
    json_t *value = json_string(text);
    if (value == NULL) {
        char shown[4 * 4096 + 1];
        value = json_string(display_name(shown, sizeof(shown), text));
    }
    json_object_set_new(event, name, value);
}

static void put_hash(json_t *event, const uint8_t hash[32])
{
    char text[65];
    for (unsigned i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    put_text(event, "blake3", text);
}

void event_log_start(struct event_log *log, const struct report_options *options)
{
    log->dry_run = options->dry_run;
    json_t *event = begin("start");
    put_text(event, "host", options->host);
    put_text(event, "direction", options->push ? "push" : "pull");
    json_object_set_new(event, "dry_run", json_boolean(options->dry_run));
    emit(log, event);
}

static void put_amounts(json_t *event, const struct transfer_progress *progress)
{
    put_number(event, "verified_bytes", progress->verified_bytes);
    put_number(event, "kept_bytes", progress->kept_bytes);
    put_number(event, "total_bytes", progress->total_bytes);
    json_object_set_new(event, "total_is_final", json_boolean(progress->totals_final));
    put_number(event, "files_done", progress->files_done);
    put_number(event, "files_skipped", progress->files_skipped);
    put_number(event, "files_failed", progress->files_failed);
}

void event_log_progress(struct event_log *log, const struct transfer_progress *progress,
                        uint64_t idle_ns, uint64_t now_ns)
{
    if (now_ns < log->next_progress_ns)
        return;
    log->next_progress_ns = now_ns + PROGRESS_NS;
    json_t *event = begin("progress");
    put_amounts(event, progress);
    put_number(event, "rate_bps", progress->session.rate_bps);
    put_seconds(event, "rtt_seconds", progress->session.rtt_ns);
    put_number(event, "packets_sent", progress->sender.packets_sent);
    put_number(event, "packets_lost", progress->sender.packets_lost);
    put_seconds(event, "silent_seconds", stillness_silent_ns(progress, now_ns));
    put_seconds(event, "idle_seconds", idle_ns);
    emit(log, event);
}

void event_log_file(struct event_log *log, const struct transfer_event *file)
{
    static const char *const names[] = {[TRANSFER_FILE_DONE] = "file",
                                        [TRANSFER_FILE_SKIPPED] = "skipped",
                                        [TRANSFER_FILE_FAILED] = "failed",
                                        [TRANSFER_FILE_DELETED] = "deleted"};
    json_t *event = begin(names[file->kind]);
    put_text(event, "path", file->path);
    if (file->kind == TRANSFER_FILE_FAILED) {
        put_text(event, "kind", error_kind_name(file->error.kind));
        put_text(event, "text", file->error.text);
        put_text(event, "side", file->is_peers ? "remote" : "local");
    } else if (file->kind != TRANSFER_FILE_DELETED) {
        put_number(event, "size", file->size);
    }
    if (file->kind == TRANSFER_FILE_DONE)
        put_hash(event, file->hash);
    emit(log, event);
}

void event_log_note(struct event_log *log, const char *text)
{
    json_t *event = begin("note");
    put_text(event, "text", text);
    emit(log, event);
}

void event_log_lost(struct event_log *log, const char *text)
{
    json_t *event = begin("lost");
    put_text(event, "text", text);
    emit(log, event);
}

void event_log_way(struct event_log *log, const char *way, const char *cause, const char *text)
{
    json_t *event = begin("way");
    put_text(event, "way", way);
    put_text(event, "cause", cause);
    put_text(event, "text", text);
    emit(log, event);
}

static void put_limits(json_t *event, const struct sender_figures *sender)
{
    static const char *const names[LIMIT_COUNT] = {[LIMIT_PATH] = "path",
                                                   [LIMIT_OPTION] = "limit",
                                                   [LIMIT_CREDIT] = "receiver_disk",
                                                   [LIMIT_SOURCE] = "sender_disk",
                                                   [LIMIT_PROCESSOR] = "processor"};
    json_t *limits = json_object();
    for (unsigned i = 0; i < LIMIT_COUNT; i++)
        put_seconds(limits, names[i], sender->limited_us[i] * NS_PER_US);
    json_object_set_new(event, "limited_seconds", limits);
}

static const char *const memory_names[] = {[MEMORY_UNUSED] = "unused",
                                           [MEMORY_TRIED] = "tried",
                                           [MEMORY_HELD] = "held",
                                           [MEMORY_FAILED] = "failed"};

bool event_log_end(struct event_log *log, const struct transfer_progress *progress,
                   const struct error *error, uint64_t command_ns, int exit_code)
{
    const struct session_statistics *session = &progress->session;
    if (error->kind != ERROR_NONE) {
        json_t *event = begin("error");
        put_text(event, "kind", error_kind_name(error->kind));
        put_text(event, "text", error->text);
        emit(log, event);
    }
    json_t *event = begin("summary");
    json_object_set_new(
        event, "verified",
        json_boolean(error->kind == ERROR_NONE && progress->files_failed == 0 && !log->dry_run));
    put_number(event, "exit_code", (uint64_t)exit_code);
    put_amounts(event, progress);
    put_number(event, "deleted", progress->deleted);
    put_seconds(
        event, "transfer_seconds",
        progress->ended_ns > progress->started_ns ? progress->ended_ns - progress->started_ns : 0);
    put_seconds(event, "command_seconds", command_ns);
    put_number(event, "packets_sent", progress->sender.packets_sent);
    put_number(event, "packets_lost", progress->sender.packets_lost);
    put_number(event, "payload_sent", progress->sender.payload_sent);
    put_number(event, "payload_resent", progress->sender.payload_resent);
    put_number(event, "receiver_drops", session->peer_socket_drops + session->own_socket_drops);
    put_number(event, "datagram_bytes", session->datagram_size);
    put_number(event, "lanes", session->lanes);
    put_seconds(event, "rtt_seconds", session->rtt_ns);
    put_limits(event, &progress->sender);
    put_seconds(event, "disk_wait_seconds", progress->disk_wait_ns);
    put_seconds(event, "peer_disk_wait_seconds", progress->peer_disk_wait_ns);
    put_text(event, "remembered_path", memory_names[progress->sender.memory_use]);
    emit(log, event);
    return ferror(log->out) == 0;
}
