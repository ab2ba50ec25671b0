/* petrel ls: what paths hold, a line or an event for each entry. */
#ifndef PETREL_CLI_LIST_JOB_H
#define PETREL_CLI_LIST_JOB_H

#include "cli/files/file_job.h"

struct list_job {
    const struct file_job *job;
    const struct file_job_output *output;
    bool far;                         /* as of file_job_run */
    const struct file_job_host *host; /* NULL: all paths are open */
    /* Something is not listed, and the rest is. */
    void (*problem)(void *context, const char *path, const struct error *error);
    void *context;
    bool gone; /* filled in: nobody takes the output */
};

/* Whether a path of a job means the roots of a listening petrel: petrel://host, without a path. */
bool list_job_names_roots(const char *path);
/* False and an error when nothing could be listed at all. */
bool list_job_run(struct list_job *list, struct error *error);

#endif
