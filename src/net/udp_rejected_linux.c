/* What others said of our datagrams: the error queue of a socket on Linux. */
#include <errno.h>
#include <string.h>

#include "net/sockaddr.h"
#include "net/udp_linux.h"

/* After the socket's headers, whose types it uses. */
#include <linux/errqueue.h>

#define TYPE4_UNREACHABLE 3
#define TYPE6_UNREACHABLE 1

struct reason {
    uint8_t code;
    bool by_rule;
    const char *text;
};

/* RFC 792 and 1812; RFC 4443. A server that listens sends no "port unreachable": a firewall does.
 */
static const struct reason reasons4[] = {{0, false, "network unreachable"},
                                         {1, false, "host unreachable"},
                                         {3, true, "port unreachable"},
                                         {9, true, "network administratively prohibited"},
                                         {10, true, "host administratively prohibited"},
                                         {13, true, "administratively prohibited"}};
static const struct reason reasons6[] = {{0, false, "no route"},
                                         {1, true, "administratively prohibited"},
                                         {3, false, "address unreachable"},
                                         {4, true, "port unreachable"},
                                         {5, true, "source address refused"},
                                         {6, true, "route rejected"}};

void udp_hear_rejections(struct udp_socket *socket, bool wanted)
{
    int value = wanted; /* switched off it forgets what it has */
    if (socket->family == 4)
        setsockopt(socket->descriptor, IPPROTO_IP, IP_RECVERR, &value, sizeof(value));
    else
        setsockopt(socket->descriptor, IPPROTO_IPV6, IPV6_RECVERR, &value, sizeof(value));
    socket->hears = wanted;
}

static const struct reason *find_reason(const struct sock_extended_err *said)
{
    bool v4 = said->ee_origin == SO_EE_ORIGIN_ICMP && said->ee_type == TYPE4_UNREACHABLE;
    bool v6 = said->ee_origin == SO_EE_ORIGIN_ICMP6 && said->ee_type == TYPE6_UNREACHABLE;
    const struct reason *reasons = v4 ? reasons4 : reasons6;
    size_t count =
        v4 ? sizeof(reasons4) / sizeof(reasons4[0]) : sizeof(reasons6) / sizeof(reasons6[0]);
    for (size_t i = 0; (v4 || v6) && i < count; i++) {
        if (reasons[i].code == said->ee_code)
            return &reasons[i];
    }
    return NULL;
}

static bool read_said(struct msghdr *header, struct udp_rejection *rejection)
{
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL;
         item = CMSG_NXTHDR(header, item)) {
        if (!(item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_RECVERR) &&
            !(item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_RECVERR))
            continue;
        struct sock_extended_err said = {0};
        struct sockaddr_storage by = {0}; /* follows */
        size_t size = item->cmsg_len - CMSG_LEN(0);
        if (size < sizeof(said))
            return false;
        size -= sizeof(said);
        memcpy(&said, CMSG_DATA(item), sizeof(said));
        memcpy(&by, CMSG_DATA(item) + sizeof(said), size < sizeof(by) ? size : sizeof(by));
        const struct reason *reason = find_reason(&said);
        if (reason == NULL)
            return false;
        if (!sockaddr_to_address(&rejection->by, &by))
            rejection->by = (struct address){0};
        rejection->by.port = 0;
        rejection->by_rule = reason->by_rule;
        rejection->reason = reason->text;
        return true;
    }
    return false;
}

bool udp_next_rejection(struct udp_socket *socket, struct udp_rejection *rejection)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[512];
    } control;
    uint8_t sent[64]; /* the beginning of the datagram, of no use here */
    struct iovec vector = {sent, sizeof(sent)};
    struct sockaddr_storage to;
    for (;;) {
        struct msghdr header = {.msg_name = &to,
                                .msg_namelen = sizeof(to),
                                .msg_iov = &vector,
                                .msg_iovlen = 1,
                                .msg_control = control.bytes,
                                .msg_controllen = sizeof(control.bytes)};
        if (!socket->hears ||
            (recvmsg(socket->descriptor, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0 &&
             errno != EINTR))
            return false;
        if (read_said(&header, rejection))
            return true;
    }
}
