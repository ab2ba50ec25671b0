/* Finds the packet size of a path, and notices when it stops passing (RFC 8899, with a fixed list
 * probed at once instead of a search).
 *
 * Random loss is never taken for a black hole: after 32 full-size losses in a row, or 6 that took
 * two seconds, a small canary is sent; canaries that arrive while full packets do not mean a black
 * hole, silence an outage.
 */
#ifndef PETREL_TRANSPORT_MTU_H
#define PETREL_TRANSPORT_MTU_H

#include <stdbool.h>
#include <stdint.h>

#define MTU_SIZES_MAX 16u

struct mtu_size {
    uint16_t datagram; /* UDP payload */
    uint8_t sent, arrived;
};

struct mtu {
    struct mtu_size sizes[MTU_SIZES_MAX]; /* ascending; [0] is DATAGRAM_MIN, proved */
    unsigned count;
    unsigned in_use;         /* index */
    uint64_t next_ns;        /* when the next probe may go; TIME_NEVER when settled */
    uint64_t give_up_ns;     /* when unanswered sizes are given up */
    unsigned cursor;         /* next size to probe in this round */
    uint64_t arrived_number; /* of the latest full packet that arrived */
    unsigned losses_in_row;  /* packets over DATAGRAM_MIN sent after it */
    uint16_t row_datagram;   /* the smallest of them: only what is as large ends the row */
    uint64_t row_since_ns;   /* when the first of them was known */
    unsigned canaries_sent, canaries_arrived; /* since the suspicion */
    uint64_t canary_ns; /* when the next canary may go; TIME_NEVER without suspicion */
};

/* Every size of the list up to `interface_mtu` (an IP packet) and `datagram_max`, for IPv4 or 6. */
void mtu_init(struct mtu *mtu, bool ipv6, uint16_t interface_mtu, uint16_t datagram_max,
              uint64_t now_ns);
/* A fixed size, as on stream lanes: nothing is probed. */
void mtu_init_fixed(struct mtu *mtu, uint16_t datagram);
/* Begins anew on a changed path, from the smallest size. */
void mtu_restart(struct mtu *mtu, uint64_t now_ns);
uint16_t mtu_datagram(const struct mtu *mtu);
/* The size to probe now, 0 for none. */
uint16_t mtu_next_probe(struct mtu *mtu, uint64_t now_ns);
uint64_t mtu_deadline(const struct mtu *mtu);
/* A packet of this size arrived or was lost (data packets count from in_use up; probes and
 * canaries are told apart by the caller). What counts is the order in which packets were sent, not
 * in which their fate became known: one ack settles many. All return true when the size in use
 * changed. */
bool mtu_probe_arrived(struct mtu *mtu, uint16_t datagram);
bool mtu_data_arrived(struct mtu *mtu, uint16_t datagram, uint64_t number);
bool mtu_data_lost(struct mtu *mtu, uint16_t datagram, uint64_t number, uint64_t now_ns);
bool mtu_canary_arrived(struct mtu *mtu, uint64_t number, uint64_t now_ns);
/* No size above `datagram` any more: another lane found out. True when the size in use fell. */
bool mtu_cap(struct mtu *mtu, uint16_t datagram, uint64_t now_ns);
/* The largest size that is still thought possible. */
uint16_t mtu_largest(const struct mtu *mtu);
/* True when a canary should go now; moves its timer by rtt/4, later by more. */
bool mtu_canary_due(struct mtu *mtu, uint64_t rtt_ns, uint64_t now_ns);

#endif
