/* The splitter: every piece of a train must be what the kernel's own segmentation makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka.h needs the four above */
#include <cmocka.h>

#include "link_trains.h"

static struct train whole, part;

/* A piece as the bytes that would be written, behind its offload header. */
static void flatten(const struct link_piece *piece, struct train *flat)
{
    flat->offload = piece->offload;
    memcpy(flat->bytes, piece->headers, piece->headers_bytes);
    memcpy(flat->bytes + piece->headers_bytes, piece->payload, piece->payload_bytes);
    flat->size_bytes = piece->headers_bytes + piece->payload_bytes;
    flat->transport_offset = piece->offload.csum_start;
}

/* Does to a packet what the hardware does: adds the payload to the partial checksum. Then checks
 * the result as a receiver does. */
static void check_checksums(const struct train *packet, uint8_t protocol)
{
    const uint8_t *ip = packet->bytes;
    uint32_t offset = packet->transport_offset, length = (uint32_t)packet->size_bytes - offset;
    static uint8_t finished[LINK_PACKET_MAX];
    if (ip[0] >> 4 == 4)
        assert_int_equal(plain_sum(ip, (ip[0] & 15u) * 4, 0), 0xffff);
    memcpy(finished, packet->bytes, packet->size_bytes);
    uint32_t sum = plain_sum(finished + offset, length, 0);
    put16(finished + offset + packet->offload.csum_offset, 0xffff & ~sum);
    assert_int_equal(plain_sum(finished + offset, length, pseudo_sum(ip, protocol, length)),
                     0xffff);
}

static void check_single(const struct train *train, const struct train *packet, uint32_t index,
                         uint32_t count, uint8_t protocol)
{
    uint32_t segment = train->offload.gso_size;
    const uint8_t *ip = packet->bytes, *transport = ip + packet->transport_offset;
    uint32_t start = train->headers_bytes + index * segment;
    uint32_t payload = index + 1 < count ? segment : (uint32_t)train->size_bytes - start;
    assert_int_equal(packet->size_bytes, train->headers_bytes + payload);
    assert_memory_equal(packet->bytes + train->headers_bytes, train->bytes + start, payload);
    if (ip[0] >> 4 == 4) {
        assert_int_equal(get16(ip + 2), packet->size_bytes);
        assert_int_equal(get16(ip + 4), (0xfff0 + index) & 0xffff);
    } else {
        assert_int_equal(get16(ip + 4), packet->size_bytes - 40);
    }
    if (protocol == LINK_PROTOCOL_UDP) {
        assert_int_equal(get16(transport + 4), 8 + payload);
    } else {
        uint32_t sequence = get16(transport + 4) << 16 | get16(transport + 6);
        assert_int_equal(sequence, (uint32_t)(0xffffff00 + index * segment));
        uint8_t flags = 0x10;
        flags |= index == 0 ? 0x80 : 0;
        flags |= index + 1 == count ? 0x09 : 0;
        assert_int_equal(transport[13], flags);
    }
    assert_int_equal(packet->offload.gso_type, VIRTIO_NET_HDR_GSO_NONE);
    check_checksums(packet, protocol);
}

/* Cuts every run of the train, and every run into single packets: twice cut is once cut. */
static void check_train(unsigned version, uint8_t protocol, uint32_t extension, uint32_t segment,
                        uint32_t payload)
{
    struct link_packet packet, again;
    struct link_piece piece, single, direct;
    make_train(&whole, version, protocol, extension, segment, payload);
    assert_true(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
    uint32_t count = (payload + segment - 1) / segment;
    assert_int_equal(packet.segment_count, count);
    assert_int_equal(packet.protocol, protocol);
    for (uint32_t first = 0; first < count; first++) {
        for (uint32_t length = 1; first + length <= count; length++) {
            link_packet_cut(&packet, first, length, &piece);
            flatten(&piece, &part);
            if (count > 1)
                check_checksums(&part, protocol);
            assert_true(link_packet_parse(&again, &part.offload, part.bytes, part.size_bytes));
            assert_int_equal(again.segment_count, length);
            for (uint32_t i = 0; i < length; i++) {
                static struct train one, other;
                link_packet_cut(&again, i, 1, &single);
                link_packet_cut(&packet, first + i, 1, &direct);
                flatten(&single, &one);
                flatten(&direct, &other);
                assert_int_equal(one.size_bytes, other.size_bytes);
                assert_memory_equal(one.bytes, other.bytes, one.size_bytes);
                assert_int_equal(one.size_bytes, link_packet_segment_size(&packet, first + i));
                if (count > 1)
                    check_single(&whole, &other, first + i, count, protocol);
            }
        }
    }
}

static void trains_are_cut_as_the_kernel_does(void **state)
{
    static const struct {
        uint32_t segment, payload;
    } shapes[] = {{1400, 14000}, {1400, 14001}, {1448, 1449}, {1, 5}, {8900, 62000}, {99, 700}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (unsigned version = 4; version <= 6; version += 2) {
            for (uint32_t extension = 0; extension <= 8; extension += 8) {
                check_train(version, LINK_PROTOCOL_UDP, extension, shapes[i].segment,
                            shapes[i].payload);
                check_train(version, LINK_PROTOCOL_TCP, extension, shapes[i].segment,
                            shapes[i].payload);
            }
        }
    }
}

static void whole_packets_pass_untouched(void **state)
{
    struct link_packet packet;
    struct link_piece piece;
    (void)state;
    make_train(&whole, 4, LINK_PROTOCOL_TCP, 0, 1448, 14480);
    assert_true(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
    link_packet_cut(&packet, 0, packet.segment_count, &piece);
    flatten(&piece, &part);
    assert_int_equal(part.size_bytes, whole.size_bytes);
    assert_memory_equal(part.bytes, whole.bytes, whole.size_bytes);
    assert_memory_equal(&part.offload, &whole.offload, sizeof whole.offload);
}

static void nonsense_is_refused(void **state)
{
    struct link_packet packet;
    (void)state;
    for (unsigned version = 4; version <= 6; version += 2) {
        make_train(&whole, version, LINK_PROTOCOL_TCP, 0, 1000, 3000);
        for (size_t size = 0; size <= whole.headers_bytes; size++)
            assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, size));
        assert_true(
            link_packet_parse(&packet, &whole.offload, whole.bytes, whole.headers_bytes + 1));
        whole.offload.gso_size = 0;
        assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
        whole.offload.gso_size = 1000;
        whole.offload.csum_start = 60000;
        assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
        whole.offload.csum_start = 2;
        assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
        whole.offload.csum_start = (uint16_t)whole.transport_offset;
        whole.bytes[whole.transport_offset + 12] = 4 << 4; /* a TCP header shorter than one */
        assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
        whole.offload.gso_type = VIRTIO_NET_HDR_GSO_UDP; /* fragments: never asked for */
        assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
    }
    whole.bytes[0] = 0x50;
    whole.offload.gso_type = VIRTIO_NET_HDR_GSO_NONE;
    assert_false(link_packet_parse(&packet, &whole.offload, whole.bytes, whole.size_bytes));
}

/* Any bytes behind any offload header: nothing out of bounds (a sanitizer watches). */
static void random_bytes_stay_in_bounds(void **state)
{
    (void)state;
    srand(1);
    for (unsigned round = 0; round < 20000; round++) {
        size_t size = (size_t)rand() % 300;
        uint8_t *bytes = malloc(size + 1);
        struct virtio_net_hdr offload;
        struct link_packet packet;
        struct link_piece piece;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)rand();
        for (size_t i = 0; i < sizeof offload; i++)
            ((uint8_t *)&offload)[i] = (uint8_t)rand();
        if (size > 0)
            bytes[0] = (uint8_t)((rand() % 2 != 0 ? 0x60 : 0x40) | (bytes[0] & 15));
        offload.gso_type = (uint8_t)(rand() % 6);
        offload.csum_start = (uint16_t)(rand() % 80);
        offload.gso_size = (uint16_t)(rand() % 100);
        if (link_packet_parse(&packet, &offload, bytes, size)) {
            for (uint32_t i = 0; i < packet.segment_count; i++) {
                link_packet_cut(&packet, i, 1, &piece);
                assert_true(piece.payload >= bytes &&
                            piece.payload + piece.payload_bytes <= bytes + size);
            }
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_are_cut_as_the_kernel_does),
        cmocka_unit_test(whole_packets_pass_untouched),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(random_bytes_stay_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
