/* Light UDP packets that ask whether ports, sizes and directions work: the end that answers.
 *
 * It opens every port of a range at once, sends what carries its token back to where it came from,
 * never more than came, and counts; sends first only where it is told to knock. The token came
 * through SSH; whoever reads it on the way can have packets of no content returned for a few
 * seconds, no more. Runs on a thread of its own. The packets: docs/protocol.md, "Measurements".
 */
#ifndef PETREL_MEASURE_UDP_ECHO_H
#define PETREL_MEASURE_UDP_ECHO_H

#include "base/address.h"
#include "base/error.h"
#include "measure/port_set.h"

#define ECHO_TOKEN_SIZE 16u
#define ECHO_PACKET_SIZE 24u /* token, kind, zero, port (2), number (4); then padding */
#define ECHO_LOSS_MAX 65536u /* packets of a count of losses have numbers below this */

enum echo_kind {
    ECHO_PORT = 1, /* does this port answer? */
    ECHO_LOSS = 2, /* how many of these arrive, and how many come back? */
    ECHO_SIZE = 3, /* does a packet of this size arrive? The answer is short. */
    ECHO_BOTH = 4, /* does it come back, too? */
    ECHO_KNOCK = 5 /* from the end that answers, unasked */
};

struct echo_report {
    struct port_set arrived4, arrived6; /* ports that a packet reached, by family */
    uint32_t loss_arrived, size_arrived, both_arrived;
    uint32_t strangers; /* packets without our token */
    uint32_t refused;   /* answers and knocks that this system did not let out */
    int refused_errno;  /* of the first of them; 0: none */
};

struct udp_echo;

/* Of ports that somebody else has `busy` tells. ERROR_IO when not one could be opened. */
struct udp_echo *udp_echo_new(uint16_t first_port, uint16_t last_port,
                              const uint8_t token[ECHO_TOKEN_SIZE], struct error *error);
/* The ports that listen, and those of the range that were in use; borrowed until the end. Where
 * descriptors are scarce ports are left out evenly: they are in neither. */
const struct port_set *udp_echo_opened(const struct udp_echo *echo);
const struct port_set *udp_echo_busy(const struct udp_echo *echo);
/* Sends one packet from each open port of that family to `to`, 2,000 a second: what the firewalls
 * on the way then let in as replies. Blocks for that long; from any one thread. */
void udp_echo_knock(struct udp_echo *echo, const struct address *to);
/* Stops, fills the report (may be NULL) and frees. Takes NULL. */
void udp_echo_end(struct udp_echo *echo, struct echo_report *report);

#endif
