/* A question on a terminal: one line of answer. */
#ifndef PETREL_CLI_TERMINAL_LINE_H
#define PETREL_CLI_TERMINAL_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The next line without its newline, cut to the capacity; false at the terminal's end, or when
 * *stop (may be NULL) becomes other than 0. */
bool terminal_line_read(int tty, char *line, size_t capacity, const volatile int *stop);

#endif
