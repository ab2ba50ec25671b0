#include "serve/metrics_http.h"

#include "base/units.h"

/* Built without libmicrohttpd: nothing is ever opened. */
struct metrics_http *metrics_http_open(const char *where, metrics_give give, void *context,
                                       struct error *error)
{
    (void)give;
    (void)context;
    error_set(error, ERROR_USAGE,
              "--metrics=%s: this petrel was built without libmicrohttpd and serves no metrics; "
              "the Debian package's does",
              where);
    return NULL;
}

void metrics_http_free(struct metrics_http *http)
{
    (void)http;
}

int metrics_http_fd(const struct metrics_http *http)
{
    (void)http;
    return -1;
}

uint64_t metrics_http_deadline(const struct metrics_http *http, uint64_t now_ns)
{
    (void)http;
    (void)now_ns;
    return TIME_NEVER;
}

void metrics_http_step(struct metrics_http *http)
{
    (void)http;
}

uint16_t metrics_http_port(const struct metrics_http *http)
{
    (void)http;
    return 0;
}
