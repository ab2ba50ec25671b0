#include "transport/hello.h"

#include <string.h>

#include "base/cursor.h"
#include "transport/limits.h"
#include "transport/rate_controller.h"

static const uint8_t magic[4] = {'p', 't', 'r', 'l'};

#define FLAG_AES_HARDWARE 0x01
#define PATH_RTT_MAX_US 60000000u
#define CONNECTION_LANE_MASK 0x0fu

size_t hello_encode(const struct hello *hello, uint8_t *bytes, size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);

    write_bytes(&writer, magic, sizeof magic);
    write_u8(&writer, hello->version_min);
    write_u8(&writer, hello->version_max);
    write_u8(&writer, hello->role);
    write_u8(&writer, hello->lanes_max);
    write_u8(&writer, hello->aes_hardware ? FLAG_AES_HARDWARE : 0);
    write_u32(&writer, hello->connection_base);
    write_u32(&writer, hello->credit);
    write_u16(&writer, hello->datagram_max);
    return writer.failed ? 0 : writer_size(&writer);
}

static const char *hello_fault(const struct hello *hello)
{
    if (hello->version_min == 0 || hello->version_min > hello->version_max)
        return "versions";
    if (hello->role != ROLE_SENDER && hello->role != ROLE_RECEIVER)
        return "role";
    if (hello->lanes_max == 0 || hello->lanes_max > LANES_MAX)
        return "lanes";
    if ((hello->connection_base & CONNECTION_LANE_MASK) != 0)
        return "connection base";
    if (hello->datagram_max < DATAGRAM_MIN)
        return "datagram size";
    return NULL;
}

bool hello_decode(struct hello *hello, const uint8_t *bytes, size_t size, struct error *error)
{
    struct reader reader = reader_of(bytes, size);
    const uint8_t *start = read_bytes(&reader, sizeof magic);
    struct hello result;
    const char *fault;

    result.version_min = read_u8(&reader);
    result.version_max = read_u8(&reader);
    result.role = read_u8(&reader);
    result.lanes_max = read_u8(&reader);
    result.aes_hardware = (read_u8(&reader) & FLAG_AES_HARDWARE) != 0;
    result.connection_base = read_u32(&reader);
    result.credit = read_u32(&reader);
    result.datagram_max = read_u16(&reader);
    if (reader.failed || size > HELLO_MAX || memcmp(start, magic, sizeof magic) != 0)
        return error_set(error, ERROR_PROTOCOL, "the peer's hello is not one of petrel's");
    fault = hello_fault(&result);
    if (fault != NULL)
        return error_set(error, ERROR_PROTOCOL, "the peer's hello has impossible %s", fault);
    *hello = result;
    return true;
}

size_t hello_wishes_encode(const struct hello_wishes *wishes, uint8_t *bytes, size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);

    write_u64(&writer, wishes->limit_bps);
    write_u8(&writer, wishes->policy);
    write_u64(&writer, wishes->fixed_bps);
    write_u64(&writer, wishes->path_bps);
    write_u32(&writer, wishes->path_rtt_us);
    write_u32(&writer, wishes->path_loss_millionths);
    return writer.failed ? 0 : writer_size(&writer);
}

void hello_wishes_decode(struct hello_wishes *wishes, const uint8_t *hello, size_t size)
{
    struct reader reader = reader_of(hello, size);
    struct hello_wishes read;

    *wishes = (struct hello_wishes){0};
    read_bytes(&reader, HELLO_SIZE);
    read.limit_bps = read_u64(&reader);
    read.policy = read_u8(&reader);
    read.fixed_bps = read_u64(&reader);
    read.path_bps = read_u64(&reader);
    read.path_rtt_us = read_u32(&reader);
    read.path_loss_millionths = read_u32(&reader);
    if (!reader.failed && read.policy <= RATE_BACKGROUND && read.path_rtt_us <= PATH_RTT_MAX_US &&
        read.path_loss_millionths <= 1000000)
        *wishes = read;
}

bool hello_agree(const struct hello *own, const struct hello *peer, uint8_t *version,
                 enum aead_suite *suite, struct error *error)
{
    uint8_t low = own->version_min > peer->version_min ? own->version_min : peer->version_min;
    uint8_t high = own->version_max < peer->version_max ? own->version_max : peer->version_max;

    if (low > high)
        return error_set(error, ERROR_VERSION,
                         "no common protocol version: this end speaks %u to %u, the peer %u to %u; "
                         "install the same petrel on both",
                         own->version_min, own->version_max, peer->version_min, peer->version_max);
    if (own->role == peer->role)
        return error_set(error, ERROR_PROTOCOL, "both ends want to %s",
                         own->role == ROLE_SENDER ? "send" : "receive");
    *version = high;
    *suite = own->aes_hardware && peer->aes_hardware ? AEAD_AES_256_GCM : AEAD_CHACHA20_POLY1305;
    return true;
}
