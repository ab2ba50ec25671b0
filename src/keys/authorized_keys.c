#include "keys/authorized_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "keys/key_date.h"
#include "keys/key_file.h"

struct authorized_keys {
    struct authorized_key *keys; /* sorted by key */
    size_t count, capacity;
};

/* ---- roots ---- */

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool root_name_is_good(const char *name, size_t length)
{
    if (length == 0 || length > ROOT_NAME_MAX || name[0] == '.' || name[0] == '-')
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!is_name_byte(name[i]))
            return false;
    }
    return true;
}

/* Calls `visit` with each name of the list until it returns false. */
static bool each_root(const char *roots,
                      bool (*visit)(void *context, const char *name, size_t length), void *context)
{
    for (const char *at = roots;; at++) {
        size_t length = strcspn(at, ",");
        if (!visit(context, at, length))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

/* ---- one option ---- */

struct reading {
    struct key_lines *lines;
    struct authorized_key key;
    unsigned seen; /* bits: rows of the table */
    struct error *error;
};

static bool check_root(void *context, const char *name, size_t length)
{
    struct reading *reading = context;
    return root_name_is_good(name, length) ||
           key_lines_refuse(reading->lines, reading->error,
                            "\"%.*s\" in roots is no name of a root: up to %d letters, digits, "
                            "\".\", \"_\" and \"-\"",
                            key_word_shown((struct key_word){name, length}), name, ROOT_NAME_MAX);
}

static bool take_roots(struct reading *reading, const char *value)
{
    if (!each_root(value, check_root, reading))
        return false;
    reading->key.roots = strdup(value);
    return reading->key.roots != NULL ||
           error_set(reading->error, ERROR_MEMORY, "no memory for %s", reading->lines->file);
}

static bool take_read_only(struct reading *reading, const char *value)
{
    (void)value;
    reading->key.may_send = false;
    return true;
}

static bool take_write_only(struct reading *reading, const char *value)
{
    (void)value;
    reading->key.may_fetch = false;
    return true;
}

static bool take_limit(struct reading *reading, const char *value)
{
    struct error cause = {0};
    if (parse_rate(value, &reading->key.limit_bps, &cause) && reading->key.limit_bps > 0)
        return true;
    return key_lines_refuse(reading->lines, reading->error, "limit=%.60s: %s", value,
                            cause.kind != ERROR_NONE ? cause.text : "nothing could pass");
}

static bool take_expires(struct reading *reading, const char *value)
{
    return key_date_parse(value, &reading->key.expires_s) ||
           key_lines_refuse(reading->lines, reading->error,
                            "expires=%.60s: a date is 2026-12-31 or 2026-12-31T18:00, in UTC",
                            value);
}

static const struct key_option {
    const char *name;
    bool has_value;
    bool (*take)(struct reading *reading, const char *value);
} options[] = {
    {"roots", true, take_roots},
    {"read-only", false, take_read_only},
    {"write-only", false, take_write_only},
    {"limit", true, take_limit},
    {"expires", true, take_expires},
};

static bool unknown_option(const struct reading *reading, struct key_word name)
{
    static const struct key_word ssh = {"ssh-", 4}, ecdsa = {"ecdsa-", 6}, sk = {"sk-", 3};
    const struct key_word others[] = {ssh, ecdsa, sk};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (name.length > others[i].length &&
            memcmp(name.text, others[i].text, others[i].length) == 0)
            return key_lines_refuse(reading->lines, reading->error,
                                    "\"%.*s\" is a key of ssh; petrel has its own, which petrel "
                                    "key prints on the client",
                                    key_word_shown(name), name.text);
    }
    return key_lines_refuse(reading->lines, reading->error,
                            "there is no option \"%.*s\"; there are roots=, read-only, write-only, "
                            "limit= and expires=, then " KEY_WORD " and the key",
                            key_word_shown(name), name.text);
}

static bool take_option(struct reading *reading, struct key_word name, const char *value)
{
    for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const struct key_option *option = &options[i];
        if (!key_word_is(name, option->name))
            continue;
        if ((reading->seen & 1u << i) != 0)
            return key_lines_refuse(reading->lines, reading->error, "%s stands here twice",
                                    option->name);
        reading->seen |= 1u << i;
        if (option->has_value != (value != NULL))
            return key_lines_refuse(reading->lines, reading->error,
                                    option->has_value ? "%s needs a value: %s=..."
                                                      : "%s takes no value; write %s alone",
                                    option->name, option->name);
        return option->take(reading, value);
    }
    return unknown_option(reading, name);
}

/* ---- one line ---- */

/* Cuts "=VALUE" from the front of `rest`, which begins with it, without quotes, into `value`. */
static bool cut_value(struct reading *reading, struct key_word *rest, char value[KEY_LINE_MAX + 1])
{
    size_t at = 1, length = 0;
    bool quoted = rest->length > 1 && rest->text[1] == '"';
    for (at += quoted; at < rest->length; at++) {
        char c = rest->text[at];
        if (quoted ? c == '"' : c == ',' || c == ' ' || c == '\t')
            break;
        if (c == '"')
            return key_lines_refuse(reading->lines, reading->error,
                                    "a quote in the middle of a value");
        value[length++] = c;
    }
    if (quoted && at == rest->length)
        return key_lines_refuse(reading->lines, reading->error,
                                "a value that begins with a quote ends with one");
    at += quoted;
    value[length] = '\0';
    rest->text += at;
    rest->length -= at;
    return true;
}

static size_t name_length(struct key_word text)
{
    size_t length = 0;
    while (length < text.length && strchr(",= \t", text.text[length]) == NULL)
        length++;
    return length;
}

/* Takes options from the front of `rest`, up to the blank that ends them. */
static bool take_options(struct reading *reading, struct key_word *rest)
{
    char value[KEY_LINE_MAX + 1];
    for (;;) {
        struct key_word name = {rest->text, name_length(*rest)};
        rest->text += name.length;
        rest->length -= name.length;
        bool has_value = rest->length > 0 && rest->text[0] == '=';
        if (has_value && !cut_value(reading, rest, value))
            return false;
        if (!take_option(reading, name, has_value ? value : NULL))
            return false;
        if (rest->length == 0 || rest->text[0] == ' ' || rest->text[0] == '\t')
            return true;
        if (rest->text[0] != ',')
            return key_lines_refuse(reading->lines, reading->error,
                                    "after %.*s=\"...\" come a comma or a blank, not \"%.*s\"",
                                    (int)name.length, name.text, key_word_shown(*rest), rest->text);
        rest->text++;
        rest->length--;
    }
}

static bool read_line(struct reading *reading, struct key_word line)
{
    struct key_word rest = line, all = line;
    struct key_word first = key_word_cut(&all);
    if (!key_word_is(first, KEY_WORD) && !take_options(reading, &rest))
        return false;
    if (!reading->key.may_send && !reading->key.may_fetch)
        return key_lines_refuse(reading->lines, reading->error,
                                "read-only and write-only together leave nothing");
    if (!key_line_key(reading->lines, &rest, KEY_WORD, reading->key.key, reading->error))
        return false;
    snprintf(reading->key.comment, sizeof(reading->key.comment), "%.*s", (int)rest.length,
             rest.text);
    return true;
}

/* ---- all lines ---- */

static bool add(struct authorized_keys *keys, const struct authorized_key *key, struct error *error)
{
    if (keys->count == keys->capacity) {
        size_t capacity = keys->capacity > 0 ? 2 * keys->capacity : 16;
        struct authorized_key *larger = realloc(keys->keys, capacity * sizeof(*larger));
        if (larger == NULL)
            return error_set(error, ERROR_MEMORY, "no memory for %zu keys", capacity);
        keys->keys = larger;
        keys->capacity = capacity;
    }
    keys->keys[keys->count++] = *key;
    return true;
}

static bool read_all(struct authorized_keys *keys, struct key_lines *lines, struct error *error)
{
    struct key_word line;
    while (key_lines_next(lines, &line, error)) {
        if (line.length == 0)
            return true;
        struct reading reading = {.lines = lines,
                                  .key = {.may_fetch = true,
                                          .may_send = true,
                                          .expires_s = KEY_EXPIRES_NEVER,
                                          .line = lines->number},
                                  .error = error};
        if (!read_line(&reading, line) || !add(keys, &reading.key, error)) {
            free(reading.key.roots);
            return false;
        }
    }
    return false;
}

static int compare(const void *a, const void *b)
{
    const struct authorized_key *one = a, *other = b;
    int order = memcmp(one->key, other->key, KEY_SIZE);
    return order != 0 ? order : (one->line > other->line) - (one->line < other->line);
}

/* Which of two lines would hold is a question that nobody should have to ask. */
static bool check_twins(const struct authorized_keys *keys, struct key_lines *lines,
                        struct error *error)
{
    for (size_t i = 1; i < keys->count; i++) {
        const struct authorized_key *before = &keys->keys[i - 1], *key = &keys->keys[i];
        if (memcmp(before->key, key->key, KEY_SIZE) != 0)
            continue;
        lines->number = key->line;
        return key_lines_refuse(lines, error, "the same key stands in line %u", before->line);
    }
    return true;
}

struct authorized_keys *authorized_keys_parse(const char *text, size_t size, const char *file,
                                              struct error *error)
{
    struct authorized_keys *keys = calloc(1, sizeof(*keys));
    if (keys == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for the keys of %s", file);
        return NULL;
    }
    struct key_lines lines = key_lines_of(text, size, file);
    bool good = read_all(keys, &lines, error);
    if (good && keys->count > 0)
        qsort(keys->keys, keys->count, sizeof(*keys->keys), compare);
    if (!good || !check_twins(keys, &lines, error)) {
        authorized_keys_free(keys);
        return NULL;
    }
    return keys;
}

struct authorized_keys *authorized_keys_load(const char *path, struct error *error)
{
    size_t size = 0;
    struct error cause = {0};
    char *text = key_file_read(path, false, &size, &cause);
    if (text == NULL) {
        if (cause.kind == ERROR_NOT_FOUND)
            error_set(
                error, cause.kind,
                "there is no %s: who may come in stands there, a line for each, as petrel key "
                "prints it on the client",
                path);
        else
            error_set(error, cause.kind, "%s", cause.text);
        return NULL;
    }
    struct authorized_keys *keys = authorized_keys_parse(text, size, path, error);
    free(text);
    return keys;
}

void authorized_keys_free(struct authorized_keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < keys->count; i++)
        free(keys->keys[i].roots);
    free(keys->keys);
    free(keys);
}

/* ---- asking ---- */

size_t authorized_keys_count(const struct authorized_keys *keys)
{
    return keys->count;
}

const struct authorized_key *authorized_keys_at(const struct authorized_keys *keys, size_t index)
{
    return &keys->keys[index];
}

const struct authorized_key *authorized_keys_find(const struct authorized_keys *keys,
                                                  const uint8_t key[KEY_SIZE])
{
    size_t from = 0, to = keys->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = memcmp(keys->keys[middle].key, key, KEY_SIZE);
        if (order == 0)
            return &keys->keys[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

bool authorized_key_expired(const struct authorized_key *key, uint64_t now_s)
{
    return now_s >= key->expires_s;
}

static bool is_other(void *context, const char *name, size_t length)
{
    const char *root = context;
    return strlen(root) != length || memcmp(root, name, length) != 0;
}

bool authorized_key_admits_root(const struct authorized_key *key, const char *root)
{
    return key->roots == NULL || !each_root(key->roots, is_other, (void *)(uintptr_t)root);
}

struct looking {
    bool (*exists)(void *context, const char *root);
    void *context;
    char *name;
};

static bool is_known(void *context, const char *name, size_t length)
{
    struct looking *looking = context;
    snprintf(looking->name, ROOT_NAME_MAX + 1, "%.*s", (int)length, name);
    return looking->exists(looking->context, looking->name);
}

bool authorized_key_unknown_root(const struct authorized_key *key,
                                 bool (*exists)(void *context, const char *root), void *context,
                                 char name[ROOT_NAME_MAX + 1])
{
    struct looking looking = {exists, context, name};
    return key->roots != NULL && !each_root(key->roots, is_known, &looking);
}
