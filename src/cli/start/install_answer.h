/* What the scripts of petrel install say from the far end, line by line, among whatever a login
 * shell prints. Pure.
 *
 *   PETREL-INSTALL ready SYSTEM MACHINE HASH|none PATH
 *   PETREL-INSTALL done PATH
 *   PETREL-INSTALL none PATH
 *   PETREL-INSTALL error TEXT
 */
#ifndef PETREL_CLI_INSTALL_ANSWER_H
#define PETREL_CLI_INSTALL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum install_word { INSTALL_READY, INSTALL_DONE, INSTALL_NONE, INSTALL_ERROR };

struct install_answer {
    char line[1024]; /* longer lines are cut */
    size_t length;
    char noise[80]; /* the beginning of the first line that was not for us, safe to print */
    /* After a hit; all but `text` are "" unless the word is INSTALL_READY. */
    enum install_word word;
    char system[32], machine[32], hash[80];
    char text[512]; /* the path or the error, safe to print */
};

/* Takes one byte; true when it ended a line that is for us. Begin with an all-zero answer. */
bool install_answer_take(struct install_answer *answer, char byte);
/* The output has ended: what came of a last line is noise. */
void install_answer_end(struct install_answer *answer);

/* What an error text of the far end's tools (in the C locale) means. */
enum error_kind install_error_kind(const char *text);

#endif
