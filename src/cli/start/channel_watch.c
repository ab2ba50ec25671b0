#include "cli/start/channel_watch.h"

#include <errno.h>
#include <unistd.h>

#include "base/units.h"
#include "net/driver.h"

#define GRACE_NS (3 * NS_PER_S)
/* What comes this soon after the end of the channel may have been on its way when the peer died. */
#define STALE_NS NS_PER_S

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

enum channel_verdict channel_watch_judge(struct channel_watch *watch, uint64_t heard_ns,
                                         uint64_t now_ns)
{
    if (watch->ended_ns == 0 || watch->outlived)
        return CHANNEL_FINE;
    watch->outlived = heard_ns > watch->ended_ns + STALE_NS;
    if (watch->outlived)
        return CHANNEL_FINE;
    return now_ns > watch->ended_ns + GRACE_NS ? CHANNEL_OVER : CHANNEL_ASK;
}
