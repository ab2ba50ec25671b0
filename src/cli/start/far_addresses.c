#include "cli/start/far_addresses.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

static bool is_public_v4(const uint8_t *b)
{
    return b[0] != 0 && b[0] != 10 && b[0] != 127 && b[0] < 224 &&
           !(b[0] == 172 && (b[1] & 0xf0) == 16) && !(b[0] == 192 && b[1] == 168) &&
           !(b[0] == 169 && b[1] == 254) && !(b[0] == 100 && (b[1] & 0xc0) == 64);
}

bool address_is_public(const struct address *address)
{
    if (address->family == 4)
        return is_public_v4(address->bytes);
    return address->family == 6 && (address->bytes[0] & 0xe0) == 0x20; /* 2000::/3 */
}

static void add(struct far_addresses *addresses, const struct address *address)
{
    if (addresses->count == FAR_ADDRESSES_MAX ||
        (addresses->family != 0 && addresses->family != address->family) ||
        (addresses->public_only && !address_is_public(address)))
        return;
    for (unsigned i = 0; i < addresses->count; i++) {
        if (address_equal(&addresses->list[i], address))
            return;
    }
    addresses->list[addresses->count++] = *address;
}

/* An IPv4 address in IPv6 clothes (sshd on a dual socket may say so) is an IPv4 address. */
static void take_v6(struct address *address, const struct sockaddr_in6 *from)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *bytes = from->sin6_addr.s6_addr;
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
        address->family = 4;
        memcpy(address->bytes, bytes + 12, 4);
        return;
    }
    address->family = 6;
    memcpy(address->bytes, bytes, 16);
    address->scope = from->sin6_scope_id;
}

static void add_sockaddr(struct far_addresses *addresses, const struct sockaddr *from)
{
    struct address address = {.port = addresses->port};
    if (from->sa_family == AF_INET) {
        address.family = 4;
        memcpy(address.bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        take_v6(&address, (const void *)from);
    } else {
        return;
    }
    add(addresses, &address);
}

void far_addresses_add(struct far_addresses *addresses, const char *name, bool numeric)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = numeric ? AI_NUMERICHOST : 0};
    struct addrinfo *found = NULL;
    if (name[0] == '\0' || getaddrinfo(name, NULL, &hints, &found) != 0)
        return;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next)
        add_sockaddr(addresses, at->ai_addr);
    freeaddrinfo(found);
}
