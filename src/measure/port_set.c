#include "measure/port_set.h"

#include <stdio.h>
#include <string.h>

#define RANGE_TEXT_MAX 13u /* ",60000-61000" and NUL */

void port_set_add(struct port_set *set, uint16_t port)
{
    set->words[port / 64] |= UINT64_C(1) << port % 64;
}

bool port_set_has(const struct port_set *set, uint16_t port)
{
    return (set->words[port / 64] >> port % 64 & 1) != 0;
}

unsigned port_set_count(const struct port_set *set)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 65536 / 64; i++)
        count += (unsigned)__builtin_popcountll(set->words[i]);
    return count;
}

uint16_t port_set_first(const struct port_set *set)
{
    for (unsigned i = 0; i < 65536 / 64; i++) {
        if (set->words[i] != 0)
            return (uint16_t)(i * 64 + (unsigned)__builtin_ctzll(set->words[i]));
    }
    return 0;
}

void port_set_longest(const struct port_set *set, uint16_t *first, uint16_t *last)
{
    unsigned longest = 0, run = 0;
    *first = *last = 0;
    for (unsigned port = 0; port < 65536; port++) {
        run = port_set_has(set, (uint16_t)port) ? run + 1 : 0;
        if (run <= longest)
            continue;
        longest = run;
        *first = (uint16_t)(port + 1 - run);
        *last = (uint16_t)port;
    }
}

char *port_set_format(char *text, size_t capacity, const struct port_set *set)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned port = 0; port < 65536; port++) {
        if (!port_set_has(set, (uint16_t)port))
            continue;
        unsigned last = port;
        while (last < 65535 && port_set_has(set, (uint16_t)(last + 1)))
            last++;
        const char *comma = at > 0 ? "," : "";
        if (at + 2 * RANGE_TEXT_MAX > capacity) {
            snprintf(text + at, capacity - at, "%s...", comma);
            break;
        }
        at +=
            (size_t)(last > port ? snprintf(text + at, capacity - at, "%s%u-%u", comma, port, last)
                                 : snprintf(text + at, capacity - at, "%s%u", comma, port));
        port = last;
    }
    return text;
}

static bool read_port(const char **text, unsigned *port)
{
    unsigned value = 0, digits = 0;
    for (; **text >= '0' && **text <= '9' && digits < 5; (*text)++, digits++)
        value = value * 10 + (unsigned)(**text - '0');
    *port = value;
    return digits > 0 && value <= 65535 && !(**text >= '0' && **text <= '9');
}

bool port_set_parse(struct port_set *set, const char *text)
{
    memset(set, 0, sizeof(*set));
    while (*text != '\0') {
        unsigned first, last;
        if (!read_port(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!read_port(&text, &last) || last < first)
                return false;
        }
        for (unsigned port = first; port <= last; port++)
            port_set_add(set, (uint16_t)port);
        if (*text == ',' && text[1] != '\0')
            text++;
        else if (*text != '\0')
            return false;
    }
    return true;
}
