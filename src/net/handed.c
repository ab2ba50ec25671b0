#include "net/handed.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct heading {
    struct address from, local;
};

bool handed_pair(int ends[2], struct error *error)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0)
        return true;
    return error_set_errno(error, errno, "cannot make a pair of sockets");
}

bool handed_send(int end, const struct address *from, const struct address *local,
                 const uint8_t *bytes, size_t size)
{
    struct heading heading = {*from, *local};
    struct iovec parts[] = {{&heading, sizeof(heading)}, {(void *)(uintptr_t)bytes, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return size <= HANDED_PACKET_MAX && sendmsg(end, &message, MSG_NOSIGNAL) > 0;
}

bool handed_receive(int end, struct handed_packet *packet)
{
    struct heading heading;
    struct iovec parts[] = {{&heading, sizeof(heading)}, {packet->bytes, sizeof(packet->bytes)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got = recvmsg(end, &message, 0);
    if (got <= (ssize_t)sizeof(heading))
        return false;
    packet->from = heading.from;
    packet->local = heading.local;
    packet->size = (size_t)got - sizeof(heading);
    return true;
}
