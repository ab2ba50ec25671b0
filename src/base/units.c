#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define DECIMALS_MAX 9u

/* A number as it was written: digits / 10^places. Kept whole, so that 0.1 means exactly 0.1. */
struct decimal {
    uint64_t digits;
    uint64_t scale; /* 10^places */
};

struct unit {
    const char *name; /* in lower case */
    uint64_t factor;
};

/* Reads the number at the start of `text` and says where it ends. */
static bool read_decimal(const char *text, struct decimal *decimal, const char **end)
{
    struct decimal read = {0, 1};
    bool point = false;
    unsigned places = 0, digits = 0;
    const char *at = text;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        if (point && ++places > DECIMALS_MAX)
            return false;
        if (__builtin_mul_overflow(read.digits, UINT64_C(10), &read.digits) ||
            __builtin_add_overflow(read.digits, (uint64_t)(*at - '0'), &read.digits))
            return false;
        if (point)
            read.scale *= 10;
        digits++;
    }
    if (digits == 0)
        return false;
    *decimal = read;
    *end = at;
    return true;
}

static bool multiply(const struct decimal *decimal, uint64_t factor, uint64_t *value)
{
    uint64_t whole = decimal->digits / decimal->scale;
    uint64_t part = decimal->digits % decimal->scale;
    uint64_t scale = decimal->scale;
    while (scale > 1 && part % 10 == 0) { /* 1.500000000: fewer digits, no false overflow */
        part /= 10;
        scale /= 10;
    }
    return !__builtin_mul_overflow(whole, factor, &whole) &&
           !__builtin_mul_overflow(part, factor, &part) &&
           !__builtin_add_overflow(whole, part / scale, value);
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

static bool same_word(const char *text, const char *lower_word)
{
    while (*text != '\0' && lower(*text) == *lower_word) {
        text++;
        lower_word++;
    }
    return *text == '\0' && *lower_word == '\0';
}

static const struct unit *find_unit(const struct unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (same_word(name, units[i].name))
            return &units[i];
    }
    return NULL;
}

#define FIND(units, name) find_unit(units, sizeof(units) / sizeof((units)[0]), name)

#define KILO UINT64_C(1000)
#define KIBI UINT64_C(1024)

static const struct unit prefixes[] = {
    {"", 1},
    {"k", KILO},
    {"m", KILO *KILO},
    {"g", KILO *KILO *KILO},
    {"t", KILO *KILO *KILO *KILO},
    {"ki", KIBI},
    {"mi", KIBI *KIBI},
    {"gi", KIBI *KIBI *KIBI},
    {"ti", KIBI *KIBI *KIBI *KIBI},
};

/* Takes `ending` off `word` (in place) if it is there; letters count as they are written. */
static bool strip(char *word, const char *ending)
{
    size_t length = strlen(word), ending_length = strlen(ending);
    if (ending_length > length || strcmp(word + length - ending_length, ending) != 0)
        return false;
    word[length - ending_length] = '\0';
    return true;
}

static bool refuse_rate(const char *text, const char *unit, struct error *error)
{
    int number = (int)(unit - text);
    if (FIND(prefixes, unit) != NULL)
        return error_set(error, ERROR_USAGE,
                         "the rate '%s' does not say bits or bytes: write %sbit or %sB (a second)",
                         text, text, text);
    return error_set(error, ERROR_USAGE,
                     "'%s' is not a rate: write one such as %.*sMbit or %.*sMB (a second)", text,
                     number, text, number, text);
}

bool parse_rate(const char *text, uint64_t *rate_bps, struct error *error)
{
    struct decimal number;
    const char *unit;
    if (!read_decimal(text, &number, &unit))
        return error_set(error, ERROR_USAGE,
                         "'%s' is not a rate: write one such as 200Mbit or 25MB (a second)", text);
    char word[12];
    size_t length = strlen(unit);
    if (length >= sizeof word)
        return refuse_rate(text, unit, error);
    memcpy(word, unit, length + 1);
    uint64_t bits;
    if (strip(word, "bps")) {
        bits = 1;
    } else {
        (void)strip(word, "/s");
        if (strip(word, "bit") || strip(word, "Bit"))
            bits = 1;
        else if (strip(word, "B")) /* a small b would leave bits or bytes open */
            bits = 8;
        else
            return refuse_rate(text, unit, error);
    }
    const struct unit *prefix = FIND(prefixes, word);
    if (prefix == NULL)
        return refuse_rate(text, unit, error);
    uint64_t value;
    if (!multiply(&number, prefix->factor * bits, &value))
        return error_set(error, ERROR_USAGE, "the rate '%s' is too large", text);
    if (value == 0)
        return error_set(error, ERROR_USAGE, "the rate '%s' is less than one bit a second", text);
    *rate_bps = value;
    return true;
}

bool parse_size(const char *text, uint64_t *size_bytes, struct error *error)
{
    static const struct unit units[] = {
        {"", 1},
        {"b", 1},
        {"k", KIBI},
        {"m", KIBI * KIBI},
        {"g", KIBI * KIBI * KIBI},
        {"t", KIBI * KIBI * KIBI * KIBI},
        {"kib", KIBI},
        {"mib", KIBI * KIBI},
        {"gib", KIBI * KIBI * KIBI},
        {"tib", KIBI * KIBI * KIBI * KIBI},
        {"kb", KILO},
        {"mb", KILO * KILO},
        {"gb", KILO * KILO * KILO},
        {"tb", KILO * KILO * KILO * KILO},
    };
    struct decimal number;
    const char *name;
    const struct unit *unit = NULL;
    if (read_decimal(text, &number, &name))
        unit = FIND(units, name);
    if (unit == NULL)
        return error_set(error, ERROR_USAGE, "'%s' is not a size: write one such as 64K, 10MB, 5G",
                         text);
    if (!multiply(&number, unit->factor, size_bytes))
        return error_set(error, ERROR_USAGE, "the size '%s' is too large", text);
    return true;
}

bool parse_time(const char *text, uint64_t *time_ns, struct error *error)
{
    static const struct unit units[] = {
        {"ns", 1},
        {"us", NS_PER_US},
        {"ms", NS_PER_MS},
        {"s", NS_PER_S},
        {"m", 60 * NS_PER_S},
        {"min", 60 * NS_PER_S},
        {"h", 3600 * NS_PER_S},
        {"d", 24 * 3600 * NS_PER_S},
    };
    struct decimal number;
    const char *name;
    const struct unit *unit = NULL;
    if (read_decimal(text, &number, &name)) {
        unit = FIND(units, name);
        if (unit == NULL && *name == '\0' && number.digits == 0)
            unit = &units[0]; /* nothing is nothing in any unit */
    }
    if (unit == NULL)
        return error_set(error, ERROR_USAGE,
                         "'%s' is not a time: write one such as 50us, 20ms, 2s, 10m or 24h", text);
    uint64_t value;
    if (!multiply(&number, unit->factor, &value) || value == TIME_NEVER)
        return error_set(error, ERROR_USAGE, "the time '%s' is too long", text);
    *time_ns = value;
    return true;
}

bool parse_share(const char *text, uint32_t *parts, struct error *error)
{
    struct decimal number;
    const char *rest;
    if (!read_decimal(text, &number, &rest) || (*rest != '\0' && strcmp(rest, "%") != 0))
        return error_set(error, ERROR_USAGE, "'%s' is not a share: write one such as 1%% or 0.01",
                         text);
    uint64_t whole = number.scale * (*rest == '%' ? 100 : 1);
    uint64_t left = number.digits;
    if (left > whole)
        return error_set(error, ERROR_USAGE, "the share '%s' is more than all", text);
    uint64_t value = 0; /* left / whole in binary, one bit a step */
    for (unsigned bit = 0; bit < 33; bit++) {
        value = value << 1 | (left >= whole);
        left = (left >= whole ? left - whole : left) << 1;
    }
    value += left >= whole; /* to the nearest */
    *parts = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    return true;
}

bool parse_unsigned(const char *text, uint64_t limit, uint64_t *value, struct error *error)
{
    struct decimal number;
    const char *rest;
    if (!read_decimal(text, &number, &rest) || *rest != '\0' || strchr(text, '.') != NULL)
        return error_set(error, ERROR_USAGE, "'%s' is not a whole number from 0 to %llu", text,
                         (unsigned long long)limit);
    if (number.digits > limit)
        return error_set(error, ERROR_USAGE, "%s is too large: at most %llu", text,
                         (unsigned long long)limit);
    *value = number.digits;
    return true;
}

static uint64_t rounded_quotient(uint64_t value, uint64_t step)
{
    return value / step + (value % step >= step - step / 2);
}

/* Three digits of value / unit, rounded: 1.25, 12.5, 125. A unit is at least 1000. */
static void format_digits(char *text, size_t capacity, uint64_t value, uint64_t unit,
                          const char *name)
{
    int decimals = 2;
    unsigned steps = 100; /* of the last digit in one unit */
    uint64_t rounded = rounded_quotient(value, unit / steps);
    while (rounded >= 1000 && decimals > 0) { /* also where rounding made 9.996 into 10.0 */
        decimals--;
        steps /= 10;
        rounded = rounded_quotient(value, unit / steps);
    }
    unsigned long long whole = rounded / steps;
    if (decimals == 0)
        snprintf(text, capacity, "%llu %s", whole, name);
    else
        snprintf(text, capacity, "%llu.%0*u %s", whole, decimals, (unsigned)(rounded % steps),
                 name);
}

static char *format_scaled(char *text, size_t capacity, uint64_t value, const char *const names[7])
{
    unsigned step = 0;
    uint64_t unit = 1;
    /* 999.5 of a unit would be written as 1000 of it. */
    while (step < 6 && value >= unit * 999 + unit / 2 + (unit == 1)) {
        unit *= 1000;
        step++;
    }
    if (step == 0)
        snprintf(text, capacity, "%llu %s", (unsigned long long)value, names[0]);
    else
        format_digits(text, capacity, value, unit, names[step]);
    return text;
}

char *format_size(char *text, size_t capacity, uint64_t size_bytes)
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    return format_scaled(text, capacity, size_bytes, names);
}

char *format_byte_rate(char *text, size_t capacity, uint64_t rate_bps)
{
    static const char *const names[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"};
    return format_scaled(text, capacity, rate_bps / 8, names);
}

char *format_bit_rate(char *text, size_t capacity, uint64_t rate_bps)
{
    static const char *const names[] = {"bit/s",  "kbit/s", "Mbit/s", "Gbit/s",
                                        "Tbit/s", "Pbit/s", "Ebit/s"};
    return format_scaled(text, capacity, rate_bps, names);
}

char *format_time(char *text, size_t capacity, uint64_t time_ns)
{
    static const struct unit units[] = {{"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}};
    if (time_ns == TIME_NEVER) {
        snprintf(text, capacity, "never");
    } else if (time_ns < NS_PER_US) {
        snprintf(text, capacity, "%u ns", (unsigned)time_ns);
    } else if (time_ns >= 100 * NS_PER_S - NS_PER_S / 20) {
        format_clock(text, capacity, time_ns);
    } else {
        unsigned step = 0; /* one decimal below a hundred, none above: 3.2 s, 12.5 ms, 118 ms */
        while (step < 2 && time_ns >= units[step + 1].factor - units[step].factor / 2)
            step++;
        uint64_t unit = units[step].factor, tenth = unit / 10;
        uint64_t tenths = (time_ns + tenth / 2) / tenth;
        if (tenths < 1000)
            snprintf(text, capacity, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
                     units[step].name);
        else
            snprintf(text, capacity, "%u %s", (unsigned)((time_ns + unit / 2) / unit),
                     units[step].name);
    }
    return text;
}

char *format_clock(char *text, size_t capacity, uint64_t time_ns)
{
    uint64_t seconds = time_ns / NS_PER_S + (time_ns % NS_PER_S >= NS_PER_S / 2);
    unsigned long long hours = seconds / 3600;
    unsigned minutes = (unsigned)(seconds / 60 % 60), rest = (unsigned)(seconds % 60);
    if (hours > 0)
        snprintf(text, capacity, "%llu:%02u:%02u", hours, minutes, rest);
    else
        snprintf(text, capacity, "%u:%02u", minutes, rest);
    return text;
}
