/* Finds the far end's one line among whatever a login shell prints before it. */
#ifndef PETREL_CLI_ANSWER_SEARCH_H
#define PETREL_CLI_ANSWER_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/start/bootstrap.h"

struct answer_search {
    char line[BOOTSTRAP_LINE_MAX]; /* after a hit: the answer, without its newline */
    size_t length;
    char noise[80]; /* the beginning of the first line that was not for us */
};

/* Takes one byte of the far end's output; true when `line` holds an answer now. The answer need not
 * begin its line: a prompt or banner without a newline may stand before it. Of a line that is too
 * long only the end is kept. Begin with an all-zero search. */
bool answer_search_take(struct answer_search *search, char byte);
/* The output has ended: what came of a last line becomes noise, if there was none yet. */
void answer_search_end(struct answer_search *search);

/* Whether an unfinished line is one that asks for a password and waits for it. */
bool answer_is_prompt(const char *line);

#endif
