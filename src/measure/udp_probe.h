/* Light UDP packets that ask whether ports, sizes and directions work: the end that asks. Its
 * counterpart is udp_echo.h. All of them leave one socket a family, for what firewalls have let in
 * as a reply they let in for that socket. Blocks its caller for as long as each function says. */
#ifndef PETREL_MEASURE_UDP_PROBE_H
#define PETREL_MEASURE_UDP_PROBE_H

#include "base/address.h"
#include "measure/udp_echo.h"

/* Why packets to one address could not leave or were sent back. */
struct probe_refusal {
    int local_errno;          /* of a send that a local rule or a missing route refused; 0: none */
    int icmp_errno;           /* of an ICMP message that came back; 0: none */
    struct address icmp_from; /* who sent it */
    bool icmp_is_own;         /* this very machine did: a rule of its own, or no way from it */
    uint16_t icmp_port;       /* about which port */
    uint16_t icmp_mtu;        /* of "packet too big" messages, the least; 0: none came */
};

struct probe_target {
    struct address address; /* the port does not count */
    struct port_set answered;
    unsigned answered_at_once; /* how many did before the other end knocked */
    unsigned knocks;           /* packets of its knocking that came here */
    unsigned sent;
    struct probe_refusal refusal;
};

struct udp_prober {
    uint8_t token[ECHO_TOKEN_SIZE];
    uint64_t rtt_ns;          /* an upper guess to begin with; learnt from answers */
    const volatile int *stop; /* ends everything early when not 0; may be NULL */
    /* Has the other end knock (udp_echo_knock) at these ports of ours; 0: none of that family.
     * False when it did not. NULL: nobody can be asked. */
    bool (*knock)(void *context, uint16_t port4, uint16_t port6);
    void *knock_context;
    int descriptors[2]; /* by udp_prober_open: IPv4 and IPv6; -1 where the system has none */
};

/* With everything but the descriptors filled. False when there is no socket at all. */
bool udp_prober_open(struct udp_prober *prober, struct error *error);
void udp_prober_close(struct udp_prober *prober);

/* Tries each port of each target, up to five times while it does not answer (three when none does):
 * 2,000 packets a second, and 1.5 round trips of waiting (at least 0.2 s, at most 2 s) after each
 * turn. When many are silent after the second turn the other end is asked to knock, once. */
void udp_probe_ports(struct udp_prober *prober, const struct port_set *ports,
                     struct probe_target *targets, unsigned count);

struct probe_loss {
    unsigned sent, answered;
    uint64_t rtt_min_ns, rtt_mean_ns;
    uint64_t rtt_jitter_ns; /* mean deviation from the mean */
};
/* `count` packets of 100 bytes, 500 a second: what gets lost at a rate that fills no queue. */
void udp_probe_loss(struct udp_prober *prober, const struct address *to, unsigned count,
                    struct probe_loss *loss);

struct probe_size {
    unsigned sent, answered;
    struct probe_refusal refusal;
};
/* Up to 5 packets of `ip_bytes` (the whole IP packet) that must not be cut on the way. Ends at the
 * first answer. */
void udp_probe_size(struct udp_prober *prober, const struct address *to, unsigned ip_bytes,
                    bool both_ways, struct probe_size *size);

#endif
