/* The one line that a server writes for each job, in words "key=value" that people read and tools
 * cut: one that ended, and one that was refused. Pure.
 *
 *     job=17 result=ok direction=to-server path=in who="anna@laptop" key=SHA256:...
 * peer=[2001:db8::1]:40000 files=12 failed=0 bytes=1048576 seconds=0.84 rate=9986438
 *
 * In a value with blanks, quotes or bytes that are no text stand quotes around it and escapes in
 * it,
 * \" and \\ and \xNN. The rate is in bits a second.
 */
#ifndef PETREL_SERVE_JOB_LOG_H
#define PETREL_SERVE_JOB_LOG_H

#include "serve/board.h"

#define JOB_LINE_MAX 2048

/* `error`: kind NONE for a good end. Without a newline. Returns `line`. */
char *job_line(char line[JOB_LINE_MAX], const struct board_client *client,
               const struct board_guest *guest, const struct board_report *report,
               uint64_t duration_ns, const struct error *error);
/* "refused peer=... why=..."; `key` may be NULL, `what` a sentence for the log alone. */
char *refusal_line(char line[JOB_LINE_MAX], const char *peer, const uint8_t *key, const char *what);

/* Whether a line about strangers may be written now: at most ten a second, so that nobody fills the
 * log. *left_out: how many were not, to be told with the next one. Starts zeroed. */
struct log_gate {
    uint64_t second;
    unsigned written;
    uint64_t left_out;
};
bool log_gate_admits(struct log_gate *gate, uint64_t now_ns, uint64_t *left_out);

#endif
