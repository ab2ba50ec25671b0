/* Waits for descriptors, a deadline or a wake-up from elsewhere: the sleep of one network thread.
 *
 * Sources register themselves; loop_wait calls those that are ready. Owned by one thread, except
 * loop_wake. One file per system: loop_linux.c.
 */
#ifndef PETREL_NET_LOOP_H
#define PETREL_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define LOOP_SOURCES_MAX 48u

/* LOOP_HANGUP is only reported: it comes without being asked for, and again at each wait until the
 * descriptor is removed. */
enum loop_interest { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4 };

struct loop;

/* `ready` holds what of the interest is there; a hang-up or error counts as all. */
typedef void loop_function(void *context, int descriptor, unsigned ready);

struct loop *loop_new(struct error *error);
void loop_free(struct loop *loop);

/* A descriptor is registered once. Regular files are always ready and refused by the system:
 * those are reported as ready at each wait instead. */
bool loop_add(struct loop *loop, int descriptor, unsigned interest, loop_function *function,
              void *context, struct error *error);
/* Interest 0 leaves only hang-ups. Cheap when nothing changes or the source is gone. */
void loop_set_interest(struct loop *loop, int descriptor, unsigned interest);
/* Also from within a loop_function. To be called before the descriptor is closed. */
void loop_remove(struct loop *loop, int descriptor);

/* To be said once on the thread that will wait: makes its sleeps precise to some microseconds. */
void loop_adopt_thread(void);
/* Returns when something was ready, at `deadline_ns` (TIME_NEVER: none) or soon after loop_wake.
 * With less than `spin_ns` to go it does not sleep but looks and returns. */
void loop_wait(struct loop *loop, uint64_t deadline_ns, uint64_t now_ns, uint64_t spin_ns);
/* Sleeps until `until_ns` whatever becomes ready or is woken meanwhile (the next wait then returns
 * at once): for when looking a little later is cheaper than being told each time. */
void loop_rest(struct loop *loop, uint64_t until_ns);
/* From any thread or a signal handler; a system call only if the owner sleeps. A wake-up between
 * two waits makes the second return at once. */
void loop_wake(struct loop *loop);

/* CLOCK_MONOTONIC. */
uint64_t loop_now(void);

#endif
