#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys/authorized_keys.h"

static const char a_key[] = "petrel-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo";
static const char b_key[] = "petrel-ed25519 PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw";

static struct authorized_keys *taken(const char *text)
{
    struct error error = {0};
    struct authorized_keys *keys = authorized_keys_parse(text, strlen(text), "keys", &error);
    if (keys == NULL)
        fail_msg("%s: %s", text, error.text);
    return keys;
}

/* `options` before the key; the error begins with the file and line and says all of `says`. */
static void refused(const char *options, const char *says)
{
    char text[9000];
    struct error error = {0};
    snprintf(text, sizeof(text), "# who may come\n\n%s%s%s", options, options[0] != '\0' ? " " : "",
             a_key);
    assert_null(authorized_keys_parse(text, strlen(text), "keys", &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    if (strncmp(error.text, "keys:3: ", 8) != 0 || strstr(error.text, says) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", options, error.text, says);
}

static const struct authorized_key *only(const struct authorized_keys *keys)
{
    assert_int_equal(authorized_keys_count(keys), 1);
    return authorized_keys_at(keys, 0);
}

static void test_plain_keys(void **state)
{
    (void)state;
    char text[512];
    snprintf(text, sizeof(text), "# one\r\n%s me@here, now\r\n\t%s\t\n", b_key, a_key);
    struct authorized_keys *keys = taken(text);
    assert_int_equal(authorized_keys_count(keys), 2);
    uint8_t wanted[KEY_SIZE];
    assert_true(key_parse(b_key + 15, KEY_TEXT_LENGTH, wanted));
    const struct authorized_key *key = authorized_keys_find(keys, wanted);
    assert_non_null(key);
    assert_string_equal(key->comment, "me@here, now");
    assert_true(key->may_fetch && key->may_send && key->limit_bps == 0 && key->line == 2);
    assert_true(authorized_key_admits_root(key, "any"));
    assert_false(authorized_key_expired(key, UINT64_MAX - 1));
    wanted[0] ^= 1;
    assert_null(authorized_keys_find(keys, wanted));
    authorized_keys_free(keys);
    keys = taken("");
    assert_int_equal(authorized_keys_count(keys), 0);
    assert_null(authorized_keys_find(keys, wanted));
    authorized_keys_free(keys);
    authorized_keys_free(NULL);
}

static bool exists(void *context, const char *root)
{
    (void)context;
    return strcmp(root, "docs") == 0 || strcmp(root, "in-box.2") == 0;
}

static void test_options(void **state)
{
    (void)state;
    char text[512], name[ROOT_NAME_MAX + 1];
    snprintf(text, sizeof(text),
             "roots=\"docs,in-box.2\",read-only,limit=100Mbit,expires=2026-12-31 %s a, b", a_key);
    struct authorized_keys *keys = taken(text);
    const struct authorized_key *key = only(keys);
    assert_true(key->may_fetch && !key->may_send);
    assert_true(key->limit_bps == 100000000 && key->expires_s == 1798761600);
    assert_true(authorized_key_admits_root(key, "docs") &&
                authorized_key_admits_root(key, "in-box.2"));
    assert_false(authorized_key_admits_root(key, "doc") ||
                 authorized_key_admits_root(key, "docs2") || authorized_key_admits_root(key, "") ||
                 authorized_key_admits_root(key, "docs,in-box.2"));
    assert_false(authorized_key_expired(key, 1798761599));
    assert_true(authorized_key_expired(key, 1798761600));
    assert_false(authorized_key_unknown_root(key, exists, NULL, name));
    authorized_keys_free(keys);
    snprintf(text, sizeof(text), "write-only,limit=\"3MB\",roots=docs,expires=2026-01-02T03:04 %s",
             a_key);
    keys = taken(text);
    key = only(keys);
    assert_true(!key->may_fetch && key->may_send && key->limit_bps == 24000000);
    authorized_keys_free(keys);
    snprintf(text, sizeof(text), "roots=\"docs,gone\" %s", a_key);
    keys = taken(text);
    assert_true(authorized_key_unknown_root(only(keys), exists, NULL, name));
    assert_string_equal(name, "gone");
    authorized_keys_free(keys);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    char long_name[80] = "roots=";
    refused("reed-only", "\"reed-only\"");
    refused("Read-only", "\"Read-only\"");
    refused("root=a", "\"root\"");
    refused("read-only=yes", "read-only takes no value");
    refused("roots", "roots needs a value");
    refused("roots=", "\"\" in roots");
    refused("roots=\"a,\"", "\"\" in roots");
    refused("roots=\"a,b c\"", "\"b c\" in roots");
    refused("roots=../x", "\"../x\" in roots");
    refused("roots=.x", "\".x\" in roots");
    memset(long_name + 6, 'a', ROOT_NAME_MAX + 1);
    refused(long_name, "in roots is no name");
    refused("roots=a,roots=b", "roots stands here twice");
    refused("read-only,write-only", "leave nothing");
    refused("limit=fast", "limit=fast: ");
    refused("limit=25M", "limit=25M: ");
    refused("limit=0Mbit", "limit=0Mbit: ");
    refused("expires=soon", "expires=soon: a date is");
    refused("expires=2026-02-30", "expires=2026-02-30");
    refused("roots=\"a", "ends with one");
    refused("roots=a\"b", "in the middle of a value");
    refused("roots=\"a\"b", "a comma or a blank");
    refused("read-only,", "there is no option \"\"");
    refused(",read-only", "there is no option \"\"");
    refused("ssh-ed25519", "\"ssh-ed25519\" is a key of ssh");
    refused("read-only x", "expected petrel-ed25519 and a key, not \"x\"");
    refused("read-only\x01", "byte 0x01 is no text");
}

static void test_broken_keys(void **state)
{
    (void)state;
    struct error error = {0};
    static const char *const texts[] = {
        "petrel-ed25519", "petrel-ed25519 AAAA", "read-only petrel-ed25519", "read-only",
        "petrel-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        error = (struct error){0};
        assert_null(authorized_keys_parse(texts[i], strlen(texts[i]), "keys", &error));
        assert_int_equal(strncmp(error.text, "keys:1: ", 8), 0);
    }
    char text[512];
    snprintf(text, sizeof(text), "%s\n%s\n# x\nread-only %s", a_key, b_key, a_key);
    error = (struct error){0};
    assert_null(authorized_keys_parse(text, strlen(text), "keys", &error));
    assert_string_equal(error.text, "keys:4: the same key stands in line 1");
}

/* Each cut of a good line, and each byte changed to some others, is taken or refused, not crashed
 * over; a line one byte too long is refused. */
static void test_damage(void **state)
{
    (void)state;
    char text[512], long_line[KEY_LINE_MAX + 64];
    snprintf(text, sizeof(text), "roots=\"a,b\",limit=1Gbit,expires=2026-12-31T00:00Z %s c", a_key);
    size_t size = strlen(text);
    for (size_t cut = 0; cut <= size; cut++) {
        char *exact = malloc(cut + 1); /* nothing behind it for a sanitizer to miss */
        memcpy(exact, text, cut);
        struct authorized_keys *keys = authorized_keys_parse(exact, cut, "keys", NULL);
        assert_int_equal(keys != NULL, cut == 0 || cut >= size - 2);
        authorized_keys_free(keys);
        free(exact);
    }
    for (size_t at = 0; at < size; at++) {
        for (const char *byte = "\",=\t x\n\xff"; *byte != '\0'; byte++) {
            char before = text[at];
            text[at] = *byte;
            authorized_keys_free(authorized_keys_parse(text, size, "keys", NULL));
            text[at] = before;
        }
    }
    memset(long_line, ' ', sizeof(long_line));
    memcpy(long_line, a_key, strlen(a_key));
    authorized_keys_free(authorized_keys_parse(long_line, KEY_LINE_MAX, "keys", NULL));
    assert_null(authorized_keys_parse(long_line, KEY_LINE_MAX + 1, "keys", NULL));
}

static void test_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/petrel-keys-XXXXXX", path[64];
    struct error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/authorized_keys", folder);
    assert_null(authorized_keys_load(path, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", a_key);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
    struct authorized_keys *keys = authorized_keys_load(path, NULL);
    assert_non_null(keys);
    authorized_keys_free(keys);
    assert_int_equal(chmod(path, 0664), 0);
    error = (struct error){0};
    assert_null(authorized_keys_load(path, &error));
    assert_int_equal(error.kind, ERROR_PERMISSION);
    assert_non_null(strstr(error.text, "chmod go-w"));
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_keys),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_broken_keys),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
