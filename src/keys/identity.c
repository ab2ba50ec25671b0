#include "keys/identity.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crypto/ed25519.h"
#include "crypto/primitives.h"
#include "keys/key_file.h"

#define TEXT_MAX 512

/* A public key in the file of a secret one is a likely slip, and so is a key of ssh's. */
static bool parse_line(const struct key_lines *lines, struct key_word rest,
                       struct identity *identity, struct error *error)
{
    struct key_word all = rest, first = key_word_cut(&all), text = key_word_cut(&all);
    if (!key_word_is(first, KEY_SECRET_WORD))
        return key_lines_refuse(lines, error,
                                "an identity begins with " KEY_SECRET_WORD
                                "; petrel key --identity=FILE makes one");
    if (!key_parse(text.text, text.length, identity->seed))
        return key_lines_refuse(lines, error,
                                "the secret key is damaged: %d letters, digits, + "
                                "and / follow " KEY_SECRET_WORD,
                                KEY_TEXT_LENGTH);
    snprintf(identity->comment, sizeof(identity->comment), "%.*s", (int)all.length, all.text);
    return ed25519_public_key(identity->seed, identity->key, error);
}

bool identity_parse(const char *text, size_t size, const char *file, struct identity *identity,
                    struct error *error)
{
    struct key_lines lines = key_lines_of(text, size, file);
    struct identity found = {0};
    struct key_word line, second = {0};
    bool good = key_lines_next(&lines, &line, error);
    if (good && line.length == 0)
        good = error_set(error, ERROR_USAGE, "%s holds no key; remove it, and petrel key makes one",
                         file);
    good =
        good && parse_line(&lines, line, &found, error) && key_lines_next(&lines, &second, error);
    if (good && second.length != 0)
        good = key_lines_refuse(&lines, error, "an identity is one key; this line is one too many");
    if (good)
        *identity = found;
    identity_wipe(&found);
    return good;
}

char *identity_default_path(struct error *error)
{
    return key_file_default("identity", error);
}

static bool load(const char *path, struct identity *identity, struct error *error)
{
    size_t size = 0;
    char *text = key_file_read(path, true, &size, error);
    if (text == NULL)
        return false;
    bool good = identity_parse(text, size, path, identity, error);
    wipe(text, size);
    free(text);
    return good;
}

bool identity_load(const char *path, struct identity *identity, struct error *error)
{
    struct error cause = {0};
    if (load(path, identity, &cause))
        return true;
    if (cause.kind == ERROR_NOT_FOUND)
        return error_set(error, cause.kind,
                         "there is no identity %s; petrel key --identity=%s makes one", path, path);
    return error_set(error, cause.kind, "%s", cause.text);
}

/* "user@host", for whoever reads it in a list of keys. */
static void say_whose(char comment[KEY_COMMENT_MAX])
{
    char host[65] = "";
    const struct passwd *user = getpwuid(geteuid());
    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    snprintf(comment, KEY_COMMENT_MAX, "%.60s@%s", user != NULL ? user->pw_name : "user", host);
    for (char *at = comment; *at != '\0'; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            *at = '_';
    }
}

static bool make(const char *path, struct error *error)
{
    uint8_t seed[KEY_SIZE];
    char encoded[KEY_TEXT_SIZE], comment[KEY_COMMENT_MAX], text[TEXT_MAX];
    if (!random_bytes(seed, sizeof(seed), error))
        return false;
    say_whose(comment);
    snprintf(text, sizeof(text),
             "# The secret half of a key: nobody else may read this file.\n%s %s %s\n",
             KEY_SECRET_WORD, key_format(encoded, seed), comment);
    bool good = key_file_make_directory(path, error) && key_file_make(path, text, error);
    wipe(seed, sizeof(seed));
    wipe(encoded, sizeof(encoded));
    wipe(text, sizeof(text));
    return good;
}

bool identity_load_or_make(const char *path, struct identity *identity, bool *made,
                           struct error *error)
{
    struct error cause = {0};
    bool new = false;
    if (!load(path, identity, &cause)) {
        if (cause.kind != ERROR_NOT_FOUND)
            return error_set(error, cause.kind, "%s", cause.text);
        cause = (struct error){0};
        /* Somebody who makes one at the same moment is as good. */
        new = make(path, &cause);
        if (!new &&cause.kind != ERROR_EXISTS)
            return error_set(error, cause.kind, "%s", cause.text);
        if (!load(path, identity, error))
            return false;
    }
    *made = new;
    return true;
}

void identity_wipe(struct identity *identity)
{
    wipe(identity, sizeof(*identity));
}
