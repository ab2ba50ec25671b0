/* A small file that somebody wrote, read whole. Whose it is and how long it may be is for the
 * caller to judge. */
#ifndef PETREL_KEYS_SMALL_FILE_H
#define PETREL_KEYS_SMALL_FILE_H

#include <stddef.h>

/* The open file's next *size bytes, of which *size come, and a NUL, for the caller to free. NULL
 * with errno; what came until then is wiped. */
char *small_file_read(int fd, size_t *size);

#endif
