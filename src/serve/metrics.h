/* What a server has done so far, for Prometheus: counts that its process keeps, and what stands on
 * its board. The text is this module's own; HTTP is libmicrohttpd's (metrics_http.h).
 */
#ifndef PETREL_SERVE_METRICS_H
#define PETREL_SERVE_METRICS_H

#include <stddef.h>

#include "serve/board.h"

/* Why somebody was not let in, or a job not done. */
enum metrics_refusal {
    REFUSED_KEY, /* not in authorized_keys */
    REFUSED_EXPIRED,
    REFUSED_REQUEST,   /* of a root that is not there, or what key or root do not permit */
    REFUSED_LIMIT,     /* as many clients as there may be */
    REFUSED_HANDSHAKE, /* TLS failed */
    REFUSED_COUNT
};

enum metrics_result { JOB_OK, JOB_PARTIAL, JOB_FAILED, JOB_RESULT_COUNT };

/* All counts since the start. */
struct metrics {
    uint64_t started_s; /* since 1970 */
    uint64_t accepted;  /* sessions whose key was right */
    uint64_t refused[REFUSED_COUNT];
    uint64_t jobs[JOB_RESULT_COUNT]; /* ended */
    uint64_t bytes_in, bytes_out;    /* verified content of jobs that ended */
    uint64_t files_in, files_out;
    uint64_t datagrams_dropped; /* by the door: no packet, forged, too many */
    uint64_t cookies;           /* sent, under load */
    uint64_t reloads;
    uint64_t limit_bps; /* now; 0: none */
    bool paused, draining;
};

/* Adds a job that ended to the counts. */
void metrics_count_job(struct metrics *metrics, const struct board_report *report, bool failed);

/* The text format, version 0.0.4, on the heap; *size without the NUL. NULL without memory. */
char *metrics_text(const struct metrics *metrics, const struct board *board, size_t *size);

#endif
