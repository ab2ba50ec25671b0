#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile int raised;

static void raise_count(int signal_number)
{
    (void)signal_number;
    raised++;
}

const volatile int *interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = raise_count};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    return &raised;
}
