/* When a worker sleeps past what arrives. A datagram each 100 us would wake its thread ten thousand
 * times a second, and a wake-up costs ten times what a datagram does; so while datagrams keep
 * coming they are read at most each millisecond, or together with the next train's leaving. How
 * long is bounded by the round trip, whose measurement it blurs, and by the room in the sockets.
 */
#include "base/units.h"
#include "net/worker_internal.h"

#define LEAST_NS (100 * NS_PER_US) /* a shorter rest saves nothing */
#define COUNT_NS (5 * NS_PER_MS)
#define BUFFER_SHARE 16u /* of the smallest receive buffer may fill meanwhile */

static uint64_t smallest_buffer(const struct worker *worker)
{
    uint64_t smallest = UDP_RECEIVE_WANTED;
    for (unsigned i = 0; i < WORKER_SOCKETS; i++) {
        if (worker->sockets[i].udp == NULL)
            continue;
        struct udp_statistics statistics;
        udp_get_statistics(worker->sockets[i].udp, &statistics);
        if (statistics.receive_buffer < smallest)
            smallest = statistics.receive_buffer;
    }
    return smallest;
}

void worker_count_arrived(struct worker *worker, uint64_t now_ns)
{
    worker->received_ns = now_ns;
    for (unsigned i = 0; i < worker->batch->count; i++) {
        const struct udp_message *message = &worker->batch->messages[i];
        worker->count_bytes += message->size;
        worker->count_datagrams += (message->size + message->segment - 1) / message->segment;
    }
    uint64_t passed_ns = now_ns - worker->count_ns;
    if (passed_ns < COUNT_NS)
        return;
    bool pause = passed_ns > 4 * COUNT_NS; /* what comes next may be anything */
    worker->arriving_bps =
        pause ? 0 : (uint64_t)((double)worker->count_bytes * 8e9 / (double)passed_ns);
    worker->datagram_gap_ns = passed_ns / (worker->count_datagrams + 1);
    worker->count_bytes = worker->count_datagrams = 0;
    worker->count_ns = now_ns;
}

static uint64_t patience(const struct worker *worker)
{
    uint64_t patience_ns = TIME_NEVER;
    for (unsigned i = 0; i < LANES_MAX; i++) {
        const struct lane *lane = worker->lanes[i].lane;
        if (lane != NULL && lane_kind(lane) == LANE_DATAGRAM && lane_patience(lane) < patience_ns)
            patience_ns = lane_patience(lane);
    }
    if (patience_ns == TIME_NEVER)
        return 0;
    uint64_t fills_ns =
        smallest_buffer(worker) / BUFFER_SHARE * 8 * NS_PER_S / worker->arriving_bps;
    if (patience_ns > fills_ns)
        patience_ns = fills_ns;
    return patience_ns >= LEAST_NS ? patience_ns : 0;
}

bool worker_may_rest(struct worker *worker, uint64_t deadline_ns, uint64_t now_ns,
                     uint64_t *until_ns)
{
    if (worker->arriving_bps == 0 || worker->received_ns + 4 * COUNT_NS < now_ns)
        return false;
    uint64_t patience_ns = patience(worker);
    uint64_t until = worker->received_ns + patience_ns;
    if (deadline_ns <= now_ns + patience_ns || deadline_ns < until)
        until = deadline_ns;
    else if (2 * worker->datagram_gap_ns > patience_ns)
        return false; /* a few acks: nothing is saved by making them wait */
    *until_ns = until;
    return patience_ns > 0 && until > now_ns + LEAST_NS / 2;
}
