/* The command that runs beside an emulated link, and everything that it leaves behind.
 */
#ifndef PETREL_LAB_LINK_PROCESS_H
#define PETREL_LAB_LINK_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Sets the PETREL_LAB_ variables for commands at either end of the link whose emulator is `pid`
 * with namespaces on descriptors `near_fd` and `far_fd`; `control` is its socket or NULL. */
void link_process_environment(pid_t pid, int near_fd, int far_fd, const char *control);

/* Becomes `arguments` (ending in NULL), or says why not and ends as a shell would: 127 where there
 * is no such program, 126 otherwise. */
_Noreturn void link_process_become(char *const *arguments);

/* Starts `arguments` in the network namespace `space_fd`, or in ours where that is negative; it
 * gets SIGTERM when this process dies. -1 on failure. */
pid_t link_process_start(int space_fd, char *const *arguments, struct error *error);

/* From now on, processes that the command leaves behind become our children. */
void link_process_adopt(void);
/* Ends all children: SIGTERM, after a second SIGKILL. Returns when none is left. */
void link_process_end_children(void);

/* An exit status for a shell out of wait's: 128 + signal. */
int link_process_exit_status(int wait_status);

#endif
