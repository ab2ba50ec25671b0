/* The door of petrel serve: takes first packets and connections, has the unknown prove that they
 * are where they say when there are many, and gives each client a process of its own.
 *
 * What a client says beyond the fixed fields of its first packet is read by that process alone. How
 * many there may be is bounded: in all, and of those that have not shown an authorised key in all
 * and for one address.
 */
#ifndef PETREL_CLI_SERVE_DOOR_H
#define PETREL_CLI_SERVE_DOOR_H

#include <signal.h>

#include "cli/server/serve_desk.h"
#include "cli/server/serve_session.h"

#define SERVE_CLIENTS_MAX 1000u

struct serve_door_config {
    const char *listen; /* an address; NULL: all */
    uint16_t port;
    unsigned clients;
    const struct serve_setup *setup; /* may change between two waits */
    struct serve_desk *desk;
};

struct serve_door;

/* ERROR_IO with EADDRINUSE when the port is taken, by UDP or TCP. */
struct serve_door *serve_door_open(const struct serve_door_config *config, struct error *error);
void serve_door_close(struct serve_door *door);

/* Waits, with that signal mask, and lets in who has come. */
void serve_door_wait(struct serve_door *door, const sigset_t *mask);
/* After SIGCHLD. */
void serve_door_reap(struct serve_door *door);
unsigned serve_door_guests(const struct serve_door *door);
/* Lets nobody in any more. */
void serve_door_shut(struct serve_door *door);
/* Has all guests end now. */
void serve_door_end_guests(struct serve_door *door);

#endif
