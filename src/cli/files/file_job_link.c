/* A job's way to a host and back. The job is one line; a manifest follows it, up to the end of the
 * stream. What comes back are frames: a letter, a blank, a length in decimal, a newline, and as
 * many bytes: "o" standard output, "i" a line for people, "e" one about an error, "x" the exit
 * code, which is the last. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/files/file_job_json.h"
#include "cli/interrupt.h"
#include "cli/report/exit_code.h"
#include "cli/report/write_all.h"
#include "cli/start/ssh_start.h"
#include "transport/limits.h"
#include "tree/display.h"

#define FRAME_MAX (64u * 1024u)
#define END_NS (3 * NS_PER_S)

/* ---- the host ---- */

static bool put_frame(char kind, const char *bytes, size_t size)
{
    char head[32];
    int length = snprintf(head, sizeof(head), "%c %zu\n", kind, size);
    return write_all(STDOUT_FILENO, head, (size_t)length) && write_all(STDOUT_FILENO, bytes, size);
}

static bool far_out(void *context, const char *bytes, size_t size)
{
    (void)context;
    for (size_t done = 0; done < size;) {
        size_t part = size - done < FRAME_MAX ? size - done : FRAME_MAX;
        if (!put_frame('o', bytes + done, part))
            return false;
        done += part;
    }
    return true;
}

static void far_remark(void *context, const char *line, bool is_error)
{
    (void)context;
    put_frame(is_error ? 'e' : 'i', line,
              strlen(line)); /* a client that is gone shows in what follows */
}

static bool take_job(struct file_job *job, struct error *error)
{
    char *line = malloc(FILE_JOB_LINE_MAX);
    bool read = line != NULL && fgets(line, FILE_JOB_LINE_MAX, stdin) != NULL;
    bool good = read ? file_job_read(job, line, strlen(line), error)
                     : error_set(error, ERROR_PROTOCOL, "no job came");
    free(line);
    return good;
}

int file_job_serve(const struct file_job_host *host)
{
    struct file_job job;
    struct error error = {0};
    struct file_job_output output = {
        .out = far_out, .remark = far_remark, .stop = interrupt_watch()};
    bool taken = take_job(&job, &error);
    FILE *manifest = NULL;
    if (taken && host != NULL)
        host->admits(host->context, &job, &error);
    if (error.kind == ERROR_NONE && job.kind == FILE_JOB_VERIFY)
        manifest = file_job_keep(stdin, &error);
    int code = exit_code_of(error.kind);
    if (error.kind == ERROR_NONE)
        code = file_job_run(&job, manifest, true, host, &output);
    else
        far_remark(NULL, error.text, true);
    if (taken)
        file_job_release(&job);
    if (manifest != NULL)
        fclose(manifest);
    char text[16];
    int length = snprintf(text, sizeof(text), "%d", code);
    put_frame('x', text, (size_t)length);
    return code;
}

/* ---- here ---- */

/* A far end that takes no more has said why, or ends without a word: relay() tells. */
static bool send_job(const struct file_job *job, FILE *manifest, int descriptor,
                     struct error *error)
{
    char *line = malloc(FILE_JOB_LINE_MAX);
    size_t size = line != NULL ? file_job_write(job, line, FILE_JOB_LINE_MAX) : 0;
    bool sent = size > 0 && write_all(descriptor, line, size);
    char buffer[65536];
    size_t got;
    while (sent && manifest != NULL && (got = fread(buffer, 1, sizeof(buffer), manifest)) > 0)
        sent = write_all(descriptor, buffer, got);
    free(line);
    return size > 0 || error_set(error, ERROR_USAGE, "too many paths at once");
}

/* One frame. 1: taken; 0: it was the last, with *code; -1: it was none. */
static int take_frame(FILE *stream, const char *host, const struct file_job_output *output,
                      int *code)
{
    static char bytes[FRAME_MAX + 1];
    char kind, shown[FRAME_MAX], line[FRAME_MAX + 300];
    unsigned long size;
    if (fscanf(stream, "%c %lu", &kind, &size) != 2 || fgetc(stream) != '\n' || size > FRAME_MAX ||
        fread(bytes, 1, size, stream) != size)
        return -1;
    bytes[size] = '\0';
    if (kind == 'o')
        return output->out(output->context, bytes, size) ? 1 : -1;
    if (kind == 'e' || kind == 'i') {
        snprintf(line, sizeof(line), "%.256s: %s", host, display_name(shown, sizeof(shown), bytes));
        output->remark(output->context, line, kind == 'e');
        return 1;
    }
    *code = atoi(bytes);
    return kind == 'x' && *code >= 0 && *code < 256 ? 0 : -1;
}

static bool relay(struct ssh_channel *channel, const char *host,
                  const struct file_job_output *output, int *code, struct error *error)
{
    int copy = dup(channel->from_remote);
    FILE *stream = copy >= 0 ? fdopen(copy, "r") : NULL;
    int taken = 1;
    while (stream != NULL && taken == 1 && *output->stop == 0)
        taken = take_frame(stream, host, output, code);
    if (stream != NULL)
        fclose(stream);
    if (*output->stop != 0)
        return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return (stream != NULL && taken == 0) ||
           error_set(error, ERROR_PEER_LOST, "the SSH session to %s ended early", host);
}

int file_job_send(const struct file_job *job, FILE *manifest, const struct ssh_options *ssh,
                  const char *host, const struct file_job_output *output)
{
    struct error error = {0};
    struct ssh_channel channel = {.to_remote = -1, .from_remote = -1};
    struct bootstrap_start start = {.first_port = 60000,
                                    .last_port = 61000,
                                    .job = JOB_FILES,
                                    .protocol = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX}};
    int code = EXIT_OK;
    bool good = ssh_start(&channel, ssh, host, &start, &error);
    wipe(start.secret, sizeof(start.secret));
    if (good && channel.answer.job != JOB_FILES)
        good = error_set(&error, ERROR_VERSION,
                         "petrel %s on %s cannot do that; send this one there: petrel install %s",
                         channel.answer.version, host, host);
    good = good && send_job(job, manifest, channel.to_remote, &error);
    if (good) {
        ssh_end_output(&channel);
        good = relay(&channel, host, output, &code, &error);
    }
    ssh_close(&channel, END_NS);
    if (good)
        return code;
    output->remark(output->context, error.text, true);
    return job_json_failed(job, output, &error);
}
