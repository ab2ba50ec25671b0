/* Trains as a kernel hands them over, built field by field for the tests of the link emulator. */
#ifndef PETREL_TESTS_LINK_TRAINS_H
#define PETREL_TESTS_LINK_TRAINS_H

#include <string.h>

#include "lab/link_packet.h"

struct train {
    struct virtio_net_hdr offload;
    uint8_t bytes[LINK_PACKET_MAX];
    size_t size_bytes;
    uint32_t transport_offset, headers_bytes;
};

static inline void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

/* The Internet checksum's sum (RFC 1071), byte by byte and not as the emulator does it. */
static inline uint32_t plain_sum(const uint8_t *bytes, size_t size, uint32_t sum)
{
    for (size_t i = 0; i < size; i++)
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static inline uint32_t pseudo_sum(const uint8_t *ip, uint32_t protocol, uint32_t length)
{
    uint32_t sum = ip[0] >> 4 == 4 ? plain_sum(ip + 12, 8, 0) : plain_sum(ip + 8, 32, 0);
    uint8_t rest[4] = {0, (uint8_t)protocol, (uint8_t)(length >> 8), (uint8_t)length};
    return plain_sum(rest, 4, sum);
}

static inline void make_ip(struct train *train, unsigned version, uint32_t extension_bytes,
                           uint8_t protocol, uint32_t total)
{
    uint8_t *ip = train->bytes;
    if (version == 4) {
        uint32_t header = 20 + extension_bytes;
        ip[0] = (uint8_t)(0x40 | header / 4);
        put16(ip + 2, total);
        put16(ip + 4, 0xfff0); /* the identification wraps within a train */
        ip[6] = 0x40;
        ip[8] = 64;
        ip[9] = protocol;
        memcpy(ip + 12, "\x0a\x4d\x00\x01\x0a\x4d\x00\x02", 8);
        memset(ip + 20, 1, extension_bytes); /* no-operation options */
        put16(ip + 10, 0xffff & ~plain_sum(ip, header, 0));
        train->transport_offset = header;
        return;
    }
    ip[0] = 0x60;
    put16(ip + 4, total - 40);
    ip[6] = extension_bytes > 0 ? 60 : protocol; /* destination options */
    ip[7] = 64;
    memcpy(ip + 8, "\xfd\x77\0\0\0\0\0\0\0\0\0\0\0\0\0\1\xfd\x77\0\0\0\0\0\0\0\0\0\0\0\0\0\2", 32);
    if (extension_bytes > 0) {
        ip[40] = protocol;
        ip[41] = (uint8_t)(extension_bytes / 8 - 1);
        ip[42] = 1; /* PadN */
        ip[43] = (uint8_t)(extension_bytes - 4);
    }
    train->transport_offset = 40 + extension_bytes;
}

/* `segment` 0 makes a single packet. */
static inline void make_train(struct train *train, unsigned version, uint8_t protocol,
                              uint32_t extension_bytes, uint32_t segment, uint32_t payload)
{
    memset(train, 0, sizeof *train);
    uint32_t transport_bytes = protocol == LINK_PROTOCOL_UDP ? 8 : 32;
    uint32_t ip_bytes = (version == 4 ? 20 : 40) + extension_bytes;
    train->size_bytes = ip_bytes + transport_bytes + payload;
    make_ip(train, version, extension_bytes, protocol, (uint32_t)train->size_bytes);
    uint8_t *transport = train->bytes + train->transport_offset;
    put16(transport, 5000);
    put16(transport + 2, 6000);
    if (protocol == LINK_PROTOCOL_UDP) {
        put16(transport + 4, transport_bytes + payload);
    } else {
        memcpy(transport + 4, "\xff\xff\xff\x00\x01\x02\x03\x04", 8); /* the sequence wraps too */
        transport[12] = 8 << 4;
        transport[13] = 0x80 | 0x10 | 0x08 | 0x01; /* CWR, ACK, PSH, FIN */
        put16(transport + 14, 4096);
        memcpy(transport + 20, "\1\1\x08\x0a\1\2\3\4\5\6\7\x08", 12);
    }
    train->headers_bytes = train->transport_offset + transport_bytes;
    for (uint32_t i = 0; i < payload; i++)
        train->bytes[train->headers_bytes + i] = (uint8_t)(i * 7 + i / 251);
    uint32_t sum = pseudo_sum(train->bytes, protocol, transport_bytes + payload);
    uint32_t checksum_offset = protocol == LINK_PROTOCOL_UDP ? 6 : 16;
    put16(transport + checksum_offset, sum);
    train->offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    train->offload.csum_start = (uint16_t)train->transport_offset;
    train->offload.csum_offset = (uint16_t)checksum_offset;
    if (segment == 0)
        return;
    train->offload.gso_size = (uint16_t)segment;
    train->offload.hdr_len = (uint16_t)train->headers_bytes;
    if (protocol == LINK_PROTOCOL_UDP)
        train->offload.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
    else
        train->offload.gso_type =
            VIRTIO_NET_HDR_GSO_ECN |
            (version == 4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6);
}

#endif
