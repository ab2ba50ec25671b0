#include "unit.h"

#include <pty.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/start/host_key.h"

static char folder[] = "/tmp/petrel-host-key-XXXXXX";
static char path[64];
static const uint8_t key[KEY_SIZE] = {1}, other[KEY_SIZE] = {2};

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%.40s/known_hosts", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static bool known(const uint8_t asked[KEY_SIZE])
{
    struct known_host_found found;
    assert_true(known_hosts_check(path, "host", 7000, asked, &found, NULL));
    return found.what == KNOWN_HOST_SAME;
}

/* Asks in a child that has a terminal of its own, at which somebody types. Returns the child's exit
 * status: 0 accepted, else the kind of the error; what the terminal showed is in `said`. */
static int asked_at_terminal(const char *typed, bool batch, char *said, size_t capacity)
{
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(child >= 0);
    if (child == 0) {
        const struct host_key_options options = {.path = path, .batch = batch};
        struct error error = {0};
        _exit(host_key_accept(&options, "host", 7000, key, &error) ? 0 : (int)error.kind);
    }
    size_t length = 0;
    ssize_t got;
    bool has_typed = false;
    while (length + 1 < capacity &&
           (got = read(terminal, said + length, capacity - 1 - length)) > 0) {
        length += (size_t)got;
        said[length] = '\0';
        if (!has_typed && strstr(said, "paste the fingerprint: ") != NULL) {
            has_typed = true;
            assert_int_equal(write(terminal, typed, strlen(typed)), strlen(typed));
        }
    }
    said[length] = '\0';
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(terminal);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_somebody_is_asked(void **state)
{
    (void)state;
    char said[4096], print[FINGERPRINT_SIZE], line[FINGERPRINT_SIZE + 2];
    fingerprint_format(print, key);
    snprintf(line, sizeof(line), "%s\n", print);
    static const char *const refusals[] = {"no\n", "NO\n", "y\n\nSHA256:abc\nno\n", "yes!\nno\n"};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        assert_int_equal(asked_at_terminal(refusals[i], false, said, sizeof(said)), ERROR_CRYPTO);
        assert_non_null(strstr(said, print));
        assert_non_null(strstr(said, "host:7000"));
        assert_false(known(key));
    }
    const char *const consents[] = {"yes\n", "maybe\n Yes \n", line};
    for (size_t i = 0; i < sizeof(consents) / sizeof(consents[0]); i++) {
        assert_int_equal(asked_at_terminal(consents[i], false, said, sizeof(said)), 0);
        assert_true(known(key));
        assert_int_equal(asked_at_terminal("no\n", false, said, sizeof(said)), 0);
        assert_string_equal(said, ""); /* a friend now: nobody is asked */
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(asked_at_terminal("\x04", false, said, sizeof(said)), ERROR_CRYPTO);
    assert_int_equal(asked_at_terminal("yes\n", true, said, sizeof(said)), ERROR_CRYPTO);
    assert_null(strstr(said, "paste"));
    assert_false(known(key));
}

/* In a session of its own, which has no terminal. */
static int without_terminal(const struct host_key_options *options, const uint8_t shown[KEY_SIZE],
                            const char *says)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error = {0};
        setsid();
        bool good = host_key_accept(options, "host", 7000, shown, &error);
        bool told = says == NULL || strstr(error.text, says) != NULL;
        _exit(good ? 0 : told ? (int)error.kind : 200);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 201;
}

static void test_nobody_is_there(void **state)
{
    (void)state;
    char print[FINGERPRINT_SIZE];
    struct host_key_options options = {.path = path, .quiet = true};
    assert_int_equal(without_terminal(&options, key, "--accept-new"), ERROR_CRYPTO);
    assert_int_equal(without_terminal(&options, key, fingerprint_format(print, key)), ERROR_CRYPTO);
    assert_false(known(key));
    options.accept_new = true;
    assert_int_equal(without_terminal(&options, key, NULL), 0);
    assert_true(known(key));
    /* accept_new is for hosts that are new, never for a key that is another. */
    assert_int_equal(without_terminal(&options, other, "host:7000 HAS CHANGED"), ERROR_CRYPTO);
    assert_int_equal(without_terminal(&options, other, fingerprint_format(print, key)),
                     ERROR_CRYPTO);
    assert_false(known(other));
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(without_terminal(&options, key, "chmod go-w"), ERROR_PERMISSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_somebody_is_asked),
        cmocka_unit_test(test_nobody_is_there),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
