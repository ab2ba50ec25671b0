#include "net/sockaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

socklen_t sockaddr_from_address(struct sockaddr_storage *storage, const struct address *address)
{
    memset(storage, 0, sizeof(*storage));
    if (address->family == 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        memcpy(&v4->sin_addr, address->bytes, 4);
        return sizeof(*v4);
    }
    if (address->family == 6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(address->port);
        v6->sin6_scope_id = address->scope;
        memcpy(&v6->sin6_addr, address->bytes, 16);
        return sizeof(*v6);
    }
    return 0;
}

bool sockaddr_to_address(struct address *address, const struct sockaddr_storage *storage)
{
    struct address result = {0};
    if (storage->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)storage;
        result.family = 4;
        result.port = ntohs(v4->sin_port);
        memcpy(result.bytes, &v4->sin_addr, 4);
    } else if (storage->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)storage;
        result.port = ntohs(v6->sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
            result.family = 4;
            memcpy(result.bytes, v6->sin6_addr.s6_addr + 12, 4);
        } else {
            result.family = 6;
            result.scope = v6->sin6_scope_id;
            memcpy(result.bytes, &v6->sin6_addr, 16);
        }
    } else {
        return false;
    }
    *address = result;
    return true;
}

struct address address_any(uint8_t family, uint16_t port)
{
    return (struct address){.family = family, .port = port};
}
