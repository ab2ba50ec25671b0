/* An emulated link between two network namespaces: two TUN devices and the packets on their way
 * between them. Who owns it says when to look (poll on the descriptors, sleep until the time that
 * a turn returns). One thread.
 */
#ifndef PETREL_LAB_LINK_EMULATOR_H
#define PETREL_LAB_LINK_EMULATOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/link_options.h"

/* By how much a wake-up may be moved to make up for late timers. */
#define LINK_LATENESS_MAX_NS UINT64_C(150000)

#define LINK_NEAR_IPV4 "10.77.0.1"
#define LINK_FAR_IPV4 "10.77.0.2"
#define LINK_NEAR_IPV6 "fd77::1"
#define LINK_FAR_IPV6 "fd77::2"

enum { LINK_NEAR, LINK_FAR, LINK_ENDS };

struct link_emulator;

/* Makes both namespaces and devices; the process ends up in the far namespace. */
struct link_emulator *link_emulator_new(const struct link_options *options, struct error *error);
void link_emulator_free(struct link_emulator *emulator);

int link_emulator_device(const struct link_emulator *emulator, unsigned end); /* to poll */
int link_emulator_space(const struct link_emulator *emulator, unsigned end);  /* namespace */
/* Whether trains cross as one buffer, in words; *whole says whether all kinds do. */
const char *link_emulator_offload(const struct link_emulator *emulator, bool *whole);

/* Takes in what has arrived, hands out what is due. Returns when it wants to be called again if
 * nothing arrives earlier (CLOCK_MONOTONIC, TIME_NEVER); *busy says that packets arrived. */
uint64_t link_emulator_turn(struct link_emulator *emulator, bool *busy);
/* How late a packet may be noticed without harm: a share of the delay. */
uint64_t link_emulator_slack(const struct link_emulator *emulator);
/* A gap between packets after which an exact time is worth some spinning. */
uint64_t link_emulator_pause(const struct link_emulator *emulator);

/* Changes the impairments; what cannot change (MTU, seed) is left as it is. */
bool link_emulator_set(struct link_emulator *emulator, const struct link_options *options,
                       struct error *error);
const struct link_options *link_emulator_options(const struct link_emulator *emulator);
void link_emulator_reset_counters(struct link_emulator *emulator);
json_t *link_emulator_report(struct link_emulator *emulator);

uint64_t link_now(void);

#endif
