#include "lab/link_packet.h"

#include <string.h>

#define IPV4_HEADER_MIN 20u
#define IPV6_HEADER 40u
#define UDP_HEADER 8u
#define TCP_HEADER_MIN 20u
#define UDP_CHECKSUM_OFFSET 6u
#define TCP_CHECKSUM_OFFSET 16u
#define TCP_FLAGS_OFFSET 13u
#define TCP_FIN_PSH 0x09u
#define TCP_CWR 0x80u

static uint16_t load16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void store16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t load32(const uint8_t *at)
{
    return (uint32_t)load16(at) << 16 | load16(at + 2);
}

static void store32(uint8_t *at, uint32_t value)
{
    store16(at, value >> 16);
    store16(at + 2, value);
}

/* Ones' complement sum of 16-bit words; `size` is even for everything summed here. */
static uint32_t sum_words(const uint8_t *at, size_t size, uint32_t sum)
{
    for (size_t i = 0; i + 1 < size; i += 2)
        sum += load16(at + i);
    return sum;
}

static uint16_t fold(uint32_t sum)
{
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static bool parse_ip(struct link_packet *packet)
{
    const uint8_t *ip = packet->bytes;
    if (packet->size_bytes < IPV4_HEADER_MIN)
        return false;
    packet->version = ip[0] >> 4;
    if (packet->version == 4) {
        packet->transport_offset = (uint16_t)((ip[0] & 15u) * 4u);
        packet->protocol = ip[9];
        packet->is_multicast = ip[16] >> 4 == 14;
        return packet->transport_offset >= IPV4_HEADER_MIN &&
               packet->transport_offset <= packet->size_bytes;
    }
    if (packet->version == 6) {
        packet->transport_offset = IPV6_HEADER;
        packet->protocol = packet->size_bytes >= IPV6_HEADER ? ip[6] : 0;
        packet->is_multicast = packet->size_bytes >= IPV6_HEADER && ip[24] == 0xff;
        return packet->size_bytes >= IPV6_HEADER;
    }
    return false;
}

/* FNV-1a over what a router's hash goes by. */
static uint32_t hash_bytes(uint32_t hash, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static uint32_t flow_of(const struct link_packet *packet)
{
    bool has_ports =
        (packet->protocol == LINK_PROTOCOL_TCP || packet->protocol == LINK_PROTOCOL_UDP) &&
        packet->transport_offset + 4u <= packet->size_bytes;
    uint32_t hash = hash_bytes(2166136261u, &packet->protocol, 1);
    hash = packet->version == 4 ? hash_bytes(hash, packet->bytes + 12, 8)
                                : hash_bytes(hash, packet->bytes + 8, 32);
    return has_ports ? hash_bytes(hash, packet->bytes + packet->transport_offset, 4) : hash;
}

/* Where the kernel says that the transport header stands (behind IPv6 extension headers), and
 * which transport a train has. */
static bool parse_train(struct link_packet *packet)
{
    const struct virtio_net_hdr *offload = &packet->offload;
    uint8_t kind = offload->gso_type & (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;
    if ((offload->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0) {
        if (offload->csum_start < packet->transport_offset)
            return false;
        packet->transport_offset = offload->csum_start;
    }
    uint32_t offset = packet->transport_offset;
    if (kind == VIRTIO_NET_HDR_GSO_UDP_L4) {
        packet->protocol = LINK_PROTOCOL_UDP;
        packet->headers_bytes = (uint16_t)(offset + UDP_HEADER);
    } else if (kind == VIRTIO_NET_HDR_GSO_TCPV4 || kind == VIRTIO_NET_HDR_GSO_TCPV6) {
        if (offset + TCP_HEADER_MIN > packet->size_bytes)
            return false;
        packet->protocol = LINK_PROTOCOL_TCP;
        packet->headers_bytes = (uint16_t)(offset + (packet->bytes[offset + 12] >> 4) * 4u);
        if (packet->headers_bytes < offset + TCP_HEADER_MIN)
            return false;
    } else {
        return false;
    }
    if (offload->gso_size == 0 || packet->headers_bytes > LINK_HEADERS_MAX ||
        packet->headers_bytes >= packet->size_bytes)
        return false;
    uint32_t payload = packet->size_bytes - packet->headers_bytes;
    packet->segment_bytes = offload->gso_size;
    packet->segment_count = (payload + offload->gso_size - 1) / offload->gso_size;
    return true;
}

bool link_packet_parse(struct link_packet *packet, const struct virtio_net_hdr *offload,
                       const uint8_t *bytes, size_t size_bytes)
{
    struct link_packet parsed = {.offload = *offload, .bytes = bytes, .segment_count = 1};
    if (size_bytes > LINK_PACKET_MAX)
        return false;
    parsed.size_bytes = (uint32_t)size_bytes;
    if (!parse_ip(&parsed))
        return false;
    if (offload->gso_type != VIRTIO_NET_HDR_GSO_NONE && !parse_train(&parsed))
        return false;
    parsed.flow = flow_of(&parsed);
    *packet = parsed;
    return true;
}

uint32_t link_packet_segment_size(const struct link_packet *packet, uint32_t index)
{
    if (packet->segment_count == 1)
        return packet->size_bytes;
    if (index + 1 < packet->segment_count)
        return (uint32_t)packet->headers_bytes + packet->segment_bytes;
    return packet->size_bytes - index * packet->segment_bytes;
}

static void rewrite_ip(const struct link_packet *packet, uint32_t first, struct link_piece *piece)
{
    uint8_t *ip = piece->headers;
    uint32_t total = piece->headers_bytes + piece->payload_bytes;
    if (packet->version == 6) {
        store16(ip + 4, total - IPV6_HEADER);
        return;
    }
    store16(ip + 2, total);
    store16(ip + 4, load16(ip + 4) + first);
    store16(ip + 10, 0);
    store16(ip + 10, (uint16_t)~fold(sum_words(ip, (ip[0] & 15u) * 4u, 0)));
}

/* The sum that the checksum field holds until the rest is added: addresses, protocol, length. */
static uint16_t pseudo_header_sum(const struct link_packet *packet, const uint8_t *ip,
                                  uint32_t transport_bytes)
{
    uint32_t sum = packet->protocol + transport_bytes;
    return packet->version == 4 ? fold(sum_words(ip + 12, 8, sum))
                                : fold(sum_words(ip + 8, 32, sum));
}

static void rewrite_tcp(const struct link_packet *packet, uint32_t first, bool has_last,
                        uint8_t *tcp)
{
    store32(tcp + 4, load32(tcp + 4) + first * packet->segment_bytes);
    if (!has_last)
        tcp[TCP_FLAGS_OFFSET] &= (uint8_t)~TCP_FIN_PSH;
    if (first > 0)
        tcp[TCP_FLAGS_OFFSET] &= (uint8_t)~TCP_CWR;
}

static void rewrite_offload(const struct link_packet *packet, uint32_t first, uint32_t count,
                            struct virtio_net_hdr *offload)
{
    bool is_tcp = packet->protocol == LINK_PROTOCOL_TCP;
    memset(offload, 0, sizeof *offload);
    offload->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    offload->csum_start = packet->transport_offset;
    offload->csum_offset = is_tcp ? TCP_CHECKSUM_OFFSET : UDP_CHECKSUM_OFFSET;
    if (count == 1)
        return;
    offload->gso_type = packet->offload.gso_type;
    if (first > 0)
        offload->gso_type &= (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;
    offload->gso_size = packet->segment_bytes;
    offload->hdr_len = packet->headers_bytes;
}

void link_packet_cut(const struct link_packet *packet, uint32_t first, uint32_t count,
                     struct link_piece *piece)
{
    if (count == packet->segment_count) {
        piece->offload = packet->offload;
        piece->headers_bytes = 0;
        piece->payload = packet->bytes;
        piece->payload_bytes = packet->size_bytes;
        return;
    }
    bool has_last = first + count == packet->segment_count;
    uint32_t start = packet->headers_bytes + first * packet->segment_bytes;
    piece->headers_bytes = packet->headers_bytes;
    piece->payload = packet->bytes + start;
    piece->payload_bytes =
        has_last ? packet->size_bytes - start : count * (uint32_t)packet->segment_bytes;
    memcpy(piece->headers, packet->bytes, packet->headers_bytes);

    uint8_t *transport = piece->headers + packet->transport_offset;
    uint32_t transport_bytes =
        piece->headers_bytes - packet->transport_offset + piece->payload_bytes;
    uint16_t sum = pseudo_header_sum(packet, piece->headers, transport_bytes);
    rewrite_ip(packet, first, piece);
    if (packet->protocol == LINK_PROTOCOL_TCP) {
        rewrite_tcp(packet, first, has_last, transport);
        store16(transport + TCP_CHECKSUM_OFFSET, sum);
    } else {
        store16(transport + 4, transport_bytes);
        store16(transport + UDP_CHECKSUM_OFFSET, sum);
    }
    rewrite_offload(packet, first, count, &piece->offload);
}
