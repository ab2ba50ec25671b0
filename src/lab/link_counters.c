#include "lab/link_counters.h"

#include <stdio.h>

void link_tally_add(struct link_tally *tally, uint64_t now_ns, uint64_t packets, uint64_t bytes)
{
    if (tally->packets == 0)
        tally->first_ns = now_ns;
    tally->last_ns = now_ns;
    tally->packets += packets;
    tally->bytes += bytes;
}

void link_counters_loss(struct link_counters *counters, bool lost)
{
    if (lost) {
        counters->dropped_loss++;
        counters->loss_run_now++;
        return;
    }
    uint64_t run = counters->loss_run_now;
    if (run == 0)
        return;
    counters->loss_runs[run < LINK_RUN_MAX ? run : LINK_RUN_MAX]++;
    counters->loss_runs_total++;
    counters->loss_run_now = 0;
}

void link_counters_queue(struct link_counters *counters, uint64_t delay_ns)
{
    uint64_t bucket = delay_ns / LINK_QUEUE_BUCKET_NS;
    counters->queue_buckets[bucket < LINK_QUEUE_BUCKETS ? bucket : LINK_QUEUE_BUCKETS - 1]++;
    counters->queue_samples++;
    counters->queue_sum_ns += (double)delay_ns;
    if (delay_ns > counters->queue_max_ns)
        counters->queue_max_ns = delay_ns;
}

void link_counters_late(struct link_counters *counters, uint64_t late_ns)
{
    counters->pieces++;
    counters->late_sum_ns += (double)late_ns;
    if (late_ns > counters->late_max_ns)
        counters->late_max_ns = late_ns;
}

static double queue_percentile_ms(const struct link_counters *counters, double share)
{
    uint64_t wanted = (uint64_t)((double)counters->queue_samples * share), seen = 0;
    for (unsigned i = 0; i < LINK_QUEUE_BUCKETS; i++) {
        seen += counters->queue_buckets[i];
        if (seen > wanted)
            return (i + 0.5) * LINK_QUEUE_BUCKET_NS / 1e6;
    }
    return (double)counters->queue_max_ns / 1e6;
}

static json_t *queue_json(const struct link_counters *counters)
{
    double samples = (double)counters->queue_samples;
    return json_pack("{s:f, s:f, s:f, s:f}", "mean",
                     samples > 0 ? counters->queue_sum_ns / samples / 1e6 : 0.0, "p50",
                     samples > 0 ? queue_percentile_ms(counters, 0.5) : 0.0, "p95",
                     samples > 0 ? queue_percentile_ms(counters, 0.95) : 0.0, "max",
                     (double)counters->queue_max_ns / 1e6);
}

static json_t *late_json(const struct link_counters *counters)
{
    double pieces = (double)counters->pieces;
    return json_pack("{s:f, s:f}", "mean", pieces > 0 ? counters->late_sum_ns / pieces / 1e6 : 0.0,
                     "max", (double)counters->late_max_ns / 1e6);
}

static json_t *tally_json(const struct link_tally *tally)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "packets", (json_int_t)tally->packets, "bytes",
                     (json_int_t)tally->bytes, "first_ns", (json_int_t)tally->first_ns, "last_ns",
                     (json_int_t)tally->last_ns);
}

static json_t *runs_json(const struct link_counters *counters)
{
    json_t *runs = json_object();
    for (unsigned i = 1; runs != NULL && i <= LINK_RUN_MAX; i++) {
        char length[8];
        snprintf(length, sizeof length, "%u", i);
        if (counters->loss_runs[i] > 0)
            json_object_set_new(runs, length, json_integer((json_int_t)counters->loss_runs[i]));
    }
    return runs;
}

static double mean_run(const struct link_counters *counters)
{
    uint64_t lost = counters->dropped_loss - counters->loss_run_now; /* in finished runs */
    return counters->loss_runs_total > 0 ? (double)lost / (double)counters->loss_runs_total : 0.0;
}

json_t *link_counters_json(const struct link_counters *counters)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"packets", counters->all.packets},
        {"bytes", counters->all.bytes},
        {"first_ns", counters->all.first_ns},
        {"last_ns", counters->all.last_ns},
        {"trains", counters->trains},
        {"pieces", counters->pieces},
        {"dropped_loss", counters->dropped_loss},
        {"dropped_queue", counters->dropped_queue},
        {"dropped_policer", counters->dropped_policer},
        {"dropped_mtu", counters->dropped_mtu},
        {"dropped_memory", counters->dropped_memory},
        {"dropped_write", counters->dropped_write},
        {"duplicated", counters->duplicated},
        {"reordered", counters->reordered},
        {"ignored", counters->ignored},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_object_set_new(object, numbers[i].name, json_integer((json_int_t)numbers[i].value));
    json_object_set_new(object, "udp", tally_json(&counters->udp));
    json_object_set_new(object, "tcp", tally_json(&counters->tcp));
    json_object_set_new(object, "delivered", tally_json(&counters->delivered));
    json_object_set_new(object, "queue_ms", queue_json(counters));
    json_object_set_new(object, "late_ms", late_json(counters));
    json_object_set_new(object, "loss_runs", runs_json(counters));
    json_object_set_new(object, "mean_loss_run", json_real(mean_run(counters)));
    return object;
}
