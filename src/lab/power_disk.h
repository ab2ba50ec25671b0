/* A disk that loses power: what may stand on it when it comes back.
 *
 * Records what happens to one directory tree (lab/crash_point.h tells), then makes up the states
 * that the disk may be in had the power gone after any of the recorded calls. A write, a name, a
 * rename or a size that was synced before then is there; each other one is there or not,
 * independently of all others, in any order. A sync of a file makes its bytes durable, not its
 * name; a sync of a directory its names; a sync of the file system both. A rename that is there is
 * there whole. After a sync of a file that failed, the bytes that it was to make durable never
 * become so by another sync: systems take them for written. Harsher than any file system is.
 *
 * A sync of everything covers what had happened when it began, should another thread go on.
 *
 * For tests; without memory it aborts.
 */
#ifndef PETREL_LAB_POWER_DISK_H
#define PETREL_LAB_POWER_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct power_disk;

/* What stands below `root` now is on the disk. Recording begins; one disk at a time. */
struct power_disk *power_disk_new(const char *root);
/* Recording ends. */
void power_disk_stop(struct power_disk *disk);
void power_disk_free(struct power_disk *disk);
/* How many calls were recorded: the power may go after 0 to that many. */
size_t power_disk_count(const struct power_disk *disk);

/* How what was not synced fares. */
enum power_luck { POWER_ALL_LOST, POWER_ALL_THERE, POWER_RANDOM };

/* Makes the empty directory `into` hold the state after `count` calls. The same seed gives the
 * same. */
void power_disk_write(const struct power_disk *disk, size_t count, enum power_luck luck,
                      uint64_t seed, const char *into);

#endif
