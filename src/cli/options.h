/* Command-line options as a table: one row an option, no code per option.
 *
 * Short options may be grouped (-qv) and carry their value attached or as the next word (-P 22,
 * -P22); long ones take --name=value or --name value. "--" ends options. What is not known is
 * answered with the nearest known name.
 */
#ifndef PETREL_CLI_OPTIONS_H
#define PETREL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum option_kind {
    OPTION_FLAG,     /* bool: set */
    OPTION_COUNT,    /* int: counted up */
    OPTION_TEXT,     /* const char *: the value */
    OPTION_OPTIONAL, /* const char *: the value after '=', "" without one (long form only) */
    OPTION_LIST,     /* struct option_list: values in order */
    OPTION_IGNORED,  /* accepted for habit's sake, means nothing here */
    OPTION_RATE,     /* uint64_t: bits a second */
    OPTION_CUSTOM,   /* parse() */
    OPTION_NEGATION, /* bool: cleared */
    OPTION_REMARK,   /* struct option_list: value_name, a sentence to print, is added */
    OPTION_ELSEWHERE /* ends with the sentence in value_name: it is spelled otherwise */
};

struct option_list {
    const char **values;
    size_t count;
};

struct option {
    char short_name;       /* 0 for none */
    const char *long_name; /* NULL for none */
    enum option_kind kind;
    size_t offset; /* of the field in the options struct */
    const char *value_name;
    const char *help; /* NULL: not shown */
    bool (*parse)(void *target, const char *value, struct error *error);
};

/* Parses argv[1..] into `target`; the words that are no options are left in `operands` (room for
 * argc). The table ends with an all-zero row. False with ERROR_USAGE. */
bool options_parse(const struct option *table, int argc, char **argv, void *target,
                   const char **operands, size_t *operand_count, struct error *error);
/* Prints the table's help, one option a line or two, to stdout. */
void options_print_help(const struct option *table);
void option_list_release(struct option_list *list);

/* The candidate nearest to `word` by edit distance, NULL when none is near. `names` ends with
 * NULL. */
const char *nearest_name(const char *word, const char *const *names);

#endif
