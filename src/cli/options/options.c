#include "cli/options/options.h"

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

static bool is_end(const struct option *option)
{
    return option->short_name == 0 && option->long_name == NULL;
}

const struct option *options_nearest(const struct option *table, const char *word)
{
    const char *names[192];
    size_t count = 0;
    for (const struct option *option = table; !is_end(option) && count < 191; option++) {
        bool is_habit = option->kind == OPTION_REMARK || option->kind == OPTION_ELSEWHERE;
        if (option->long_name != NULL && !is_habit)
            names[count++] = option->long_name;
    }
    names[count] = NULL;
    bool negated;
    const char *near = nearest_name(word, names);
    return near != NULL ? options_find(table, near, strlen(near), &negated) : NULL;
}

static bool unknown_long(const struct option *table, const char *name, size_t length,
                         struct error *error)
{
    char word[NAME_MAX_LENGTH + 1];
    snprintf(word, sizeof(word), "%.*s", (int)length, name);
    const struct option *near = options_nearest(table, word);
    if (near != NULL)
        return error_set(error, ERROR_USAGE, "there is no option --%s; did you mean --%s?", word,
                         near->long_name);
    return error_set(error, ERROR_USAGE, "there is no option --%s; see petrel --help", word);
}

static bool takes_value(enum option_kind kind)
{
    return kind == OPTION_TEXT || kind == OPTION_LIST || kind == OPTION_RATE ||
           kind == OPTION_CUSTOM || kind == OPTION_MANY || kind == OPTION_CONFIG;
}

bool option_list_add(struct option_list *list, const char *value, struct error *error)
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

static bool is_stdout(const struct option *option, const char *value)
{
    return strcmp(option->value_name, "FILE") == 0 && strcmp(value, "-") == 0;
}

static bool apply(const struct option *option, void *target, const char *value, struct error *error)
{
    void *field = (char *)target + option->offset;
    char name[NAME_MAX_LENGTH + 3];
    switch (option->kind) {
    case OPTION_FLAG:
    case OPTION_ACTION:
        *(bool *)field = true;
        return true;
    case OPTION_COUNT:
        ++*(int *)field;
        return true;
    case OPTION_TEXT:
    case OPTION_CONFIG:
        *(const char **)field = value;
        return true;
    case OPTION_OPTIONAL:
        *(const char **)field = value != NULL && !is_stdout(option, value) ? value : "";
        return true;
    case OPTION_LIST:
        return option_list_add(field, value, error);
    case OPTION_IGNORED:
        return true;
    case OPTION_RATE:
        return apply_rate(option, field, value, error);
    case OPTION_CUSTOM:
    case OPTION_MANY:
        return option->parse(target, value, error);
    case OPTION_NEGATION:
        *(bool *)field = false;
        return true;
    case OPTION_REMARK:
        return option_list_add(field, option->value_name, error);
    case OPTION_ELSEWHERE:
        return error_set(error, ERROR_USAGE, "%s: %s", spelling(option, name), option->value_name);
    }
    return true;
}

/* ---- as settings say it ---- */

static bool says(const char *value, const char *const *words)
{
    while (*words != NULL && strcmp(*words, value) != 0)
        words++;
    return *words != NULL;
}

static bool says_yes(const char *value)
{
    static const char *const words[] = {"yes", "true", "on", "1", NULL};
    return value == NULL || says(value, words);
}

static bool says_no(const char *value)
{
    static const char *const words[] = {"no", "false", "off", "0", NULL};
    return value != NULL && says(value, words);
}

static bool set_flag(const struct option *option, bool *field, const char *value,
                     struct error *error)
{
    if (!says_yes(value) && !says_no(value))
        return error_set(error, ERROR_USAGE, "--%s takes yes or no, not %s", option->long_name,
                         value);
    *field = says_yes(value) == (option->kind == OPTION_FLAG);
    return true;
}

static bool set_count(const struct option *option, int *field, const char *value,
                      struct error *error)
{
    uint64_t number = says_yes(value);
    if (!says_yes(value) && !says_no(value) && !parse_unsigned(value, 9, &number, NULL))
        return error_set(error, ERROR_USAGE, "--%s takes yes, no or a number up to 9, not %s",
                         option->long_name, value);
    *field = (int)number;
    return true;
}

bool options_set(const struct option *option, void *target, const char *value, struct error *error)
{
    void *field = (char *)target + option->offset;
    bool is_action = option->kind == OPTION_ACTION || option->kind == OPTION_CONFIG;
    if (is_action)
        return error_set(error, ERROR_USAGE, "--%s is for the command line, it is no setting",
                         option->long_name);
    if (option->kind == OPTION_FLAG || option->kind == OPTION_NEGATION)
        return set_flag(option, field, value, error);
    if (option->kind == OPTION_COUNT)
        return set_count(option, field, value, error);
    if (option->kind == OPTION_REMARK)
        return error_set(error, ERROR_USAGE, "%s", option->value_name);
    if (option->kind == OPTION_OPTIONAL && says_no(value)) {
        *(const char **)field = NULL;
        return true;
    }
    if (takes_value(option->kind) && value == NULL)
        return error_set(error, ERROR_USAGE, "%s needs a value: %s %s", option->long_name,
                         option->long_name, option->value_name);
    bool bare = option->kind == OPTION_OPTIONAL && says_yes(value);
    return apply(option, target, bare ? NULL : value, error);
}

static bool can_be_negated(const struct option *option)
{
    return option->kind == OPTION_FLAG || option->kind == OPTION_COUNT;
}

static const struct option *find_exactly(const struct option *table, const char *name,
                                         size_t length)
{
    for (; !is_end(table); table++) {
        if (table->long_name != NULL && strlen(table->long_name) == length &&
            memcmp(table->long_name, name, length) == 0)
            return table;
    }
    return NULL;
}

/* NAME of no-NAME and the other way round. */
static const struct option *find_opposite(const struct option *table, const char *name,
                                          size_t length)
{
    bool is_no = length > 3 && memcmp(name, "no-", 3) == 0;
    if (is_no)
        return strncmp(name + 3, "no-", 3) != 0 ? find_exactly(table, name + 3, length - 3) : NULL;
    char longer[NAME_MAX_LENGTH + 4];
    int size = snprintf(longer, sizeof(longer), "no-%.*s", (int)length, name);
    return size < (int)sizeof(longer) ? find_exactly(table, longer, (size_t)size) : NULL;
}

const struct option *options_find(const struct option *table, const char *name, size_t length,
                                  bool *negated)
{
    *negated = false;
    const struct option *option = find_exactly(table, name, length);
    if (option != NULL || length > NAME_MAX_LENGTH)
        return option;
    option = find_opposite(table, name, length);
    if (option == NULL || !can_be_negated(option))
        return NULL;
    *negated = true;
    return option;
}

static bool one_field(const struct option *a, const struct option *b)
{
    if (a == b)
        return true;
    bool has_field = a->kind != OPTION_IGNORED && a->kind != OPTION_ELSEWHERE;
    return has_field && a->kind == b->kind && a->offset == b->offset && a->parse == b->parse;
}

/* The first row of those that set one field has the name that decides. */
static const struct option *first_name(const struct option *table, const struct option *option)
{
    for (; !is_end(table); table++) {
        if (table->long_name != NULL && one_field(table, option))
            return table;
    }
    return option;
}

bool options_same(const struct option *table, const struct option *a, const struct option *b)
{
    if (one_field(a, b))
        return true;
    a = first_name(table, a);
    b = first_name(table, b);
    return a->long_name != NULL && b->long_name != NULL &&
           find_opposite(table, a->long_name, strlen(a->long_name)) == b;
}

/* ---- the command line ---- */

bool option_uses_add(struct option_uses *uses, const struct option_use *use, struct error *error)
{
    struct option_use *larger = realloc(uses->uses, (uses->count + 1) * sizeof(*larger));
    if (larger == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for options");
    uses->uses = larger;
    larger[uses->count++] = *use;
    return true;
}

void option_uses_release(struct option_uses *uses)
{
    free(uses->uses);
    *uses = (struct option_uses){0};
}

struct words {
    int argc, at;
    char **argv;
    struct option_uses *uses; /* NULL: nobody asks */
};

static bool use(struct words *words, const struct option *option, void *target, const char *value,
                struct error *error)
{
    struct option_use one = {.option = option, .value = value, .origin = ORIGIN_LINE};
    return apply(option, target, value, error) &&
           (words->uses == NULL || option_uses_add(words->uses, &one, error));
}

static bool take_back(struct words *words, const struct option *option, void *target,
                      const char *equals, struct error *error)
{
    struct option_use one = {.option = option, .value = "no", .origin = ORIGIN_LINE};
    if (equals != NULL)
        return error_set(error, ERROR_USAGE, "%s takes no value", words->argv[words->at]);
    return options_set(option, target, "no", error) &&
           (words->uses == NULL || option_uses_add(words->uses, &one, error));
}

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
    bool negated;
    const struct option *option = options_find(table, name, length, &negated);
    if (option == NULL)
        return unknown_long(table, name, length, error);
    if (negated)
        return take_back(words, option, target, equals, error);
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (takes_value(option->kind) && value == NULL && (value = next_word(words)) == NULL)
        return error_set(error, ERROR_USAGE, "--%s needs a value: --%s=%s", option->long_name,
                         option->long_name, option->value_name);
    bool may_have_value = option->kind == OPTION_OPTIONAL || option->kind == OPTION_ELSEWHERE;
    if (!takes_value(option->kind) && !may_have_value && value != NULL)
        return error_set(error, ERROR_USAGE, "--%s takes no value", option->long_name);
    return use(words, option, target, value, error);
}

bool options_await_value(const struct option *table, const char *word)
{
    bool negated = false;
    if (strncmp(word, "--", 2) == 0) {
        const struct option *option = options_find(table, word + 2, strlen(word + 2), &negated);
        return option != NULL && !negated && takes_value(option->kind);
    }
    for (const char *at = word + 1; word[0] == '-' && *at != '\0'; at++) {
        const struct option *option = table;
        while (!is_end(option) && option->short_name != *at)
            option++;
        if (is_end(option) || takes_value(option->kind))
            return !is_end(option) && at[1] == '\0';
    }
    return false;
}

static bool parse_short(const struct option *table, struct words *words, void *target,
                        struct error *error)
{
    const char *word = words->argv[words->at];
    for (const char *at = word + 1; *at != '\0'; at++) {
        const struct option *option = table;
        while (!is_end(option) && option->short_name != *at)
            option++;
        if (option->short_name != *at)
            return error_set(error, ERROR_USAGE, "there is no option -%c; see petrel --help", *at);
        const char *value = NULL;
        if (takes_value(option->kind)) {
            value = at[1] != '\0' ? at + 1 : next_word(words);
            if (value == NULL)
                return error_set(error, ERROR_USAGE, "-%c needs a value: -%c %s", *at, *at,
                                 option->value_name);
        } else if (option->kind == OPTION_OPTIONAL && at[1] == '=') {
            value = at + 2;
        }
        if (!use(words, option, target, value, error))
            return false;
        if (value != NULL)
            break;
    }
    return true;
}

bool options_parse(const struct option *table, int argc, char **argv, void *target,
                   const char **operands, size_t *operand_count, struct error *error)
{
    return options_parse_uses(table, argc, argv, target, operands, operand_count, NULL, error);
}

bool options_parse_uses(const struct option *table, int argc, char **argv, void *target,
                        const char **operands, size_t *operand_count, struct option_uses *uses,
                        struct error *error)
{
    struct words words = {.argc = argc, .argv = argv, .uses = uses};
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
    for (; !is_end(table); table++) {
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
