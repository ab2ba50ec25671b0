#include "base/address.h"

#include <stdio.h>
#include <string.h>

static size_t host_size(const struct address *address)
{
    switch (address->family) {
    case 4:
        return 4;
    case 6:
        return 16;
    default:
        return 0;
    }
}

bool address_same_host(const struct address *a, const struct address *b)
{
    return a->family == b->family && a->scope == b->scope &&
           memcmp(a->bytes, b->bytes, host_size(a)) == 0;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return address_same_host(a, b) && a->port == b->port;
}

/* RFC 5952: the longest run of two or more zero groups, the first of equals, becomes "::". */
static unsigned longest_zero_run(const uint16_t groups[8], unsigned *length)
{
    unsigned best = 8;
    *length = 1;
    for (unsigned start = 0; start < 8; start++) {
        unsigned end = start;
        while (end < 8 && groups[end] == 0)
            end++;
        if (end - start > *length) {
            best = start;
            *length = end - start;
        }
    }
    return best;
}

static void format_ipv6(char text[40], const uint8_t bytes[16])
{
    uint16_t groups[8];
    for (unsigned i = 0; i < 8; i++)
        groups[i] = (uint16_t)(bytes[2 * i] << 8 | bytes[2 * i + 1]);
    unsigned length, zeros = longest_zero_run(groups, &length);
    size_t at = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (i == zeros) {
            at += (size_t)snprintf(text + at, 40 - at, "::");
            i += length - 1;
        } else {
            const char *colon = i == 0 || i == zeros + length ? "" : ":";
            at += (size_t)snprintf(text + at, 40 - at, "%s%x", colon, (unsigned)groups[i]);
        }
    }
}

char *address_format(char *text, size_t capacity, const struct address *address)
{
    const uint8_t *bytes = address->bytes;
    unsigned port = address->port;
    if (address->family == 4) {
        snprintf(text, capacity, "%u.%u.%u.%u:%u", bytes[0], bytes[1], bytes[2], bytes[3], port);
    } else if (address->family == 6) {
        char host[40], scope[12] = "";
        format_ipv6(host, bytes);
        if (address->scope != 0)
            snprintf(scope, sizeof scope, "%%%u", (unsigned)address->scope);
        snprintf(text, capacity, "[%s%s]:%u", host, scope, port);
    } else {
        snprintf(text, capacity, "(no address)");
    }
    return text;
}
