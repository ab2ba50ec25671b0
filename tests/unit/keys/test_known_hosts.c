#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys/known_hosts.h"

#define A_TEXT "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define B_TEXT "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw"

static uint8_t a[KEY_SIZE], b[KEY_SIZE];

static int prepare(void **state)
{
    (void)state;
    return key_parse(A_TEXT, KEY_TEXT_LENGTH, a) && key_parse(B_TEXT, KEY_TEXT_LENGTH, b) ? 0 : 1;
}

static struct known_host_found search(const char *text, const char *host, uint16_t port,
                                      const uint8_t key[KEY_SIZE])
{
    struct known_host_found found;
    struct error error = {0};
    if (!known_hosts_search(text, strlen(text), "known", host, port, key, &found, &error))
        fail_msg("%s", error.text);
    return found;
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool canonical;
    } rows[] = {
        {"example.org", "example.org", PETREL_PORT, true},
        {"example.org:7000", "example.org", 7000, true},
        {"example.org:4717", "example.org", PETREL_PORT, false},
        {"[2001:db8::1]", "2001:db8::1", PETREL_PORT, true},
        {"[fe80::1%eth0]:65535", "fe80::1%eth0", 65535, true},
        {"192.0.2.1:1", "192.0.2.1", 1, true},
    };
    char host[HOST_NAME_LENGTH + 1], text[HOST_TEXT_SIZE];
    uint16_t port;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(host_parse(rows[i].text, strlen(rows[i].text), host, &port));
        assert_string_equal(host, rows[i].host);
        assert_int_equal(port, rows[i].port);
        if (rows[i].canonical)
            assert_string_equal(host_format(text, host, port), rows[i].text);
    }
    static const char *const none[] = {"",      ":7000",   "[",       "[]",   "[::1",  "[::1]x",
                                       "a:",    "a:0",     "a:65536", "a:x",  "a:1:2", "a b",
                                       "-oops", "[a]:+10", "a/b",     "[[a]", "a,b",   "a:123456"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        if (host_parse(none[i], strlen(none[i]), host, &port))
            fail_msg("\"%s\" was taken", none[i]);
    }
    char long_name[HOST_NAME_LENGTH + 2];
    memset(long_name, 'a', sizeof(long_name));
    assert_true(host_parse(long_name, HOST_NAME_LENGTH, host, &port));
    assert_int_equal(strlen(host_format(text, host, 65535)), HOST_NAME_LENGTH + 6);
    assert_false(host_parse(long_name, HOST_NAME_LENGTH + 1, host, &port));
}

static void test_search(void **state)
{
    (void)state;
    const char *text = "# servers\nExample.org petrel-ed25519 " A_TEXT " since 2026\n"
                       "example.org:7000 petrel-ed25519 " B_TEXT "\n"
                       "two petrel-ed25519 " A_TEXT "\ntwo petrel-ed25519 " B_TEXT "\n";
    struct known_host_found found = search(text, "example.ORG", PETREL_PORT, a);
    assert_true(found.what == KNOWN_HOST_SAME && found.line == 2);
    found = search(text, "example.org", PETREL_PORT, b);
    assert_true(found.what == KNOWN_HOST_CHANGED && found.line == 2);
    assert_memory_equal(found.key, a, KEY_SIZE);
    assert_int_equal(search(text, "example.org", 7000, b).what, KNOWN_HOST_SAME);
    assert_int_equal(search(text, "example.org", 7001, b).what, KNOWN_HOST_NEW);
    assert_int_equal(search(text, "example.or", PETREL_PORT, a).what, KNOWN_HOST_NEW);
    assert_int_equal(search(text, "two", PETREL_PORT, a).line, 4);
    found = search(text, "two", PETREL_PORT, b);
    assert_true(found.what == KNOWN_HOST_SAME && found.line == 5);
    uint8_t other[KEY_SIZE] = {0};
    found = search(text, "two", PETREL_PORT, other);
    assert_true(found.what == KNOWN_HOST_CHANGED && found.line == 4);
    assert_int_equal(search("", "two", PETREL_PORT, b).what, KNOWN_HOST_NEW);
}

/* Also in a line about another host, and after one that decides: a file half of which cannot be
 * read is not one to trust. */
static void test_mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"a:b petrel-ed25519 " B_TEXT, "\"a:b\" is no host"},
        {"a ssh-ed25519 " B_TEXT, "not \"ssh-ed25519\""},
        {"a", "expected petrel-ed25519 and a key, not \"\""},
        {"a petrel-ed25519", "the key after petrel-ed25519 is missing"},
        {"a petrel-ed25519 " B_TEXT "x", "is no key"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        struct known_host_found found = {.line = 77};
        struct error error = {0};
        snprintf(text, sizeof(text), "h petrel-ed25519 " A_TEXT "\n%s\n", rows[i].line);
        assert_false(
            known_hosts_search(text, strlen(text), "known", "h", PETREL_PORT, a, &found, &error));
        assert_int_equal(found.line, 77);
        if (strncmp(error.text, "known:2: ", 9) != 0 || strstr(error.text, rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].line, error.text);
    }
}

static void test_each_cut(void **state)
{
    (void)state;
    static const char text[] = "[::1]:7000 petrel-ed25519 " A_TEXT " comment";
    struct known_host_found found;
    size_t whole = sizeof("[::1]:7000 petrel-ed25519 " A_TEXT) - 1;
    for (size_t cut = 1; cut < sizeof(text); cut++) {
        char *exact = malloc(cut);
        memcpy(exact, text, cut);
        assert_int_equal(known_hosts_search(exact, cut, "known", "::1", 7000, a, &found, NULL),
                         cut >= whole);
        free(exact);
    }
}

static void test_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/petrel-known-XXXXXX", middle[64], path[80];
    struct known_host_found found;
    struct error error = {0};
    struct stat status;
    assert_non_null(mkdtemp(folder));
    snprintf(middle, sizeof(middle), "%s/petrel", folder);
    snprintf(path, sizeof(path), "%s/known_hosts", middle);
    assert_true(known_hosts_check(path, "h", 1, a, &found, &error));
    assert_int_equal(found.what, KNOWN_HOST_NEW);
    assert_true(known_hosts_add(path, "h", 1, a, &error));
    assert_true(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600);
    assert_true(stat(middle, &status) == 0 && (status.st_mode & 07777) == 0700);
    FILE *file = fopen(path, "a"); /* an editor that ends no line */
    assert_non_null(file);
    assert_true(fputs("# last", file) >= 0 && fclose(file) == 0);
    assert_true(known_hosts_add(path, "::1", PETREL_PORT, b, &error));
    assert_true(known_hosts_check(path, "::1", PETREL_PORT, b, &found, &error));
    assert_true(found.what == KNOWN_HOST_SAME && found.line == 3);
    assert_true(known_hosts_check(path, "h", 1, b, &found, &error));
    assert_int_equal(found.what, KNOWN_HOST_CHANGED);
    assert_false(known_hosts_refuse(path, "h", 1, b, &found, &error));
    assert_int_equal(error.kind, ERROR_CRYPTO);
    char was[FINGERPRINT_SIZE], is[FINGERPRINT_SIZE], place[96];
    snprintf(place, sizeof(place), "%s:1", path);
    assert_true(strstr(error.text, fingerprint_format(was, a)) != NULL &&
                strstr(error.text, fingerprint_format(is, b)) != NULL &&
                strstr(error.text, place) != NULL && strstr(error.text, "h:1 HAS CHANGED") != NULL);
    assert_int_equal(chmod(path, 0622), 0);
    assert_false(known_hosts_check(path, "h", 1, a, &found, NULL));
    unlink(path);
    rmdir(middle);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_each_cut),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
