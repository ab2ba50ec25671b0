/* One lane: a packet number space with its keys, acks, loss detection, pacing and packet size.
 *
 * A lane lives on one thread and shares with the session only two rings of small messages
 * (transport/lane_messages.h). It knows pieces of blocks and of the control stream, not files, and
 * decides nothing about rates: the session tells it its share. Two kinds: a datagram lane on a UDP
 * path, and a stream lane on a reliable byte stream, where packets are never lost or resent.
 */
#ifndef PETREL_TRANSPORT_LANE_H
#define PETREL_TRANSPORT_LANE_H

#include "base/address.h"
#include "base/error.h"
#include "transport/limits.h"

enum lane_kind { LANE_DATAGRAM, LANE_STREAM };

struct lane;

/* Whether a train goes whole to whoever cuts it up (the system, the interface), or cut already, and
 * whether the two are being compared. */
enum train_trial { TRAIN_USUAL, TRAIN_CUT, TRAIN_TRIED_WHOLE, TRAIN_TRIED_CUT };

/* One call's worth of output: equal packets of `segment` bytes, the last may be shorter, all to
 * one address. For a stream lane: one or more packets, each behind its 2-byte length. */
struct lane_train {
    struct address to;
    uint8_t bytes[TRAIN_BYTES_MAX + 1000];
    size_t size;
    uint32_t segment;
    uint8_t trial; /* enum train_trial: how the caller will send it, told before lane_send */
};

/* Datagrams as they came from the network, possibly coalesced: pieces of `segment` bytes, the last
 * may be shorter (`segment` of at least `size`, or 0: one datagram). Opened in place, so `bytes` is
 * overwritten. Whatever does not authenticate is counted and dropped. True when any did. Call
 * session_step between two large batches, so that blocks get their buffers early. */
bool lane_receive(struct lane *lane, const struct address *from, uint8_t *bytes, size_t size,
                  size_t segment, uint64_t now_ns);
/* Before lane_receive, when it is known that what comes now lay in the socket for `waited_ns`: that
 * is no part of the round trip. Only 2 ms of it count, a longer wait is a queue. */
void lane_note_wait(struct lane *lane, uint64_t waited_ns);
/* A stream lane takes bytes as they come, in any pieces; whole packets are opened in place, so
 * `bytes` is overwritten. False: the peer broke the framing. */
bool lane_receive_stream(struct lane *lane, uint8_t *bytes, size_t size, uint64_t now_ns,
                         struct error *error);

/* Fills `train` with what may leave now. False when nothing may. Call until false. `room` for a
 * stream lane: how many bytes the pipe takes without growing past its 256 KiB; else SIZE_MAX. */
bool lane_send(struct lane *lane, struct lane_train *train, size_t room, uint64_t now_ns);

/* When lane_send or the timers want to run next without new input; TIME_NEVER if never. */
uint64_t lane_deadline(const struct lane *lane);

/* Tells how many datagrams the lane's own socket dropped so far (SO_RXQ_OVFL), so that the peer
 * does not take them for path loss. */
void lane_note_socket_drops(struct lane *lane, uint32_t total);
unsigned lane_index(const struct lane *lane);
enum lane_kind lane_kind(const struct lane *lane);
/* True when datagrams of `size` bytes in `packets` packets could be received now without dropping
 * any because the session has not yet taken what was reported before. */
bool lane_can_receive(const struct lane *lane, size_t size, size_t packets);
/* Packets of blocks: how many were acknowledged, and how many were taken for lost; and of these,
 * those of trains of two and more that were tried whole and cut. */
struct lane_delivery {
    uint64_t acked, lost;
    uint64_t whole_sent, whole_acked, whole_lost, cut_acked, cut_lost;
};
const struct lane_delivery *lane_delivery(const struct lane *lane);
/* Since when at least two probe timeouts have passed without an answer; 0: not so. */
uint64_t lane_unanswered_since(const struct lane *lane);
/* How long what arrives for this lane may lie unread without harm to the peer's measurements: a
 * small part of the round trip. 0: not at all; TIME_NEVER: the lane is not in use. */
uint64_t lane_patience(const struct lane *lane);
/* For the simulator's invariants: bytes in flight and how many may be (0: no cap). */
void lane_flight(const struct lane *lane, uint64_t *bytes, uint64_t *cap_bytes);
/* The rings to and from the session, for waking whoever waits at the other end. */
bool lane_has_commands(const struct lane *lane);
bool lane_has_events(const struct lane *lane);
/* Reads the connection id of a datagram without touching the rest: finds the lane. False when it
 * is no sealed packet. */
bool lane_peek_connection_id(const uint8_t *bytes, size_t size, uint32_t *id);

#endif
