/* The desk of petrel serve: who is there and what they do, for petrel status, metrics and limits.
 * Belongs to the process at the door; sessions have its board (serve/board.h).
 *
 * A guest's place is its index at the door, below `clients`.
 */
#ifndef PETREL_CLI_SERVE_DESK_H
#define PETREL_CLI_SERVE_DESK_H

#include <poll.h>

#include "base/address.h"
#include "serve/board.h"
#include "serve/control_socket.h"
#include "serve/metrics.h"

#define SERVE_DESK_POLLS (CONTROL_POLLS + 1)

struct serve_desk_config {
    const char *control; /* the socket's name; NULL: the usual one, "none": no socket */
    const char *metrics; /* ADDR:PORT; NULL: none */
    unsigned clients;
    uint64_t limit_bps; /* of all together, 0: none */
};

struct serve_desk;

struct serve_desk *serve_desk_open(const struct serve_desk_config *config, struct error *error);
void serve_desk_close(struct serve_desk *desk);
/* In a session's process: closes what is the door's, keeps the place's page of the board. */
void serve_desk_become_session(struct serve_desk *desk, unsigned place);

struct board *serve_desk_board(const struct serve_desk *desk);
/* For the counts that the door knows best: datagrams dropped, cookies, reloads, draining. */
struct metrics *serve_desk_counts(struct serve_desk *desk);
/* NULL: there is no socket. */
const char *serve_desk_control(const struct serve_desk *desk);

/* There is no place for this client. */
void serve_desk_turned_away(struct serve_desk *desk, const struct address *from);
/* A client gets a process; *logs: whether that may write a line if it comes to nothing. */
void serve_desk_came(struct serve_desk *desk, unsigned place, const struct address *from,
                     bool *logs);
void serve_desk_admitted(struct serve_desk *desk, unsigned place);
/* It ended; `good`: its process said so. */
void serve_desk_left(struct serve_desk *desk, unsigned place, bool good);

unsigned serve_desk_polls(const struct serve_desk *desk, struct pollfd polls[SERVE_DESK_POLLS]);
/* How long to wait at most. */
uint64_t serve_desk_wait(const struct serve_desk *desk, uint64_t most_ns);
void serve_desk_step(struct serve_desk *desk);

#endif
