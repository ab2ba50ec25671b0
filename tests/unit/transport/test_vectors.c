/* What we put on the wire, byte for byte what an independent script makes of docs/protocol.md
 * (tests/vectors/make_vectors.py); and what it made is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/frame.h"
#include "transport/gate.h"
#include "transport/handshake_packet.h"
#include "transport/hello.h"
#include "transport/packet.h"
#include "transport/ports_packet.h"
#include "vector_line.h"

static uint8_t recorded_key[AEAD_KEY_SIZE];

static void record(const uint8_t key[AEAD_KEY_SIZE], uint64_t number)
{
    (void)number;
    memcpy(recorded_key, key, sizeof recorded_key);
}

static void check_key(const struct vector_line *line)
{
    uint8_t key[VECTOR_BYTES_MAX];
    assert_int_equal(vector_bytes(line, "key", key), AEAD_KEY_SIZE);
    assert_memory_equal(recorded_key, key, AEAD_KEY_SIZE);
}

static void check_hello(const struct vector_line *line)
{
    const struct hello hello = {
        .version_min = (uint8_t)vector_number(line, "low"),
        .version_max = (uint8_t)vector_number(line, "high"),
        .role = (uint8_t)vector_number(line, "role"),
        .lanes_max = (uint8_t)vector_number(line, "lanes"),
        .aes_hardware = vector_number(line, "aes") != 0,
        .connection_base = (uint32_t)vector_number(line, "base"),
        .credit = (uint32_t)vector_number(line, "credit"),
        .datagram_max = (uint16_t)vector_number(line, "largest"),
    };
    uint8_t expected[VECTOR_BYTES_MAX], bytes[HELLO_SIZE];
    struct hello back;

    assert_int_equal(vector_bytes(line, "bytes", expected), HELLO_SIZE);
    assert_int_equal(hello_encode(&hello, bytes, sizeof bytes), HELLO_SIZE);
    assert_memory_equal(bytes, expected, HELLO_SIZE);
    assert_true(hello_decode(&back, expected, HELLO_SIZE, NULL));
    assert_int_equal(back.connection_base, hello.connection_base);
    assert_int_equal(back.datagram_max, hello.datagram_max);
}

static void check_handshake(const struct vector_line *line)
{
    uint8_t secret[VECTOR_BYTES_MAX], id[VECTOR_BYTES_MAX], data[VECTOR_BYTES_MAX];
    uint8_t expected[VECTOR_BYTES_MAX], bytes[VECTOR_BYTES_MAX], plain[STREAM_PACKET_MAX];
    size_t expected_size = vector_bytes(line, "packet", expected);
    struct handshake_packet back, packet = {
                                      .number = vector_number(line, "number"),
                                      .acknowledged = (uint32_t)vector_number(line, "acknowledged"),
                                      .offset = (uint32_t)vector_number(line, "offset"),
                                      .bytes = data,
                                      .length = (uint16_t)vector_bytes(line, "data", data),
                                  };
    vector_bytes(line, "secret", secret);
    vector_bytes(line, "id", id);
    struct packet_keys *keys = packet_keys_new_handshake(
        secret, id, (enum packet_direction)vector_number(line, "direction"), NULL);

    assert_int_equal(handshake_packet_seal(keys, id, &packet, vector_number(line, "padded"), bytes,
                                           sizeof bytes),
                     expected_size);
    assert_memory_equal(bytes, expected, expected_size);
    check_key(line);
    assert_int_equal(handshake_packet_open(keys, id, expected, expected_size, plain, &back),
                     HANDSHAKE_PACKET_GOOD);
    assert_int_equal(back.number, packet.number);
    assert_int_equal(back.acknowledged, packet.acknowledged);
    assert_int_equal(back.offset, packet.offset);
    assert_int_equal(back.length, packet.length);
    assert_memory_equal(back.bytes, data, packet.length);
    packet_keys_free(keys);
}

/* Fills the union from the line's fields; `bytes` holds what the frame borrows. */
static struct frame frame_of(const struct vector_line *line, uint8_t bytes[VECTOR_BYTES_MAX])
{
    const char *name = line->kind + strlen("frame-");
    struct frame frame = {.type = FRAME_PADDING};

    if (strcmp(name, "ack") == 0) {
        frame.type = FRAME_ACK;
        frame.ack = (struct ack_frame){
            .largest = vector_number(line, "largest"),
            .receive_time_us = vector_number(line, "time"),
            .delay_us = (uint32_t)vector_number(line, "delay"),
            .packets = vector_number(line, "packets"),
            .bytes = vector_number(line, "bytes"),
            .duplicates = (uint32_t)vector_number(line, "duplicates"),
            .socket_drops = (uint32_t)vector_number(line, "drops"),
            .credit = (uint32_t)vector_number(line, "credit"),
            .bitmap_size = (uint16_t)vector_bytes(line, "bitmap", bytes),
            .bitmap = bytes,
        };
    } else if (strcmp(name, "control") == 0) {
        frame.type = FRAME_CONTROL;
        frame.control.offset = vector_number(line, "offset");
        frame.control.size = (uint16_t)vector_bytes(line, "data", bytes);
        frame.control.bytes = bytes;
    } else if (strcmp(name, "window") == 0) {
        frame.type = FRAME_WINDOW;
        frame.window = vector_number(line, "end");
    } else if (strcmp(name, "challenge") == 0 || strcmp(name, "response") == 0) {
        frame.type = name[0] == 'c' ? FRAME_CHALLENGE : FRAME_RESPONSE;
        frame.token = vector_number(line, "token");
    } else if (strcmp(name, "rtt") == 0) {
        frame.type = FRAME_RTT;
        frame.rtt_us = (uint32_t)vector_number(line, "us");
    } else if (strcmp(name, "done") == 0) {
        frame.type = FRAME_DONE;
        frame.done.result = (uint8_t)vector_number(line, "result");
        frame.done.files = vector_number(line, "files");
        frame.done.blocks = vector_number(line, "blocks");
        frame.done.control = vector_number(line, "control");
    } else if (strcmp(name, "abort") == 0) {
        frame.type = FRAME_ABORT;
        frame.abort.kind = (uint8_t)vector_number(line, "kind");
        frame.abort.size = (uint16_t)vector_bytes(line, "text", bytes);
        frame.abort.text = bytes;
    } else {
        frame.type = strcmp(name, "ping") == 0  ? FRAME_PING
                     : strcmp(name, "bye") == 0 ? FRAME_BYE
                                                : FRAME_STANDBY;
    }
    return frame;
}

static void check_frame(const struct vector_line *line)
{
    uint8_t expected[VECTOR_BYTES_MAX], borrowed[VECTOR_BYTES_MAX], bytes[VECTOR_BYTES_MAX];
    size_t size = vector_bytes(line, "encoded", expected);
    struct frame frame = frame_of(line, borrowed), back;
    struct writer writer = writer_of(bytes, sizeof bytes);
    struct reader reader = reader_of(expected, size);

    frame_write(&writer, &frame);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), size);
    assert_memory_equal(bytes, expected, size);
    assert_true(frame_read(&reader, &back));
    assert_true(reader_finished(&reader));
    assert_int_equal(back.type, frame.type);
    writer = writer_of(bytes, sizeof bytes);
    frame_write(&writer, &back); /* nothing was lost on the way */
    assert_int_equal(writer_size(&writer), size);
    assert_memory_equal(bytes, expected, size);
}

/* Seals `body` as the line's packet, compares, and opens what the script sealed. */
static void check_sealed(const struct vector_line *line, const uint8_t *body, size_t body_size)
{
    uint8_t secret[VECTOR_BYTES_MAX], expected[VECTOR_BYTES_MAX], bytes[VECTOR_BYTES_MAX];
    size_t size = vector_bytes(line, "packet", expected);
    uint64_t number = vector_number(line, "number");
    uint8_t type = (uint8_t)vector_number(line, "type"), flags = type & 7;
    struct packet_header back, header = {
                                   .type = type & 0xf0,
                                   .flags = flags,
                                   .connection_id = (uint32_t)vector_number(line, "connection"),
                                   .number = number,
                               };
    enum aead_suite suite =
        vector_is(line, "suite", "aes-256-gcm") ? AEAD_AES_256_GCM : AEAD_CHACHA20_POLY1305;
    vector_bytes(line, "secret", secret);
    for (size_t i = 0; aead_providers[i] != NULL; i++) {
        if (aead_providers[i]->suite != suite || !aead_providers[i]->available())
            continue;
        struct packet_keys *keys = packet_keys_new(
            aead_providers[i], secret, (enum packet_direction)vector_number(line, "direction"),
            (unsigned)vector_number(line, "lane"), NULL);
        packet_header_encode(&header, bytes);
        assert_true(packet_keys_seal(keys, number, bytes, PACKET_HEADER_SIZE, body, body_size,
                                     bytes + PACKET_HEADER_SIZE));
        assert_int_equal(body_size + PACKET_OVERHEAD, size);
        assert_memory_equal(bytes, expected, size);
        check_key(line);
        assert_true(packet_header_decode(&back, expected, size));
        assert_int_equal(back.type, header.type);
        assert_int_equal(back.flags, flags);
        assert_int_equal(back.connection_id, header.connection_id);
        assert_int_equal(back.number, number);
        assert_true(packet_keys_accept(keys, number));
        assert_true(packet_keys_open(keys, number, expected, PACKET_HEADER_SIZE,
                                     expected + PACKET_HEADER_SIZE, size - PACKET_HEADER_SIZE,
                                     bytes));
        assert_memory_equal(bytes, body, body_size);
        packet_keys_free(keys);
    }
}

static void check_data(const struct vector_line *line)
{
    uint8_t body[VECTOR_BYTES_MAX];
    uint32_t block = (uint32_t)vector_number(line, "block"), block_back;
    uint32_t offset = (uint32_t)vector_number(line, "offset"), offset_back;
    uint8_t data[VECTOR_BYTES_MAX];
    size_t size = vector_bytes(line, "data", data);

    packet_place_encode(block, offset, body);
    packet_place_decode(body, &block_back, &offset_back);
    assert_int_equal(block_back, block);
    assert_int_equal(offset_back, offset);
    memcpy(body + PACKET_PLACE_SIZE, data, size);
    check_sealed(line, body, size + PACKET_PLACE_SIZE);
}

static void check_packet(const struct vector_line *line)
{
    uint8_t body[VECTOR_BYTES_MAX];
    size_t size = vector_bytes(line, "body", body);
    struct reader reader = reader_of(body, size);
    struct frame frame;
    unsigned frames = 0;

    check_sealed(line, body, size);
    while (frame_read(&reader, &frame))
        frames++;
    assert_true(reader_finished(&reader));
    assert_int_equal(frames, 12); /* one of each, ACK twice, without PADDING */
}

static void check_open_ports(const struct vector_line *line)
{
    uint8_t expected[VECTOR_BYTES_MAX], bytes[OPEN_PORTS_PACKET_MAX];
    size_t size = vector_bytes(line, "bytes", expected), count;
    uint16_t ports[OPEN_PORTS_MAX];

    assert_true(open_ports_packet_read(expected, size, ports, &count));
    assert_int_equal(count, vector_number(line, "count"));
    assert_int_equal(open_ports_packet_write(ports, count, bytes, sizeof bytes), size);
    assert_memory_equal(bytes, expected, size);
}

static void check_ports(const struct vector_line *line)
{
    uint8_t expected[VECTOR_BYTES_MAX], bytes[PORTS_PACKET_MAX];
    size_t size = vector_bytes(line, "bytes", expected), count;
    struct client_port ports[PORTS_MAX];

    assert_true(ports_packet_read(expected, size, ports, &count));
    assert_int_equal(count, vector_number(line, "count"));
    assert_int_equal(ports_packet_write(ports, count, bytes, sizeof bytes), size);
    assert_memory_equal(bytes, expected, size);
}

static void check_open(const struct vector_line *line)
{
    uint8_t data[VECTOR_BYTES_MAX], expected[VECTOR_BYTES_MAX], bytes[VECTOR_BYTES_MAX];
    uint8_t to[VECTOR_BYTES_MAX], from[VECTOR_BYTES_MAX], cookie[VECTOR_BYTES_MAX] = {0};
    size_t size = vector_bytes(line, "packet", expected);
    struct open_packet back,
        packet = {.body = {.number = vector_number(line, "number"),
                           .acknowledged = (uint32_t)vector_number(line, "acknowledged"),
                           .offset = (uint32_t)vector_number(line, "offset"),
                           .bytes = data,
                           .length = (uint16_t)vector_bytes(line, "data", data)}};

    vector_bytes(line, "to", to);
    vector_bytes(line, "sender", from);
    vector_bytes(line, "cookie", cookie);
    memcpy(packet.to, to, OPEN_ID_SIZE);
    memcpy(packet.from, from, OPEN_ID_SIZE);
    memcpy(packet.cookie, cookie, COOKIE_SIZE);
    assert_int_equal(open_packet_write(&packet, vector_number(line, "padded"), bytes, sizeof bytes),
                     size);
    assert_memory_equal(bytes, expected, size);
    assert_true(open_packet_read(&back, expected, size));
    assert_memory_equal(back.to, to, OPEN_ID_SIZE);
    assert_memory_equal(back.from, from, OPEN_ID_SIZE);
    assert_memory_equal(back.cookie, cookie, COOKIE_SIZE);
    assert_int_equal(back.body.number, packet.body.number);
    assert_int_equal(back.body.acknowledged, packet.body.acknowledged);
    assert_int_equal(back.body.offset, packet.body.offset);
    assert_int_equal(back.body.length, packet.body.length);
    assert_memory_equal(back.body.bytes, data, packet.body.length);
}

/* What a gate answers to a client's first packet at the beginning of the epoch. */
static void check_cookie(const struct vector_line *line)
{
    uint8_t expected[VECTOR_BYTES_MAX], address[VECTOR_BYTES_MAX], key[VECTOR_BYTES_MAX];
    uint8_t id[VECTOR_BYTES_MAX], first[DATAGRAM_MIN], answer[COOKIE_PACKET_SIZE];
    struct gate gate;
    struct address from = {.family = (uint8_t)vector_number(line, "family"),
                           .port = (uint16_t)vector_number(line, "port")};
    struct open_packet packet = {0};
    uint64_t epoch = vector_number(line, "epoch");

    assert_int_equal(vector_bytes(line, "packet", expected), COOKIE_PACKET_SIZE);
    vector_bytes(line, "address", address);
    vector_bytes(line, "key", key);
    vector_bytes(line, "id", id);
    memcpy(from.bytes, address, sizeof from.bytes);
    memcpy(gate.key, key, sizeof gate.key);
    memcpy(packet.from, id, OPEN_ID_SIZE);
    assert_int_equal(open_packet_write(&packet, sizeof first, first, sizeof first), sizeof first);
    assert_int_equal(gate_judge(&gate, &from, first, sizeof first, true,
                                (epoch - 1) * UINT64_C(16000000000), &packet, answer),
                     GATE_COOKIE);
    assert_memory_equal(answer, expected, COOKIE_PACKET_SIZE);
}

static void check_wishes(const struct vector_line *line)
{
    uint8_t expected[VECTOR_BYTES_MAX], hello[HELLO_SIZE + HELLO_WISHES_SIZE] = {0};
    struct hello_wishes back,
        wishes = {.limit_bps = vector_number(line, "limit"),
                  .policy = (uint8_t)vector_number(line, "policy"),
                  .fixed_bps = vector_number(line, "fixed"),
                  .path_bps = vector_number(line, "rate"),
                  .path_rtt_us = (uint32_t)vector_number(line, "rtt"),
                  .path_loss_millionths = (uint32_t)vector_number(line, "loss")};

    assert_int_equal(vector_bytes(line, "bytes", expected), HELLO_WISHES_SIZE);
    assert_int_equal(hello_wishes_encode(&wishes, hello + HELLO_SIZE, HELLO_WISHES_SIZE),
                     HELLO_WISHES_SIZE);
    assert_memory_equal(hello + HELLO_SIZE, expected, HELLO_WISHES_SIZE);
    hello_wishes_decode(&back, hello, sizeof hello);
    assert_int_equal(back.limit_bps, wishes.limit_bps);
    assert_int_equal(back.policy, wishes.policy);
    assert_int_equal(back.fixed_bps, wishes.fixed_bps);
    assert_int_equal(back.path_bps, wishes.path_bps);
    assert_int_equal(back.path_rtt_us, wishes.path_rtt_us);
    assert_int_equal(back.path_loss_millionths, wishes.path_loss_millionths);
}

static void vectors_agree(void **state)
{
    static const struct {
        const char *kind;
        void (*check)(const struct vector_line *);
    } checks[] = {
        {"hello", check_hello},   {"handshake", check_handshake}, {"data", check_data},
        {"packet", check_packet}, {"ports", check_ports},         {"open-ports", check_open_ports},
        {"open", check_open},     {"cookie", check_cookie},       {"wishes", check_wishes}};
    const size_t kinds = sizeof checks / sizeof checks[0];
    static struct vector_line line;
    FILE *file = fopen(VECTORS_DIR "/wire.txt", "r");
    unsigned count = 0;

    (void)state;
    assert_non_null(file);
    packet_keys_recorder = record;
    while (vector_next(file, &line)) {
        count++;
        if (strncmp(line.kind, "frame-", 6) == 0) {
            check_frame(&line);
            continue;
        }
        size_t i = 0;
        while (i + 1 < kinds && strcmp(checks[i].kind, line.kind) != 0)
            i++;
        assert_string_equal(checks[i].kind, line.kind);
        checks[i].check(&line);
    }
    packet_keys_recorder = NULL;
    fclose(file);
    assert_int_equal(count, 3 + 5 + 5 + 2 + 2 + 12 + 6 + 2 + 2 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
