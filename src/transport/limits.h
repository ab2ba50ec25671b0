/* The numbers that both ends of the wire agree on; docs/protocol.md explains each. */
#ifndef PETREL_TRANSPORT_LIMITS_H
#define PETREL_TRANSPORT_LIMITS_H

#include <stdint.h>

#include "base/block.h"

#define PROTOCOL_VERSION_MIN 1
#define PROTOCOL_VERSION_MAX 1

#define LANES_MAX 16
#define STREAM_LANE 16 /* the number of the stream lane, which has keys of its own */
#define LANE_SLOTS (LANES_MAX + 1)
#define PACKET_HEADER_SIZE 10 /* type, connection id, number; in clear, authenticated */
#define PACKET_PLACE_SIZE 6   /* block number 28 bits, offset 20 bits; sealed */
#define PACKET_TAG_SIZE 16
#define PACKET_OVERHEAD (PACKET_HEADER_SIZE + PACKET_TAG_SIZE)
#define DATAGRAM_MIN 1200u /* UDP payload that every path is taken to carry */
#define DATAGRAM_MAX 8973u /* UDP payload of a 9001-byte IPv4 packet */
#define STREAM_PACKET_MAX 16384u
#define TRAIN_BYTES_MAX 65000u
#define TRAIN_PACKETS_MAX 64u

#define CONTROL_WINDOW (256u * 1024u) /* bytes of control stream in flight, each way */
#define ACK_BITMAP_MAX 1100u          /* bytes */
#define NUMBER_LIMIT (UINT64_C(1) << 40)
#define REPLAY_WINDOW (UINT64_C(1) << 20)
#define NUMBER_AHEAD_MAX (UINT64_C(1) << 22)

#endif
