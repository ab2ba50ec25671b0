#include "lab/link_process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab/link_emulator.h"

#define GRACE_STEPS 100 /* of 10 ms */

void link_process_environment(pid_t pid, int near_fd, int far_fd, const char *control)
{
    char program[4096], value[4200];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    setenv("PETREL_LAB_NEAR", LINK_NEAR_IPV4, 1);
    setenv("PETREL_LAB_FAR", LINK_FAR_IPV4, 1);
    setenv("PETREL_LAB_NEAR_V6", LINK_NEAR_IPV6, 1);
    setenv("PETREL_LAB_FAR_V6", LINK_FAR_IPV6, 1);
    snprintf(value, sizeof value, "%s in /proc/%d/fd/%d --", program, (int)pid, near_fd);
    setenv("PETREL_LAB_NEAR_EXEC", value, 1);
    snprintf(value, sizeof value, "%s in /proc/%d/fd/%d --", program, (int)pid, far_fd);
    setenv("PETREL_LAB_FAR_EXEC", value, 1);
    setenv("PETREL_LAB", program, 1);
    if (control != NULL)
        setenv("PETREL_LAB_LINK", control, 1);
}

_Noreturn void link_process_become(char *const *arguments)
{
    execvp(arguments[0], arguments);
    int cause = errno;
    fprintf(stderr, "petrel-lab: cannot run %s: %s\n", arguments[0], strerror(cause));
    _exit(cause == ENOENT ? 127 : 126);
}

pid_t link_process_start(int space_fd, char *const *arguments, struct error *error)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        error_set_errno(error, errno, "cannot start a process");
    if (child != 0)
        return child;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    (void)prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0); /* back to the default */
    if (getppid() != parent)
        _exit(125);
    if (space_fd >= 0 && setns(space_fd, CLONE_NEWNET) != 0) {
        fprintf(stderr, "petrel-lab: cannot enter the near namespace: %s\n", strerror(errno));
        _exit(125);
    }
    link_process_become(arguments);
}

void link_process_adopt(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static void signal_children(int number)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    int child;
    while (fscanf(file, "%d", &child) == 1)
        (void)kill(child, number);
    fclose(file);
}

void link_process_end_children(void)
{
    static const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0;; i++) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
        if (ended < 0)
            return;
        /* Again and again: the death of one brings its children to us. */
        signal_children(i < GRACE_STEPS ? SIGTERM : SIGKILL);
        nanosleep(&step, NULL);
    }
}

int link_process_exit_status(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}
