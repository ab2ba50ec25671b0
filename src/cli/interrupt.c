#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/report/exit_code.h"
#include "tree/journal.h"

static volatile int raised;
static volatile pid_t taken_by; /* the process that took a half-written file over; 0: none */

static void raise_count(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)context;
    if (info->si_code == SI_QUEUE && info->si_value.sival_int == JOURNAL_TAKES_OVER)
        taken_by = info->si_pid;
    if (++raised > 2)
        _exit(EXIT_INTERRUPTED);
}

static void watch(int signal_number)
{
    struct sigaction action = {.sa_sigaction = raise_count, .sa_flags = SA_SIGINFO}, was;
    sigemptyset(&action.sa_mask);
    if (sigaction(signal_number, NULL, &was) == 0 && was.sa_handler == SIG_IGN)
        return;
    sigaction(signal_number, &action, NULL);
}

bool interrupt_is_takeover(void)
{
    return taken_by != 0;
}

const char *interrupt_text(char *text, size_t capacity)
{
    char host[65] = "";
    if (taken_by == 0) {
        snprintf(text, capacity, "interrupted");
        return text;
    }
    gethostname(host, sizeof(host) - 1);
    snprintf(text, capacity,
             "stopped by another copy to the same file (process %ld on %s), which took its "
             "half-written file over",
             (long)taken_by, host);
    return text;
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
