/* The server's metrics by HTTP (GET /metrics), where --metrics asks for them. libmicrohttpd parses;
 * this module gives it a text. It has no thread: it is stepped from the server's loop.
 *
 * Nobody is asked who they are: ADDR:PORT is meant to be one that only the collector reaches.
 */
#ifndef PETREL_SERVE_METRICS_HTTP_H
#define PETREL_SERVE_METRICS_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct metrics_http;

/* The text on the heap, *size bytes; NULL without memory. */
typedef char *(*metrics_give)(void *context, size_t *size);

/* "127.0.0.1:9117", "[::1]:9117"; port 0: any, for tests. ERROR_USAGE for another text, and in a
 * build without the library; ERROR_IO when the port is taken. */
struct metrics_http *metrics_http_open(const char *where, metrics_give give, void *context,
                                       struct error *error);
/* In a child as well: nothing is said to anybody. */
void metrics_http_free(struct metrics_http *http);
/* To be polled for reading. */
int metrics_http_fd(const struct metrics_http *http);
/* When metrics_http_step has to be called at the latest; TIME_NEVER. */
uint64_t metrics_http_deadline(const struct metrics_http *http, uint64_t now_ns);
void metrics_http_step(struct metrics_http *http);
uint16_t metrics_http_port(const struct metrics_http *http);

#endif
