#include "keys/key_date.h"

#include <stddef.h>
#include <string.h>

#define DAY_S 86400

/* Exactly `count` digits at the front of `text`. */
static bool cut_number(const char **text, unsigned count, unsigned *value)
{
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        found = found * 10 + (unsigned)(**text - '0');
    }
    *value = found;
    return true;
}

static bool cut_byte(const char **text, char byte)
{
    if (**text != byte)
        return false;
    (*text)++;
    return true;
}

static bool is_leap(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static unsigned days_of_month(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year) ? 1u : 0);
}

/* Days of the calendar (Gregorian, RFC 3339) before a year begins, from the year 1. */
static uint64_t days_before_year(unsigned year)
{
    uint64_t past = year - 1;
    return past * 365 + past / 4 - past / 100 + past / 400;
}

bool key_date_parse(const char *text, uint64_t *when_s)
{
    unsigned year, month, day, hour = 24, minute = 0;
    if (!cut_number(&text, 4, &year) || !cut_byte(&text, '-') || !cut_number(&text, 2, &month) ||
        !cut_byte(&text, '-') || !cut_number(&text, 2, &day))
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month))
        return false;
    if (cut_byte(&text, 'T')) {
        if (!cut_number(&text, 2, &hour) || !cut_byte(&text, ':') ||
            !cut_number(&text, 2, &minute) || hour > 23 || minute > 59)
            return false;
        cut_byte(&text, 'Z');
    }
    if (*text != '\0')
        return false;
    uint64_t days = days_before_year(year) - days_before_year(1970) + day - 1;
    for (unsigned i = 1; i < month; i++)
        days += days_of_month(year, i);
    *when_s = days * DAY_S + hour * 3600 + minute * 60;
    return true;
}
