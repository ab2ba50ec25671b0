/* The server's one UDP port: an IPv4 and an IPv6 socket on it for each network thread.
 *
 * driver_listen (net/driver.h) makes it. With more than one thread the sockets share the port by
 * SO_REUSEPORT and a filter sends lane i to thread i mod threads, by the last four bits of the
 * connection id, handshake packets to thread 0. So no datagram ever has to change threads, even
 * when a lane's address changes.
 */
#ifndef PETREL_NET_LISTENER_H
#define PETREL_NET_LISTENER_H

#include "net/driver.h"
#include "net/udp.h"

/* A listener of sockets that are open already, per thread IPv4 and IPv6 (NULL: not there), and
 * bound to `port`; it takes them. NULL without memory: they stay the caller's. */
struct udp_listener *udp_listener_of(struct udp_socket *sockets[LANES_MAX][2], unsigned threads,
                                     uint16_t port, struct error *error);
/* Can be less than was asked for, where the system cannot steer lanes to threads. */
unsigned udp_listener_threads(const struct udp_listener *listener);
/* Each gets the other's port and sockets. */
void udp_listener_exchange(struct udp_listener *a, struct udp_listener *b);
/* The thread's socket of that family (4 or 6); NULL where the system lacks the family. */
struct udp_socket *udp_listener_socket(const struct udp_listener *listener, unsigned thread,
                                       uint8_t family);

#endif
