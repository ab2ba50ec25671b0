/* The seam between network and disk side: order, room, stopping, and two real threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/work.h"
#include "unit.h"

/* A sink that says `gust` files done for each block, and lets nobody down. */
struct windy {
    uint32_t gust, said, blocks;
    bool closed;
};

static bool windy_open(void *context, const struct transfer_request *request, uint8_t *bitmap,
                       size_t bitmap_size, struct error *error)
{
    (void)context;
    (void)request;
    (void)bitmap;
    (void)bitmap_size;
    (void)error;
    return true;
}

static void windy_accept(void *context, const struct sink_job *job, sink_emit *emit,
                         void *emit_context)
{
    struct windy *windy = context;
    windy->blocks++;
    for (uint32_t i = 0; i < windy->gust; i++) {
        char path[300];
        snprintf(path, sizeof path, "%0*u", (int)(1 + windy->said % 290), windy->said);
        struct sink_report report = {.kind = SINK_FILE_DONE, .path = path, .size = windy->said++};
        emit(emit_context, &report);
    }
    emit(emit_context, &(struct sink_report){.kind = SINK_BUFFER_FREE, .bytes = job->bytes});
}

static void windy_close(void *context)
{
    struct windy *windy = context;
    windy->closed = true;
}

static bool open_windy(void *context, const struct transfer_request *request,
                       struct storage *storage, struct error *error)
{
    static const struct sink_ops ops = {
        .open = windy_open, .accept = windy_accept, .close = windy_close};
    (void)request;
    (void)error;
    *storage = (struct storage){.sink = context, .sink_ops = &ops};
    return true;
}

static const struct transfer_request nothing;

static void put_block(struct work *work, uint8_t *bytes, uint32_t length)
{
    struct work_job job = {.kind = WORK_SINK,
                           .sink = {.kind = SINK_BLOCK, .bytes = bytes, .length = length}};
    assert_true(work_put(work, &job));
}

/* Takes one report and checks that files come in order. False when there is none. */
static bool take(struct work *work, uint32_t *files, bool *closed)
{
    const struct work_report *report = work_peek(work);
    if (report == NULL)
        return false;
    if (report->kind == WORK_OPENED)
        free(report->bytes);
    if (report->kind == WORK_SINK_SAID && report->result == SINK_FILE_DONE) {
        assert_int_equal(report->size, *files);
        assert_int_equal(strlen(work_report_path(report)), report->path_length);
        assert_int_equal(strtoul(work_report_path(report), NULL, 10), *files);
        (*files)++;
    }
    *closed |= report->kind == WORK_CLOSED;
    work_release(work);
    return true;
}

static void gusts_wait_in_order(void **state)
{
    (void)state;
    struct windy windy = {.gust = 5000};
    struct work *work = work_new(false, open_windy, &windy);
    assert_non_null(work);
    assert_true(work_put(work, &(struct work_job){.kind = WORK_OPEN, .request = &nothing}));
    uint8_t byte = 0;
    for (int i = 0; i < 3; i++)
        put_block(work, &byte, 1);
    assert_true(work_put(work, &(struct work_job){.kind = WORK_CLOSE}));
    /* The disk side goes on until its reports have no room, and no further. */
    while (work_step(work) == WORK_DID)
        ;
    assert_int_equal(windy.blocks, 1);
    uint32_t files = 0;
    bool closed = false;
    enum work_result result = WORK_IDLE;
    while (result != WORK_ENDED) {
        while (take(work, &files, &closed))
            ;
        result = work_step(work);
    }
    while (take(work, &files, &closed))
        ;
    assert_int_equal(files, 15000);
    assert_true(closed && windy.closed);
    work_free(work);
}

static void jobs_beyond_the_ring_wait(void **state)
{
    (void)state;
    struct windy windy = {.gust = 1};
    struct work *work = work_new(false, open_windy, &windy);
    assert_true(work_put(work, &(struct work_job){.kind = WORK_OPEN, .request = &nothing}));
    uint8_t byte = 0;
    for (int i = 0; i < 3000; i++)
        put_block(work, &byte, 1);
    assert_true(work_backlog(work) > 1000);
    uint32_t files = 0;
    bool closed = false;
    for (int i = 0; i < 20000; i++) {
        work_step(work);
        while (take(work, &files, &closed))
            ;
        work_flush(work);
    }
    assert_int_equal(work_backlog(work), 0);
    assert_int_equal(files, 3000);
    work_free(work);
    assert_true(windy.closed);
}

static void a_hurry_drops_blocks(void **state)
{
    (void)state;
    struct windy windy = {.gust = 1};
    struct work *work = work_new(false, open_windy, &windy);
    assert_true(work_put(work, &(struct work_job){.kind = WORK_OPEN, .request = &nothing}));
    uint8_t byte = 0;
    for (int i = 0; i < 10; i++)
        put_block(work, &byte, 1);
    work_hurry(work);
    assert_true(work_put(work, &(struct work_job){.kind = WORK_CLOSE}));
    while (work_step(work) != WORK_ENDED)
        ;
    assert_int_equal(windy.blocks, 0);
    assert_true(windy.closed);
    work_free(work);
}

static void messages_left_over_are_freed(void **state)
{
    (void)state;
    struct windy windy = {.gust = 1};
    struct work *work = work_new(true, open_windy, &windy);
    for (int i = 0; i < 1000; i++) {
        uint8_t *bytes = malloc(16);
        assert_non_null(bytes);
        struct work_job job = {.kind = WORK_ANSWER, .bytes = bytes, .length = 16};
        assert_true(work_put(work, &job));
    }
    work_free(work);
}

/* ---- threads ---- */

struct bell {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool rung;
};

static void ring_bell(void *context)
{
    struct bell *bell = context;
    pthread_mutex_lock(&bell->mutex);
    bell->rung = true;
    pthread_cond_signal(&bell->condition);
    pthread_mutex_unlock(&bell->mutex);
}

static void wait_bell(struct bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    while (!bell->rung)
        pthread_cond_wait(&bell->condition, &bell->mutex);
    bell->rung = false;
    pthread_mutex_unlock(&bell->mutex);
}

struct disk_side {
    struct work *work;
    struct bell bell;
};

static void *run_disk(void *context)
{
    struct disk_side *disk = context;
    enum work_result result;
    while ((result = work_step(disk->work)) != WORK_ENDED)
        if (result == WORK_IDLE)
            wait_bell(&disk->bell);
    return NULL;
}

/* Neither side sleeps through what the other did: with a lost wake-up this test never ends. */
static void threads_wake_each_other(void **state)
{
    (void)state;
    struct windy windy = {.gust = 700};
    struct disk_side disk = {.work = work_new(false, open_windy, &windy),
                             .bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}};
    struct bell network = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    work_set_wakers(disk.work, ring_bell, &disk.bell, ring_bell, &network);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_disk, &disk), 0);
    assert_true(work_put(disk.work, &(struct work_job){.kind = WORK_OPEN, .request = &nothing}));
    uint8_t byte = 0;
    for (int i = 0; i < 300; i++)
        put_block(disk.work, &byte, 1);
    assert_true(work_put(disk.work, &(struct work_job){.kind = WORK_CLOSE}));
    uint32_t files = 0;
    bool closed = false;
    while (!closed) {
        while (take(disk.work, &files, &closed))
            ;
        if (!work_flush(disk.work) && !closed && work_peek(disk.work) == NULL)
            wait_bell(&network);
    }
    pthread_join(thread, NULL);
    assert_int_equal(files, 300 * 700);
    work_free(disk.work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gusts_wait_in_order),     cmocka_unit_test(jobs_beyond_the_ring_wait),
        cmocka_unit_test(a_hurry_drops_blocks),    cmocka_unit_test(messages_left_over_are_freed),
        cmocka_unit_test(threads_wake_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
