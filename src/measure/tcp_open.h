/* Opening the streams of a TCP flow; for tcp_flow.c only. */
#ifndef PETREL_MEASURE_TCP_OPEN_H
#define PETREL_MEASURE_TCP_OPEN_H

#include <stdatomic.h>

#include "measure/tcp_flow.h"

/* A listening socket on the first free port of the range, for both families where there are both;
 * -1 with the error. */
int tcp_listen(const struct tcp_flow_config *config, uint16_t *port, struct error *error);
/* Sets the congestion control of a socket; with "" does nothing. */
bool tcp_set_congestion(int descriptor, const char *name, struct error *error);
/* Both wait until all streams stand and have shown the token, until `until_ns` or until `*stop`.
 * Then `descriptors` are non-blocking sockets that the caller closes, also after a failure, when
 * those not opened are -1. */
bool tcp_accept_all(const struct tcp_flow_config *config, int listener, int *descriptors,
                    const atomic_bool *stop, uint64_t until_ns, struct error *error);
bool tcp_connect_all(const struct tcp_flow_config *config, int *descriptors,
                     const atomic_bool *stop, uint64_t until_ns, struct error *error);

#endif
