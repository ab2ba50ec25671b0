/* UDP sockets that move trains: many equal datagrams to one address in one system call, both ways.
 *
 * A train goes out by UDP_SEGMENT and comes in by UDP_GRO where the system has them. Segmentation
 * that fails is switched off for that socket and the same bytes go again as single datagrams. A
 * socket is used by one thread. Nothing here knows what the datagrams hold. One file family per
 * system: udp_*_linux.c.
 */
#ifndef PETREL_NET_UDP_H
#define PETREL_NET_UDP_H

#include "base/address.h"
#include "base/error.h"
#include "transport/lane.h"

/* Asked of the system. The receiving end shares its processors with whoever hashes and writes what
 * came: at 10 Gbit/s 16 MiB are full after 10 ms without a turn, which is what a scheduler gives to
 * others in one go. The memory is taken only while datagrams wait. */
#define UDP_RECEIVE_WANTED (64u * 1024u * 1024u)
#define UDP_SEND_WANTED (16u * 1024u * 1024u)
#define UDP_BUFFER_SMALL (1024u * 1024u)               /* below this a hint is worth printing */
#define UDP_RECEIVE_HINT " net.core.rmem_max=67108864" /* for sysctl -w */
#define UDP_SEND_HINT " net.core.wmem_max=16777216"
#define UDP_BATCH_MESSAGES 16u
#define UDP_MESSAGE_MAX 65536u

struct udp_socket;

struct udp_statistics {
    uint64_t send_calls, receive_calls;
    uint64_t datagrams_sent, datagrams_received;
    uint64_t refused;   /* datagrams that a local rule or a missing route refused */
    uint64_t oversized; /* single datagrams above the interface's MTU: MTU probes, mostly */
    uint64_t truncated; /* received messages that did not fit, dropped */
    uint32_t drops;     /* datagrams dropped by this socket's full buffer, about */
    int last_refusal;   /* errno of the last refused datagram, 0 if none */
    unsigned send_buffer, receive_buffer; /* bytes granted */
    bool segmentation, coalescing;        /* in use now */
};

/* Opens a socket of family 4 or 6. `bind_to` may be NULL: any address, a port of the system's
 * choice. An IPv6 socket takes IPv6 alone. `share_port`: sets SO_REUSEPORT before binding. */
struct udp_socket *udp_open(uint8_t family, const struct address *bind_to, bool share_port,
                            struct error *error);
void udp_close(struct udp_socket *socket);

/* Only `peer` is heard and sent to from here on. */
bool udp_connect(struct udp_socket *socket, const struct address *peer, struct error *error);
/* A connected socket gets a fresh port, and the system a fresh look at routes and addresses. The
 * descriptor keeps its number, but whoever watches it must register it again. */
bool udp_reopen(struct udp_socket *socket, struct error *error);

/* Asks the system for buffers of about so many bytes instead of what is wanted above. */
void udp_set_buffers(struct udp_socket *socket, unsigned receive, unsigned send);

/* What was dropped until now is not this socket's user's: a socket that is used again. */
void udp_forget_drops(struct udp_socket *socket);

int udp_descriptor(const struct udp_socket *socket);
uint8_t udp_family(const struct udp_socket *socket);
uint16_t udp_local_port(const struct udp_socket *socket);
void udp_get_statistics(const struct udp_socket *socket, struct udp_statistics *statistics);

/* The largest IP packet that the way out to `peer` takes, from `local` if that has a family; 1500
 * when unknown. */
uint16_t udp_interface_mtu(const struct address *peer, const struct address *local);

/* Sends trains in order and returns how many are finished with: sent, or refused and counted. Less
 * than `count`: the system has no room; call again with the rest, the first of them unchanged, once
 * the socket is writable or at udp_retry_ns. */
unsigned udp_send(struct udp_socket *socket, struct lane_train *const *trains, unsigned count,
                  uint64_t now_ns);
/* After a short udp_send: TIME_NEVER to wait for writability, else a time to try again. */
uint64_t udp_retry_ns(const struct udp_socket *socket);
/* Single datagrams from now on, although segmentation gives no error; or trains again, unless it
 * did give one. */
void udp_set_plain(struct udp_socket *socket, bool plain);
/* One datagram, e.g. of the handshake. False when it could not leave now. */
bool udp_send_datagram(struct udp_socket *socket, const struct address *to, const uint8_t *bytes,
                       size_t size, uint64_t now_ns);
/* A host with several addresses must answer from the one that was asked: what goes to `peer` leaves
 * from `local` from now on. The last few peers are kept. Say it of authenticated packets only. */
void udp_answer_from(struct udp_socket *socket, const struct address *peer,
                     const struct address *local);

/* One message: datagrams of `segment` bytes, the last may be shorter. */
struct udp_message {
    struct address from;
    struct address local; /* family 0 on a connected socket */
    uint8_t *bytes;       /* the batch's memory, until the next receive; may be overwritten */
    size_t size;
    size_t segment;
    uint64_t waited_ns; /* in the socket, before the call that received it */
};

struct udp_batch {
    unsigned count;
    struct udp_message messages[UDP_BATCH_MESSAGES];
    uint8_t *memory;
};

struct udp_batch *udp_batch_new(void);
void udp_batch_free(struct udp_batch *batch);
/* Takes what waits, up to a batch. False when nothing does. Errors that the network reported on
 * a connected socket are noted in the statistics, no more. */
bool udp_receive(struct udp_socket *socket, struct udp_batch *batch);

/* What the network says of our datagrams (ICMP), for people: anybody on the path could have said
 * it. Kept for udp_next_rejection, which has to be called then whenever the socket is readable. */
struct udp_rejection {
    struct address by;  /* family 0: unknown */
    bool by_rule;       /* a firewall, and not the lack of a route */
    const char *reason; /* in ICMP's words */
};
void udp_hear_rejections(struct udp_socket *socket, bool wanted);
bool udp_next_rejection(struct udp_socket *socket, struct udp_rejection *rejection);

/* Coalescing that has turned out to be wrong: datagrams one by one from now on. */
void udp_stop_coalescing(struct udp_socket *socket);

/* Only for tests; all affect sockets opened later, and 0 ends each. Segmentation fails with
 * `os_errno` from call number `from_call` of each socket on; or seems to work, and its trains
 * vanish. */
void udp_test_break_segmentation(int os_errno, unsigned from_call);
void udp_test_swallow_trains(unsigned from_call);
/* From message `from_message` on a socket forgets where joined datagrams are to be cut; 1: its
 * system knows no UDP_GRO. */
void udp_test_lose_coalescing(unsigned from_message);
/* Buffers to ask for instead of what is wanted above; 0 ends that. */
void udp_test_buffer_bytes(unsigned bytes);

#endif
