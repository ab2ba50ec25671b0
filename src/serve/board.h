/* What a server and its sessions, which are processes of their own, tell each other while they run:
 * one page of shared memory a seat, and nothing else in it.
 *
 * The server makes all pages before any session exists. A session keeps its own page and unmaps the
 * others, so one that was broken into can lie about itself alone. The server believes none of it:
 * numbers are numbers, texts are copied with an end. What the server says in a page (its limit,
 * whether to pause) is only a word to the session; the client's key decides what it may.
 */
#ifndef PETREL_SERVE_BOARD_H
#define PETREL_SERVE_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "keys/key_text.h"

#define BOARD_SEATS_MAX 1024u
#define BOARD_TEXT_MAX 128
#define BOARD_NOT_REFUSED UINT32_MAX

enum board_direction {
    BOARD_UNKNOWN, /* the client has not asked for anything yet */
    BOARD_TO_SERVER,
    BOARD_FROM_SERVER,
    BOARD_JOB, /* manifest, verify, clean */
};

/* What a session tells of itself as it goes on. */
struct board_report {
    enum board_direction direction;
    char path[BOARD_TEXT_MAX];
    uint64_t bytes_done, bytes_total; /* total 0: not known yet */
    uint64_t files_done, files_failed;
    uint64_t rate_bps;
    uint64_t memory_bytes; /* buffers */
    uint32_t refusal;      /* why nothing came of it, BOARD_NOT_REFUSED: it was not refused */
};

/* Who it serves, once the client has shown a key that is authorised. */
struct board_guest {
    uint8_t key[KEY_SIZE];
    char who[BOARD_TEXT_MAX]; /* the key's comment */
    uint64_t limit_bps;       /* limit= of authorized_keys, 0: none */
};

/* What the server knows of it. */
struct board_client {
    uint64_t job;              /* counts from 1, never reused */
    uint64_t started_s;        /* since 1970 */
    char peer[BOARD_TEXT_MAX]; /* address and port */
};

struct board;

/* ERROR_MEMORY, ERROR_USAGE over BOARD_SEATS_MAX. */
struct board *board_new(unsigned seats, struct error *error);
void board_free(struct board *board);
unsigned board_seats(const struct board *board);

/* ---- the server ---- */

/* Of a free seat (below board_seats); zeroes its page. */
void board_take(struct board *board, unsigned seat, const struct board_client *client);
void board_leave(struct board *board, unsigned seat);
/* NULL: nobody sits there. Valid until board_leave. */
const struct board_client *board_client(const struct board *board, unsigned seat);
/* False while the client of the seat has not proved its key. */
bool board_guest(const struct board *board, unsigned seat, struct board_guest *guest);
void board_read(const struct board *board, unsigned seat, struct board_report *report);
/* Limits and pauses of all seats anew, when one came or went or somebody asked for it: of the
 * server's limit (0: none) each session gets the same part, of its key's limit each of the key's.
 */
void board_share_out(struct board *board, uint64_t limit_bps, bool paused);

/* ---- a session, after fork ---- */

/* Unmaps all pages but the seat's. From now on only the calls below, with this seat. */
void board_keep_only(struct board *board, unsigned seat);
void board_admit(struct board *board, unsigned seat, const struct board_guest *guest);
void board_report(struct board *board, unsigned seat, const struct board_report *report);
/* What holds at the moment; 0: none. Cheap: two loads. */
uint64_t board_limit(const struct board *board, unsigned seat);
bool board_is_paused(const struct board *board, unsigned seat);

#endif
