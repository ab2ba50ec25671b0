#include "cli/options/config_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char blanks[] = " \t";

/* ---- hosts ---- */

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Goes back to the last star only, so the time is bounded by the product of the lengths. */
static bool matches(const char *pattern, const char *end, const char *host)
{
    const char *star = NULL, *from = NULL;
    while (*host != '\0') {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            from = host;
        } else if (pattern < end && (*pattern == '?' || same_letter(*pattern, *host))) {
            pattern++;
            host++;
        } else if (star != NULL) {
            pattern = star;
            host = ++from;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

bool config_host_matches(const char *patterns, const char *host)
{
    bool found = false;
    for (patterns += strspn(patterns, blanks); *patterns != '\0';) {
        const char *end = patterns + strcspn(patterns, blanks);
        bool negated = *patterns == '!';
        if (matches(patterns + negated, end, host)) {
            if (negated)
                return false;
            found = true;
        }
        patterns = end + strspn(end, blanks);
    }
    return found;
}

/* ---- lines ---- */

/* `rest` begins with the value. */
static bool cut_value(char *rest, const char **value, struct error *error)
{
    size_t length = strlen(rest);
    while (length > 0 && strchr(blanks, rest[length - 1]) != NULL)
        length--;
    rest[length] = '\0';
    if (rest[0] == '"') {
        if (length < 2 || strchr(rest + 1, '"') != rest + length - 1)
            return error_set(error, ERROR_USAGE,
                             "a value that begins with a quote ends with one and holds no other: "
                             "%s",
                             rest);
        rest[length - 1] = '\0';
        *value = rest + 1;
        return true;
    }
    *value = length > 0 ? rest : NULL;
    return true;
}

static bool cut_line(char *line, size_t length, struct config_line *cut, struct error *error)
{
    if (length > CONFIG_LINE_MAX)
        return error_set(error, ERROR_USAGE, "the line is longer than %d bytes", CONFIG_LINE_MAX);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)line[i] < ' ' && line[i] != '\t')
            return error_set(error, ERROR_USAGE,
                             "byte %zu of the line is the control character %d; a configuration is "
                             "plain text",
                             i + 1, line[i]);
    }
    line += strspn(line, blanks);
    cut->value = NULL;
    cut->key = line;
    if (*line == '\0' || *line == '#')
        return true;
    char *end = line + strcspn(line, " \t=");
    if (end == line)
        return error_set(error, ERROR_USAGE, "a line begins with a key, such as: policy fair");
    char *rest = end + strspn(end, blanks);
    if (*rest == '=')
        rest++;
    rest += strspn(rest, blanks);
    *end = '\0';
    return cut_value(rest, &cut->value, error);
}

static bool take_host(const struct config_line *line, const char *host, bool *applies,
                      struct error *error)
{
    if (line->value == NULL || line->value[0] == '\0')
        return error_set(error, ERROR_USAGE, "Host needs a name or patterns: Host *.example.org");
    *applies = config_host_matches(line->value, host);
    return true;
}

bool config_text_read(char *text, size_t size, const char *host, config_take take, void *context,
                      unsigned *number, struct error *error)
{
    struct config_line line = {.applies = true};
    text[size] = '\0';
    for (size_t at = 0; at < size;) {
        char *start = text + at;
        const char *newline = memchr(start, '\n', size - at);
        size_t length = newline != NULL ? (size_t)(newline - start) : size - at;
        at += length + 1;
        if (length > 0 && start[length - 1] == '\r')
            length--;
        start[length] = '\0';
        *number = ++line.number;
        if (!cut_line(start, length, &line, error))
            return false;
        bool says_nothing = line.key[0] == '\0' || line.key[0] == '#';
        if (says_nothing)
            continue;
        bool good = strcasecmp(line.key, "Host") == 0 ? take_host(&line, host, &line.applies, error)
                                                      : take(context, &line, error);
        if (!good)
            return false;
    }
    return true;
}
