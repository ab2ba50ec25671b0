/* An IP address and port as plain values, so that the transport can compare and keep them without
 * knowing any system's socket types. */
#ifndef PETREL_BASE_ADDRESS_H
#define PETREL_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address {
    uint8_t family;    /* 4, 6, or 0 for none (a stream lane has none) */
    uint8_t bytes[16]; /* network order; IPv4 uses the first four */
    uint16_t port;     /* host order */
    uint32_t scope;    /* IPv6 interface index, else 0 */
};

bool address_equal(const struct address *a, const struct address *b);
bool address_same_host(const struct address *a, const struct address *b); /* ignores the port */
/* "192.0.2.1:60001" or "[2001:db8::1]:60001"; 64 bytes suffice. Returns `text`. */
char *address_format(char *text, size_t capacity, const struct address *address);

#endif
