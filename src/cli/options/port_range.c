#include "cli/options/port_range.h"

#include <stddef.h>
#include <string.h>

static bool take_port(const char **text, uint16_t *port)
{
    unsigned value = 0;
    size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 5)
        return false;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (unsigned)((*text)[i] - '0');
    *text += digits;
    *port = (uint16_t)value;
    return value > 0 && value <= UINT16_MAX;
}

bool port_range_parse(const char *text, uint16_t *first, uint16_t *last)
{
    uint16_t from, to;
    if (!take_port(&text, &from))
        return false;
    to = from;
    if (*text == '-' && (text++, !take_port(&text, &to)))
        return false;
    if (*text != '\0' || from > to)
        return false;
    *first = from;
    *last = to;
    return true;
}
