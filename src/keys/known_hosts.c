#include "keys/known_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"
#include "keys/key_file.h"

/* ---- names ---- */

char *host_format(char text[HOST_TEXT_SIZE], const char *host, uint16_t port)
{
    bool is_address = strchr(host, ':') != NULL;
    int length =
        snprintf(text, HOST_TEXT_SIZE, is_address ? "[%.*s]" : "%.*s", HOST_NAME_LENGTH, host);
    if (port != PETREL_PORT)
        snprintf(text + length, (size_t)(HOST_TEXT_SIZE - length), ":%u", (unsigned)port);
    return text;
}

/* Whether all of it is a port. */
static bool parse_port(const char *text, size_t length, uint16_t *port)
{
    char digits[6];
    uint64_t value;
    if (length == 0 || length >= sizeof(digits))
        return false;
    snprintf(digits, sizeof(digits), "%.*s", (int)length, text);
    if (!parse_unsigned(digits, UINT16_MAX, &value, NULL) || value == 0)
        return false;
    *port = (uint16_t)value;
    return true;
}

static bool is_host_byte(char c)
{
    return (unsigned char)c > ' ' && c != 0x7f && strchr("[]/#,\"'\\", c) == NULL;
}

/* The host's part at the front: *skipped bytes with what is around it. */
static struct key_word cut_host(const char *text, size_t length, size_t *skipped)
{
    bool is_address = length > 0 && text[0] == '[';
    const char *end = length > 0 ? memchr(text, is_address ? ']' : ':', length) : NULL;
    size_t until = end != NULL ? (size_t)(end - text) : length;
    if (is_address && end == NULL)
        return (struct key_word){text, 0};
    *skipped = until + is_address;
    return (struct key_word){text + is_address, until - is_address};
}

bool host_parse(const char *text, size_t length, char host[HOST_NAME_LENGTH + 1], uint16_t *port)
{
    size_t skipped = 0;
    struct key_word name = cut_host(text, length, &skipped);
    uint16_t found = PETREL_PORT;
    if (name.length == 0 || name.length > HOST_NAME_LENGTH || name.text[0] == '-')
        return false;
    for (size_t i = 0; i < name.length; i++) {
        if (!is_host_byte(name.text[i]))
            return false;
    }
    if (skipped < length &&
        (text[skipped] != ':' || !parse_port(text + skipped + 1, length - skipped - 1, &found)))
        return false;
    memcpy(host, name.text, name.length);
    host[name.length] = '\0';
    *port = found;
    return true;
}

/* ---- searching ---- */

struct asked {
    const char *host;
    uint16_t port;
    const uint8_t *key;
};

static bool read_line(const struct key_lines *lines, struct key_word line,
                      const struct asked *asked, struct known_host_found *found,
                      struct error *error)
{
    char host[HOST_NAME_LENGTH + 1];
    uint16_t port;
    uint8_t key[KEY_SIZE];
    struct key_word rest = line, name = key_word_cut(&rest);
    if (!host_parse(name.text, name.length, host, &port))
        return key_lines_refuse(lines, error,
                                "\"%.*s\" is no host; write host, host:port or [address]:port",
                                key_word_shown(name), name.text);
    if (!key_line_key(lines, &rest, KEY_WORD, key, error))
        return false;
    if (port != asked->port || strcasecmp(host, asked->host) != 0 || found->what == KNOWN_HOST_SAME)
        return true;
    bool same = memcmp(key, asked->key, KEY_SIZE) == 0;
    if (same || found->what == KNOWN_HOST_NEW) {
        found->what = same ? KNOWN_HOST_SAME : KNOWN_HOST_CHANGED;
        found->line = lines->number;
        memcpy(found->key, key, KEY_SIZE);
    }
    return true;
}

bool known_hosts_search(const char *text, size_t size, const char *file, const char *host,
                        uint16_t port, const uint8_t key[KEY_SIZE], struct known_host_found *found,
                        struct error *error)
{
    const struct asked asked = {host, port, key};
    struct key_lines lines = key_lines_of(text, size, file);
    struct known_host_found here = {.what = KNOWN_HOST_NEW};
    struct key_word line;
    do {
        if (!key_lines_next(&lines, &line, error) ||
            (line.length > 0 && !read_line(&lines, line, &asked, &here, error)))
            return false;
    } while (line.length > 0);
    *found = here;
    return true;
}

/* ---- files ---- */

char *known_hosts_default_path(struct error *error)
{
    return key_file_default("known_hosts", error);
}

bool known_hosts_check(const char *path, const char *host, uint16_t port,
                       const uint8_t key[KEY_SIZE], struct known_host_found *found,
                       struct error *error)
{
    struct error cause = {0};
    size_t size = 0;
    char *text = key_file_read(path, false, &size, &cause);
    if (text == NULL && cause.kind == ERROR_NOT_FOUND) {
        *found = (struct known_host_found){.what = KNOWN_HOST_NEW};
        return true;
    }
    if (text == NULL)
        return error_set(error, cause.kind, "%s", cause.text);
    bool good = known_hosts_search(text, size, path, host, port, key, found, error);
    free(text);
    return good;
}

bool known_hosts_add(const char *path, const char *host, uint16_t port, const uint8_t key[KEY_SIZE],
                     struct error *error)
{
    char name[HOST_TEXT_SIZE], encoded[KEY_TEXT_SIZE], line[HOST_TEXT_SIZE + KEY_TEXT_SIZE + 32];
    snprintf(line, sizeof(line), "%s %s %s\n", host_format(name, host, port), KEY_WORD,
             key_format(encoded, key));
    return key_file_make_directory(path, error) && key_file_append(path, line, error);
}

bool known_hosts_refuse(const char *path, const char *host, uint16_t port,
                        const uint8_t key[KEY_SIZE], const struct known_host_found *found,
                        struct error *error)
{
    char name[HOST_TEXT_SIZE], now[FINGERPRINT_SIZE], before[FINGERPRINT_SIZE];
    return error_set(error, ERROR_CRYPTO,
                     "THE KEY OF %s HAS CHANGED: it is %s, and was %s (%s:%u). Somebody may stand "
                     "between you and it. If its owner says that the new one is right, remove that "
                     "line",
                     host_format(name, host, port), fingerprint_format(now, key),
                     fingerprint_format(before, found->key), path, found->line);
}
