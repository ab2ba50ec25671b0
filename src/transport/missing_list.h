/* Numbers that acks have passed over: which of them still wait for a verdict, and when it is due.
 *
 * In the order in which they were found, so that ascending numbers have ascending times. An ack
 * looks at those that its bitmap tells of and at the first that wait, however many packets are
 * missing: at 1 Gbit/s, 200 ms and 5 % loss that are 2,000. It reports nothing and knows no acks.
 */
#ifndef PETREL_TRANSPORT_MISSING_LIST_H
#define PETREL_TRANSPORT_MISSING_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum missing_state {
    MISSING_WAITS,
    MISSING_LOST, /* given up; kept for a while to notice that it came after all */
    MISSING_OVER  /* came, or nothing is known of it any more */
};

struct missing_packet {
    uint64_t number;
    uint64_t since_ns;
    uint8_t state;  /* enum missing_state */
    bool unknown;   /* no ack covered it */
    bool confirmed; /* a later ack than the first still did not have it */
};

struct missing_list {
    struct missing_packet *packets; /* [head, end) are in use */
    size_t head, end, capacity;
    size_t waiting;  /* none before it waits */
    uint64_t looked; /* at how many packets so far, for tests */
};

/* How long a packet waits. `usual_ns` is the least. */
struct missing_waits {
    uint64_t usual_ns;
    uint64_t near_ns;   /* when few came after it */
    uint64_t unsure_ns; /* when the next ack may have it */
    uint64_t far_below; /* numbers below have enough behind them */
};

void missing_list_release(struct missing_list *list);
/* False when there is no memory, or the list is as long as it may be. */
bool missing_list_add(struct missing_list *list, uint64_t number, bool unknown, uint64_t now_ns);
/* The place of the first number of at least `number`; places are valid until the next add. */
size_t missing_list_find(struct missing_list *list, uint64_t number);
/* From *at (at first: list->waiting) on the first packet whose wait is over, and the place behind
 * it; NULL when there is none, and *deadline_ns is then when the next one will be (TIME_NEVER). */
struct missing_packet *missing_list_due(struct missing_list *list, size_t *at,
                                        const struct missing_waits *waits, uint64_t now_ns,
                                        uint64_t *deadline_ns);
/* Drops what was found before `before_ns`, as far as nothing that waits stands in front. */
void missing_list_forget(struct missing_list *list, uint64_t before_ns);

#endif
