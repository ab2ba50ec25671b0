/* Takes from this process, for good, what petrel serve does not need: files outside of its roots by
 * Landlock, system calls by seccomp. What network input can make of a process that was broken into
 * is then what a client could ask for anyway.
 *
 * To be called after sockets and keys are open and before anything from the network is parsed, on
 * the only thread there is; children and later threads inherit it. Where the kernel has neither,
 * nothing is taken, and `done` tells it. Sources: landlock(7), seccomp(2).
 */
#ifndef PETREL_SERVE_CONFINE_H
#define PETREL_SERVE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum confine_right {
    CONFINE_READ,   /* files and directories: open, list */
    CONFINE_WRITE,  /* besides: make, write, rename, remove, but no devices */
    CONFINE_REMOVE, /* of a directory: nothing but remove files in it */
};

struct confine_rule {
    const char *path; /* the right is for it and all below it */
    enum confine_right right;
};

struct confine_done {
    int landlock; /* the kernel's version of it; 0: it has none, or was built without */
    bool calls;   /* seccomp holds */
};

/* Beneath the paths only, whatever is executed nowhere; no TCP connection out and no further TCP
 * port, where Landlock knows these (version 4); no signals and abstract sockets outside (version
 * 6). Whatever is open already stays so. ERROR_NOT_FOUND for a path that is missing; then nothing
 * was taken. */
bool confine_files(const struct confine_rule *rules, size_t count, struct confine_done *done,
                   struct error *error);

/* Of the system calls a list only. What the list lacks ends in ENOSYS, as from an old kernel; what
 * only an intruder would try, such as execve or ptrace, kills the process. */
bool confine_calls(struct confine_done *done, struct error *error);

#endif
