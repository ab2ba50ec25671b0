/* What the system shows of an ssh that runs for us, and that ssh itself does not tell. Without a
 * /proc nothing is seen, and both are false. */
#ifndef PETREL_CLI_SSH_PROCESS_H
#define PETREL_CLI_SSH_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether an ssh that goes through a master connection has its session: OpenSSH's client sets its
 * handlers of SIGTERM and others when the far end has agreed, and not before. */
bool ssh_process_has_session(pid_t ssh);
/* Whether it asks its user something: it has /dev/tty open for as long. */
bool ssh_process_asks(pid_t ssh);

#endif
