#include "transport/gate.h"

#include <string.h>

#include "base/cursor.h"
#include "base/units.h"
#include "crypto/primitives.h"

#define EPOCH_NS (16 * NS_PER_S)
#define EPOCH_SIZE 4 /* of the cookie; the rest is the hash's beginning */

/* HMAC-SHA256 (as the first half of HKDF) of all that must stay the same. */
static bool make_cookie(const struct gate *gate, const struct address *from,
                        const uint8_t id[OPEN_ID_SIZE], uint32_t epoch, uint8_t cookie[COOKIE_SIZE])
{
    uint8_t text[1 + 16 + 2 + OPEN_ID_SIZE + EPOCH_SIZE], hash[SHA256_SIZE];
    struct writer writer = writer_of(text, sizeof text);

    write_u8(&writer, from->family);
    write_bytes(&writer, from->bytes, 16);
    write_u16(&writer, from->port);
    write_bytes(&writer, id, OPEN_ID_SIZE);
    write_u32(&writer, epoch);
    if (!hkdf_extract(gate->key, sizeof gate->key, text, sizeof text, hash))
        return false;
    writer = writer_of(cookie, COOKIE_SIZE);
    write_u32(&writer, epoch);
    write_bytes(&writer, hash, COOKIE_SIZE - EPOCH_SIZE);
    return true;
}

static bool is_good(const struct gate *gate, const struct address *from,
                    const struct open_packet *packet, uint32_t now)
{
    struct reader reader = reader_of(packet->cookie, COOKIE_SIZE);
    uint32_t epoch = read_u32(&reader);
    uint8_t expected[COOKIE_SIZE], difference = 0;

    if ((epoch != now && epoch + 1 != now) ||
        !make_cookie(gate, from, packet->from, epoch, expected))
        return false;
    for (size_t i = 0; i < COOKIE_SIZE; i++) /* as long for a near miss as for any other */
        difference |= expected[i] ^ packet->cookie[i];
    return difference == 0;
}

enum gate_verdict gate_judge(const struct gate *gate, const struct address *from,
                             const uint8_t *bytes, size_t size, bool wants_cookie, uint64_t now_ns,
                             struct open_packet *packet, uint8_t answer[COOKIE_PACKET_SIZE])
{
    uint32_t epoch = (uint32_t)(now_ns / EPOCH_NS) + 1; /* never 0, which is in no cookie */
    uint8_t cookie[COOKIE_SIZE];

    if (size < DATAGRAM_MIN || !open_packet_read(packet, bytes, size) ||
        !open_id_is_zero(packet->to))
        return GATE_DROP;
    if (!wants_cookie || is_good(gate, from, packet, epoch))
        return GATE_ADMIT;
    if (!make_cookie(gate, from, packet->from, epoch, cookie))
        return GATE_DROP;
    cookie_packet_write(packet->from, cookie, answer);
    return GATE_COOKIE;
}
