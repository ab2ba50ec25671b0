/* Days on which keys expire. Pure. */
#ifndef PETREL_KEYS_KEY_DATE_H
#define PETREL_KEYS_KEY_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* "2026-12-31", which gives the second after that day's end, or "2026-12-31T18:00", perhaps with a
 * "Z", which gives that second; UTC, years 1970 to 9999, in seconds since 1970. False when it is
 * neither, or no day of the calendar. */
bool key_date_parse(const char *text, uint64_t *when_s);

#endif
