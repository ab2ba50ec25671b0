#include "tree/filter_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "tree/filter.h"

enum token_kind { TOKEN_BYTE, TOKEN_ANY, TOKEN_CLASS, TOKEN_STAR, TOKEN_STARS };

struct pattern_token {
    uint8_t kind;
    uint8_t byte;
    uint16_t class; /* index */
};

/* ---- compiling ---- */

static bool class_holds(const uint8_t class[32], unsigned char byte)
{
    return (class[byte / 8] >> (byte % 8) & 1) != 0;
}

static void class_add(uint8_t class[32], unsigned low, unsigned high)
{
    for (unsigned byte = low; byte <= high; byte++)
        class[byte / 8] |= (uint8_t)(1u << (byte % 8));
}

static bool between(unsigned byte, unsigned low, unsigned high)
{
    return byte >= low && byte <= high;
}

/* ASCII only, whatever the locale: both ends have to agree. */
static bool in_named_class(unsigned which, unsigned byte)
{
    bool upper = between(byte, 'A', 'Z'), lower = between(byte, 'a', 'z');
    bool digit = between(byte, '0', '9');
    bool printed = between(byte, 33, 126);
    switch (which) {
    case 0:
        return upper || lower || digit;
    case 1:
        return upper || lower;
    case 2:
        return byte == ' ' || byte == '\t';
    case 3:
        return byte < 32 || byte == 127;
    case 4:
        return digit;
    case 5:
        return printed;
    case 6:
        return lower;
    case 7:
        return printed || byte == ' ';
    case 8:
        return printed && !upper && !lower && !digit;
    case 9:
        return byte == ' ' || between(byte, 9, 13);
    case 10:
        return upper;
    default:
        return digit || between(byte, 'A', 'F') || between(byte, 'a', 'f');
    }
}

/* The name in [:name:]. False when there is none such. */
static bool add_named_class(uint8_t class[32], const char *name, size_t size)
{
    static const char *const names[] = {"alnum", "alpha", "blank", "cntrl", "digit", "graph",
                                        "lower", "print", "punct", "space", "upper", "xdigit"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) != size || memcmp(names[i], name, size) != 0)
            continue;
        for (unsigned byte = 0; byte < 256; byte++) {
            if (in_named_class(i, byte))
                class_add(class, byte, byte);
        }
        return true;
    }
    return false;
}

/* A bracket expression as it is read. */
struct bracket {
    const char *text;
    size_t size, at;
    unsigned previous; /* a byte that a range can begin with, else 0 */
};

/* "[:name:]" at the bracket's place. *taken: it was one, or looked like one and is not known. */
static bool read_named(struct bracket *bracket, uint8_t class[32], bool *taken)
{
    const char *start = bracket->text + bracket->at + 2;
    const char *end = memchr(start, ']', bracket->size - bracket->at - 2);
    *taken = false;
    if (end == NULL)
        return false;
    if (end == start || end[-1] != ':')
        return true;
    *taken = true;
    size_t size = (size_t)(end - start) - 1;
    bracket->at = (size_t)(end - bracket->text) + 1;
    bracket->previous = 0;
    return add_named_class(class, start, size);
}

/* The byte at the bracket's place, quoted or not; moves behind it. False at the end. */
static bool read_byte(struct bracket *bracket, unsigned *byte)
{
    if (bracket->text[bracket->at] == '\\')
        bracket->at++;
    if (bracket->at >= bracket->size)
        return false;
    *byte = (unsigned char)bracket->text[bracket->at++];
    return true;
}

/* One element. False when the expression makes no sense. */
static bool read_element(struct bracket *bracket, uint8_t class[32])
{
    const char *text = bracket->text;
    size_t at = bracket->at, left = bracket->size - at;
    unsigned byte;
    if (text[at] == '[' && left > 1 && text[at + 1] == ':') {
        bool taken;
        if (!read_named(bracket, class, &taken))
            return false;
        if (taken)
            return true;
    }
    if (text[at] == '-' && bracket->previous != 0 && left > 1 && text[at + 1] != ']') {
        bracket->at++;
        if (!read_byte(bracket, &byte))
            return false;
        class_add(class, bracket->previous, byte);
        bracket->previous = 0;
        return true;
    }
    if (!read_byte(bracket, &byte))
        return false;
    class_add(class, byte, byte);
    bracket->previous = byte;
    return true;
}

/* Reads the expression at text[*at] == '[' and moves *at behind it. No class holds "/". */
static bool read_bracket(const char *text, size_t size, size_t *at, uint8_t class[32])
{
    struct bracket bracket = {.text = text, .size = size, .at = *at + 1};
    bool negated = bracket.at < size && (text[bracket.at] == '!' || text[bracket.at] == '^');
    bracket.at += negated;
    memset(class, 0, 32);
    do {
        if (bracket.at >= size || !read_element(&bracket, class))
            return false;
    } while (bracket.at < size && text[bracket.at] != ']');
    if (bracket.at >= size)
        return false;
    for (size_t i = 0; negated && i < 32; i++)
        class[i] = (uint8_t) ~class[i];
    class['/' / 8] &= (uint8_t) ~(1u << ('/' % 8));
    *at = bracket.at + 1;
    return true;
}

/* The tokens of text[at..size); `wild`: * ? [ and \ mean something. False: a bad bracket. */
static bool read_tokens(struct filter_pattern *pattern, const char *text, size_t at, size_t size,
                        bool wild)
{
    uint16_t classes = 0;
    while (at < size) {
        struct pattern_token token = {.kind = TOKEN_BYTE, .byte = (uint8_t)text[at]};
        if (wild && text[at] == '*') {
            size_t stars = 0;
            while (at < size && text[at] == '*')
                at++, stars++;
            token.kind = stars > 1 ? TOKEN_STARS : TOKEN_STAR;
        } else if (wild && text[at] == '[') {
            token.kind = TOKEN_CLASS;
            token.class = classes;
            if (!read_bracket(text, size, &at, pattern->classes[classes++]))
                return false;
        } else if (wild && text[at] == '\\') {
            if (++at == size)
                return false;
            token.byte = (uint8_t)text[at++];
        } else {
            token.kind = wild && text[at] == '?' ? TOKEN_ANY : TOKEN_BYTE;
            at++;
        }
        pattern->tokens[pattern->count++] = token;
    }
    return true;
}

static size_t count_bytes(const char *text, size_t size, char byte)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == byte;
    return count;
}

/* Where two stars stand side by side; `size` when nowhere. */
static size_t find_stars(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] == '*' && text[i + 1] == '*')
            return i;
    }
    return size;
}

bool filter_pattern_compile(struct filter_pattern *pattern, const char *text, size_t size)
{
    *pattern = (struct filter_pattern){.directory = size > 1 && text[size - 1] == '/'};
    size -= pattern->directory;
    size_t brackets = count_bytes(text, size, '['), slashes = count_bytes(text, size, '/');
    size_t stars = find_stars(text, size);
    bool wild = brackets > 0 || memchr(text, '*', size) != NULL || memchr(text, '?', size) != NULL;
    bool deep = stars < size;
    pattern->bound = text[0] == '/';
    pattern->components = slashes + 1;
    pattern->whole_path = slashes > 0 || deep;
    pattern->slash_before = deep && stars == 0;
    pattern->slash_behind = deep && size >= 3 && memcmp(text + size - 3, "***", 3) == 0;
    pattern->any_start = deep && stars > 0 && !pattern->bound;
    pattern->tokens = calloc(size + 1, sizeof *pattern->tokens);
    pattern->classes = calloc(brackets + 1, sizeof *pattern->classes);
    if (pattern->tokens == NULL || pattern->classes == NULL) {
        filter_pattern_release(pattern);
        return false;
    }
    pattern->never = !read_tokens(pattern, text, pattern->bound, size, wild);
    return true;
}

void filter_pattern_release(struct filter_pattern *pattern)
{
    free(pattern->tokens);
    free(pattern->classes);
    *pattern = (struct filter_pattern){0};
}

/* ---- matching ---- */

/* All places of the pattern that what was read so far may have led to: one step for each byte, so
 * that no pattern can take more than its length times the path's. */
struct places {
    const struct filter_pattern *pattern;
    size_t end; /* none from here on is reached */
    bool reached[FILTER_PATTERN_MAX + 1];
};

static bool is_star(const struct pattern_token *token)
{
    return token->kind == TOKEN_STAR || token->kind == TOKEN_STARS;
}

/* Reaches `place`, and what follows stars that match nothing. */
static void reach(struct places *places, size_t place)
{
    const struct filter_pattern *pattern = places->pattern;
    for (;; place++) {
        while (places->end <= place)
            places->reached[places->end++] = false;
        places->reached[place] = true;
        if (place == pattern->count || !is_star(&pattern->tokens[place]))
            return;
    }
}

static bool takes(const struct filter_pattern *pattern, const struct pattern_token *token,
                  uint8_t byte)
{
    switch ((enum token_kind)token->kind) {
    case TOKEN_BYTE:
        return byte == token->byte;
    case TOKEN_CLASS:
        return class_holds(pattern->classes[token->class], byte);
    case TOKEN_ANY:
    case TOKEN_STAR:
        return byte != '/';
    case TOKEN_STARS:
        return true;
    }
    return false;
}

static void step(struct places *places, uint8_t byte)
{
    const struct filter_pattern *pattern = places->pattern;
    bool before[FILTER_PATTERN_MAX + 1];
    size_t end = places->end;
    memcpy(before, places->reached, end);
    places->end = 0;
    for (size_t place = 0; place < end && place < pattern->count; place++) {
        const struct pattern_token *token = &pattern->tokens[place];
        if (before[place] && takes(pattern, token, byte))
            reach(places, is_star(token) ? place : place + 1);
    }
    if (byte == '/' && pattern->any_start)
        reach(places, 0);
}

/* Where the last `count` components of the path begin; `size` + 1 when it has fewer. */
static size_t last_components(const char *path, size_t size, size_t count)
{
    size_t at = size;
    while (at > 0) {
        if (path[at - 1] == '/' && --count == 0)
            return at;
        at--;
    }
    return count == 1 ? 0 : size + 1;
}

bool filter_pattern_match(const struct filter_pattern *pattern, const char *path, size_t size,
                          bool is_directory)
{
    if (pattern->never || (pattern->directory && !is_directory))
        return false;
    size_t at = 0;
    if (!pattern->whole_path)
        at = last_components(path, size, 1);
    else if (!pattern->bound && !pattern->any_start && !pattern->slash_before)
        at = last_components(path, size, pattern->components);
    if (at > size)
        return false;
    struct places places;
    places.pattern = pattern;
    places.end = 0;
    reach(&places, 0);
    if (pattern->slash_before)
        step(&places, '/');
    for (; at < size && (places.end > 0 || pattern->any_start); at++)
        step(&places, (uint8_t)path[at]);
    if (pattern->slash_behind && is_directory)
        step(&places, '/');
    return places.end > pattern->count && places.reached[pattern->count];
}
