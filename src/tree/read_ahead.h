/* Has small files that will be read soon brought into memory, several at a time.
 *
 * Whoever reads many small files one after the other waits for the disk once a file, with nothing
 * else under way. Hints only warm the system's cache: whether, when and in which order they are
 * followed changes nothing but the time that reading takes. Each helper is a thread with a ring of
 * hints. Threads are started when reads are seen to reach a disk, and hints are wanted only while
 * they do; files that are in memory cost nothing.
 */
#ifndef PETREL_TREE_READ_AHEAD_H
#define PETREL_TREE_READ_AHEAD_H

#include <stdbool.h>

#define READ_AHEAD_FILES 64u /* hints under way; all of them small, that bounds the memory */

struct read_ahead;

/* `always`: also when no disk is read (for tests). NULL without memory. */
struct read_ahead *read_ahead_new(bool always);
/* Ends the threads. NULL is fine. */
void read_ahead_free(struct read_ahead *ahead);

/* To be asked once a file that is about to be read: whether hints are of use now. */
bool read_ahead_is_useful(struct read_ahead *ahead);
/* Whether a hint can be given now. */
bool read_ahead_has_room(struct read_ahead *ahead);
/* Then: `path` in `directory`, which may be closed afterwards, was a regular file lately. */
void read_ahead_hint(struct read_ahead *ahead, int directory, const char *path);

#endif
