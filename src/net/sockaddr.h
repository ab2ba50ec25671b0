/* Between `struct address` and the system's socket addresses. No name is looked up here. */
#ifndef PETREL_NET_SOCKADDR_H
#define PETREL_NET_SOCKADDR_H

#include <sys/socket.h>

#include "base/address.h"

/* Writes `address` (family 4 or 6) and returns the length that the system wants with it; 0 for an
 * address without family. */
socklen_t sockaddr_from_address(struct sockaddr_storage *storage, const struct address *address);

/* False for any other family. An IPv4 address mapped into IPv6 comes out as IPv4. */
bool sockaddr_to_address(struct address *address, const struct sockaddr_storage *storage);

/* All addresses of this family ("0.0.0.0" or "::"), with a port. */
struct address address_any(uint8_t family, uint16_t port);

#endif
