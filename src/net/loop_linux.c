#include "net/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

#define EVENTS_AT_ONCE 16
#define TIMER_SLACK_NS 1000ul

/* Who has to do what about a wake-up. */
enum loop_state {
    LOOP_RUNNING,  /* the owner will look at its work before it sleeps */
    LOOP_NOTIFIED, /* woken meanwhile: the next wait must not sleep */
    LOOP_SLEEPING  /* only the eventfd can wake the owner */
};

struct loop_source {
    int descriptor; /* -1: free */
    unsigned interest;
    bool always_ready; /* a regular file */
    loop_function *function;
    void *context;
};

struct loop {
    int epoll, event;
    atomic_int state;
    bool no_nanoseconds; /* the kernel lacks epoll_pwait2 (before 5.11) */
    unsigned always_ready;
    struct loop_source sources[LOOP_SOURCES_MAX];
};

static void drain_event(void *context, int descriptor, unsigned ready)
{
    (void)context;
    (void)ready;
    uint64_t count;
    ssize_t done = read(descriptor, &count, sizeof(count));
    (void)done; /* nothing to read is fine */
}

struct loop *loop_new(struct error *error)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for an event loop");
        return NULL;
    }
    for (unsigned i = 0; i < LOOP_SOURCES_MAX; i++)
        loop->sources[i].descriptor = -1;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll < 0 || loop->event < 0) {
        error_set_errno(error, errno, "cannot make an event loop");
        loop_free(loop);
        return NULL;
    }
    if (!loop_add(loop, loop->event, LOOP_READ, drain_event, NULL, error)) {
        loop_free(loop);
        return NULL;
    }
    return loop;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    if (loop->epoll >= 0)
        close(loop->epoll);
    if (loop->event >= 0)
        close(loop->event);
    free(loop);
}

static uint32_t epoll_bits(unsigned interest)
{
    return ((interest & LOOP_READ) ? (uint32_t)EPOLLIN | EPOLLRDHUP : 0) |
           ((interest & LOOP_WRITE) ? (uint32_t)EPOLLOUT : 0);
}

static struct loop_source *find_source(struct loop *loop, int descriptor)
{
    for (unsigned i = 0; i < LOOP_SOURCES_MAX; i++)
        if (loop->sources[i].descriptor == descriptor)
            return &loop->sources[i];
    return NULL;
}

bool loop_add(struct loop *loop, int descriptor, unsigned interest, loop_function *function,
              void *context, struct error *error)
{
    struct loop_source *source = find_source(loop, -1);
    if (source == NULL)
        return error_set(error, ERROR_MEMORY, "too many sources in one event loop");
    struct epoll_event event = {.events = epoll_bits(interest),
                                .data.u32 = (uint32_t)(source - loop->sources)};
    bool always_ready = false;
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) {
        if (errno != EPERM)
            return error_set_errno(error, errno, "cannot watch a descriptor");
        always_ready = true;
        loop->always_ready++;
    }
    *source = (struct loop_source){descriptor, interest, always_ready, function, context};
    return true;
}

void loop_set_interest(struct loop *loop, int descriptor, unsigned interest)
{
    struct loop_source *source = find_source(loop, descriptor);
    if (source == NULL || source->interest == interest)
        return;
    source->interest = interest;
    if (source->always_ready)
        return;
    struct epoll_event event = {.events = epoll_bits(interest),
                                .data.u32 = (uint32_t)(source - loop->sources)};
    epoll_ctl(loop->epoll, EPOLL_CTL_MOD, descriptor, &event);
}

void loop_remove(struct loop *loop, int descriptor)
{
    struct loop_source *source = find_source(loop, descriptor);
    if (source == NULL)
        return;
    if (source->always_ready)
        loop->always_ready--;
    else
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, descriptor, NULL);
    source->descriptor = -1;
}

void loop_adopt_thread(void)
{
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
}

static int wait_events(struct loop *loop, struct epoll_event *events, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % NS_PER_S)};
    bool forever = timeout_ns == TIME_NEVER;
#ifdef SYS_epoll_pwait2
    if (!loop->no_nanoseconds) {
        int count = (int)syscall(SYS_epoll_pwait2, loop->epoll, events, EVENTS_AT_ONCE,
                                 forever ? NULL : &timeout, NULL, 0);
        if (count >= 0 || errno != ENOSYS)
            return count;
        loop->no_nanoseconds = true;
    }
#endif
    uint64_t timeout_ms =
        (uint64_t)timeout.tv_sec * 1000 + ((uint64_t)timeout.tv_nsec + NS_PER_MS - 1) / NS_PER_MS;
    return epoll_wait(loop->epoll, events, EVENTS_AT_ONCE,
                      forever              ? -1
                      : timeout_ms > 60000 ? 60000
                                           : (int)timeout_ms);
}

static void call_always_ready(struct loop *loop)
{
    for (unsigned i = 0; loop->always_ready > 0 && i < LOOP_SOURCES_MAX; i++) {
        struct loop_source *source = &loop->sources[i];
        if (source->descriptor >= 0 && source->always_ready && source->interest != 0)
            source->function(source->context, source->descriptor, source->interest);
    }
}

static void call_ready(struct loop *loop, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        struct loop_source *source = &loop->sources[events[i].data.u32];
        if (source->descriptor < 0)
            continue; /* removed by a function called before it */
        unsigned ready = 0;
        if (events[i].events & (EPOLLIN | EPOLLRDHUP))
            ready |= LOOP_READ;
        if (events[i].events & EPOLLOUT)
            ready |= LOOP_WRITE;
        if (events[i].events & (EPOLLHUP | EPOLLERR))
            ready |= LOOP_READ | LOOP_WRITE | LOOP_HANGUP;
        source->function(source->context, source->descriptor, ready);
    }
}

static bool has_always_ready(const struct loop *loop)
{
    for (unsigned i = 0; loop->always_ready > 0 && i < LOOP_SOURCES_MAX; i++) {
        const struct loop_source *source = &loop->sources[i];
        if (source->descriptor >= 0 && source->always_ready && source->interest != 0)
            return true;
    }
    return false;
}

void loop_wait(struct loop *loop, uint64_t deadline_ns, uint64_t now_ns, uint64_t spin_ns)
{
    uint64_t timeout_ns = deadline_ns == TIME_NEVER ? TIME_NEVER
                          : deadline_ns > now_ns    ? deadline_ns - now_ns
                                                    : 0;
    if (timeout_ns < spin_ns || has_always_ready(loop))
        timeout_ns = 0;
    int expected = LOOP_RUNNING;
    if (timeout_ns != 0 && !atomic_compare_exchange_strong(&loop->state, &expected, LOOP_SLEEPING))
        timeout_ns = 0;
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = wait_events(loop, events, timeout_ns);
    atomic_store(&loop->state, LOOP_RUNNING);
    call_ready(loop, events, count);
    call_always_ready(loop);
}

void loop_rest(struct loop *loop, uint64_t until_ns)
{
    if (atomic_load(&loop->state) != LOOP_RUNNING || has_always_ready(loop))
        return;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

void loop_wake(struct loop *loop)
{
    if (atomic_exchange(&loop->state, LOOP_NOTIFIED) != LOOP_SLEEPING)
        return;
    int saved = errno;
    uint64_t one = 1;
    ssize_t done = write(loop->event, &one, sizeof(one));
    (void)done; /* a full counter wakes as well */
    errno = saved;
}

uint64_t loop_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}
