#include "keys/key_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 60

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct key_lines key_lines_of(const char *text, size_t size, const char *file)
{
    return (struct key_lines){.at = text, .end = text + size, .file = file};
}

bool key_lines_refuse(const struct key_lines *lines, struct error *error, const char *format, ...)
{
    char text[sizeof(error->text)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return error_set(error, ERROR_USAGE, "%s:%u: %s", lines->file, lines->number, text);
}

static bool check_bytes(const struct key_lines *lines, struct key_word line, struct error *error)
{
    if (line.length > KEY_LINE_MAX)
        return key_lines_refuse(lines, error, "the line is longer than %d bytes", KEY_LINE_MAX);
    for (size_t i = 0; i < line.length; i++) {
        unsigned char byte = (unsigned char)line.text[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f)
            return key_lines_refuse(lines, error, "byte 0x%02x is no text", byte);
    }
    return true;
}

static struct key_word trimmed(struct key_word line)
{
    while (line.length > 0 && is_blank(line.text[0])) {
        line.text++;
        line.length--;
    }
    while (line.length > 0 && is_blank(line.text[line.length - 1]))
        line.length--;
    return line;
}

bool key_lines_next(struct key_lines *lines, struct key_word *line, struct error *error)
{
    while (lines->at < lines->end) {
        size_t left = (size_t)(lines->end - lines->at);
        const char *newline = memchr(lines->at, '\n', left);
        struct key_word raw = {lines->at, newline != NULL ? (size_t)(newline - lines->at) : left};
        lines->at = newline != NULL ? newline + 1 : lines->end;
        lines->number++;
        if (raw.length > 0 && raw.text[raw.length - 1] == '\r')
            raw.length--;
        if (!check_bytes(lines, raw, error))
            return false;
        raw = trimmed(raw);
        if (raw.length == 0 || raw.text[0] == '#')
            continue;
        *line = raw;
        return true;
    }
    *line = (struct key_word){lines->end, 0};
    return true;
}

struct key_word key_word_cut(struct key_word *rest)
{
    struct key_word left = trimmed(*rest), word = {left.text, 0};
    while (word.length < left.length && !is_blank(left.text[word.length]))
        word.length++;
    left.text += word.length;
    left.length -= word.length;
    *rest = trimmed(left);
    return word;
}

bool key_word_is(struct key_word word, const char *text)
{
    return strlen(text) == word.length && memcmp(word.text, text, word.length) == 0;
}

int key_word_shown(struct key_word word)
{
    return word.length > SHOWN_MAX ? SHOWN_MAX : (int)word.length;
}

bool key_line_key(const struct key_lines *lines, struct key_word *rest, const char *word,
                  uint8_t key[KEY_SIZE], struct error *error)
{
    struct key_word first = key_word_cut(rest);
    if (!key_word_is(first, word))
        return key_lines_refuse(lines, error, "expected %s and a key, not \"%.*s\"", word,
                                key_word_shown(first), first.text);
    struct key_word text = key_word_cut(rest);
    if (text.length == 0)
        return key_lines_refuse(lines, error, "the key after %s is missing", word);
    if (!key_parse(text.text, text.length, key))
        return key_lines_refuse(lines, error,
                                "\"%.*s\" is no key: %d letters, digits, + and / (petrel key "
                                "prints them)",
                                key_word_shown(text), text.text, KEY_TEXT_LENGTH);
    return true;
}
