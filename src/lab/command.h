/* The commands of petrel-lab. Each gets its own name and what follows as `arguments`, and returns
 * an exit status: 0, 1 for a failure, 2 for wrong usage, or that of a program it ran.
 */
#ifndef PETREL_LAB_COMMAND_H
#define PETREL_LAB_COMMAND_H

#include "base/error.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef int lab_command(int count, char **arguments);

lab_command command_link, command_up, command_down, command_exec, command_in, command_stats,
    command_set;
lab_command command_blast, command_awake;

/* Becomes the Python program in lab/ with the same arguments. */
lab_command command_script;

/* Prints "petrel-lab: TEXT" on stderr and returns the exit status that fits. */
int command_fail(const struct error *error);

#endif
