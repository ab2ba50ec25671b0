#include "keys/small_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "crypto/primitives.h"

char *small_file_read(int fd, size_t *size)
{
    char *text = malloc(*size + 1);
    if (text == NULL)
        return NULL;
    size_t at = 0;
    ssize_t got = 1;
    while (at < *size && (got = read(fd, text + at, *size - at)) > 0)
        at += (size_t)got;
    if (got < 0) {
        int reason = errno;
        wipe(text, at);
        free(text);
        errno = reason;
        return NULL;
    }
    text[at] = '\0';
    *size = at;
    return text;
}
