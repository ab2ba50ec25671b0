/* What a peer that holds the keys may say: the input is cut into packets, each sealed as the peer
 * would, and given to a session. Nothing but a named protocol error may come of it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/packet_keys.h"
#include "transport/packet.h"
#include "transport/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUFFERS 4u
#define BASE 0x1230u

static void require(bool condition)
{
    if (!condition)
        abort();
}

static struct session *make_session(const uint8_t *secret, bool sends)
{
    struct session_config config = {.client = false,
                                    .role = sends ? ROLE_SENDER : ROLE_RECEIVER,
                                    .suite = AEAD_AES_256_GCM,
                                    .peer_address = {.family = 4, .port = 9},
                                    .rtt_ns = 1000000};
    config.own = (struct hello){.lanes_max = 1, .connection_base = BASE, .datagram_max = 1472};
    config.peer = config.own;
    if (sends)
        config.peer.credit = BUFFERS;
    memcpy(config.secret, secret, SESSION_SECRET_SIZE);
    return session_new(&config, 1, NULL);
}

/* First byte: type and flags; second: lane and a step of the packet number; then the body. */
static size_t seal_packet(struct packet_keys *keys, uint64_t *number, const uint8_t *body,
                          size_t size, uint8_t *packet)
{
    struct packet_header header = {.connection_id = BASE};
    header.type = body[0] & 0x80 ? PACKET_DATA : PACKET_CONTROL;
    header.flags = body[0] & (header.type == PACKET_DATA ? 7 : PACKET_ACK_NOW);
    *number += 1 + (body[1] >> 4);
    header.number = *number;
    packet_header_encode(&header, packet);
    uint8_t *sealed = packet + PACKET_HEADER_SIZE;
    require(packet_keys_seal(keys, header.number, packet, PACKET_HEADER_SIZE, body + 2, size - 2,
                             sealed));
    return size - 2 + PACKET_OVERHEAD;
}

static void settle(struct session *session, struct lane_train *train, uint64_t now_ns)
{
    struct session_event event;
    session_step(session, now_ns);
    while (session_next_event(session, &event)) {
        if (event.kind == SESSION_BLOCK_WHOLE) {
            require(event.length >= 1 && event.length <= BLOCK_SIZE);
            session_give_buffer(session, event.bytes);
        }
    }
    uint8_t bytes[512];
    while (session_control_read(session, bytes, sizeof(bytes)) > 0) {
    }
    for (unsigned i = 0; i < session_lane_count(session); i++) {
        for (unsigned limit = 0; limit < 8; limit++) {
            if (!lane_send(session_lane(session, i), train, SIZE_MAX, now_ns))
                break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t pool[BUFFERS][BLOCK_SIZE], packet[2048];
    static struct lane_train train;
    static const struct address from = {.family = 4, .port = 9};
    uint8_t secret[SESSION_SECRET_SIZE] = {7};
    if (size < 1)
        return 0;
    bool sends = data[0] & 1;
    struct session *session = make_session(secret, sends);
    const struct aead_provider *provider = aead_best(AEAD_AES_256_GCM);
    struct packet_keys *keys = packet_keys_new(provider, secret, CLIENT_TO_SERVER, 0, NULL);
    require(session != NULL && keys != NULL);
    for (unsigned i = 0; i < BUFFERS && !sends; i++)
        session_give_buffer(session, pool[i]);
    if (sends)
        require(session_send_block(session, 3, false, pool[0], 5000, NULL));
    uint64_t number = 0, now_ns = 1;
    for (size_t at = 1; at + 1 < size;) {
        size_t length = data[at] + 3u;
        at++;
        if (length > size - at)
            length = size - at;
        if (length < 3)
            break;
        size_t sealed = seal_packet(keys, &number, data + at, length, packet);
        lane_receive(session_lane(session, 0), &from, packet, sealed, 0, now_ns);
        settle(session, &train, now_ns);
        now_ns += 1000000;
        at += length;
    }
    if (session_is_closed(session))
        require(session_error(session)->kind != ERROR_NONE || sends);
    session_free(session);
    packet_keys_free(keys);
    return 0;
}
