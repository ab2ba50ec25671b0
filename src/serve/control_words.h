/* The words on a server's control socket: one line of request, an answer until the end. Pure.
 *
 *     status | status-json | limit RATE | limit none | pause | resume
 *
 * The answer's first line is "ok", or "error" and a sentence; text follows.
 */
#ifndef PETREL_SERVE_CONTROL_WORDS_H
#define PETREL_SERVE_CONTROL_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CONTROL_REQUEST_MAX 128 /* with the NUL, without the newline */

enum control_what {
    CONTROL_STATUS,
    CONTROL_STATUS_JSON,
    CONTROL_LIMIT,
    CONTROL_PAUSE,
    CONTROL_RESUME,
};

struct control_request {
    enum control_what what;
    uint64_t limit_bps; /* LIMIT; 0: none */
};

/* From a line without its newline. ERROR_USAGE. */
bool control_request_parse(const char *line, size_t length, struct control_request *request,
                           struct error *error);
/* The inverse, without a newline. Returns `line`. */
char *control_request_format(char line[CONTROL_REQUEST_MAX], const struct control_request *request);

#endif
