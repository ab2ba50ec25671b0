/* The line that a job on files travels as. What is accepted is written back with the same meaning.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files/file_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char line[FILE_JOB_LINE_MAX];
    struct file_job job, back;
    struct error error = {0};
    if (!file_job_read(&job, (const char *)data, size, &error)) {
        require(error.kind != ERROR_NONE);
        return 0;
    }
    require(job.kind < FILE_JOB_COUNT && job.path_count > 0);
    require(job.path_count <= FILE_JOB_PATHS_MAX);
    size_t written = file_job_write(&job, line, sizeof(line));
    if (written > 0) { /* many paths in short escapes may not fit */
        require(file_job_read(&back, line, written - 1, &error));
        require(back.kind == job.kind && back.path_count == job.path_count);
        for (size_t i = 0; i < job.path_count; i++)
            require(strcmp(back.paths[i], job.paths[i]) == 0);
        file_job_release(&back);
    }
    file_job_release(&job);
    return 0;
}
