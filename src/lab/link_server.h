/* Runs an emulator: waits for packets, times, signals, requests on the control socket and the end
 * of the command.
 */
#ifndef PETREL_LAB_LINK_SERVER_H
#define PETREL_LAB_LINK_SERVER_H

#include <sys/types.h>

#include "base/error.h"
#include "lab/link_emulator.h"

/* Blocks the signals that link_server_run takes; to be called before the command is started. */
bool link_server_prepare(struct error *error);

/* Returns when the process `command` (0: none) has ended, with its exit status for a shell, or
 * after a signal or the request "down" with 0. `listener` may be -1. */
int link_server_run(struct link_emulator *emulator, int listener, pid_t command);

#endif
