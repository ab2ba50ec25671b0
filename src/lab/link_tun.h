/* A TUN device with offloads in the network namespace of the calling thread, up and addressed.
 *
 * Source: Linux Documentation/networking/tuntap.rst; include/uapi/linux/if_tun.h.
 */
#ifndef PETREL_LAB_LINK_TUN_H
#define PETREL_LAB_LINK_TUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "lab/link_packet.h"
#include "lab/link_store.h"

struct link_tun {
    int fd;        /* non-blocking */
    int status_fd; /* a socket in the device's namespace, for its counters */
    bool has_offload, has_udp_offload;
};

/* Opens the device, brings it and the loopback up. `ipv4` and `ipv6` are addresses of a /24 and a
 * /64. Fails with a text that says what is missing. */
bool link_tun_open(struct link_tun *tun, const char *ipv4, const char *ipv6, uint32_t mtu,
                   struct error *error);
void link_tun_close(struct link_tun *tun);

/* Reads one packet and parses it. 1: done; 0: nothing there; -1: something that is no packet was
 * read and skipped. */
int link_tun_read(struct link_tun *tun, struct link_buffer *buffer);
bool link_tun_write(struct link_tun *tun, const struct link_piece *piece);

/* Packets that the device dropped because the emulator (sent) or the stack (received) was late. */
void link_tun_drops(const struct link_tun *tun, uint64_t *sent, uint64_t *received);

#endif
