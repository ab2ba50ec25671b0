/* The seam between the network thread and the disk thread: jobs go down one ring, reports come up
 * the other. Nothing else is shared.
 *
 * work_step does one piece of disk work on whichever thread calls it (a disk thread in the program,
 * the simulator in tests). The wake-up callbacks let a thread sleep when its ring is empty.
 */
#ifndef PETREL_TRANSFER_WORK_H
#define PETREL_TRANSFER_WORK_H

#include "tree/storage.h"

/* What open_storage hands over: exactly one of source and sink. */
struct storage {
    void *source;
    const struct source_ops *source_ops;
    void *sink;
    const struct sink_ops *sink_ops;
};

struct work;

enum work_result {
    WORK_DID,  /* call again at once */
    WORK_IDLE, /* wait for `wake_disk` */
    WORK_ENDED /* the transfer asked the disk side to end */
};

enum work_result work_step(struct work *work);

/* Set before threads start. `wake_disk` is called by the network side after it put a job, from its
 * thread; `wake_network` by the disk side after it put a report. Both may be NULL. */
void work_set_wakers(struct work *work, void (*wake_disk)(void *), void *disk_context,
                     void (*wake_network)(void *), void *network_context);

/* Test hook: flips one byte at a named place ("reader": after hashing, before sending; "pool": in a
 * received block before it is hashed; "write": before writing), once, after `after` blocks. Each
 * must end as a verification failure. */
enum flip_place { FLIP_NONE, FLIP_READER, FLIP_POOL, FLIP_WRITE };
void work_set_flip(struct work *work, enum flip_place place, uint32_t after);

#endif
