/* Writes blocks to an open file as the receiver of a copy writes large files: around the page cache
 * where the file system can, into room that was reserved. Used by one thread. */
#ifndef PETREL_MEASURE_DISK_FILE_H
#define PETREL_MEASURE_DISK_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct disk_file {
    int descriptor; /* stays the caller's */
    bool direct, memory;
    uint64_t reserved; /* bytes from the beginning */
    uint64_t most;     /* what would lie above goes to the beginning again */
};

/* The file gets no larger than 1 GiB or a quarter of the free space. */
void disk_file_init(struct disk_file *file, int descriptor);
/* False with errno. Direct writes want `bytes` at a multiple of 4096. */
bool disk_file_write(struct disk_file *file, const uint8_t *bytes, uint32_t length,
                     uint64_t offset);

#endif
