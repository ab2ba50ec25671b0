/* --exclude, --include, --filter and the files of rules that they name, in the order in which the
 * user wrote them, as the rules of a tree/filter. */
#ifndef PETREL_CLI_FILTER_OPTIONS_H
#define PETREL_CLI_FILTER_OPTIONS_H

#include "base/error.h"
#include "tree/filter.h"

struct filter_word {
    enum filter_form form;
    bool is_file; /* the value names a file of such rules, "-" standard input */
    const char *value;
};

struct filter_words {
    struct filter_word *words;
    size_t count;
};

/* `value` is borrowed. */
bool filter_words_add(struct filter_words *words, enum filter_form form, bool is_file,
                      const char *value, struct error *error);
void filter_words_release(struct filter_words *words);
/* Fills the zeroed `filter`. Lines of files end by a newline or carriage return, with `from_nul` by
 * NUL; empty ones and those that begin with "#" or ";" are no rules. On failure it is left empty.
 */
bool filter_words_build(const struct filter_words *words, bool from_nul, struct filter *filter,
                        struct error *error);

#endif
