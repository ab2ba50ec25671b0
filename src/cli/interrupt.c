#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "cli/exit_code.h"

static volatile int raised;

static void raise_count(int signal_number)
{
    (void)signal_number;
    if (++raised > 2)
        _exit(EXIT_INTERRUPTED);
}

static void watch(int signal_number)
{
    struct sigaction action = {.sa_handler = raise_count}, was;
    sigemptyset(&action.sa_mask);
    if (sigaction(signal_number, NULL, &was) == 0 && was.sa_handler == SIG_IGN)
        return;
    sigaction(signal_number, &action, NULL);
}

const volatile int *interrupt_watch(void)
{
    watch(SIGINT);
    watch(SIGTERM);
    watch(SIGHUP);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    return &raised;
}
