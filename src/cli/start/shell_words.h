/* A command line as text that can be pasted into a shell: for advice in messages. Pure. */
#ifndef PETREL_CLI_SHELL_WORDS_H
#define PETREL_CLI_SHELL_WORDS_H

#include <stddef.h>

#include "cli/options/ssh_options.h"

struct shell_words {
    char *text; /* capacity bytes, always ended; what does not fit is cut */
    size_t capacity, length;
};

/* Adds `text` as it is. */
void shell_words_text(struct shell_words *words, const char *text);
/* Adds a blank and one word, quoted where a shell would not take it as it is. */
void shell_words_add(struct shell_words *words, const char *word);

/* The same ssh as petrel ran, with all that the user gave for it: "ssh -p 2222 -i key far COMMAND".
 * Returns `text`. */
char *ssh_command_text(char *text, size_t capacity, const struct ssh_options *options,
                       const char *host, const char *command);

#endif
