/* What earlier copies found of the paths to hosts, kept for the next copy: one small file for each
 * host and direction, under $XDG_STATE_HOME/petrel/paths (~/.local/state).
 *
 * Used for a day; whether it still holds is the rate controller's business, which tries three
 * quarters of the rate for one round trip (transport/rate_controller.h). Files are replaced in one
 * step, so that copies running at once cannot spoil each other's. Nothing here is an error: a copy
 * does without.
 */
#ifndef PETREL_CLI_PATH_MEMORY_H
#define PETREL_CLI_PATH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/rate_controller.h"

#define PATH_HOST_MAX 256u
#define PATH_MEMORY_LIFE_S (24u * 3600u)

struct path_record {
    char host[PATH_HOST_MAX]; /* as on the command line, without its user */
    bool to;                  /* from here to there */
    struct rate_memory path;
    uint64_t when_s;   /* seconds since 1970 */
    uint32_t failures; /* how often in a row it did not hold */
};

/* `host` may begin with "user@". Nothing remembered, or too long ago: rate 0. */
void path_memory_read(const char *host, bool to, struct rate_memory *path);
/* After a copy: `found` replaces what was remembered; when it found nothing (too short), what did
 * not hold is halved, and forgotten the second time. */
void path_memory_note(const char *host, bool to, const struct rate_memory *found,
                      enum rate_memory_use use);

/* Calls `visit` for each record, in the order of their names. False with the error when the folder
 * is there but cannot be read. */
bool path_memory_list(void (*visit)(void *context, const struct path_record *record), void *context,
                      struct error *error);
/* Forgets both directions of a host, or everything for NULL. `*count`: how many records. */
bool path_memory_clear(const char *host, unsigned *count, struct error *error);

#endif
