#include "cli/channel_watch.h"

#include <errno.h>
#include <unistd.h>

#include "base/units.h"
#include "net/driver.h"

#define GRACE_NS (3 * NS_PER_S)

bool channel_watch_read(void *context, int fd)
{
    struct channel_watch *watch = context;
    char bytes[256];
    ssize_t got = read(fd, bytes, sizeof(bytes));
    if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)))
        return true;
    watch->ended_ns = driver_now();
    return false;
}

bool channel_watch_is_over(void *context)
{
    const struct channel_watch *watch = context;
    return watch->ended_ns != 0 && driver_now() > watch->ended_ns + GRACE_NS;
}
