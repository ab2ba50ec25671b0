/* The events of petrel clean, manifest, verify and ls with --json (docs/man/petrel.1, "JSON
 * EVENTS"): each writes one line to a job's output. */
#ifndef PETREL_CLI_FILE_JOB_JSON_H
#define PETREL_CLI_FILE_JOB_JSON_H

#include "cli/files/file_job.h"
#include "tree/listing.h"
#include "tree/manifest_form.h"
#include "tree/stale.h"
#include "tree/verify.h"

/* False: nobody takes it any more, as output->out says. */
bool job_json_entry(const struct file_job_output *output, const struct manifest_entry *entry);
/* An entry as `path`; a root of a listening petrel. */
bool job_json_listed(const struct file_job_output *output, const struct listed *entry,
                     const char *path);
bool job_json_root(const struct file_job_output *output, const char *name, const char *rights);
bool job_json_stale(const struct file_job_output *output, const struct stale *stale, bool dry_run);
bool job_json_difference(const struct file_job_output *output, enum difference difference,
                         const char *path, const char *text);
/* Something that could not be looked at, read or removed; the rest goes on. */
bool job_json_problem(const struct file_job_output *output, const char *path,
                      const struct error *error);
bool job_json_error(const struct file_job_output *output, const struct error *error);

/* Always last. Fields that are of another job's are left 0. */
struct job_summary {
    enum file_job_kind kind;
    int exit_code;
    uint64_t problems;
    const char *hash;                    /* manifest: 64 digits, NULL when there is none */
    const struct verify_counts *counts;  /* verify; NULL when there are none */
    uint64_t stale, stale_bytes, in_use; /* clean */
};

bool job_json_summary(const struct file_job_output *output, const struct job_summary *summary);
/* The job could not be begun, or its host was lost: error and summary, if events are wanted at all.
 * Returns the exit code. */
int job_json_failed(const struct file_job *job, const struct file_job_output *output,
                    const struct error *error);

#endif
