#include "tree/filter.h"

#include <stdlib.h>
#include <string.h>

#include "tree/filter_pattern.h"

struct filter_rule {
    unsigned flags;
    bool has_side; /* the user named one */
    char *text;    /* as it was added */
    struct filter_pattern pattern;
};

void filter_release(struct filter *filter)
{
    for (size_t i = 0; i < filter->count; i++) {
        free(filter->rules[i].text);
        filter_pattern_release(&filter->rules[i].pattern);
    }
    free(filter->rules);
    *filter = (struct filter){0};
}

static bool no_memory(struct error *error)
{
    return error_set(error, ERROR_MEMORY, "no memory for filter rules");
}

static bool make_room(struct filter *filter)
{
    if (filter->count < filter->capacity)
        return true;
    size_t capacity = filter->capacity * 2 + 16;
    struct filter_rule *rules = realloc(filter->rules, capacity * sizeof *rules);
    if (rules == NULL)
        return false;
    filter->rules = rules;
    filter->capacity = capacity;
    return true;
}

bool filter_add(struct filter *filter, unsigned flags, const char *pattern, size_t size,
                struct error *error)
{
    if (filter->count == FILTER_RULES_MAX)
        return error_set(error, ERROR_USAGE, "there are more than %u filter rules",
                         FILTER_RULES_MAX);
    if (size == 0 || size > FILTER_PATTERN_MAX)
        return error_set(error, ERROR_USAGE, "a filter's pattern has 1 to %u bytes",
                         FILTER_PATTERN_MAX);
    if (!make_room(filter))
        return no_memory(error);
    struct filter_rule rule = {.flags = flags};
    rule.text = malloc(size + 1);
    if (rule.text == NULL || !filter_pattern_compile(&rule.pattern, pattern, size)) {
        free(rule.text);
        return no_memory(error);
    }
    memcpy(rule.text, pattern, size);
    rule.text[size] = '\0';
    filter->rules[filter->count++] = rule;
    return true;
}

bool filter_copy(struct filter *filter, const struct filter *from, struct error *error)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct filter_rule *rule = &from->rules[i];
        if (!filter_add(filter, rule->flags, rule->text, strlen(rule->text), error))
            return false;
        filter->rules[filter->count - 1].has_side = rule->has_side;
    }
    return true;
}

unsigned filter_rule_flags(const struct filter *filter, size_t index)
{
    return filter->rules[index].flags;
}

const char *filter_rule_pattern(const struct filter *filter, size_t index)
{
    return filter->rules[index].text;
}

void filter_unprotect(struct filter *filter)
{
    for (size_t i = 0; i < filter->count; i++) {
        if (!filter->rules[i].has_side)
            filter->rules[i].flags &= ~(unsigned)FILTER_RECEIVER;
    }
}

/* ---- matching ---- */

bool filter_excludes(const struct filter *filter, unsigned side, const char *path, size_t size,
                     bool is_directory)
{
    if (size == 0)
        return false;
    for (size_t i = 0; i < filter->count; i++) {
        const struct filter_rule *rule = &filter->rules[i];
        if ((rule->flags & side & FILTER_SIDES) == 0 ||
            (rule->flags & side & FILTER_PERISHABLE) != 0)
            continue;
        bool matches = filter_pattern_match(&rule->pattern, path, size, is_directory);
        if (matches != ((rule->flags & FILTER_NEGATE) != 0))
            return (rule->flags & FILTER_INCLUDE) == 0;
    }
    return false;
}

bool filter_admits(const struct filter *filter, const char *path, size_t size, bool is_directory)
{
    if (filter->count == 0)
        return true;
    for (size_t i = 0; i < size; i++) {
        if (path[i] == '/' && filter_excludes(filter, FILTER_SENDER, path, i, true))
            return false;
    }
    return !filter_excludes(filter, FILTER_SENDER, path, size, is_directory);
}

/* ---- what users write ---- */

enum word_kind { WORD_PATTERN, WORD_MERGE, WORD_DIR_MERGE, WORD_CLEAR };

struct word {
    const char *name;
    char letter;
    enum word_kind kind;
    unsigned flags;
    bool has_side;
};

static const struct word words[] = {
    {"exclude", '-', WORD_PATTERN, FILTER_SIDES, false},
    {"include", '+', WORD_PATTERN, FILTER_SIDES | FILTER_INCLUDE, false},
    {"hide", 'H', WORD_PATTERN, FILTER_SENDER, true},
    {"show", 'S', WORD_PATTERN, FILTER_SENDER | FILTER_INCLUDE, true},
    {"protect", 'P', WORD_PATTERN, FILTER_RECEIVER, true},
    {"risk", 'R', WORD_PATTERN, FILTER_RECEIVER | FILTER_INCLUDE, true},
    {"merge", '.', WORD_MERGE, 0, false},
    {"dir-merge", ':', WORD_DIR_MERGE, 0, false},
    {"clear", '!', WORD_CLEAR, 0, false},
};

static bool ends_word(char c)
{
    return c == '\0' || c == ' ' || c == '_' || c == ',';
}

/* The word that `text` begins with; *rest is behind it, at its modifiers. NULL: none. */
static const struct word *find_word(const char *text, const char **rest)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i].name);
        if (strncmp(text, words[i].name, size) == 0 && ends_word(text[size])) {
            *rest = text + size;
            return &words[i];
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (text[0] == words[i].letter) {
            *rest = text + 1;
            return &words[i];
        }
    }
    return NULL;
}

/* A rule as it is being read. */
struct reading {
    unsigned flags;
    bool has_side;
    enum filter_form form; /* of a merged file's lines */
};

static bool take_modifier(struct reading *reading, enum word_kind kind, char letter)
{
    if (kind == WORD_MERGE) {
        if (letter == '-')
            reading->form = FILTER_FORM_EXCLUDE;
        else if (letter == '+')
            reading->form = FILTER_FORM_INCLUDE;
        return letter == '-' || letter == '+';
    }
    switch (letter) {
    case '!':
        reading->flags |= FILTER_NEGATE;
        return true;
    case 'p':
        reading->flags |= FILTER_PERISHABLE;
        return true;
    case 's':
    case 'r':
        if (!reading->has_side)
            reading->flags &= ~FILTER_SIDES;
        reading->has_side = true;
        reading->flags |= letter == 's' ? FILTER_SENDER : FILTER_RECEIVER;
        return true;
    default:
        return false;
    }
}

/* Reads the modifiers at *rest and moves behind them and the blank that follows. */
static bool take_modifiers(struct reading *reading, const struct word *word, const char *text,
                           const char **rest, struct error *error)
{
    const char *at = *rest;
    if (*at == ',')
        at++;
    for (; *at != '\0' && *at != ' ' && *at != '_'; at++) {
        if (!take_modifier(reading, word->kind, *at))
            return error_set(error, ERROR_USAGE,
                             "the filter rule \"%.200s\" has a modifier, %c, that petrel does not "
                             "know; see \"Filter rules\" in the manual",
                             text, *at);
    }
    *rest = *at != '\0' ? at + 1 : at;
    return true;
}

static bool add_parsed(struct filter *filter, const struct reading *reading, const char *pattern,
                       struct error *error)
{
    if (!filter_add(filter, reading->flags, pattern, strlen(pattern), error))
        return false;
    filter->rules[filter->count - 1].has_side = reading->has_side;
    return true;
}

static bool parse_rule(struct filter *filter, const char *text, struct filter_merge *merge,
                       struct error *error)
{
    const char *rest = NULL;
    const struct word *word = find_word(text, &rest);
    if (word == NULL)
        return error_set(error, ERROR_USAGE,
                         "\"%.200s\" is no filter rule; write \"- PATTERN\" to exclude, \"+ "
                         "PATTERN\" to include",
                         text);
    if (word->kind == WORD_DIR_MERGE)
        return error_set(error, ERROR_USAGE,
                         "\"%.200s\": rules from files in each directory are not known here; name "
                         "them with --exclude-from or --filter='merge FILE'",
                         text);
    if (word->kind == WORD_CLEAR && *rest == '\0') {
        filter_release(filter);
        return true;
    }
    struct reading reading = {.flags = word->flags, .has_side = word->has_side};
    if (!take_modifiers(&reading, word, text, &rest, error))
        return false;
    if (word->kind == WORD_CLEAR || *rest == '\0')
        return error_set(error, ERROR_USAGE, "the filter rule \"%.200s\" %s", text,
                         word->kind == WORD_CLEAR ? "takes no pattern" : "ends too soon");
    if (word->kind == WORD_MERGE) {
        *merge = (struct filter_merge){.file = rest, .form = reading.form};
        return true;
    }
    return add_parsed(filter, &reading, rest, error);
}

bool filter_parse(struct filter *filter, enum filter_form form, const char *text,
                  struct filter_merge *merge, struct error *error)
{
    *merge = (struct filter_merge){.file = NULL};
    if (text[0] == '\0')
        return true;
    if (form == FILTER_FORM_RULE)
        return parse_rule(filter, text, merge, error);
    if (strcmp(text, "!") == 0) {
        filter_release(filter);
        return true;
    }
    struct reading reading = {.flags = FILTER_SIDES};
    bool prefixed = (text[0] == '+' || text[0] == '-') && text[1] == ' ';
    if (prefixed ? text[0] == '+' : form == FILTER_FORM_INCLUDE)
        reading.flags |= FILTER_INCLUDE;
    return add_parsed(filter, &reading, prefixed ? text + 2 : text, error);
}
