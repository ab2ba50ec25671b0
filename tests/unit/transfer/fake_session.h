/* Two sessions joined back to back in memory, with the face of transport/session.h: blocks arrive
 * in any order, acknowledgements come late, the control stream moves in pieces of any size. From a
 * seed; nothing else decides. Credit and the control window are honoured and checked. */
#ifndef PETREL_TESTS_FAKE_SESSION_H
#define PETREL_TESTS_FAKE_SESSION_H

#include "base/random.h"
#include "transport/session.h"

struct fake_wire;

struct fake_wire *fake_wire_new(uint64_t seed);
void fake_wire_free(struct fake_wire *wire);
struct session *fake_sender(struct fake_wire *wire);
struct session *fake_receiver(struct fake_wire *wire);

/* One small thing happens on the wire. False when there was nothing to happen. */
bool fake_wire_step(struct fake_wire *wire);
/* Both ends fall silent to each other. */
void fake_wire_cut(struct fake_wire *wire);
/* From now on acknowledgements stay away, or come again. */
void fake_hold_acks(struct fake_wire *wire, bool hold);
/* Bytes put into the control stream towards `to`, as if its peer had said them. */
void fake_say(struct session *to, const void *bytes, size_t size);
/* What was said towards `to` and not read yet. */
const uint8_t *fake_heard(const struct session *to, size_t *size);
/* A block that the peer never sent arrives. */
void fake_arrive(struct session *receiver, uint32_t block, bool packed, const uint8_t *bytes,
                 uint32_t length);

/* Most blocks that were with the sender's session at once; and given in all. */
unsigned fake_most_in_flight(const struct fake_wire *wire);
uint64_t fake_blocks_sent(const struct fake_wire *wire);

#endif
