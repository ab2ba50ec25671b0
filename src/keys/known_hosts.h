/* The keys of servers that were met before: known_hosts, after ssh's. One line a host, or several
 * where it has several keys:
 *
 *     HOST[:PORT] petrel-ed25519 KEY [COMMENT]
 *
 * Without a port it is PETREL_PORT. An IPv6 address stands in brackets. Letters' case does not
 * matter in HOST. What is asked of people, and where, is cli/start/host_key's.
 */
#ifndef PETREL_KEYS_KNOWN_HOSTS_H
#define PETREL_KEYS_KNOWN_HOSTS_H

#include "keys/key_lines.h"

#define PETREL_PORT 4717     /* petrel serve's, where nothing else is said */
#define HOST_NAME_LENGTH 255 /* bytes of a host's name or address */
#define HOST_TEXT_SIZE (HOST_NAME_LENGTH + 2 + 6 + 1)

/* "example.org", "example.org:7000", "[2001:db8::1]:7000"; the port only where it is not
 * PETREL_PORT. Returns `text`. */
char *host_format(char text[HOST_TEXT_SIZE], const char *host, uint16_t port);
/* The inverse, from `length` bytes: a name or address without blanks, brackets and control bytes,
 * and a port from 1 to 65535. False when it is none. */
bool host_parse(const char *text, size_t length, char host[HOST_NAME_LENGTH + 1], uint16_t *port);

enum known_host {
    KNOWN_HOST_NEW,    /* no line is about the host */
    KNOWN_HOST_SAME,   /* one has this key */
    KNOWN_HOST_CHANGED /* all that are have others */
};

struct known_host_found {
    enum known_host what;
    unsigned line;         /* not NEW: the one that decided, of several others the first */
    uint8_t key[KEY_SIZE]; /* CHANGED: the one that stands there */
};

/* Pure. ERROR_USAGE "FILE:LINE: ..." for a line that is none, wherever it stands. */
bool known_hosts_search(const char *text, size_t size, const char *file, const char *host,
                        uint16_t port, const uint8_t key[KEY_SIZE], struct known_host_found *found,
                        struct error *error);
/* ~/.config/petrel/known_hosts, for the caller to free. NULL with ERROR_USAGE where there is no
 * home. */
char *known_hosts_default_path(struct error *error);
/* In a file; a missing one knows nobody. Errors as of key_file_read(path, false, ...). */
bool known_hosts_check(const char *path, const char *host, uint16_t port,
                       const uint8_t key[KEY_SIZE], struct known_host_found *found,
                       struct error *error);
/* Adds a line, and makes the file and its directory when missing. */
bool known_hosts_add(const char *path, const char *host, uint16_t port, const uint8_t key[KEY_SIZE],
                     struct error *error);
/* ERROR_CRYPTO: what to say of a key that has changed, with both fingerprints. Returns false. */
bool known_hosts_refuse(const char *path, const char *host, uint16_t port,
                        const uint8_t key[KEY_SIZE], const struct known_host_found *found,
                        struct error *error);

#endif
