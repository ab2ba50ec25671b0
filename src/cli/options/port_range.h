/* "60000-61000" or "60000": a range of UDP ports. */
#ifndef PETREL_CLI_PORT_RANGE_H
#define PETREL_CLI_PORT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Where a far end listens unless told otherwise: mosh's ports, which many have open already. */
#define PORTS_FIRST 60000
#define PORTS_LAST 61000

/* False for anything but one or two decimal numbers from 1 to 65535, the first not above the
 * second. */
bool port_range_parse(const char *text, uint16_t *first, uint16_t *last);

#endif
