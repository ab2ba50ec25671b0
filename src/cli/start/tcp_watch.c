#include "cli/start/tcp_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "net/sockaddr.h"

#define ASK_NS (3 * NS_PER_S)     /* of silence; an idle peer may say nothing for longer */
#define CONNECT_NS (5 * NS_PER_S) /* of silence, most of it in spite of being asked */
#define PATIENCE_NS (3 * NS_PER_S)
/* What was sent by UDP when TCP got through had to be answered by then. */
#define GRACE_NS (2 * NS_PER_S)

void tcp_watch_end(struct tcp_watch *watch)
{
    if (watch->trying)
        close(watch->tcp);
    watch->trying = false;
}

static void begin(struct tcp_watch *watch, uint64_t now_ns)
{
    struct sockaddr_storage storage;
    const struct address *to = &watch->addresses[watch->next++ % watch->count];
    socklen_t length = sockaddr_from_address(&storage, to);
    watch->since_ns = now_ns;
    watch->tcp = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    watch->trying = watch->tcp >= 0;
    if (watch->trying && connect(watch->tcp, (struct sockaddr *)&storage, length) != 0 &&
        errno != EINPROGRESS)
        tcp_watch_end(watch);
}

static void look(struct tcp_watch *watch, uint64_t now_ns)
{
    struct pollfd waits = {.fd = watch->tcp, .events = POLLOUT};
    int cause = 0;
    socklen_t size = sizeof(cause);
    if (poll(&waits, 1, 0) > 0) {
        if (getsockopt(watch->tcp, SOL_SOCKET, SO_ERROR, &cause, &size) == 0 && cause == 0)
            watch->reached_ns = now_ns;
        tcp_watch_end(watch);
    } else if (now_ns > watch->since_ns + PATIENCE_NS) {
        tcp_watch_end(watch);
    }
}

enum channel_verdict tcp_watch_judge(struct tcp_watch *watch, uint64_t heard_ns, uint64_t now_ns)
{
    if (heard_ns == 0 || watch->count == 0 || now_ns < heard_ns + ASK_NS) {
        tcp_watch_end(watch);
        watch->reached_ns = watch->since_ns = 0;
        return CHANNEL_FINE;
    }
    if (now_ns < heard_ns + CONNECT_NS)
        return CHANNEL_ASK;
    if (watch->trying)
        look(watch, now_ns);
    else if (watch->reached_ns == 0 && now_ns >= watch->since_ns + NS_PER_S)
        begin(watch, now_ns);
    bool over = watch->reached_ns != 0 && now_ns >= watch->reached_ns + GRACE_NS;
    return over ? CHANNEL_OVER : CHANNEL_ASK;
}
