#include "cli/files/file_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/files/file_job_json.h"
#include "cli/files/list_job.h"
#include "cli/report/exit_code.h"
#include "tree/display.h"
#include "tree/jail.h"
#include "tree/manifest.h"
#include "tree/operand.h"
#include "tree/spool_file.h"
#include "tree/stale.h"
#include "tree/verify.h"

#define SHOWN 4096 /* bytes of a path on the screen */

struct run {
    const struct file_job *job;
    const struct file_job_output *output;
    uint64_t found, bytes, problems, in_use;
    bool gone;                     /* nobody takes the output */
    struct manifest_reader reader; /* manifest --json */
    const char *hash;
    const struct verify_counts *counts;
};

static void out(struct run *run, const char *text)
{
    run->gone = run->gone || !run->output->out(run->output->context, text, strlen(text));
}

static void remark(const struct run *run, const char *text)
{
    run->output->remark(run->output->context, text, false);
}

static void complain(const struct run *run, const char *text)
{
    run->output->remark(run->output->context, text, true);
}

static int fail(struct run *run, struct error *error)
{
    jail_explain(error);
    char text[sizeof(error->text)];
    if (run->job->json)
        run->gone = !job_json_error(run->output, error) || run->gone;
    complain(run, display_name(text, sizeof(text), error->text));
    return exit_code_of(error->kind);
}

static void say_problem(struct run *run, const char *path, const struct error *error)
{
    char shown[SHOWN], text[SHOWN + sizeof(error->text) + 4];
    run->problems++;
    if (run->job->json)
        run->gone = !job_json_problem(run->output, path, error) || run->gone;
    snprintf(text, sizeof(text), "%s: %s", display_name(shown, sizeof(shown), path), error->text);
    complain(run, text);
}

/* ---- clean ---- */

static void on_stale(void *context, const struct stale *stale)
{
    struct run *run = context;
    char shown[SHOWN], size[24], age[24], text[SHOWN + 128];
    if (stale->state == STALE_PROBLEM) {
        say_problem(run, stale->path, &stale->error);
        return;
    }
    bool left = stale->state == STALE_LEFT;
    run->found += left;
    run->bytes += left ? stale->bytes : 0;
    run->in_use += !left;
    if (run->job->json) {
        run->gone = !job_json_stale(run->output, stale, run->job->dry_run) || run->gone;
        return;
    }
    snprintf(text, sizeof(text), "%s %s (%s, written %s ago)\n",
             !left               ? "in use:"
             : run->job->dry_run ? "stale:"
                                 : "removed:",
             display_name(shown, sizeof(shown), stale->path),
             format_size(size, sizeof(size), stale->bytes),
             format_time(age, sizeof(age), stale->age_s * NS_PER_S));
    out(run, text);
}

static int run_clean(struct run *run, const char *path)
{
    struct error error = {0};
    char size[24], text[200];
    if (!stale_find(path, !run->job->dry_run, run->output->stop, on_stale, run, &error))
        return fail(run, &error);
    if (run->output->stop != NULL && *run->output->stop != 0)
        return EXIT_INTERRUPTED;
    if (run->found == 0 && run->in_use == 0)
        snprintf(text, sizeof(text), "nothing of petrel's was left there");
    else
        snprintf(text, sizeof(text), "%llu stale, %s%s; %llu in use",
                 (unsigned long long)run->found, format_size(size, sizeof(size), run->bytes),
                 run->job->dry_run ? "" : " freed", (unsigned long long)run->in_use);
    remark(run, text);
    return run->problems > 0 ? EXIT_PARTIAL : EXIT_OK;
}

/* ---- manifest ---- */

/* The text comes in whole lines. */
static bool entries_of(struct run *run, const char *bytes, size_t size)
{
    struct error error = {0};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - bytes) - at : size - at;
        if (manifest_read(&run->reader, bytes + at, length, &error) == MANIFEST_ENTRY)
            run->gone = !job_json_entry(run->output, &run->reader.entry) || run->gone;
        at += length + 1;
    }
    return !run->gone;
}

static bool on_text(void *context, const char *bytes, size_t size)
{
    struct run *run = context;
    if (run->job->json && !run->job->hash_only)
        return entries_of(run, bytes, size);
    if (!run->job->hash_only && !run->output->out(run->output->context, bytes, size))
        run->gone = true;
    return !run->gone;
}

static void on_problem(void *context, const char *path, const struct error *error)
{
    say_problem(context, path, error);
}

static bool find_operands(const struct file_job *job, bool far, struct operands *operands,
                          struct error *error)
{
    if (!far)
        return operands_from_local(operands, (const char *const *)job->paths, job->path_count,
                                   error);
    struct transfer_request request = {.flags = TRANSFER_WILDCARDS};
    bool good = true;
    for (size_t i = 0; i < job->path_count && good; i++)
        good = transfer_request_add(&request, job->paths[i], false);
    good = good ? operands_from_request(operands, &request, error)
                : error_set(error, ERROR_MEMORY, "no memory for the paths");
    transfer_request_release(&request);
    return good;
}

static int run_manifest(struct run *run, bool far)
{
    struct operands operands = {0};
    struct error error = {0};
    uint8_t hash[32];
    static char digits[72];
    char text[160];
    uint64_t problems = 0;
    if (!find_operands(run->job, far, &operands, &error))
        return fail(run, &error);
    for (size_t i = 0; i < operands.problem_count; i++)
        say_problem(run, operands.problems[i].path, &operands.problems[i].error);
    struct manifest_build build = {.paths = (const char *const *)operands.paths,
                                   .names = (const char *const *)operands.names.names,
                                   .count = operands.names.name_count,
                                   .follow_links = run->job->follow_links,
                                   .stop = run->output->stop,
                                   .text = on_text,
                                   .problem = on_problem,
                                   .context = run};
    bool good = manifest_build(&build, hash, &problems, &error);
    operands_release(&operands);
    if (!good)
        return fail(run, &error);
    for (unsigned i = 0; i < sizeof(hash); i++)
        snprintf(digits + 2 * i, 3, "%02x", hash[i]);
    run->hash = digits;
    if (run->job->hash_only && !run->job->json) {
        snprintf(text, sizeof(text), "%s\n", digits);
        out(run, text);
    } else {
        snprintf(text, sizeof(text), "the manifest's hash is %s", digits);
        remark(run, text);
    }
    return run->gone ? EXIT_FILE_IO : run->problems > 0 ? EXIT_PARTIAL : EXIT_OK;
}

/* ---- verify ---- */

static void on_difference(void *context, enum difference difference, const char *path,
                          const char *text)
{
    struct run *run = context;
    char shown[SHOWN], other[SHOWN], line[2 * SHOWN + 64];
    bool more = text[0] != '\0';
    if (run->job->json) {
        run->gone = !job_json_difference(run->output, difference, path, text) || run->gone;
        return;
    }
    snprintf(line, sizeof(line), "%s: %s%s%s%s\n", difference_name(difference),
             display_name(shown, sizeof(shown), path), more ? " (" : "",
             display_name(other, sizeof(other), text), more ? ")" : "");
    out(run, line);
}

static int run_verify(struct run *run, FILE *manifest, const char *directory)
{
    struct error error = {0};
    static struct verify_counts counts;
    char size[24], text[200];
    struct verify verify = {.manifest = manifest,
                            .directory = directory,
                            .content_only = run->job->content_only,
                            .stop = run->output->stop,
                            .differs = on_difference,
                            .context = run};
    run->counts = &counts;
    if (!verify_run(&verify, &counts, &error))
        return fail(run, &error);
    if (counts.differences == 0)
        snprintf(text, sizeof(text), "%llu entries, %llu files of %s: all as in the manifest",
                 (unsigned long long)counts.entries, (unsigned long long)counts.files,
                 format_size(size, sizeof(size), counts.bytes));
    else
        snprintf(text, sizeof(text), "%llu difference%s in %llu entries",
                 (unsigned long long)counts.differences, counts.differences == 1 ? "" : "s",
                 (unsigned long long)counts.entries);
    remark(run, text);
    return counts.differences > 0 ? EXIT_VERIFY : EXIT_OK;
}

static int run_list(struct run *run, bool far, const struct file_job_host *host)
{
    struct error error = {0};
    struct list_job list = {.job = run->job,
                            .output = run->output,
                            .far = far,
                            .host = host,
                            .problem = on_problem,
                            .context = run};
    bool good = list_job_run(&list, &error);
    run->gone = run->gone || list.gone;
    if (!good)
        return fail(run, &error);
    return run->problems > 0 ? EXIT_PARTIAL : EXIT_OK;
}

FILE *file_job_keep(FILE *from, struct error *error)
{
    int fd = spool_file_open(error);
    FILE *spool = fd >= 0 ? fdopen(fd, "w+") : NULL;
    char buffer[65536];
    size_t got;
    bool kept = spool != NULL;
    while (kept && (got = fread(buffer, 1, sizeof(buffer), from)) > 0)
        kept = fwrite(buffer, 1, got, spool) == got;
    if (kept && ferror(from) == 0 && fseeko(spool, 0, SEEK_SET) == 0)
        return spool;
    error_set_errno(error, errno, "cannot keep the manifest in TMPDIR (or /tmp)");
    if (spool != NULL)
        fclose(spool);
    else if (fd >= 0)
        close(fd);
    return NULL;
}

static int run_job(struct run *run, FILE *manifest, bool far, const struct file_job_host *host)
{
    const struct file_job *job = run->job;
    struct error error = {0};
    if (job->kind == FILE_JOB_MANIFEST)
        return run_manifest(run, far);
    if (job->kind == FILE_JOB_LIST)
        return run_list(run, far, host);
    char *path = far ? path_from_home(job->paths[0], &error) : strdup(job->paths[0]);
    if (path == NULL) {
        error_set(&error, ERROR_MEMORY, "no memory for the path");
        return fail(run, &error);
    }
    int code = job->kind == FILE_JOB_CLEAN ? run_clean(run, path) : run_verify(run, manifest, path);
    free(path);
    return code;
}

int file_job_run(const struct file_job *job, FILE *manifest, bool far,
                 const struct file_job_host *host, const struct file_job_output *output)
{
    struct run *run = calloc(1, sizeof(*run));
    if (run == NULL)
        return EXIT_MEMORY;
    run->job = job;
    run->output = output;
    int code = run_job(run, manifest, far, host);
    struct job_summary summary = {.kind = job->kind,
                                  .exit_code = code,
                                  .problems = run->problems,
                                  .hash = run->hash,
                                  .counts = run->counts,
                                  .stale = run->found,
                                  .stale_bytes = run->bytes,
                                  .in_use = run->in_use};
    if (job->json)
        run->gone = !job_json_summary(output, &summary) || run->gone;
    bool gone = run->gone;
    free(run);
    return gone && code == EXIT_OK ? EXIT_FILE_IO : code;
}
