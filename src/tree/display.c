#include "tree/display.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The length of the valid UTF-8 character at `bytes`, 0 when there is none. RFC 3629. */
static size_t utf8_length(const uint8_t *bytes, size_t left, uint32_t *character)
{
    if (bytes[0] < 0x80) {
        *character = bytes[0];
        return 1;
    }
    size_t length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || length > left)
        return 0;
    uint32_t value = bytes[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (bytes[i] & 0x3fu);
    }
    static const uint32_t shortest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < shortest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *character = value;
    return length;
}

static bool is_plain(uint32_t character)
{
    if (character < 0x20 || (character >= 0x7f && character < 0xa0) || character == '\\')
        return false;
    bool reorders = (character >= 0x200e && character <= 0x200f) ||
                    (character >= 0x2028 && character <= 0x202e) ||
                    (character >= 0x2066 && character <= 0x2069);
    return !reorders && character != 0xfeff;
}

static size_t escape_byte(char *piece, uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    piece[0] = '\\';
    if (byte == '\n' || byte == '\t' || byte == '\\') {
        piece[1] = byte == '\n' ? 'n' : byte == '\t' ? 't' : '\\';
        return 2;
    }
    piece[1] = 'x';
    piece[2] = digits[byte >> 4];
    piece[3] = digits[byte & 15];
    return 4;
}

char *display_bytes(char *text, size_t capacity, const char *bytes, size_t size)
{
    const uint8_t *at = (const uint8_t *)bytes;
    size_t used = 0, cut = 0; /* cut: the last place where "..." still fits */
    for (size_t i = 0; i < size;) {
        char piece[16];
        uint32_t character = 0;
        size_t length = utf8_length(at + i, size - i, &character);
        size_t piece_size = 0;
        if (length != 0 && is_plain(character)) {
            memcpy(piece, at + i, length);
            piece_size = length;
        } else {
            length = length == 0 ? 1 : length;
            for (size_t k = 0; k < length; k++)
                piece_size += escape_byte(piece + piece_size, at[i + k]);
        }
        if (used + piece_size + 1 > capacity) {
            memcpy(text + cut, "...", 4);
            return text;
        }
        memcpy(text + used, piece, piece_size);
        used += piece_size;
        if (used + 4 <= capacity)
            cut = used;
        i += length;
    }
    text[used] = '\0';
    return text;
}

char *display_name(char *text, size_t capacity, const char *name)
{
    return display_bytes(text, capacity, name, strlen(name));
}
