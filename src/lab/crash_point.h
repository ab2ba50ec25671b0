/* Fail points at every file-system call: dies by SIGKILL before or after the n-th.
 *
 * For tests only. The calls are caught by the linker (--wrap, the list CRASH_POINT_WRAPS in
 * meson.build), so the code that makes them is the one that is shipped, and a program linked
 * without that list holds none of this. Counted are calls that name a path or act on a plain file
 * or a directory, over all threads.
 *
 * A program that has it linked in takes PETREL_TEST_CRASH=N (before the n-th call, from 1), =N+
 * (after it), =count:FILE (writes how many there were when it ends), or =sync:N (the n-th sync
 * fails).
 */
#ifndef PETREL_LAB_CRASH_POINT_H
#define PETREL_LAB_CRASH_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0: never. Counting begins anew. */
void crash_point_arm(uint64_t call, bool after);
uint64_t crash_point_count(void);
/* The n-th sync from now on, from 1, is not done and fails with EIO, as on a disk that breaks; 0:
 * none. */
void crash_point_fail_sync(uint64_t sync);
/* How many syncs there were since. */
uint64_t crash_point_syncs(void);

/* What changes the disk, or makes a change durable; told after it was done. */
enum file_call_kind {
    FILE_CALL_CREATE, /* fd, name: a new file, now open as `result`; name NULL: it has none */
    FILE_CALL_NAME,   /* fd, name: one more for a file */
    FILE_CALL_MKDIR,  /* fd, name */
    FILE_CALL_LINK,   /* fd, name: a symbolic link to `target` */
    FILE_CALL_WRITE,  /* fd, offset, bytes, size */
    FILE_CALL_RESIZE, /* fd, size */
    FILE_CALL_RENAME, /* fd, name, to_fd, target */
    FILE_CALL_UNLINK, /* fd, name */
    FILE_CALL_SYNC,   /* fd: a file or a directory */
    FILE_CALL_SYNC_ALL_BEGINS, /* told before it is done */
    FILE_CALL_SYNC_ALL,
    FILE_CALL_SYNC_FAILED /* fd: as SYNC, but it failed: what was to be synced may be lost for good
                           */
};

struct file_call {
    enum file_call_kind kind;
    int fd, to_fd, result;
    const char *name, *target;
    const void *bytes;
    uint64_t offset;
    size_t size;
};

/* One watcher, or NULL; called on the thread of the call, by one at a time. */
void crash_point_watch(void (*watcher)(const struct file_call *call));

#endif
