/* known_hosts: the first line gives the host that is looked for, the rest is the file. What is
 * found was there, and names survive being written and read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "keys/known_hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void try_name(const char *host, uint16_t port)
{
    char text[HOST_TEXT_SIZE], again[HOST_NAME_LENGTH + 1];
    uint16_t found;
    host_format(text, host, port);
    require(host_parse(text, strlen(text), again, &found));
    require(strcmp(again, host) == 0 && found == port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[KEY_SIZE];
    const char *text = (const char *)data;
    const char *newline = size > 0 ? memchr(text, '\n', size) : NULL;
    size_t first = newline != NULL ? (size_t)(newline - text) : size;
    char host[HOST_NAME_LENGTH + 1];
    uint16_t port;
    struct known_host_found found;
    struct error error = {0};
    if (!host_parse(text, first, host, &port))
        return 0;
    try_name(host, port);
    if (!known_hosts_search(text + first, size - first, "F", host, port, key, &found, &error)) {
        require(error.kind == ERROR_USAGE && strncmp(error.text, "F:", 2) == 0);
        return 0;
    }
    require(found.what <= KNOWN_HOST_CHANGED);
    require((found.what == KNOWN_HOST_NEW) == (found.line == 0));
    require(found.what == KNOWN_HOST_NEW ||
            (memcmp(found.key, key, KEY_SIZE) == 0) == (found.what == KNOWN_HOST_SAME));
    return 0;
}
