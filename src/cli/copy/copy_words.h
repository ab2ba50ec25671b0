/* What people are told of the way a copy goes, and of its end: what was tried, why it failed, what
 * to do next. Formats only.
 */
#ifndef PETREL_CLI_COPY_WORDS_H
#define PETREL_CLI_COPY_WORDS_H

#include "base/error.h"
#include "net/driver.h"

struct copy_situation {
    const char *host; /* as the user wrote it */
    unsigned first_port, last_port;
    bool ports_are_used; /* no port of the range was free over there */
    bool jumped;         /* ssh goes through a jump host or proxy command */
};

#define COPY_WORDS_CAUSE 800
#define COPY_WORDS_WAY 1400

/* Why UDP does not carry the copy, or does again, and one line with what to do about it. */
void copy_words_way(const struct copy_situation *situation, const struct driver_way *way,
                    char cause[COPY_WORDS_CAUSE], char text[COPY_WORDS_WAY]);

/* To a listening petrel: one line about going by TCP, and the error when that fails, too. `cause`
 * is UDP's. */
void copy_words_tcp(const char *host, const char *cause, char text[COPY_WORDS_WAY]);
void copy_words_neither(const char *cause, struct error *error);

/* No UDP is possible where a jump host alone reaches the other end. */
void copy_words_no_address(const struct copy_situation *situation, struct error *error);

/* Adds to what ended one try by UDP which ports have to be open, and where. */
void copy_words_open_ports(const struct copy_situation *situation, const struct driver_udp_end *end,
                           struct error *error);

/* The error of the whole copy, with what ssh's exit status (-1: none) and last words say of the far
 * end. */
void copy_words_end(const struct copy_situation *situation, int ssh_status, const char *last_words,
                    struct error *error);

#endif
