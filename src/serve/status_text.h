/* What petrel status shows: the server in a line, then a line for each client. Pure. */
#ifndef PETREL_SERVE_STATUS_TEXT_H
#define PETREL_SERVE_STATUS_TEXT_H

#include "serve/metrics.h"

/* For people. On the heap, NULL without memory. */
char *status_text(const struct metrics *metrics, const struct board *board, uint64_t now_s);
/* One JSON object, with a newline, as in petrel-serve(1). */
char *status_json(const struct metrics *metrics, const struct board *board, uint64_t now_s);

#endif
