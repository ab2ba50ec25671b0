/* Where the far end's UDP port may be: the addresses to try, best first. */
#ifndef PETREL_CLI_FAR_ADDRESSES_H
#define PETREL_CLI_FAR_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

#define FAR_ADDRESSES_MAX 16

struct far_addresses {
    struct address list[FAR_ADDRESSES_MAX];
    unsigned count;
    uint16_t port;
    uint8_t family;   /* 4 or 6: only such; 0: both */
    bool public_only; /* ssh goes through another host: a private address would be a third one */
};

/* Adds all addresses of a name, or of a numeric address only. Unknown names add nothing. Asks the
 * resolver, which may take its time. */
void far_addresses_add(struct far_addresses *addresses, const char *name, bool numeric);

/* Whether an address means the same host everywhere (RFC 6890: not private, shared, loopback,
 * link-local, multicast or unspecified). */
bool address_is_public(const struct address *address);

#endif
