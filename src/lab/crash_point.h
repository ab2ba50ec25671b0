/* Fail points at every file-system call: dies by SIGKILL before or after the n-th.
 *
 * For tests only. The calls are caught by the linker (--wrap, the list CRASH_POINT_WRAPS in
 * meson.build), so the code that makes them is the one that is shipped, and a program linked
 * without that list holds none of this. Counted are calls that name a path or act on a plain file
 * or a directory, over all threads.
 *
 * A program that has it linked in takes PETREL_TEST_CRASH=N (before the n-th call, from 1), =N+
 * (after it), or =count:FILE (writes how many there were when it ends).
 */
#ifndef PETREL_LAB_CRASH_POINT_H
#define PETREL_LAB_CRASH_POINT_H

#include <stdbool.h>
#include <stdint.h>

/* 0: never. Counting begins anew. */
void crash_point_arm(uint64_t call, bool after);
uint64_t crash_point_count(void);

#endif
