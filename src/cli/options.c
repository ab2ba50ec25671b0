#include "cli/options.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define NAME_MAX_LENGTH 48
#define HELP_COLUMN 26

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NAME_MAX_LENGTH + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > NAME_MAX_LENGTH || n > NAME_MAX_LENGTH)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t cost = a[i - 1] != b[j - 1];
            now[j] = smaller(smaller(last[j] + 1, now[j - 1] + 1), last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
    }
    return rows[m % 3][n];
}

const char *nearest_name(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t least = strlen(word) < 4 ? 2 : 3;
    for (; *names != NULL; names++) {
        size_t far = distance(word, *names);
        if (far < least) {
            least = far;
            best = *names;
        }
    }
    return best;
}

static bool unknown_long(const struct option *table, const char *name, size_t length,
                         struct error *error)
{
    const char *names[192];
    size_t count = 0;
    for (; (table->short_name || table->long_name) && count < 191; table++) {
        bool is_habit = table->kind == OPTION_REMARK || table->kind == OPTION_ELSEWHERE;
        if (table->long_name != NULL && !is_habit)
            names[count++] = table->long_name;
    }
    names[count] = NULL;
    char word[NAME_MAX_LENGTH + 1];
    snprintf(word, sizeof(word), "%.*s", (int)length, name);
    const char *near = nearest_name(word, names);
    if (near != NULL)
        return error_set(error, ERROR_USAGE, "there is no option --%s; did you mean --%s?", word,
                         near);
    return error_set(error, ERROR_USAGE, "there is no option --%s; see petrel --help", word);
}

static bool takes_value(enum option_kind kind)
{
    return kind == OPTION_TEXT || kind == OPTION_LIST || kind == OPTION_RATE ||
           kind == OPTION_CUSTOM;
}

static bool list_add(struct option_list *list, const char *value, struct error *error)
{
    const char **values = realloc(list->values, (list->count + 1) * sizeof(*values));
    if (values == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for an option's value");
    list->values = values;
    list->values[list->count++] = value;
    return true;
}

void option_list_release(struct option_list *list)
{
    free(list->values);
    *list = (struct option_list){0};
}

static bool apply_rate(const struct option *option, uint64_t *rate_bps, const char *value,
                       struct error *error)
{
    struct error cause = {0};
    return parse_rate(value, rate_bps, &cause) ||
           error_set(error, cause.kind, "--%s: %s", option->long_name, cause.text);
}

/* As the user wrote it: "--partial" or "-l". */
static const char *spelling(const struct option *option, char text[NAME_MAX_LENGTH + 3])
{
    if (option->long_name != NULL)
        snprintf(text, NAME_MAX_LENGTH + 3, "--%s", option->long_name);
    else
        snprintf(text, NAME_MAX_LENGTH + 3, "-%c", option->short_name);
    return text;
}

static bool apply(const struct option *option, void *target, const char *value, struct error *error)
{
    void *field = (char *)target + option->offset;
    char name[NAME_MAX_LENGTH + 3];
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return true;
    case OPTION_COUNT:
        ++*(int *)field;
        return true;
    case OPTION_TEXT:
        *(const char **)field = value;
        return true;
    case OPTION_OPTIONAL:
        *(const char **)field = value != NULL ? value : "";
        return true;
    case OPTION_LIST:
        return list_add(field, value, error);
    case OPTION_IGNORED:
        return true;
    case OPTION_RATE:
        return apply_rate(option, field, value, error);
    case OPTION_CUSTOM:
        return option->parse(target, value, error);
    case OPTION_NEGATION:
        *(bool *)field = false;
        return true;
    case OPTION_REMARK:
        return list_add(field, option->value_name, error);
    case OPTION_ELSEWHERE:
        return error_set(error, ERROR_USAGE, "%s: %s", spelling(option, name), option->value_name);
    }
    return true;
}

struct words {
    int argc, at;
    char **argv;
};

static const char *next_word(struct words *words)
{
    return words->at + 1 < words->argc ? words->argv[++words->at] : NULL;
}

static bool parse_long(const struct option *table, struct words *words, void *target,
                       struct error *error)
{
    const char *name = words->argv[words->at] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option *option = table;
    for (; option->short_name || option->long_name; option++) {
        if (option->long_name != NULL && strlen(option->long_name) == length &&
            memcmp(option->long_name, name, length) == 0)
            break;
    }
    if (!option->short_name && !option->long_name)
        return unknown_long(table, name, length, error);
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (takes_value(option->kind) && value == NULL && (value = next_word(words)) == NULL)
        return error_set(error, ERROR_USAGE, "--%s needs a value: --%s=%s", option->long_name,
                         option->long_name, option->value_name);
    bool may_have_value = option->kind == OPTION_OPTIONAL || option->kind == OPTION_ELSEWHERE;
    if (!takes_value(option->kind) && !may_have_value && value != NULL)
        return error_set(error, ERROR_USAGE, "--%s takes no value", option->long_name);
    return apply(option, target, value, error);
}

static bool parse_short(const struct option *table, struct words *words, void *target,
                        struct error *error)
{
    const char *word = words->argv[words->at];
    for (const char *at = word + 1; *at != '\0'; at++) {
        const struct option *option = table;
        while ((option->short_name || option->long_name) && option->short_name != *at)
            option++;
        if (option->short_name != *at)
            return error_set(error, ERROR_USAGE, "there is no option -%c; see petrel --help", *at);
        const char *value = NULL;
        if (takes_value(option->kind)) {
            value = at[1] != '\0' ? at + 1 : next_word(words);
            if (value == NULL)
                return error_set(error, ERROR_USAGE, "-%c needs a value: -%c %s", *at, *at,
                                 option->value_name);
        }
        if (!apply(option, target, value, error))
            return false;
        if (value != NULL)
            break;
    }
    return true;
}

bool options_parse(const struct option *table, int argc, char **argv, void *target,
                   const char **operands, size_t *operand_count, struct error *error)
{
    struct words words = {.argc = argc, .argv = argv};
    *operand_count = 0;
    for (words.at = 1; words.at < argc; words.at++) {
        const char *word = argv[words.at];
        if (strcmp(word, "--") == 0) {
            while (++words.at < argc)
                operands[(*operand_count)++] = argv[words.at];
            break;
        }
        if (word[0] != '-' || word[1] == '\0') {
            operands[(*operand_count)++] = word;
        } else if (!(word[1] == '-' ? parse_long(table, &words, target, error)
                                    : parse_short(table, &words, target, error))) {
            return false;
        }
    }
    return true;
}

void options_print_help(const struct option *table)
{
    for (; table->short_name || table->long_name; table++) {
        if (table->help == NULL)
            continue;
        char left[80];
        int at = table->short_name ? snprintf(left, sizeof(left), "-%c", table->short_name)
                                   : snprintf(left, sizeof(left), "   ");
        if (table->long_name != NULL)
            at += snprintf(left + at, sizeof(left) - (size_t)at, "%s--%s",
                           table->short_name ? ", " : " ", table->long_name);
        if (table->value_name != NULL) {
            const char *joint = table->long_name == NULL         ? " "
                                : table->kind == OPTION_OPTIONAL ? "[="
                                                                 : "=";
            at += snprintf(left + at, sizeof(left) - (size_t)at, "%s%s%s", joint, table->value_name,
                           table->kind == OPTION_OPTIONAL ? "]" : "");
        }
        if (at >= HELP_COLUMN)
            printf("  %s\n  %*s%s\n", left, HELP_COLUMN, "", table->help);
        else
            printf("  %-*s%s\n", HELP_COLUMN, left, table->help);
    }
}
