#include "cli/files/file_job_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/report/event_log.h"
#include "cli/report/exit_code.h"
#include "cli/report/json_fields.h"

static json_t *begin(const char *name)
{
    return json_pack("{s:s, s:i}", "event", name, "schema", EVENT_SCHEMA);
}

static void put(json_t *event, const char *name, uint64_t value)
{
    json_object_set_new(event, name, json_integer((json_int_t)value));
}

static void put_text(json_t *event, const char *name, const char *text)
{
    json_object_set_new(event, name, json_text(text));
}

/* One line; takes the event. */
static bool emit(const struct file_job_output *output, json_t *event)
{
    char *line = event != NULL ? json_dumps(event, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(event);
    bool taken = line != NULL && output->out(output->context, line, strlen(line)) &&
                 output->out(output->context, "\n", 1);
    free(line);
    return taken;
}

bool job_json_entry(const struct file_job_output *output, const struct manifest_entry *entry)
{
    static const char *const names[] = {
        [MANIFEST_DIRECTORY] = "directory", [MANIFEST_FILE] = "file", [MANIFEST_LINK] = "link"};
    json_t *event = begin("entry");
    char text[40], digits[2 * sizeof(entry->hash) + 1];
    put_text(event, "type", names[entry->kind]);
    put_text(event, "path", entry->path);
    snprintf(text, sizeof(text), "%lld.%09u", (long long)entry->mtime_s, (unsigned)entry->mtime_ns);
    put_text(event, "time", text);
    snprintf(text, sizeof(text), "%04o", (unsigned)entry->mode);
    if (entry->kind == MANIFEST_LINK)
        put_text(event, "target", entry->target);
    else
        put_text(event, "mode", text);
    if (entry->kind == MANIFEST_FILE) {
        for (unsigned i = 0; i < sizeof(entry->hash); i++)
            snprintf(digits + 2 * i, 3, "%02x", entry->hash[i]);
        put(event, "size", entry->size);
        put_text(event, "blake3", digits);
    }
    return emit(output, event);
}

static const char *type_name(mode_t mode)
{
    return S_ISREG(mode)    ? "file"
           : S_ISDIR(mode)  ? "directory"
           : S_ISLNK(mode)  ? "link"
           : S_ISFIFO(mode) ? "pipe"
           : S_ISSOCK(mode) ? "socket"
           : S_ISCHR(mode)  ? "character-device"
                            : "block-device";
}

bool job_json_listed(const struct file_job_output *output, const struct listed *entry,
                     const char *path)
{
    const struct stat *status = entry->status;
    json_t *event = begin("entry");
    char text[40];
    put_text(event, "type", type_name(status->st_mode));
    put_text(event, "path", path);
    snprintf(text, sizeof(text), "%lld.%09lu", (long long)status->st_mtim.tv_sec,
             (unsigned long)status->st_mtim.tv_nsec);
    put_text(event, "time", text);
    snprintf(text, sizeof(text), "%04o", (unsigned)status->st_mode & 07777);
    if (!S_ISLNK(status->st_mode))
        put_text(event, "mode", text);
    if (S_ISREG(status->st_mode))
        put(event, "size", (uint64_t)status->st_size);
    if (entry->target != NULL)
        put_text(event, "target", entry->target);
    return emit(output, event);
}

bool job_json_root(const struct file_job_output *output, const char *name, const char *rights)
{
    json_t *event = begin("root");
    put_text(event, "name", name);
    put_text(event, "rights", rights);
    return emit(output, event);
}

bool job_json_stale(const struct file_job_output *output, const struct stale *stale, bool dry_run)
{
    json_t *event = begin("stale");
    put_text(event, "path", stale->path);
    put_text(event, "state",
             stale->state == STALE_IN_USE ? "in-use"
             : dry_run                    ? "left"
                                          : "removed");
    put(event, "size", stale->bytes);
    put(event, "age_seconds", stale->age_s);
    return emit(output, event);
}

bool job_json_difference(const struct file_job_output *output, enum difference difference,
                         const char *path, const char *text)
{
    json_t *event = begin("difference");
    put_text(event, "kind", difference_name(difference));
    put_text(event, "path", path);
    put_text(event, "text", text);
    return emit(output, event);
}

static void put_error(json_t *event, const struct error *error)
{
    put_text(event, "kind", error_kind_name(error->kind));
    put_text(event, "text", error->text);
}

bool job_json_problem(const struct file_job_output *output, const char *path,
                      const struct error *error)
{
    json_t *event = begin("failed");
    put_text(event, "path", path);
    put_error(event, error);
    return emit(output, event);
}

bool job_json_error(const struct file_job_output *output, const struct error *error)
{
    json_t *event = begin("error");
    put_error(event, error);
    return emit(output, event);
}

bool job_json_summary(const struct file_job_output *output, const struct job_summary *summary)
{
    json_t *event = begin("summary");
    put(event, "exit_code", (uint64_t)summary->exit_code);
    if (summary->kind != FILE_JOB_VERIFY)
        put(event, "problems", summary->problems);
    if (summary->hash != NULL)
        put_text(event, "blake3", summary->hash);
    if (summary->counts != NULL) {
        put(event, "entries", summary->counts->entries);
        put(event, "files", summary->counts->files);
        put(event, "bytes", summary->counts->bytes);
        put(event, "differences", summary->counts->differences);
    }
    if (summary->kind == FILE_JOB_CLEAN) {
        put(event, "stale", summary->stale);
        put(event, "stale_bytes", summary->stale_bytes);
        put(event, "in_use", summary->in_use);
    }
    return emit(output, event);
}

int job_json_failed(const struct file_job *job, const struct file_job_output *output,
                    const struct error *error)
{
    struct job_summary summary = {.kind = job->kind, .exit_code = exit_code_of(error->kind)};
    if (job->json && job_json_error(output, error))
        job_json_summary(output, &summary);
    return summary.exit_code;
}
