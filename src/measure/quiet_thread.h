/* A thread that no signal interrupts: they are for the thread that obeys them. */
#ifndef PETREL_MEASURE_QUIET_THREAD_H
#define PETREL_MEASURE_QUIET_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"

bool quiet_thread_start(pthread_t *thread, void *(*run)(void *), void *context,
                        struct error *error);

#endif
