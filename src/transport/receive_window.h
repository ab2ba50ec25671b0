/* Which packet numbers of a lane have arrived: the replay window and the acknowledgement in one.
 *
 * A ring of 2^20 bits that ends at the largest number seen. Older numbers count as replays.
 */
#ifndef PETREL_TRANSPORT_RECEIVE_WINDOW_H
#define PETREL_TRANSPORT_RECEIVE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct receive_window {
    uint64_t *words;
    uint64_t largest;
    bool any;
};

bool receive_window_init(struct receive_window *window);
void receive_window_release(struct receive_window *window);

/* Before opening: false for a number that is too old, too far ahead, or already there. */
bool receive_window_allows(const struct receive_window *window, uint64_t number);
/* True when the number has arrived already: tells a duplicate from what is out of bounds. */
bool receive_window_has(const struct receive_window *window, uint64_t number);
/* After authentication. */
void receive_window_add(struct receive_window *window, uint64_t number);
/* Writes the ack bitmap: bit i tells of largest - 1 - i, for `size` bytes. */
void receive_window_bitmap(const struct receive_window *window, uint8_t *bitmap, size_t size);

#endif
