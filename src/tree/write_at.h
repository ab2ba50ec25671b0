/* Whole writes into the middle of files. */
#ifndef PETREL_TREE_WRITE_AT_H
#define PETREL_TREE_WRITE_AT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes all of it at the offset, however often the system takes a part. False with errno set. */
bool write_at(int fd, const uint8_t *bytes, size_t size, uint64_t offset);

#endif
