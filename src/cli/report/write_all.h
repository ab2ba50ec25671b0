/* Writes to a descriptor that may take less than it is given: pipes, terminals. Blocks. */
#ifndef PETREL_CLI_WRITE_ALL_H
#define PETREL_CLI_WRITE_ALL_H

#include <stdbool.h>
#include <stddef.h>

/* False with errno when not all of it could be written. */
bool write_all(int descriptor, const void *bytes, size_t size);

#endif
