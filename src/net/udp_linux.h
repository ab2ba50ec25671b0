/* What the udp_*_linux.c files share; not for others. */
#ifndef PETREL_NET_UDP_LINUX_H
#define PETREL_NET_UDP_LINUX_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "net/udp.h"

#define UDP_ROUTES 16u
#define UDP_SINGLES_MAX 64u /* single datagrams in one sendmmsg */
#define UDP_TRAINS_MAX 16u  /* trains in one sendmmsg */

/* Which of our addresses a peer is answered from. */
struct udp_route {
    struct address peer, local;
};

/* The test hooks: what goes wrong, from which call on (0: never), and the calls so far. */
struct udp_faults {
    int break_errno;
    unsigned break_from, swallow_from, forget_from;
    unsigned segment_calls, messages;
};

struct udp_socket {
    int descriptor;
    uint8_t family;
    bool connected;
    bool hears; /* see udp_hear_rejections */
    struct address peer;
    struct udp_route routes[UDP_ROUTES];
    unsigned route_next;
    size_t partial;        /* bytes of the first unfinished train that went as single datagrams */
    uint64_t retry_ns;     /* see udp_retry_ns */
    uint32_t system_drops; /* SO_RXQ_OVFL as last seen */
    bool can_segment;      /* the system can, and it has not failed on this socket */
    bool plain;            /* see udp_set_plain */
    struct udp_faults faults;
    struct udp_statistics statistics;
};

/* Control data of one sent message: which address it leaves from, and where it is cut. */
union udp_send_control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

#endif
