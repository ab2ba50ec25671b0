/* Receiving trains on Linux: recvmmsg, with UDP_GRO's segment size where datagrams came coalesced.
 */
#include "net/udp_linux.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "net/sockaddr.h"

union receive_control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t)) +
                  CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct timespec))];
};

/* What came along with one message. */
struct receive_notes {
    size_t segment; /* 0: not coalesced */
    bool has_drops;
    uint32_t drops;
    struct timespec arrived; /* by the wall clock; 0 when not known */
    struct address local;
};

struct udp_batch *udp_batch_new(void)
{
    struct udp_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    batch->memory = aligned_alloc(4096, (size_t)UDP_BATCH_MESSAGES * UDP_MESSAGE_MAX);
    if (batch->memory == NULL) {
        free(batch);
        return NULL;
    }
    for (unsigned i = 0; i < UDP_BATCH_MESSAGES; i++)
        batch->messages[i].bytes = batch->memory + (size_t)i * UDP_MESSAGE_MAX;
    return batch;
}

void udp_batch_free(struct udp_batch *batch)
{
    if (batch == NULL)
        return;
    free(batch->memory);
    free(batch);
}

static void read_local(struct address *local, const struct cmsghdr *item)
{
    if (item->cmsg_level == IPPROTO_IP) {
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(item), sizeof(info));
        *local = (struct address){.family = 4};
        memcpy(local->bytes, &info.ipi_addr, 4);
    } else {
        struct in6_pktinfo info;
        memcpy(&info, CMSG_DATA(item), sizeof(info));
        *local = (struct address){.family = 6};
        memcpy(local->bytes, &info.ipi6_addr, 16);
        if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            local->scope = info.ipi6_ifindex;
    }
}

static void read_notes(struct receive_notes *notes, struct msghdr *header)
{
    memset(notes, 0, sizeof(*notes));
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL;
         item = CMSG_NXTHDR(header, item)) {
        int level = item->cmsg_level, type = item->cmsg_type;
        if (level == IPPROTO_UDP && type == UDP_GRO) {
            int segment;
            memcpy(&segment, CMSG_DATA(item), sizeof(segment));
            if (segment > 0)
                notes->segment = (size_t)segment;
        } else if (level == SOL_SOCKET && type == SO_RXQ_OVFL) {
            memcpy(&notes->drops, CMSG_DATA(item), sizeof(notes->drops));
            notes->has_drops = true;
        } else if (level == SOL_SOCKET && type == SO_TIMESTAMPNS) {
            memcpy(&notes->arrived, CMSG_DATA(item), sizeof(notes->arrived));
        } else if ((level == IPPROTO_IP && type == IP_PKTINFO) ||
                   (level == IPPROTO_IPV6 && type == IPV6_PKTINFO)) {
            read_local(&notes->local, item);
        }
    }
}

/* The system counts a coalesced train that it drops as one; this message's length stands in for
 * the lost ones'. */
static void count_drops(struct udp_socket *socket, const struct receive_notes *notes,
                        size_t datagrams)
{
    if (!notes->has_drops || notes->drops == socket->system_drops)
        return;
    uint32_t fresh = notes->drops - socket->system_drops;
    socket->system_drops = notes->drops;
    socket->statistics.drops += fresh * (uint32_t)datagrams;
}

/* 0 when the clock was set meanwhile, or the system does not say. */
static uint64_t waited_ns(const struct timespec *arrived, const struct timespec *now)
{
    int64_t waited = (int64_t)(now->tv_sec - arrived->tv_sec) * (int64_t)NS_PER_S +
                     (now->tv_nsec - arrived->tv_nsec);
    return arrived->tv_sec != 0 && waited > 0 && waited < (int64_t)NS_PER_S ? (uint64_t)waited : 0;
}

static bool take_message(struct udp_socket *socket, struct udp_message *message,
                         struct mmsghdr *header, const struct sockaddr_storage *from,
                         const struct timespec *now)
{
    struct receive_notes notes;
    read_notes(&notes, &header->msg_hdr);
    socket->faults.messages++;
    if (socket->faults.forget_from != 0 && socket->faults.messages >= socket->faults.forget_from)
        notes.segment = 0;
    message->size = header->msg_len;
    message->waited_ns = waited_ns(&notes.arrived, now);
    message->segment =
        notes.segment != 0 && notes.segment < message->size ? notes.segment : message->size;
    size_t datagrams =
        message->size == 0 ? 1 : (message->size + message->segment - 1) / message->segment;
    count_drops(socket, &notes, datagrams);
    socket->statistics.datagrams_received += datagrams;
    if (header->msg_hdr.msg_flags & MSG_TRUNC) {
        socket->statistics.truncated++;
        return false;
    }
    if (socket->connected) {
        message->from = socket->peer;
        message->local = (struct address){0};
    } else {
        if (!sockaddr_to_address(&message->from, from))
            return false;
        message->local = notes.local;
    }
    return message->size > 0;
}

bool udp_receive(struct udp_socket *socket, struct udp_batch *batch)
{
    struct mmsghdr headers[UDP_BATCH_MESSAGES];
    struct iovec vectors[UDP_BATCH_MESSAGES];
    struct sockaddr_storage from[UDP_BATCH_MESSAGES];
    union receive_control controls[UDP_BATCH_MESSAGES];
    for (unsigned i = 0; i < UDP_BATCH_MESSAGES; i++) {
        vectors[i] = (struct iovec){batch->messages[i].bytes, UDP_MESSAGE_MAX};
        headers[i].msg_hdr = (struct msghdr){
            .msg_name = socket->connected ? NULL : &from[i],
            .msg_namelen = socket->connected ? 0 : sizeof(from[i]),
            .msg_iov = &vectors[i],
            .msg_iovlen = 1,
            .msg_control = controls[i].bytes,
            .msg_controllen = sizeof(controls[i].bytes),
        };
    }
    batch->count = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int received;
    unsigned noted = 0;
    while ((received = recvmmsg(socket->descriptor, headers, UDP_BATCH_MESSAGES, MSG_DONTWAIT,
                                NULL)) < 0) {
        if (errno == EAGAIN || errno == EBADF || noted++ >= 4)
            return false;
        if (errno != EINTR)
            socket->statistics.last_refusal = errno;
    }
    socket->statistics.receive_calls++;
    for (int i = 0; i < received; i++) {
        /* A message that is left out lends its place to the next; each buffer stays in use. */
        struct udp_message *message = &batch->messages[batch->count];
        uint8_t *bytes = batch->messages[i].bytes;
        batch->messages[i].bytes = message->bytes;
        message->bytes = bytes;
        if (take_message(socket, message, &headers[i], &from[i], &now))
            batch->count++;
    }
    return received > 0;
}
