#include "bench.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "unit.h"

#define STEP_NS (50 * NS_PER_US)
#define STEPS_MAX 4000000u
#define IDLE_MAX 20000u /* steps in which nothing moves before the bench says it hangs */

void bench_init(struct bench *bench, uint64_t seed, const uint64_t *sizes, uint32_t count)
{
    struct sim_files files = {.seed = seed, .sizes = sizes, .count = count};
    *bench = (struct bench){.seed = seed};
    bench->source_config = (struct sim_source_config){
        .files = files, .withdrawn = SIM_NO_FILE, .missing = SIM_NO_FILE, .fails_at = SIM_NO_FILE};
    bench->sink_config = (struct sim_sink_config){.files = files, .fails_file = SIM_NO_FILE};
}

static bool open_source(void *context, const struct transfer_request *request,
                        struct storage *storage, struct error *error)
{
    struct bench *bench = context;
    assert_non_null(request);
    assert_false(bench->opened[SENDER]);
    bench->opened[SENDER] = true;
    if (bench->open_fails[SENDER])
        return error_set(error, ERROR_NOT_FOUND, "no such file: %s", request->names[0]);
    sim_source_storage(bench->source, storage);
    if (bench->offered_name != NULL) {
        assert_true(transfer_request_add(&bench->names, bench->offered_name, true));
        storage->names = &bench->names;
    }
    return true;
}

static bool open_sink(void *context, const struct transfer_request *request,
                      struct storage *storage, struct error *error)
{
    struct bench *bench = context;
    assert_non_null(request);
    assert_false(bench->opened[RECEIVER]);
    assert_string_equal(request->destination, "there");
    bench->opened[RECEIVER] = true;
    if (bench->open_fails[RECEIVER])
        return error_set(error, ERROR_PERMISSION, "not allowed: %s", request->destination);
    sim_sink_storage(bench->sink, storage);
    return true;
}

static void on_event(void *context, const struct transfer_event *event)
{
    struct seen *seen = context;
    switch (event->kind) {
    case TRANSFER_FILE_DONE:
        seen->done++;
        break;
    case TRANSFER_FILE_SKIPPED:
        seen->skipped++;
        break;
    case TRANSFER_FILE_FAILED:
        seen->failed++;
        seen->last_failure = event->error;
        snprintf(seen->last_path, sizeof seen->last_path, "%s", event->path);
        assert_int_not_equal(event->error.kind, ERROR_NONE);
        break;
    case TRANSFER_LOST:
    case TRANSFER_FILE_DELETED: /* no sink of these tests deletes */
        fail();
        break;
    case TRANSFER_NOTE:
        seen->notes++;
        break;
    }
}

static void make_end(struct bench *bench, int end)
{
    bool client = (end == RECEIVER) == bench->pull;
    struct transfer_config config = {.client = client,
                                     .role = end == SENDER ? ROLE_SENDER : ROLE_RECEIVER,
                                     .request = client ? &bench->request : NULL,
                                     .open_storage = end == SENDER ? open_source : open_sink,
                                     .open_context = bench,
                                     .on_event = on_event,
                                     .event_context = &bench->seen[end],
                                     .pool_blocks =
                                         end == SENDER ? bench->sender_pool : bench->receiver_pool};
    struct error error = {0};
    bench->ends[end] = transfer_new(&config, &error);
    assert_non_null(bench->ends[end]);
}

void bench_start(struct bench *bench)
{
    random_seed(&bench->random, bench->seed);
    bench->wire = fake_wire_new(bench->seed);
    bench->source = sim_source_new(&bench->source_config);
    bench->sink = sim_sink_new(&bench->sink_config);
    assert_non_null(bench->source);
    assert_non_null(bench->sink);
    assert_true(
        transfer_request_add(&bench->request, bench->pull ? "some/where/tree" : "tree", true));
    bench->request.destination = strdup("there");
    make_end(bench, SENDER);
    make_end(bench, RECEIVER);
    bench->now_ns = NS_PER_S;
    transfer_attach(bench->ends[SENDER], fake_sender(bench->wire), bench->now_ns);
    transfer_attach(bench->ends[RECEIVER], fake_receiver(bench->wire), bench->now_ns);
}

static bool run_disk(struct bench *bench, int end)
{
    unsigned share = bench->disk_share[end];
    if (share != 0 && random_below(&bench->random, 256) >= share)
        return true; /* it is busy */
    return work_step(transfer_work(bench->ends[end])) == WORK_DID;
}

static bool one_step(struct bench *bench)
{
    switch (random_below(&bench->random, 5)) {
    case 0:
        return !bench->paused[SENDER] && transfer_step(bench->ends[SENDER], bench->now_ns);
    case 1:
        return !bench->paused[RECEIVER] && transfer_step(bench->ends[RECEIVER], bench->now_ns);
    case 2:
        return run_disk(bench, SENDER);
    case 3:
        return run_disk(bench, RECEIVER);
    default:
        return fake_wire_step(bench->wire);
    }
}

static bool ended(const struct bench *bench)
{
    return transfer_is_ended(bench->ends[SENDER]) && transfer_is_ended(bench->ends[RECEIVER]);
}

bool bench_steps(struct bench *bench, unsigned steps)
{
    for (unsigned i = 0; i < steps && !ended(bench); i++) {
        bench->now_ns += STEP_NS;
        one_step(bench);
    }
    return ended(bench);
}

void bench_run(struct bench *bench)
{
    unsigned idle = 0;
    for (unsigned i = 0; i < STEPS_MAX && idle < IDLE_MAX && !ended(bench); i++) {
        bench->now_ns += STEP_NS;
        idle = one_step(bench) ? 0 : idle + 1;
    }
    if (!ended(bench))
        print_error("seed %llu: no end; sender: %s; receiver: %s\n",
                    (unsigned long long)bench->seed, bench_error(bench, SENDER)->text,
                    bench_error(bench, RECEIVER)->text);
    assert_true(ended(bench));
    if (sim_sink_failure(bench->sink) != NULL)
        print_error("seed %llu: %s\n", (unsigned long long)bench->seed,
                    sim_sink_failure(bench->sink));
    assert_null(sim_sink_failure(bench->sink));
    assert_true(!bench->opened[SENDER] || bench->open_fails[SENDER] ||
                sim_source_is_closed(bench->source));
    assert_true(!bench->opened[RECEIVER] || bench->open_fails[RECEIVER] ||
                bench_result(bench).closed);
}

void bench_succeed(struct bench *bench)
{
    bench_run(bench);
    for (int end = 0; end < 2; end++) {
        if (bench_error(bench, end)->kind != ERROR_NONE)
            print_error("seed %llu, end %d: %s\n", (unsigned long long)bench->seed, end,
                        bench_error(bench, end)->text);
        assert_int_equal(bench_error(bench, end)->kind, ERROR_NONE);
        assert_int_equal(bench_progress(bench, end).files_failed, 0);
        assert_int_equal(bench_progress(bench, end).phase, PHASE_ENDED);
        assert_true(bench_progress(bench, end).ended_ns > NS_PER_S);
    }
    assert_true(bench_result(bench).finished);
    for (uint32_t i = 0; i < bench->source_config.files.count; i++)
        assert_true(sim_sink_has(bench->sink, i));
}

void bench_stop(struct bench *bench)
{
    transfer_free(bench->ends[SENDER]);
    transfer_free(bench->ends[RECEIVER]);
    sim_source_free(bench->source);
    sim_sink_free(bench->sink);
    transfer_request_release(&bench->request);
    transfer_request_release(&bench->names);
    fake_wire_free(bench->wire);
}

const struct error *bench_error(const struct bench *bench, int end)
{
    return transfer_error(bench->ends[end]);
}

struct transfer_progress bench_progress(const struct bench *bench, int end)
{
    struct transfer_progress progress;
    transfer_progress(bench->ends[end], &progress);
    return progress;
}

struct sim_sink_result bench_result(const struct bench *bench)
{
    struct sim_sink_result result;
    sim_sink_result(bench->sink, &result);
    return result;
}
