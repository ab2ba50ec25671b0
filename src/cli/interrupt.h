/* SIGINT, SIGTERM and SIGHUP as a counter: 1 asks to stop politely, 2 to stop at once. */
#ifndef PETREL_CLI_INTERRUPT_H
#define PETREL_CLI_INTERRUPT_H

/* Installs the handlers and returns the counter that they raise. SIGPIPE is ignored from now on. */
const volatile int *interrupt_watch(void);

#endif
