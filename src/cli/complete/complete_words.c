#include "cli/complete/complete_words.h"

#include <string.h>

char complete_unquote(char *word)
{
    char quote = '\0', *out = word;
    for (const char *at = word; *at != '\0'; at++) {
        bool is_escape = *at == '\\' && quote != '\'' && at[1] != '\0' &&
                         (quote == '\0' || strchr("\\\"$`", at[1]) != NULL);
        if (is_escape)
            *out++ = *++at;
        else if (quote != '\0' && *at == quote)
            quote = '\0';
        else if (quote == '\0' && (*at == '\'' || *at == '"'))
            quote = *at;
        else
            *out++ = *at;
    }
    *out = '\0';
    return quote;
}

bool complete_quote(char *out, size_t capacity, const char *text)
{
    size_t at = 0;
    bool fits = capacity > 0;
    for (const char *from = text; *from != '\0' && fits; from++) {
        bool plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') ||
                     (*from >= '0' && *from <= '9') || strchr("/._-+,%@", *from) != NULL ||
                     (unsigned char)*from >= 0x80;
        fits = at + 2 < capacity && (unsigned char)*from >= ' ' && *from != 0x7f;
        if (!fits)
            break;
        if (!plain)
            out[at++] = '\\';
        out[at++] = *from;
    }
    if (capacity > 0)
        out[at] = '\0';
    return fits;
}

bool complete_next_word(const char **alternatives, char *word, size_t capacity)
{
    while (**alternatives != '\0') {
        size_t length = strcspn(*alternatives, "|"), typed = 0;
        const char *from = *alternatives;
        while (typed < length && (from[typed] < 'A' || from[typed] > 'Z'))
            typed++;
        *alternatives += length + (from[length] == '|');
        if (typed == 0 || typed >= capacity)
            continue;
        memcpy(word, from, typed);
        word[typed] = '\0';
        return true;
    }
    return false;
}
