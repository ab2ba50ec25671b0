/* petrel-lab blast: UDP datagrams at a given rate, numbered, in trains (UDP_SEGMENT, UDP_GRO) or
 * one by one, and what of them arrives. It measures paths, not protocols.
 *
 * Each datagram begins with its number and the time at which its train was sent, 8 bytes each in
 * the machine's own order: both ends run on one machine.
 */
#ifndef PETREL_LAB_BLAST_H
#define PETREL_LAB_BLAST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

#define BLAST_HEADER 16u
#define BLAST_TRAIN_MAX_BYTES 65507u
#define BLAST_SEGMENTS_MAX 128u

struct blast_options {
    struct sockaddr_storage address; /* of the receiver, or to bind */
    socklen_t address_size;
    uint64_t rate_bps;      /* of IP bytes; 0: as fast as the kernel takes them */
    uint64_t size_bytes;    /* of a datagram's payload */
    uint64_t train;         /* datagrams handed over in one call; 1: plain */
    uint64_t duration_ns;   /* 0: until `count` */
    uint64_t count;         /* 0: until `duration_ns` */
    uint64_t idle_ns;       /* the receiver ends after such a silence */
    const char *ready_path; /* a file that the receiver makes once it listens, or NULL */
    bool plain;             /* no UDP_SEGMENT or UDP_GRO */
};

bool blast_send(const struct blast_options *options, struct error *error);
bool blast_receive(const struct blast_options *options, struct error *error);

#endif
