/* Command-line options as a table: one row an option, no code per option.
 *
 * Short options may be grouped (-qv) and carry their value attached or as the next word (-P 22,
 * -P22); long ones take --name=value or --name value. "--" ends options. What is not known is
 * answered with the nearest known name. A flag or count is taken back by --no-NAME, one that is
 * named no-NAME by --NAME, where no option has that name itself.
 */
#ifndef PETREL_CLI_OPTIONS_H
#define PETREL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum option_kind {
    OPTION_FLAG,  /* bool: set */
    OPTION_COUNT, /* int: counted up */
    OPTION_TEXT,  /* const char *: the value */
    /* const char *: the value after '=', "" without one; -x=VALUE, --long=VALUE. Where it names a
     * file, "-" is standard output, "" as well. */
    OPTION_OPTIONAL,
    OPTION_LIST,     /* struct option_list: values in order */
    OPTION_IGNORED,  /* accepted for habit's sake, means nothing here */
    OPTION_RATE,     /* uint64_t: bits a second */
    OPTION_CUSTOM,   /* parse() */
    OPTION_MANY,     /* parse(); each adds to what was said before */
    OPTION_NEGATION, /* bool: cleared */
    OPTION_ACTION,   /* bool: set; asks for something else, so it is no setting */
    OPTION_CONFIG,   /* const char *: the value; where settings come from, so none of a file */
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

/* What was said of an option, by the command line or by settings (cli/options/settings.h). */
enum option_origin { ORIGIN_LINE, ORIGIN_ENVIRONMENT, ORIGIN_FILE };

struct option_use {
    const struct option *option;
    const char *value; /* as options_set takes it */
    enum option_origin origin;
    const char *place; /* the variable's or the file's name; NULL: the command line */
    unsigned line;     /* of the file */
};

struct option_uses {
    struct option_use *uses;
    size_t count;
};

/* Parses argv[1..] into `target`; the words that are no options are left in `operands` (room for
 * argc). The table ends with an all-zero row. False with ERROR_USAGE. */
bool options_parse(const struct option *table, int argc, char **argv, void *target,
                   const char **operands, size_t *operand_count, struct error *error);
/* The same, and adds to `uses` (may be NULL) what was said, in order. Its texts are borrowed. */
bool options_parse_uses(const struct option *table, int argc, char **argv, void *target,
                        const char **operands, size_t *operand_count, struct option_uses *uses,
                        struct error *error);
bool option_uses_add(struct option_uses *uses, const struct option_use *use, struct error *error);
void option_uses_release(struct option_uses *uses);

/* The row of a long name of `length` bytes, NULL if there is none. *negated: it is taken back. */
const struct option *options_find(const struct option *table, const char *name, size_t length,
                                  bool *negated);
/* Whether the word is an option, or several short ones, whose value is the word that follows. */
bool options_await_value(const struct option *table, const char *word);
/* The row that is nearest to a word that is none, NULL when none is near. */
const struct option *options_nearest(const struct option *table, const char *word);
/* Whether one of the two rules out the other: two names of one field, or NAME and no-NAME. */
bool options_same(const struct option *table, const struct option *a, const struct option *b);
/* Sets the field from a text, as settings do: flags and counts from "yes", "no" or a number, NULL
 * being "yes"; the others from what follows "=" on a command line. False with ERROR_USAGE. */
bool options_set(const struct option *option, void *target, const char *value, struct error *error);
/* Prints the table's help, one option a line or two, to stdout. */
void options_print_help(const struct option *table);
/* `value` is borrowed. False with ERROR_MEMORY. */
bool option_list_add(struct option_list *list, const char *value, struct error *error);
void option_list_release(struct option_list *list);

/* The candidate nearest to `word` by edit distance, NULL when none is near. `names` ends with
 * NULL. */
const char *nearest_name(const char *word, const char *const *names);

#endif
