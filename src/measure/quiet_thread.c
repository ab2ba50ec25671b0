#include "measure/quiet_thread.h"

#include <signal.h>
#include <stddef.h>

bool quiet_thread_start(pthread_t *thread, void *(*run)(void *), void *context, struct error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started || error_set(error, ERROR_MEMORY, "cannot start a thread");
}
