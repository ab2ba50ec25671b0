/* petrel-lab awake: a command, while which no processor goes to sleep. The host of a virtual
 * machine that is shared wakes a sleeping processor late, by milliseconds when others are busy, and
 * a link emulated there then stutters. A loop of idle priority on each processor keeps it running:
 * it makes way at once for whatever else wants to run.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/command.h"
#include "lab/link_process.h"

static volatile sig_atomic_t command_pid;

/* Two virtual processors may be one core: between two looks it leaves that to the other. */
static void breathe(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Says on `ready` that it is what it has to be. Niced besides, so that its time is counted apart
 * ("nice" in /proc/stat); in a process group of its own, which a terminal does not interrupt. */
static _Noreturn void keep_awake(unsigned processor, pid_t parent, int ready)
{
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    static const struct sched_param none = {0};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent ||
        setpgid(0, 0) != 0 || sched_setaffinity(0, sizeof only, &only) != 0 ||
        sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        _exit(EXIT_FAILED);
    (void)nice(19);
    if (write(ready, "", 1) != 1 || close_range(0, ~0U, 0) != 0)
        _exit(EXIT_FAILED);
    for (;;)
        breathe();
}

/* A loop for each processor that we may use. */
static bool start_loops(struct error *error)
{
    cpu_set_t allowed;
    int ready[2];
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || pipe2(ready, O_CLOEXEC) != 0)
        return error_set_errno(error, errno, "cannot see to the processors");
    pid_t parent = getpid();
    int wanted = 0, running = 0;
    for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) {
        if (!CPU_ISSET(processor, &allowed))
            continue;
        wanted++;
        if (fork() == 0)
            keep_awake(processor, parent, ready[1]);
    }
    close(ready[1]);
    char byte;
    while (read(ready[0], &byte, 1) == 1)
        running++;
    close(ready[0]);
    if (running == wanted)
        return true;
    return error_set(
        error, ERROR_PERMISSION,
        "only %d of %d processors can be kept awake: processes or their priorities are "
        "limited here",
        running, wanted);
}

static void pass_on(int number)
{
    if (command_pid > 0)
        (void)kill((pid_t)command_pid, number);
}

/* The loops end with this process, and this process with the command; a terminal interrupts both.
 */
int command_awake(int count, char **arguments)
{
    struct error error = {0};
    if (count < 3 || strcmp(arguments[1], "--") != 0) {
        error_set(&error, ERROR_USAGE, "usage: petrel-lab awake -- COMMAND [ARG...]");
        return command_fail(&error);
    }
    if (!start_loops(&error))
        return command_fail(&error);
    (void)setenv("PETREL_LAB_AWAKE", "1", 1);
    pid_t command = link_process_start(-1, arguments + 2, &error);
    if (command < 0)
        return command_fail(&error);
    command_pid = (sig_atomic_t)command;
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
    action.sa_handler = pass_on;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    int status = 0;
    while (waitpid(command, &status, 0) < 0 && errno == EINTR)
        continue;
    return link_process_exit_status(status);
}
