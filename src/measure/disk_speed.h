/* How fast files are written and read at a path, as a transfer would see it: whole MiB blocks, the
 * write including the way to the disk (fdatasync), the read of a file that was named through the
 * page cache, of any other past it where the system can. Blocks its caller for about the time
 * asked. Writes nothing but one temporary file, which has no name any more as soon as it is open
 * where the file system can, and is removed otherwise. */
#ifndef PETREL_MEASURE_DISK_SPEED_H
#define PETREL_MEASURE_DISK_SPEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct disk_speed {
    uint64_t bytes, ns, rate_bps;
    uint64_t free_bytes; /* writing: what the file system has left for this user */
    bool cached;         /* reading: the page cache may have answered */
    char path[512];      /* the directory or file that was measured */
};

/* Writes into the directory `path`, or into that of a file of this name or yet to come. At most
 * 1 GiB and a quarter of the free space. */
bool disk_write_speed(const char *path, uint64_t time_ns, struct disk_speed *speed,
                      struct error *error);
/* Reads the file `path`; of a directory the first large file among what it holds directly, or else
 * a file written there for the purpose. */
bool disk_read_speed(const char *path, uint64_t time_ns, struct disk_speed *speed,
                     struct error *error);
/* The file that disk_read_speed would read, opened; -1 where there is none or it would write one.
 */
int disk_source(const char *path);
/* An open file without a name in the directory of `path`, as above; -1 with the error. */
int disk_temporary(const char *path, struct error *error);

/* Only for tests: from now on every write or read is as slow as a disk of this many bits a second;
 * 0 ends that. */
void disk_test_slow(uint64_t rate_bps);

#endif
