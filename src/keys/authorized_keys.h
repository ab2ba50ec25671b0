/* Whom petrel serve lets in, and to what: authorized_keys, one key a line, after ssh's.
 *
 *     [OPTION[,OPTION]...] petrel-ed25519 KEY [COMMENT]
 *
 * Options: roots="a,b" (of the server's roots only these; all without it), read-only (may fetch,
 * not send), write-only (may send, not fetch), limit=RATE (each way, all of the key's sessions
 * together; as --limit takes it), expires=DATE (2026-12-31: good to the end of that day;
 * 2026-12-31T18:00: until then; both UTC). Values may stand in double quotes, and must where they
 * hold a comma. A mistake anywhere refuses the whole file: half of the rules would be other rules.
 */
#ifndef PETREL_KEYS_AUTHORIZED_KEYS_H
#define PETREL_KEYS_AUTHORIZED_KEYS_H

#include "keys/key_lines.h"

#define KEY_EXPIRES_NEVER UINT64_MAX
#define ROOT_NAME_MAX 64

struct authorized_key {
    uint8_t key[KEY_SIZE];
    bool may_fetch, may_send; /* from and to the server; at least one */
    uint64_t limit_bps;       /* 0: none */
    uint64_t expires_s;       /* since 1970, UTC: refused from then on; or KEY_EXPIRES_NEVER */
    char *roots;              /* names separated by commas, as written; NULL: all */
    char comment[KEY_COMMENT_MAX];
    unsigned line;
};

struct authorized_keys;

/* Pure. ERROR_USAGE "FILE:LINE: ..." quotes the word that is wrong. No key may stand there twice.
 */
struct authorized_keys *authorized_keys_parse(const char *text, size_t size, const char *file,
                                              struct error *error);
/* Errors as of key_file_read(path, false, ...) besides. */
struct authorized_keys *authorized_keys_load(const char *path, struct error *error);
void authorized_keys_free(struct authorized_keys *keys);

size_t authorized_keys_count(const struct authorized_keys *keys);
/* In the order of keys, index below the count; for looking at all of them. */
const struct authorized_key *authorized_keys_at(const struct authorized_keys *keys, size_t index);
/* NULL when the key is not there. That it has expired is for the caller to ask. */
const struct authorized_key *authorized_keys_find(const struct authorized_keys *keys,
                                                  const uint8_t key[KEY_SIZE]);
bool authorized_key_expired(const struct authorized_key *key, uint64_t now_s);
bool authorized_key_admits_root(const struct authorized_key *key, const char *root);
/* The first of the key's roots that `exists` does not know, in `name`; false when there is none. */
bool authorized_key_unknown_root(const struct authorized_key *key,
                                 bool (*exists)(void *context, const char *root), void *context,
                                 char name[ROOT_NAME_MAX + 1]);

/* Names of roots: 1 to ROOT_NAME_MAX letters, digits, ".", "_" and "-", not beginning with "." or
 * "-". */
bool root_name_is_good(const char *name, size_t length);

#endif
