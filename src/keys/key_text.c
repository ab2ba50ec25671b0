#include "keys/key_text.h"

#include <stdio.h>
#include <string.h>

#include "crypto/primitives.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

_Static_assert(KEY_SIZE == SHA256_SIZE, "both are written in 43 characters");

char *key_format(char text[KEY_TEXT_SIZE], const uint8_t key[KEY_SIZE])
{
    uint32_t bits = 0;
    unsigned held = 0;
    size_t at = 0;
    for (size_t i = 0; i < KEY_SIZE; i++) {
        bits = bits << 8 | key[i];
        for (held += 8; held >= 6; held -= 6)
            text[at++] = digits[bits >> (held - 6) & 63];
    }
    text[at++] = digits[bits << (6 - held) & 63];
    text[at] = '\0';
    return text;
}

bool key_parse(const char *text, size_t length, uint8_t key[KEY_SIZE])
{
    uint8_t bytes[KEY_SIZE];
    uint32_t bits = 0;
    unsigned held = 0;
    size_t at = 0;
    if (length != KEY_TEXT_LENGTH)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[at++] = (uint8_t)(bits >> held);
        }
    }
    /* Another spelling of the same key would be another line for people and searches. */
    if ((bits & ((1u << held) - 1)) != 0)
        return false;
    memcpy(key, bytes, sizeof(bytes));
    wipe(bytes, sizeof(bytes));
    return true;
}

char *fingerprint_format(char text[FINGERPRINT_SIZE], const uint8_t key[KEY_SIZE])
{
    uint8_t hash[SHA256_SIZE];
    char encoded[KEY_TEXT_SIZE];
    bool good = sha256(key, KEY_SIZE, hash);
    snprintf(text, FINGERPRINT_SIZE, "SHA256:%s", good ? key_format(encoded, hash) : "unknown");
    return text;
}
