/* How keys are written: the word petrel-ed25519 and 43 characters, the key's 32 bytes in base64
 * (RFC 4648 section 4) without the "=" at their end. Pure.
 *
 * A fingerprint is what people compare, in the form they know from ssh: "SHA256:" and the base64 of
 * the key's SHA-256.
 */
#ifndef PETREL_KEYS_KEY_TEXT_H
#define PETREL_KEYS_KEY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_SIZE 32
#define KEY_WORD "petrel-ed25519"
#define KEY_SECRET_WORD "petrel-ed25519-secret"
#define KEY_TEXT_LENGTH 43
#define KEY_TEXT_SIZE (KEY_TEXT_LENGTH + 1)
#define FINGERPRINT_SIZE (7 + KEY_TEXT_SIZE)

/* The 43 characters. Returns `text`. */
char *key_format(char text[KEY_TEXT_SIZE], const uint8_t key[KEY_SIZE]);
/* From exactly 43 characters in the one form that key_format writes. */
bool key_parse(const char *text, size_t length, uint8_t key[KEY_SIZE]);
/* Returns `text`. */
char *fingerprint_format(char text[FINGERPRINT_SIZE], const uint8_t key[KEY_SIZE]);

#endif
