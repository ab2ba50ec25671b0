/* Packets as a TUN device hands them over: one IP packet, or a train of equal segments that cross
 * the kernel as one buffer (TCP segmentation offload, UDP_SEGMENT), described by a virtio_net_hdr.
 *
 * A train can be cut into pieces: any run of its segments becomes a packet or a smaller train with
 * headers of its own, exactly as the kernel's segmentation would have made them. No bytes of
 * payload are copied. Pure: no system calls.
 *
 * Sources: virtio 1.2, 5.1.6 (header); Linux inet_gso_segment, tcp_gso_segment and
 * __udp_gso_segment (which fields differ between the segments of a train).
 */
#ifndef PETREL_LAB_LINK_PACKET_H
#define PETREL_LAB_LINK_PACKET_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4 /* UDP_SEGMENT trains, since Linux 6.2 */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif
#define LINK_PACKET_MAX 65575u /* an IPv6 header and the longest payload it can announce */
#define LINK_HEADERS_MAX 256u  /* IP and transport headers of a train that can be cut */
#define LINK_PROTOCOL_TCP 6
#define LINK_PROTOCOL_UDP 17

struct link_packet {
    struct virtio_net_hdr offload; /* as read, in the host's byte order */
    const uint8_t *bytes;          /* from the IP header on; borrowed */
    uint32_t size_bytes;
    uint16_t transport_offset;
    uint16_t headers_bytes; /* what every segment carries: IP and transport headers */
    uint16_t segment_bytes; /* payload of each segment but the last, which may be shorter */
    uint32_t segment_count; /* 1 when it is no train */
    uint8_t version;        /* 4 or 6 */
    uint8_t protocol;       /* of the transport */
    uint32_t flow;          /* the same for all packets with these addresses, ports, protocol */
    bool is_multicast;
};

/* False when the headers contradict the size, or a train is of a kind that we did not ask for.
 * `bytes` must stay as long as the packet is used. */
bool link_packet_parse(struct link_packet *packet, const struct virtio_net_hdr *offload,
                       const uint8_t *bytes, size_t size_bytes);

/* Size of one segment as an IP packet. */
uint32_t link_packet_segment_size(const struct link_packet *packet, uint32_t index);

/* What is to be written for a run of segments: offload header, `headers`, then payload. */
struct link_piece {
    struct virtio_net_hdr offload;
    uint8_t headers[LINK_HEADERS_MAX];
    uint32_t headers_bytes;
    const uint8_t *payload; /* within the packet's bytes */
    uint32_t payload_bytes;
};

/* The run must be inside the packet and hold at least one segment. */
void link_packet_cut(const struct link_packet *packet, uint32_t first, uint32_t count,
                     struct link_piece *piece);

#endif
