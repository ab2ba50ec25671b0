/* Whether a copy whose connection was lost is tried again, when, and what an earlier try brought.
 *
 * A copy that never reached its other end fails at once: a wrong name gets no better by waiting.
 * One that did is tried again for a time since the other end was last heard, by a new SSH
 * connection, until it is clear that this leads nowhere. Decides only; time is an argument.
 */
#ifndef PETREL_CLI_RETRY_H
#define PETREL_CLI_RETRY_H

#include "transfer/transfer.h"

struct retry {
    uint64_t limit_ns;  /* --retry-for; 0: never */
    uint64_t heard_ns;  /* when the other end was last heard; 0: never yet */
    unsigned failures;  /* tries in a row that did not reach it */
    unsigned fruitless; /* tries in a row that reached it and came no further than others */
    uint64_t best_files, best_bytes;
};

struct retry_outcome { /* of one try */
    const struct error *error;
    bool refused; /* ssh was not let in */
    bool missing; /* petrel was looked for over there and not found */
    const struct transfer_progress *progress;
};

enum retry_verdict {
    RETRY_NOT,       /* the error stands */
    RETRY_AGAIN,     /* at *at_ns */
    RETRY_LATE,      /* the time for it is over */
    RETRY_REFUSED,   /* a login needs somebody who types */
    RETRY_FRUITLESS, /* the other end is lost again and again, and nothing gained */
};

enum retry_verdict retry_judge(struct retry *retry, const struct retry_outcome *outcome,
                               uint64_t now_ns, uint64_t *at_ns);

/* What ssh says when it was not let in. */
bool retry_is_refusal(const char *last_words);

/* The sum of a copy's tries, for people: `progress` of the present one on top of what `before` says
 * of those before it. What they completed is skipped by later ones. */
void retry_add(struct transfer_progress *progress, const struct transfer_progress *before);

#endif
