/* Sizes, rates and times as people write them.
 *
 * Rates are bits per second inside. A rate needs a unit that says bits or bytes: 200Mbit, 1.5gbit,
 * 25MB, 3MiB (a second). A bare "25M" is refused by an error that shows both readings. Sizes are
 * bytes: 1000, 64K or 64KiB (1024), 5G, 10MB (10^6). Times: 50us, 3.5ms, 2s, 10m, 24h.
 */
#ifndef PETREL_BASE_UNITS_H
#define PETREL_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define TIME_NEVER UINT64_MAX

bool parse_rate(const char *text, uint64_t *rate_bps, struct error *error);
bool parse_size(const char *text, uint64_t *size_bytes, struct error *error);
bool parse_time(const char *text, uint64_t *time_ns, struct error *error);
/* "1%", "0.25%" or "0.01": parts of 2^32. */
bool parse_share(const char *text, uint32_t *parts, struct error *error);
bool parse_unsigned(const char *text, uint64_t limit, uint64_t *value, struct error *error);

/* Short forms for people: "1.25 GB", "118 MB/s", "943 Mbit/s", "3.2 s", "1:02:03". They return
 * `text`; 24 bytes always suffice. */
char *format_size(char *text, size_t capacity, uint64_t size_bytes);
char *format_byte_rate(char *text, size_t capacity, uint64_t rate_bps);
char *format_bit_rate(char *text, size_t capacity, uint64_t rate_bps);
char *format_time(char *text, size_t capacity, uint64_t time_ns);
char *format_clock(char *text, size_t capacity, uint64_t time_ns);

#endif
