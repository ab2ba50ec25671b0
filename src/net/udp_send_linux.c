/* Sending trains on Linux: UDP_SEGMENT where it works, single datagrams where it does not. */
#include "net/udp_linux.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/units.h"
#include "net/sockaddr.h"

/* The system had no memory for the message: nothing will signal that it has some again. */
#define NO_MEMORY_WAIT_NS (500 * NS_PER_US)

enum send_verdict {
    SEND_WAIT,    /* no room: keep the bytes */
    SEND_SPLIT,   /* cutting failed: send single datagrams from here on */
    SEND_TOO_BIG, /* a single datagram above the interface's MTU: it is lost */
    SEND_REFUSED, /* this one will not leave */
    SEND_AGAIN    /* an error about an earlier datagram, or a signal: same call again */
};

struct send_message {
    struct sockaddr_storage to;
    struct iovec bytes;
    union udp_send_control control;
};

static const struct udp_route *find_route(const struct udp_socket *socket,
                                          const struct address *peer)
{
    if (socket->connected)
        return NULL;
    for (unsigned i = 0; i < UDP_ROUTES; i++)
        if (address_equal(&socket->routes[i].peer, peer))
            return &socket->routes[i];
    return NULL;
}

void udp_answer_from(struct udp_socket *socket, const struct address *peer,
                     const struct address *local)
{
    if (socket->connected || local->family != socket->family || peer->family != socket->family)
        return;
    for (unsigned i = 0; i < UDP_ROUTES; i++) {
        if (address_equal(&socket->routes[i].peer, peer)) {
            socket->routes[i].local = *local;
            return;
        }
    }
    socket->routes[socket->route_next] = (struct udp_route){*peer, *local};
    socket->route_next = (socket->route_next + 1) % UDP_ROUTES;
}

static void *add_control(struct msghdr *header, union udp_send_control *control, int level,
                         int type, size_t size)
{
    struct cmsghdr *item = (struct cmsghdr *)(control->bytes + header->msg_controllen);
    header->msg_control = control->bytes;
    header->msg_controllen += CMSG_SPACE(size);
    item->cmsg_level = level;
    item->cmsg_type = type;
    item->cmsg_len = CMSG_LEN(size);
    return CMSG_DATA(item);
}

static void add_source(struct msghdr *header, union udp_send_control *control,
                       const struct address *local)
{
    if (local->family == 4) {
        struct in_pktinfo info = {0};
        memcpy(&info.ipi_spec_dst, local->bytes, 4);
        memcpy(add_control(header, control, IPPROTO_IP, IP_PKTINFO, sizeof(info)), &info,
               sizeof(info));
    } else {
        struct in6_pktinfo info = {.ipi6_ifindex = local->scope};
        memcpy(&info.ipi6_addr, local->bytes, 16);
        memcpy(add_control(header, control, IPPROTO_IPV6, IPV6_PKTINFO, sizeof(info)), &info,
               sizeof(info));
    }
}

/* `segment` 0: the bytes are one datagram. */
static void fill_message(const struct udp_socket *socket, struct msghdr *header,
                         struct send_message *message, const struct address *to,
                         const uint8_t *bytes, size_t size, uint32_t segment)
{
    memset(header, 0, sizeof(*header));
    message->bytes = (struct iovec){(void *)bytes, size};
    header->msg_iov = &message->bytes;
    header->msg_iovlen = 1;
    memset(&message->control, 0, sizeof(message->control));
    if (!socket->connected) {
        header->msg_name = &message->to;
        header->msg_namelen = sockaddr_from_address(&message->to, to);
        const struct udp_route *route = find_route(socket, to);
        if (route != NULL)
            add_source(header, &message->control, &route->local);
    }
    if (segment != 0) {
        uint16_t cut = (uint16_t)segment;
        memcpy(add_control(header, &message->control, IPPROTO_UDP, UDP_SEGMENT, sizeof(cut)), &cut,
               sizeof(cut));
    }
}

static enum send_verdict judge(int os_errno, bool segmented)
{
    switch (os_errno) {
    case EINTR:
        return SEND_AGAIN;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
        return SEND_WAIT;
    case EIO:
    case EINVAL:
    case EOPNOTSUPP:
        return segmented ? SEND_SPLIT : SEND_REFUSED;
    case EMSGSIZE:
        return segmented ? SEND_SPLIT : SEND_TOO_BIG;
    default:
        return SEND_REFUSED;
    }
}

static bool is_late_news(int os_errno)
{
    return os_errno == ECONNREFUSED || os_errno == EHOSTUNREACH || os_errno == ENETUNREACH ||
           os_errno == EPROTO;
}

static size_t datagrams_in(size_t size, size_t segment)
{
    return (size + segment - 1) / segment;
}

static void note_wait(struct udp_socket *socket, int os_errno, uint64_t now_ns)
{
    socket->retry_ns = os_errno == EAGAIN ? TIME_NEVER : now_ns + NO_MEMORY_WAIT_NS;
}

static void note_refusal(struct udp_socket *socket, int os_errno, size_t datagrams)
{
    socket->statistics.last_refusal = os_errno;
    socket->statistics.refused += datagrams;
}

static int call_sendmmsg(struct udp_socket *socket, struct mmsghdr *headers, unsigned count,
                         bool segmented)
{
    socket->statistics.send_calls++;
    struct udp_faults *faults = &socket->faults;
    faults->segment_calls += segmented;
    if (segmented && faults->break_errno != 0 && faults->segment_calls >= faults->break_from) {
        errno = faults->break_errno;
        return -1;
    }
    if (segmented && faults->swallow_from != 0 && faults->segment_calls >= faults->swallow_from)
        return 1;
    int sent = sendmmsg(socket->descriptor, headers, count, MSG_DONTWAIT);
    /* On a connected socket the answer to an earlier datagram comes as the error of this call,
     * which then has sent nothing: once more tells whether this datagram is refused too. */
    if (sent < 0 && (socket->connected || socket->hears) && is_late_news(errno)) {
        note_refusal(socket, errno, 0);
        sent = sendmmsg(socket->descriptor, headers, count, MSG_DONTWAIT);
    }
    return sent;
}

/* The rest of one train as single datagrams. False: no room for now, socket->partial tells how
 * far it got. */
static bool send_singles(struct udp_socket *socket, const struct lane_train *train, uint64_t now_ns,
                         size_t *oversized)
{
    struct mmsghdr headers[UDP_SINGLES_MAX];
    struct send_message messages[UDP_SINGLES_MAX];
    while (socket->partial < train->size) {
        unsigned count = 0;
        for (size_t at = socket->partial; at < train->size && count < UDP_SINGLES_MAX; count++) {
            size_t left = train->size - at;
            size_t size = left < train->segment ? left : train->segment;
            fill_message(socket, &headers[count].msg_hdr, &messages[count], &train->to,
                         train->bytes + at, size, 0);
            at += size;
        }
        int sent = call_sendmmsg(socket, headers, count, false);
        if (sent > 0) {
            socket->statistics.datagrams_sent += (unsigned)sent;
            for (int i = 0; i < sent; i++)
                socket->partial += messages[i].bytes.iov_len;
            continue;
        }
        int cause = errno;
        enum send_verdict verdict = judge(cause, false);
        if (verdict == SEND_WAIT) {
            note_wait(socket, cause, now_ns);
            return false;
        }
        if (verdict == SEND_AGAIN)
            continue;
        socket->partial += messages[0].bytes.iov_len;
        if (verdict == SEND_TOO_BIG) {
            socket->statistics.oversized++;
            ++*oversized;
        } else {
            note_refusal(socket, cause, 1);
        }
    }
    socket->partial = 0;
    return true;
}

/* Segmentation failed for this train. It is to blame unless single datagrams fail alike. */
static bool send_split(struct udp_socket *socket, const struct lane_train *train, uint64_t now_ns)
{
    size_t oversized = 0;
    bool finished = send_singles(socket, train, now_ns, &oversized);
    if (oversized < datagrams_in(train->size, train->segment)) {
        socket->can_segment = false;
        socket->statistics.segmentation = false;
    }
    return finished;
}

void udp_set_plain(struct udp_socket *socket, bool plain)
{
    socket->plain = plain;
    socket->statistics.segmentation = socket->can_segment && !plain;
}

static bool goes_cut(const struct lane_train *train)
{
    return train->trial == TRAIN_CUT || train->trial == TRAIN_TRIED_CUT;
}

/* Sends what it can of `count` whole trains in one call. Returns how many are finished with;
 * *again: more may go at once. */
static unsigned send_trains(struct udp_socket *socket, struct lane_train *const *trains,
                            unsigned count, uint64_t now_ns, bool *again)
{
    struct mmsghdr headers[UDP_TRAINS_MAX];
    struct send_message messages[UDP_TRAINS_MAX];
    if (count > UDP_TRAINS_MAX)
        count = UDP_TRAINS_MAX;
    for (unsigned i = 0; i < count; i++) {
        const struct lane_train *train = trains[i];
        fill_message(socket, &headers[i].msg_hdr, &messages[i], &train->to, train->bytes,
                     train->size, train->size > train->segment ? train->segment : 0);
    }
    bool segmented = trains[0]->size > trains[0]->segment;
    int sent = call_sendmmsg(socket, headers, count, segmented);
    *again = true;
    if (sent > 0) {
        for (int i = 0; i < sent; i++)
            socket->statistics.datagrams_sent += datagrams_in(trains[i]->size, trains[i]->segment);
        return (unsigned)sent;
    }
    int cause = errno;
    switch (judge(cause, segmented)) {
    case SEND_AGAIN:
        return 0;
    case SEND_SPLIT:
        *again = send_split(socket, trains[0], now_ns);
        return *again ? 1 : 0;
    case SEND_TOO_BIG:
        socket->statistics.oversized++;
        return 1;
    case SEND_REFUSED:
        note_refusal(socket, cause, datagrams_in(trains[0]->size, trains[0]->segment));
        return 1;
    case SEND_WAIT:
        break;
    }
    note_wait(socket, cause, now_ns);
    *again = false;
    return 0;
}

unsigned udp_send(struct udp_socket *socket, struct lane_train *const *trains, unsigned count,
                  uint64_t now_ns)
{
    unsigned finished = 0;
    socket->retry_ns = TIME_NEVER;
    while (finished < count) {
        if (socket->statistics.segmentation && socket->partial == 0 &&
            !goes_cut(trains[finished])) {
            bool again = false;
            unsigned end = finished + 1;
            while (end < count && !goes_cut(trains[end]))
                end++;
            finished += send_trains(socket, trains + finished, end - finished, now_ns, &again);
            if (!again)
                break;
        } else {
            size_t oversized = 0;
            if (!send_singles(socket, trains[finished], now_ns, &oversized))
                break;
            finished++;
        }
    }
    return finished;
}

uint64_t udp_retry_ns(const struct udp_socket *socket)
{
    return socket->retry_ns;
}

bool udp_send_datagram(struct udp_socket *socket, const struct address *to, const uint8_t *bytes,
                       size_t size, uint64_t now_ns)
{
    struct mmsghdr header;
    struct send_message message;
    for (;;) {
        fill_message(socket, &header.msg_hdr, &message, to, bytes, size, 0);
        if (call_sendmmsg(socket, &header, 1, false) > 0) {
            socket->statistics.datagrams_sent++;
            return true;
        }
        int cause = errno;
        enum send_verdict verdict = judge(cause, false);
        if (verdict == SEND_AGAIN)
            continue;
        if (verdict == SEND_WAIT)
            note_wait(socket, cause, now_ns);
        else
            note_refusal(socket, cause, 1);
        return false;
    }
}
