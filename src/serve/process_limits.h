/* What one session of a server may use of this machine, set in its process. */
#ifndef PETREL_SERVE_PROCESS_LIMITS_H
#define PETREL_SERVE_PROCESS_LIMITS_H

#include <stdint.h>

#include "base/error.h"

struct process_limits {
    uint64_t memory_bytes; /* that it may write to (RLIMIT_DATA); 0: as it is */
    uint64_t files;        /* open at once beside those that are (RLIMIT_NOFILE); 0: as it is */
};

/* Never raises what is lower already. Besides, no core is ever dumped: it would hold keys.
 * ERROR_IO. */
bool process_limits_set(const struct process_limits *limits, struct error *error);

#endif
