#include "cli/copy/copy_words.h"

#include <stdio.h>
#include <string.h>

#include "cli/report/exit_code.h"

#define NO_ADDRESS "%s is reached through a jump host and has no public address"

/* ---- the way ---- */

/* What would let UDP through. */
static void write_advice(const struct copy_situation *situation, enum driver_refusal refusal,
                         char *text, size_t capacity)
{
    if (refusal == REFUSAL_HERE)
        snprintf(text, capacity, "allow UDP to ports %u-%u of %s in the firewall of this machine",
                 situation->first_port, situation->last_port, situation->host);
    else if (refusal == REFUSAL_THERE)
        snprintf(text, capacity, "allow %s to send UDP from ports %u-%u in its own firewall",
                 situation->host, situation->first_port, situation->last_port);
    else
        snprintf(text, capacity, "open UDP ports %u-%u on %s (or name open ones with --udp-ports)",
                 situation->first_port, situation->last_port, situation->host);
}

/* "": nothing here helps. */
static void explain_way(const struct copy_situation *situation, const struct driver_way *way,
                        char cause[COPY_WORDS_CAUSE], char advice[400])
{
    unsigned first = situation->first_port, last = situation->last_port;
    const char *host = situation->host;
    advice[0] = '\0';
    snprintf(cause, COPY_WORDS_CAUSE, "%s", way->cause);
    if (situation->ports_are_used) {
        snprintf(cause, COPY_WORDS_CAUSE, "all UDP ports from %u to %u on %s are in use", first,
                 last, host);
        snprintf(advice, 400, "wait for the copies that have them, or name others by --udp-ports");
    } else if (way->cause[0] == '\0') {
        snprintf(cause, COPY_WORDS_CAUSE, NO_ADDRESS, host);
    } else if (!way->worked) {
        write_advice(situation, way->refusal, advice, 400);
    }
}

void copy_words_way(const struct copy_situation *situation, const struct driver_way *way,
                    char cause[COPY_WORDS_CAUSE], char text[COPY_WORDS_WAY])
{
    char advice[400];
    explain_way(situation, way, cause, advice);
    if (!way->stream)
        snprintf(text, COPY_WORDS_WAY, "%s: accelerated from here on", cause);
    else
        snprintf(text, COPY_WORDS_WAY, "%s: continuing through ssh, not accelerated%s%s", cause,
                 way->worked         ? ", and trying UDP again meanwhile"
                 : advice[0] != '\0' ? "; to change that, "
                                     : "",
                 advice);
}

void copy_words_tcp(const char *host, const char *cause, char text[COPY_WORDS_WAY])
{
    snprintf(text, COPY_WORDS_WAY,
             "%s: continuing by TCP, not accelerated; to change that, open that UDP port on %s",
             cause, host);
}

void copy_words_neither(const char *cause, struct error *error)
{
    struct error plain = *error;
    if (plain.kind != ERROR_UNREACHABLE || cause[0] == '\0')
        return;
    error_clear(error);
    error_set(error, plain.kind, "%.220s, and %.220s", cause, plain.text);
}

void copy_words_no_address(const struct copy_situation *situation, struct error *error)
{
    error_set(error, ERROR_UNREACHABLE,
              NO_ADDRESS ", so no UDP can go there; copy without --udp=only to go through ssh",
              situation->host);
}

void copy_words_open_ports(const struct copy_situation *situation, const struct driver_udp_end *end,
                           struct error *error)
{
    struct error plain = *error;
    char advice[200];
    write_advice(situation, end->refusal, advice, sizeof(advice));
    error_clear(error);
    error_set(error, plain.kind, "%s: %s%s", plain.text, advice,
              situation->jumped ? ", or copy without --udp=only: ssh goes through a jump host, and "
                                  "perhaps nothing else gets there"
                                : "");
}

/* ---- the end ---- */

/* 255 is ssh's own status, also for a command that a signal ended: then ssh says nothing on stderr.
 */
static void how_it_ended(const char *host, const char *said, int status, const char *last,
                         char *text, size_t capacity)
{
    text[0] = '\0';
    if (status == EXIT_SSH && last[0] != '\0')
        snprintf(text, capacity, " (ssh to %s: %s)", host, last);
    else if (status == EXIT_SSH)
        snprintf(text, capacity, " (petrel on %s was killed)", host);
    else if (status > 128)
        snprintf(text, capacity, " (petrel on %s was ended by signal %d)", host, status - 128);
    else if (status > 0)
        snprintf(text, capacity, " (petrel on %s ended with status %d)", host, status);
    else if (strstr(said, host) == NULL)
        snprintf(text, capacity, " (the far end is %s)", host);
}

void copy_words_end(const struct copy_situation *situation, int ssh_status, const char *last_words,
                    struct error *error)
{
    struct error plain = *error;
    const char *host = situation->host;
    char how[180];
    how_it_ended(host, plain.text, ssh_status, last_words, how, sizeof(how));
    if (plain.kind != ERROR_PEER_LOST && plain.kind != ERROR_UNREACHABLE)
        return;
    error_clear(error);
    if (ssh_status == EXIT_CRYPTO)
        error_set(error, ERROR_CRYPTO,
                  "petrel on %s does not hold the secret of this copy: what runs before it there "
                  "(a wrapper, --remote-petrel) must hand on its standard input as it is",
                  host);
    else if (ssh_status == EXIT_MEMORY)
        error_set(error, ERROR_MEMORY,
                  "petrel on %s had no memory left (a limit there: ulimit -v?)", host);
    else if (plain.kind == ERROR_PEER_LOST)
        /* What to do comes last, and is not to be cut off. */
        error_set(error, plain.kind, "%.*s%s; run the same again", 440 - (int)strlen(how),
                  plain.text, how);
    else
        *error = plain;
}
