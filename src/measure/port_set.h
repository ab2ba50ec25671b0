/* A set of UDP or TCP ports, and its text: "60000-60007,60010". Pure. */
#ifndef PETREL_MEASURE_PORT_SET_H
#define PETREL_MEASURE_PORT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct port_set {
    uint64_t words[65536 / 64];
};

void port_set_add(struct port_set *set, uint16_t port);
bool port_set_has(const struct port_set *set, uint16_t port);
unsigned port_set_count(const struct port_set *set);
/* The lowest port, 0 when the set is empty. */
uint16_t port_set_first(const struct port_set *set);
/* The longest run of ports without a gap, the lowest of several; both 0 when the set is empty. */
void port_set_longest(const struct port_set *set, uint16_t *first, uint16_t *last);
/* Writes ranges until `capacity` is nearly used; what does not fit is told by ",..." at the end.
 * "" for the empty set. Returns `text`. */
char *port_set_format(char *text, size_t capacity, const struct port_set *set);
/* Reads what port_set_format wrote, but for "...". False, with the set undefined, for anything
 * else. */
bool port_set_parse(struct port_set *set, const char *text);

#endif
