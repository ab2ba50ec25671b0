/* What petrel clean, manifest, verify and ls do, on this machine or on a host: one job, its output
 * as pieces of standard output and lines for people.
 *
 * On a host the job travels through the SSH channel (docs/protocol.md, "Jobs on files"): a line
 * that says what is to be done, a manifest where one is needed, and back come the output and an
 * exit code.
 */
#ifndef PETREL_CLI_FILE_JOB_H
#define PETREL_CLI_FILE_JOB_H

#include <stdio.h>

#include "cli/options/ssh_options.h"

enum file_job_kind {
    FILE_JOB_CLEAN,
    FILE_JOB_MANIFEST,
    FILE_JOB_VERIFY,
    FILE_JOB_LIST,
    FILE_JOB_COUNT
};

#define FILE_JOB_PATHS_MAX 4096u
#define FILE_JOB_PATH_MAX 4096u /* bytes of each */
#define FILE_JOB_LINE_MAX (1u << 20)

struct file_job {
    enum file_job_kind kind;
    bool dry_run;      /* clean: only look */
    bool hash_only;    /* manifest: its hash instead of its text */
    bool follow_links; /* manifest */
    bool content_only; /* verify: modes and times may differ */
    bool details;      /* list: modes, sizes and times, too */
    bool recursive;    /* list: with all below directories */
    bool json;         /* events instead of text */
    char **paths;      /* clean and verify: one */
    size_t path_count;
};

/* A directory that a listening petrel offers, as its guest may use it. */
struct file_job_root {
    const char *name;
    int directory; /* an open descriptor */
    bool may_fetch, may_send;
};

/* A host that does not do everything: a listening petrel. */
struct file_job_host {
    void *context;
    bool (*admits)(void *context, const struct file_job *job, struct error *error);
    /* The root of that index among those of the guest; false: there is none any more. */
    bool (*root)(void *context, size_t index, struct file_job_root *root);
};

struct file_job_output {
    /* False: nobody takes it any more. */
    bool (*out)(void *context, const char *bytes, size_t size);
    /* For people; `is_error` when something went wrong. */
    void (*remark)(void *context, const char *line, bool is_error);
    void *context;
    const volatile int *stop;
};

void file_job_release(struct file_job *job);
bool file_job_add_path(struct file_job *job, const char *path);

/* Does it here. `manifest`: of a verify, a file that can be read twice. Paths are the near end's
 * user's (`far` false), or are read as those of a copy's remote operands are: from the home
 * directory, with wildcards. `host`: NULL unless this is a listening petrel. Returns the exit code.
 */
int file_job_run(const struct file_job *job, FILE *manifest, bool far,
                 const struct file_job_host *host, const struct file_job_output *output);

/* Has it done on a host. */
int file_job_send(const struct file_job *job, FILE *manifest, const struct ssh_options *ssh,
                  const char *host, const struct file_job_output *output);
/* Is the host: reads the job from stdin, answers on stdout. `host`: NULL when all jobs are welcome.
 */
int file_job_serve(const struct file_job_host *host);

/* A copy of all that `from` has left to give, in a file without a name, from its beginning: a
 * manifest is read twice. NULL and an error. */
FILE *file_job_keep(FILE *from, struct error *error);

/* The line that a job travels as; 0 when it does not fit. */
size_t file_job_write(const struct file_job *job, char *line, size_t capacity);
/* Without its newline. Checks every limit; on success the caller releases the job. */
bool file_job_read(struct file_job *job, const char *line, size_t size, struct error *error);

#endif
