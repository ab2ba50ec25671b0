#include "lab/sim_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

struct files {
    struct sim_files_config config;
    enum transfer_role role;
    struct transfer *transfer;
    struct session *session;
    struct transfer_request request;
    struct sim_source *source; /* one of these two */
    struct sim_sink *sink;
    const uint64_t *world_now_ns;
    uint64_t disk_free_ns; /* host's time at which the disk is done with what it has begun */
    bool busy;
    uint64_t moved_bytes; /* that the disk has been charged for */
    uint64_t done_ns;
};

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static bool open_storage(void *context, const struct transfer_request *request,
                         struct storage *storage, struct error *error)
{
    struct files *files = context;
    (void)request;
    (void)error;
    if (files->source != NULL)
        sim_source_storage(files->source, storage);
    else
        sim_sink_storage(files->sink, storage);
    return true;
}

static void files_enter(void *context, struct sim_trace *trace, unsigned host,
                        const uint64_t *now_ns)
{
    struct files *files = context;
    (void)trace;
    (void)host;
    files->world_now_ns = now_ns;
}

static void files_attach(void *context, struct session *session, uint64_t now_ns)
{
    struct files *files = context;
    files->session = session;
    files->disk_free_ns = now_ns;
    transfer_attach(files->transfer, session, now_ns);
}

static uint64_t disk_bytes(const struct files *files)
{
    if (files->source != NULL)
        return sim_source_bytes(files->source);
    struct sim_sink_result result;
    sim_sink_result(files->sink, &result);
    return result.block_bytes;
}

/* One piece of disk work at a time; the disk is busy for as long as its bytes take. */
static bool run_disk(struct files *files, uint64_t now_ns)
{
    uint64_t rate_bps = files->source != NULL ? files->config.source_bps : files->config.disk_bps;
    bool moved = false;
    while (now_ns >= files->disk_free_ns) {
        if (work_step(transfer_work(files->transfer)) != WORK_DID)
            break;
        moved = true;
        uint64_t bytes = disk_bytes(files) - files->moved_bytes;
        files->moved_bytes += bytes;
        if (rate_bps > 0 && bytes > 0)
            files->disk_free_ns = now_ns + bytes * 8 * NS_PER_S / rate_bps;
    }
    return moved;
}

static bool believes(const struct files *files)
{
    struct transfer_progress progress;
    transfer_progress(files->transfer, &progress);
    return progress.ended_ns != 0 && transfer_error(files->transfer)->kind == ERROR_NONE;
}

static bool files_step(void *context, uint64_t now_ns)
{
    struct files *files = context;
    bool moved = transfer_step(files->transfer, now_ns);
    moved |= run_disk(files, now_ns);
    files->busy = files->disk_free_ns > now_ns;
    if (files->done_ns == 0 && believes(files))
        files->done_ns = *files->world_now_ns;
    return moved;
}

static uint64_t files_deadline(void *context)
{
    struct files *files = context;
    if (files->session == NULL || transfer_is_ended(files->transfer))
        return TIME_NEVER;
    uint64_t deadline = transfer_deadline(files->transfer);
    return files->busy && files->disk_free_ns < deadline ? files->disk_free_ns : deadline;
}

static bool files_is_ended(void *context)
{
    struct files *files = context;
    return files->session != NULL && transfer_is_ended(files->transfer);
}

static void files_abort(void *context, uint64_t now_ns)
{
    struct files *files = context;
    transfer_abort(files->transfer, ERROR_INTERRUPTED, "stopped by the user", now_ns);
}

static const struct error *files_error(void *context)
{
    return transfer_error(((struct files *)context)->transfer);
}

static const char *files_failure(void *context)
{
    struct files *files = context;
    if (files->sink == NULL)
        return NULL;
    struct sim_sink_result result;
    sim_sink_result(files->sink, &result);
    if (sim_sink_failure(files->sink) == NULL && believes(files) && !result.finished)
        return "verified is said, but the sink has not finished";
    return sim_sink_failure(files->sink);
}

static uint64_t files_moved(void *context)
{
    struct files *files = context;
    struct transfer_progress progress;
    transfer_progress(files->transfer, &progress);
    return progress.session.payload_received + progress.session.payload_acked +
           progress.verified_bytes + progress.files_done + progress.files_skipped +
           disk_bytes(files) + progress.phase;
}

static bool files_succeeded(void *context)
{
    return believes(context);
}

static uint64_t files_done_ns(void *context)
{
    return ((struct files *)context)->done_ns;
}

static void files_free(void *context)
{
    struct files *files = context;
    transfer_free(files->transfer);
    sim_source_free(files->source);
    sim_sink_free(files->sink);
    transfer_request_release(&files->request);
    free(files);
}

static void make_request(struct files *files)
{
    const char *name = files->config.pull ? "where/it/is/" SIM_TOP_NAME : SIM_TOP_NAME;
    if (!transfer_request_add(&files->request, name, true))
        abort();
    files->request.destination = must(strdup("there"));
}

struct sim_upper sim_files_new(const struct sim_files_config *config, enum transfer_role role)
{
    struct files *files = must(calloc(1, sizeof *files));
    files->config = *config;
    files->role = role;
    bool client = (role == ROLE_RECEIVER) == config->pull;
    if (client)
        make_request(files);
    if (role == ROLE_SENDER)
        files->source = must(sim_source_new(&config->source));
    else
        files->sink = must(sim_sink_new(&config->sink));
    struct transfer_config transfer = {.client = client,
                                       .role = role,
                                       .request = client ? &files->request : NULL,
                                       .open_storage = open_storage,
                                       .open_context = files,
                                       .pool_blocks = config->pool_blocks};
    struct error error = {0};
    files->transfer = must(transfer_new(&transfer, &error));
    return (struct sim_upper){.context = files,
                              .initial_credit = transfer_initial_credit(files->transfer),
                              .enter = files_enter,
                              .attach = files_attach,
                              .step = files_step,
                              .deadline = files_deadline,
                              .is_ended = files_is_ended,
                              .abort = files_abort,
                              .error = files_error,
                              .failure = files_failure,
                              .progress = files_moved,
                              .succeeded = files_succeeded,
                              .done_ns = files_done_ns,
                              .free = files_free};
}

void sim_files_progress(const struct sim_upper *upper, struct transfer_progress *progress)
{
    const struct files *files = upper->context;
    transfer_progress(files->transfer, progress);
}

void sim_files_result(const struct sim_upper *upper, struct sim_sink_result *result)
{
    const struct files *files = upper->context;
    sim_sink_result(files->sink, result);
}
