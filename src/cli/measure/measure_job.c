#include "cli/measure/measure_job.h"

#include <string.h>
#include <unistd.h>

#include "base/units.h"

#define BUFFER_MOST (UINT64_C(256) << 20)
#define BUFFER_SHORT (UINT64_C(16) << 20)
#define BUFFER_LONG_NS (5 * NS_PER_S)
#define POOL_FIRST 32u /* as a copy's receiver */
#define POOL_MOST 256u
#define OPEN_NS (6 * NS_PER_S)
#define IDLE_NS (10 * NS_PER_S) /* a measurement is no copy: it need not outlive an outage */

/* No more memory than is sent, and little for a short look. */
static size_t buffer_bytes(const struct measure_request *request)
{
    uint64_t most =
        request->size_bytes == 0 && request->time_ns < BUFFER_LONG_NS ? BUFFER_SHORT : BUFFER_MOST;
    uint64_t blocks = (request->size_bytes + BLOCK_SIZE - 1) / BLOCK_SIZE;
    return (size_t)(blocks != 0 && blocks * BLOCK_SIZE < most ? blocks * BLOCK_SIZE : most);
}

void measure_job_prepare(struct session_run *run, const struct measure_request *request,
                         bool client)
{
    *run = (struct session_run){
        .sends = request->sends != client,
        .memory = {.size_bytes = request->size_bytes,
                   .time_ns = request->time_ns,
                   .buffer_bytes = buffer_bytes(request),
                   .pool_blocks = POOL_FIRST,
                   .pool_most = POOL_MOST,
                   .hash = true},
        .driver = {.client = client,
                   .stream = request->stream,
                   .lanes = request->lanes,
                   .limit_bps = request->limit_bps,
                   .fixed_bps = request->fixed_bps,
                   .policy = (enum rate_policy)request->policy,
                   .open_timeout_ns = OPEN_NS,
                   .idle_timeout_ns = IDLE_NS,
                   .watch_fd = -1},
    };
    memcpy(run->driver.secret, request->secret, sizeof(run->driver.secret));
    memcpy(run->driver.session_id, request->session_id, sizeof(run->driver.session_id));
}

bool measure_job_open_disk(struct session_run *run, const struct measure_request *request,
                           struct error *error)
{
    if (request->path[0] == '\0' || run->sends)
        return true;
    int descriptor = disk_temporary(request->path, error);
    run->memory.disk = descriptor > 0 ? descriptor : 0;
    return descriptor > 0;
}

void measure_job_release(struct session_run *run)
{
    if (run->memory.disk > 0)
        close(run->memory.disk);
    run->memory.disk = 0;
    wipe(run->driver.secret, sizeof(run->driver.secret));
}
