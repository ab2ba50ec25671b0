#include <errno.h>
#include <unistd.h>

#include "tree/write_at.h"

bool write_at(int fd, const uint8_t *bytes, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, bytes + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}
