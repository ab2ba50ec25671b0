/* The options that describe an emulated link, the same for `link`, `up` and `set`: parsing by
 * table, and the shapes of the two directions that follow from them. Pure.
 */
#ifndef PETREL_LAB_LINK_OPTIONS_H
#define PETREL_LAB_LINK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/link_path.h"

enum { LINK_FORWARD, LINK_BACK, LINK_DIRECTIONS }; /* near to far, far to near */

enum link_queue_unit { LINK_QUEUE_BDP, LINK_QUEUE_BYTES, LINK_QUEUE_PACKETS };

struct link_direction {
    uint64_t rate_bps;
    double queue;
    enum link_queue_unit queue_unit;
    uint32_t loss_parts, correlation_parts, reorder_parts, duplicate_parts;
    double burst;
    uint64_t jitter_ns, reorder_by_ns;
    uint64_t policer_bps, policer_bucket_bytes;
    uint64_t flow_policer_bps, flow_policer_bucket_bytes;
    uint64_t path_mtu;
};

struct link_options {
    struct link_direction direction[LINK_DIRECTIONS];
    uint64_t rtt_ns;
    uint64_t mtu;
    uint64_t seed;
    uint64_t memory_bytes; /* for packets on their way, each direction */
    bool loss_before;
    bool print_stats;
    const char *json_path; /* borrowed from argv, or NULL */
};

void link_options_init(struct link_options *options);

/* Reads options from `arguments` up to "--" or the first word that is none, and sets *used to how
 * many words it took (without the "--"). Writes into `options` even when it fails half-way. */
bool link_options_parse(struct link_options *options, size_t count, char *const *arguments,
                        size_t *used, struct error *error);

void link_options_shape(const struct link_options *options, unsigned direction,
                        struct link_shape *shape);

/* One line for each option, for --help. */
void link_options_help(void (*print)(const char *line));

#endif
