/* SIGINT, SIGTERM and SIGHUP as a counter: 1 asks to stop politely, 2 to stop at once. The third
 * ends the process where it stands. */
#ifndef PETREL_CLI_INTERRUPT_H
#define PETREL_CLI_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>

/* Installs the handlers and returns the counter that they raise. System calls that wait are
 * interrupted. SIGPIPE is ignored from now on. Signals that the caller's caller ignored (nohup)
 * stay ignored. */
const volatile int *interrupt_watch(void);

/* What it was that asked: the user, or another copy that takes a half-written file over. */
const char *interrupt_text(char *text, size_t capacity);
bool interrupt_is_takeover(void); /* it was another copy */

#endif
