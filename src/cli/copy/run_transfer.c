#include "cli/copy/run_transfer.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/interrupt.h"

#define ASK_EVERY_NS (500 * NS_PER_MS) /* whether the peer outlives the SSH channel */

struct runner {
    struct transfer_run *run;
    struct transfer *transfer;
    struct driver *driver;
    pthread_mutex_t lock;
    pthread_cond_t work_came;
    bool has_work, rests;    /* the disk thread: is to look again; waits for that */
    struct session *session; /* once attached */
    bool gave_up;
    uint64_t asked_ns;
    /* What the driver obeys: the caller's counter, or 2 once the run is given up (in the opening
     * there is no session yet that could be ended politely). */
    volatile int stop;
    uint64_t opened_ns; /* when the opening began */
};

/* ---- the disk thread ---- */

static void wake_disk(void *context)
{
    struct runner *runner = context;
    pthread_mutex_lock(&runner->lock);
    runner->has_work = true;
    pthread_cond_signal(&runner->work_came);
    pthread_mutex_unlock(&runner->lock);
}

static void wake_network(void *context)
{
    struct runner *runner = context;
    driver_wake(runner->driver);
}

static void *disk_thread(void *context)
{
    struct runner *runner = context;
    struct work *work = transfer_work(runner->transfer);
    for (;;) {
        enum work_result result = work_step(work);
        if (result == WORK_ENDED)
            return NULL;
        if (result == WORK_DID)
            continue;
        pthread_mutex_lock(&runner->lock);
        runner->rests = true;
        while (!runner->has_work)
            pthread_cond_wait(&runner->work_came, &runner->lock);
        runner->rests = runner->has_work = false;
        pthread_mutex_unlock(&runner->lock);
    }
}

static bool disk_rests(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    bool rests = runner->rests;
    pthread_mutex_unlock(&runner->lock);
    return rests;
}

/* Signals are for the thread that obeys them: on this one they would only interrupt the disk. */
static bool start_disk_thread(struct runner *runner, pthread_t *disk)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(disk, NULL, disk_thread, runner) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- what the driver asks of us ---- */

static void attach(void *context, struct session *session, uint64_t now_ns)
{
    struct runner *runner = context;
    runner->session = session;
    transfer_attach(runner->transfer, session, now_ns);
}

static bool step(void *context, uint64_t now_ns)
{
    struct runner *runner = context;
    return transfer_step(runner->transfer, now_ns);
}

static uint64_t deadline(void *context)
{
    struct runner *runner = context;
    return transfer_deadline(runner->transfer);
}

static bool is_ended(void *context)
{
    struct runner *runner = context;
    return transfer_is_ended(runner->transfer);
}

static void interrupt(void *context, uint64_t now_ns)
{
    struct runner *runner = context;
    char text[200];
    if (runner->run->transfer.client || interrupt_is_takeover())
        transfer_abort(runner->transfer, ERROR_INTERRUPTED, interrupt_text(text, sizeof(text)),
                       now_ns);
    else /* who ends a server has not ended its clients: they try again */
        transfer_abort(runner->transfer, ERROR_PEER_LOST, "petrel was ended by a signal", now_ns);
}

static void heed(struct runner *runner, enum channel_verdict verdict, const char *why,
                 uint64_t now_ns)
{
    switch (verdict) {
    case CHANNEL_FINE:
        break;
    case CHANNEL_ASK:
        if (runner->session != NULL && now_ns >= runner->asked_ns + ASK_EVERY_NS) {
            runner->asked_ns = now_ns;
            session_ask(runner->session, now_ns);
        }
        break;
    case CHANNEL_OVER:
        runner->gave_up = true;
        transfer_abort(runner->transfer, ERROR_PEER_LOST, why, now_ns);
        if (runner->session == NULL)
            runner->stop = 2;
        break;
    }
}

/* The smaller of the server's limit and the one the copy was asked to keep. */
static void keep_pace(struct runner *runner, uint64_t now_ns)
{
    struct transfer_run *run = runner->run;
    uint64_t limit_bps = 0, own_bps = run->driver.limit_bps;
    bool paused = false;
    run->on_pace(run->pace_context, &limit_bps, &paused);
    transfer_set_pace(runner->transfer, limit_bps, paused, now_ns);
    if (limit_bps == 0 || (own_bps != 0 && own_bps < limit_bps))
        limit_bps = own_bps;
    if (runner->session != NULL && run->transfer.role == ROLE_SENDER)
        session_set_limit(runner->session, limit_bps);
}

static void tick(void *context, uint64_t now_ns)
{
    struct runner *runner = context;
    struct transfer_run *run = runner->run;
    int asked = run->driver.stop != NULL ? *run->driver.stop : 0;
    if (runner->stop < asked)
        runner->stop = asked;
    struct transfer_progress progress;
    transfer_progress(runner->transfer, &progress);
    progress.disk_rests = disk_rests(runner);
    uint64_t heard_ns = progress.session.last_heard_ns;
    if (run->watch != NULL && !runner->gave_up)
        heed(runner, channel_watch_judge(run->watch, heard_ns, now_ns),
             "the SSH session ended before the copy did", now_ns);
    if (run->tcp_watch != NULL && !runner->gave_up)
        heed(runner, tcp_watch_judge(run->tcp_watch, heard_ns, now_ns),
             "UDP fell silent, while TCP gets through", now_ns);
    if (run->on_pace != NULL)
        keep_pace(runner, now_ns);
    if (run->on_tick != NULL)
        run->on_tick(run->tick_context, &progress);
}

/* ---- the run ---- */

static bool drive(struct runner *runner, char *hint, size_t hint_capacity, struct error *error)
{
    struct transfer_run *run = runner->run;
    struct driver_config config = run->driver;
    config.stop = &runner->stop;
    config.client = run->transfer.client;
    config.role = run->transfer.role;
    config.initial_credit = transfer_initial_credit(runner->transfer);
    config.upper = (struct driver_upper){.context = runner,
                                         .attach = attach,
                                         .step = step,
                                         .deadline = deadline,
                                         .is_ended = is_ended,
                                         .tick = tick,
                                         .interrupt = interrupt};
    runner->driver = driver_new(&config, error);
    wipe(config.secret, sizeof(config.secret));
    if (runner->driver == NULL)
        return false;
    struct work *work = transfer_work(runner->transfer);
    work_set_wakers(work, wake_disk, runner, wake_network, runner);
    work_set_flip(work, run->flip, run->flip_after);
    pthread_t disk;
    if (!start_disk_thread(runner, &disk))
        return error_set(error, ERROR_MEMORY, "cannot start the disk thread");
    runner->opened_ns = driver_now();
    bool good = driver_run(runner->driver, error);
    driver_udp_end(runner->driver, &run->udp_end);
    /* Whatever ended the driver, the disk side has to close its storage. */
    transfer_abort(runner->transfer, good ? ERROR_NONE : error->kind, good ? "" : error->text,
                   driver_now());
    wake_disk(runner);
    pthread_join(disk, NULL);
    const char *line = driver_buffer_hint(runner->driver);
    if (hint != NULL)
        snprintf(hint, hint_capacity, "%s", line != NULL ? line : "");
    return good;
}

bool transfer_run(struct transfer_run *run, struct transfer_progress *progress, char *hint,
                  size_t hint_capacity, struct error *error)
{
    struct runner runner = {.run = run};
    memset(progress, 0, sizeof(*progress));
    if (hint != NULL)
        hint[0] = '\0';
    runner.transfer = transfer_new(&run->transfer, error);
    if (runner.transfer == NULL)
        return false;
    pthread_mutex_init(&runner.lock, NULL);
    pthread_cond_init(&runner.work_came, NULL);
    bool good = drive(&runner, hint, hint_capacity, error);
    transfer_progress(runner.transfer, progress);
    /* A client's transfer begins with its first handshake packet, not when the handshake is over.
     */
    if (run->transfer.client && progress->started_ns != 0)
        progress->started_ns = runner.opened_ns;
    const struct error *ended = transfer_error(runner.transfer);
    if (ended->kind != ERROR_NONE) {
        if (!run->udp_end.is_cause) /* else the driver's error says more */
            *error = *ended;
        good = false;
    }
    transfer_free(runner.transfer);
    driver_free(runner.driver);
    pthread_cond_destroy(&runner.work_came);
    pthread_mutex_destroy(&runner.lock);
    return good;
}
