/* One UDP port of a listening server that many sessions share: a door, where new clients knock, and
 * seats, each with sockets of its own for one session, whoever runs it.
 *
 * A filter in the kernel gives each datagram to its seat by two bytes behind the type: they are the
 * seat's number in the connection ids and in the 8-byte ids that a session there hands out. 0, as
 * in a first packet that knows no id yet, is the door. So a client may change its address, and open
 * further lanes from other ports, without anybody in between. Seats are numbered from 1; their
 * sockets are made when first needed and stay open, for the system counts them by their order:
 * whoever opened the port has to outlive all sessions on it. docs/decisions/petrel-serve.md.
 */
#ifndef PETREL_NET_SHARED_PORT_H
#define PETREL_NET_SHARED_PORT_H

#include "net/driver.h"
#include "net/udp.h"

#define SHARED_PORT_SEATS_MAX 1024u

struct shared_port;

/* `bind_to` NULL: all addresses of both families; its port is not looked at. `port` 0: any. A seat
 * has sockets for `threads` threads. ERROR_IO when the port is taken, or the system cannot share
 * it.
 */
struct shared_port *shared_port_open(const struct address *bind_to, uint16_t port, unsigned threads,
                                     struct error *error);
void shared_port_free(struct shared_port *shared);

uint16_t shared_port_number(const struct shared_port *shared);
/* The door's socket of that family (4 or 6); NULL where there is none. */
struct udp_socket *shared_port_door(const struct shared_port *shared, uint8_t family);

/* Makes the sockets of the next seat and returns its number; 0 and an error when there can be no
 * more. */
unsigned shared_port_add_seat(struct shared_port *shared, struct error *error);
/* The seat as a listener, which stays ours. What waits in its sockets from a session before is
 * gone.
 */
struct udp_listener *shared_port_seat(struct shared_port *shared, unsigned seat);
/* Nobody sits there any more: what strangers send there takes little memory until it is thrown
 * away.
 */
void shared_port_leave(struct shared_port *shared, unsigned seat);

#endif
