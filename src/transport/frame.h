/* The frames inside control packets (docs/protocol.md, "Frames of control packets"). Codec only:
 * every field is checked for its own limits, none for its meaning. */
#ifndef PETREL_TRANSPORT_FRAME_H
#define PETREL_TRANSPORT_FRAME_H

#include "base/cursor.h"
#include "transport/limits.h"

enum frame_type {
    FRAME_PADDING = 0x00,
    FRAME_PING = 0x01,
    FRAME_ACK = 0x02,
    FRAME_CONTROL = 0x03,
    FRAME_WINDOW = 0x04,
    FRAME_CHALLENGE = 0x05,
    FRAME_RESPONSE = 0x06,
    FRAME_RTT = 0x07,
    FRAME_DONE = 0x08,
    FRAME_BYE = 0x09,
    FRAME_ABORT = 0x0a,
    FRAME_STANDBY = 0x0b
};

#define FRAME_ABORT_TEXT_MAX 400u
#define FRAME_CONTROL_HEADER 9u
#define FRAME_ACK_HEADER 42u
#define FRAME_MAX_UINT48 ((UINT64_C(1) << 48) - 1)

struct ack_frame {
    uint64_t largest;
    uint64_t receive_time_us; /* the receiver's clock, 48 bits */
    uint32_t delay_us;
    uint64_t packets, bytes; /* authenticated on this lane since its start */
    uint32_t duplicates;
    uint32_t socket_drops;
    uint32_t credit;
    uint16_t bitmap_size;  /* bytes */
    const uint8_t *bitmap; /* bit i: has largest - 1 - i arrived; borrowed from the packet */
};

struct frame {
    enum frame_type type;
    union {
        struct ack_frame ack;
        struct {
            uint64_t offset;
            const uint8_t *bytes; /* borrowed */
            uint16_t size;
        } control;
        uint64_t window; /* end of the control stream's window */
        uint64_t token;
        uint32_t rtt_us;
        struct {
            uint8_t result;
            uint64_t files, blocks;
            uint64_t control; /* bytes of the control stream said before it */
        } done;
        struct {
            uint8_t kind;
            const uint8_t *text; /* borrowed, not terminated */
            uint16_t size;
        } abort;
    };
};

/* Reads the next frame. False at the end of the packet, and with reader->failed set when the
 * packet is malformed or holds an unknown type. Padding is swallowed. */
bool frame_read(struct reader *reader, struct frame *frame);
/* Appends a frame; writer->failed when it does not fit. FRAME_PADDING fills the writer. */
void frame_write(struct writer *writer, const struct frame *frame);
/* Frames that do not ask for an acknowledgement themselves. */
bool frame_is_passive(enum frame_type type);

#endif
