/* The file that holds a machine's or a user's own key pair: who it is for petrel serve.
 *
 *     # The secret half of a key: nobody else may read this file.
 *     petrel-ed25519-secret SEED user@host
 *
 * SEED is in the form of keys (keys/key_text.h), what follows it a comment. One such line.
 */
#ifndef PETREL_KEYS_IDENTITY_H
#define PETREL_KEYS_IDENTITY_H

#include "keys/key_lines.h"

struct identity {
    uint8_t seed[KEY_SIZE]; /* the secret */
    uint8_t key[KEY_SIZE];  /* the public key */
    char comment[KEY_COMMENT_MAX];
};

/* Pure. ERROR_USAGE with file and line; the error never quotes the seed. */
bool identity_parse(const char *text, size_t size, const char *file, struct identity *identity,
                    struct error *error);
/* ~/.config/petrel/identity, for the caller to free. NULL with ERROR_USAGE where there is no home.
 */
char *identity_default_path(struct error *error);
/* Errors as of key_file_read(path, true, ...); a missing one says how to make it. */
bool identity_load(const char *path, struct identity *identity, struct error *error);
/* Makes it, and the directories above it, when it is missing: *made. */
bool identity_load_or_make(const char *path, struct identity *identity, bool *made,
                           struct error *error);
void identity_wipe(struct identity *identity);

#endif
