/* petrel-lab awake: a command, while which no processor goes to sleep. The host of a virtual
 * machine that is shared wakes a sleeping processor late, by milliseconds when others are busy, and
 * a link emulated there then stutters. A loop of idle priority on each processor keeps it running:
 * it makes way at once for whatever else wants to run.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lab/command.h"

/* Two virtual processors may be one core: between two looks it leaves that to the other. */
static void breathe(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Niced besides, so that its time is counted apart ("nice" in /proc/stat). */
static _Noreturn void keep_awake(unsigned processor, pid_t parent)
{
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    static const struct sched_param none = {0};
    bool ready = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
                 sched_setaffinity(0, sizeof only, &only) == 0 &&
                 sched_setscheduler(0, SCHED_IDLE, &none) == 0 && (nice(19), true);
    if (!ready || close_range(0, ~0U, 0) != 0)
        _exit(EXIT_FAILED);
    for (;;)
        breathe();
}

/* The loops are children of the command, which takes this process's place: they end with it. */
int command_awake(int count, char **arguments)
{
    struct error error = {0};
    cpu_set_t allowed;
    if (count < 3 || strcmp(arguments[1], "--") != 0) {
        error_set(&error, ERROR_USAGE, "usage: petrel-lab awake -- COMMAND [ARG...]");
        return command_fail(&error);
    }
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        CPU_ZERO(&allowed);
    pid_t parent = getpid();
    for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) {
        if (CPU_ISSET(processor, &allowed) && fork() == 0)
            keep_awake(processor, parent);
    }
    (void)setenv("PETREL_LAB_AWAKE", "1", 1);
    execvp(arguments[2], arguments + 2);
    error_set_errno(&error, errno, "cannot run %s", arguments[2]);
    (void)command_fail(&error);
    return errno == ENOENT ? 127 : 126;
}
