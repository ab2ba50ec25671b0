#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crypto/ed25519.h"
#include "keys/identity.h"
#include "keys/key_file.h"

#define SEED "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A" /* RFC 8032's first */
#define KEY "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo"

static bool parse(const char *text, struct identity *identity, struct error *error)
{
    *error = (struct error){0};
    return identity_parse(text, strlen(text), "identity", identity, error);
}

static void test_parse(void **state)
{
    (void)state;
    struct identity identity;
    struct error error;
    char text[KEY_TEXT_SIZE];
    assert_true(parse("# mine\n\npetrel-ed25519-secret " SEED " me@here too\n", &identity, &error));
    assert_string_equal(key_format(text, identity.key), KEY);
    assert_string_equal(identity.comment, "me@here too");
    assert_true(parse("petrel-ed25519-secret " SEED, &identity, &error));
    assert_string_equal(identity.comment, "");
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "identity holds no key"},
        {"# only words\n", "identity holds no key"},
        {"petrel-ed25519 " KEY, "identity:1: an identity begins with petrel-ed25519-secret"},
        {"-----BEGIN OPENSSH PRIVATE KEY-----", "identity:1: an identity begins with"},
        {"petrel-ed25519-secret", "identity:1: the secret key is damaged"},
        {"\npetrel-ed25519-secret " SEED "A", "identity:2: the secret key is damaged"},
        {"petrel-ed25519-secret " SEED "\npetrel-ed25519-secret " SEED, "identity:2: an identity "
                                                                        "is one key"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct identity identity = {.comment = "before"};
        struct error error;
        assert_false(parse(rows[i].text, &identity, &error));
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_string_equal(identity.comment, "before");
        if (strstr(error.text, rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].text, error.text);
        assert_null(strstr(error.text, "nWGx"));
    }
}

static void test_each_cut(void **state)
{
    (void)state;
    static const char text[] = "petrel-ed25519-secret " SEED " c";
    struct identity identity;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        char *exact = malloc(cut + 1);
        memcpy(exact, text, cut);
        assert_int_equal(identity_parse(exact, cut, "identity", &identity, NULL),
                         cut >= sizeof(text) - 3);
        free(exact);
    }
}

static void test_make_and_load(void **state)
{
    (void)state;
    char folder[] = "/tmp/petrel-identity-XXXXXX", outer[64], middle[80], path[96];
    struct identity identity, again;
    struct error error = {0};
    struct stat status;
    bool made = false;
    assert_non_null(mkdtemp(folder));
    snprintf(outer, sizeof(outer), "%s/.config", folder);
    snprintf(middle, sizeof(middle), "%s/petrel", outer);
    snprintf(path, sizeof(path), "%s/identity", middle);
    assert_false(identity_load(path, &identity, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    assert_non_null(strstr(error.text, "petrel key"));
    umask(0);
    assert_true(identity_load_or_make(path, &identity, &made, &error));
    assert_true(made && stat(path, &status) == 0 && (status.st_mode & 07777) == 0600);
    assert_true(stat(middle, &status) == 0 && (status.st_mode & 07777) == 0700);
    assert_true(identity_load_or_make(path, &again, &made, &error));
    assert_false(made);
    assert_memory_equal(&identity, &again, sizeof(identity));
    uint8_t key[KEY_SIZE];
    assert_true(ed25519_public_key(identity.seed, key, &error));
    assert_memory_equal(key, identity.key, sizeof(key));
    error = (struct error){0};
    assert_false(key_file_make(path, "another\n", &error));
    assert_int_equal(error.kind, ERROR_EXISTS);
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0644};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        error = (struct error){0};
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_false(identity_load_or_make(path, &again, &made, &error));
        assert_int_equal(error.kind, ERROR_PERMISSION);
        assert_true(strstr(error.text, path) != NULL && strstr(error.text, "chmod 600") != NULL);
    }
    unlink(path);
    error = (struct error){0};
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(identity_load_or_make(path, &again, &made, &error));
    assert_non_null(strstr(error.text, "is not a file"));
    rmdir(path);
    assert_int_equal(rmdir(middle), 0); /* nothing else was left in it */
    rmdir(outer);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_each_cut),
        cmocka_unit_test(test_make_and_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
