#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/units.h"
#include "serve/control_socket.h"

static char folder[] = "/tmp/petrel-control-XXXXXX";
static char path[64];

/* ---- words ---- */

static bool same(const struct control_request *a, const struct control_request *b)
{
    return a->what == b->what && a->limit_bps == b->limit_bps;
}

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        struct control_request request;
    } rows[] = {
        {"status", {CONTROL_STATUS, 0}},    {"status-json", {CONTROL_STATUS_JSON, 0}},
        {"limit none", {CONTROL_LIMIT, 0}}, {"limit 200Mbit", {CONTROL_LIMIT, 200000000}},
        {"pause", {CONTROL_PAUSE, 0}},      {"resume", {CONTROL_RESUME, 0}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct control_request request, again;
        char line[CONTROL_REQUEST_MAX];
        assert_true(control_request_parse(rows[i].line, strlen(rows[i].line), &request, NULL));
        assert_true(same(&request, &rows[i].request));
        control_request_format(line, &request);
        assert_true(control_request_parse(line, strlen(line), &again, NULL));
        assert_true(same(&again, &request));
        for (size_t cut = 0; cut < strlen(rows[i].line); cut++) {
            bool good = control_request_parse(rows[i].line, cut, &again, NULL);
            assert_int_equal(good, cut == 6 && i == 1); /* "status" of "status-json" */
        }
    }
}

static void test_no_words(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",          "stat",       "STATUS",      "status ", "status x",   "limit",       "limit ",
        "limit 25M", "limit 0bit", "limit none ", "pause 1", "resume now", "limit -1Mbit"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct control_request request = {CONTROL_PAUSE, 77};
        struct error error = {0};
        if (control_request_parse(lines[i], strlen(lines[i]), &request, &error))
            fail_msg("\"%s\" was taken", lines[i]);
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_int_equal(request.limit_bps, 77);
    }
    struct control_request request;
    char line[CONTROL_REQUEST_MAX] = "limit ";
    assert_false(control_request_parse("status\0x", 8, &request, NULL));
    memset(line + 6, '1', sizeof(line) - 6);
    assert_false(control_request_parse(line, sizeof(line), &request, NULL));
}

/* ---- the socket ---- */

struct server {
    struct control_socket *control;
    struct control_request heard;
    unsigned asked;
    char *answer; /* NULL: an error */
};

static char *give_answer(void *context, const struct control_request *request, struct error *error)
{
    struct server *server = context;
    server->heard = *request;
    server->asked++;
    if (server->answer != NULL)
        return strdup(server->answer);
    error_set(error, ERROR_USAGE, "not now");
    return NULL;
}

struct asking {
    struct control_request request;
    char *text;
    struct error error;
    volatile int done;
};

static void *ask(void *context)
{
    struct asking *asking = context;
    asking->text = control_ask(path, &asking->request, &asking->error);
    __atomic_store_n(&asking->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void serve_until(struct server *server, struct asking *asking)
{
    while (!__atomic_load_n(&asking->done, __ATOMIC_ACQUIRE)) {
        struct pollfd polls[CONTROL_POLLS];
        unsigned count = control_socket_polls(server->control, polls);
        poll(polls, count, 10);
        control_socket_step(server->control, 1);
    }
}

static void test_questions(void **state)
{
    (void)state;
    struct error error = {0};
    struct server server = {0};
    struct stat status;
    pthread_t thread;
    server.control = control_socket_open(path, give_answer, &server, &error);
    assert_non_null(server.control);
    assert_true(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
    char *large = malloc(600000);
    memset(large, 'x', 599999);
    large[599999] = '\0';
    const char *const answers[] = {"", "one\ntwo\n", large, NULL};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct asking asking = {.request = {CONTROL_LIMIT, 5000 + i}};
        server.answer = (char *)(uintptr_t)answers[i];
        assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
        serve_until(&server, &asking);
        pthread_join(thread, NULL);
        assert_int_equal(server.heard.limit_bps, 5000 + i);
        if (answers[i] != NULL)
            assert_string_equal(asking.text, answers[i]);
        else
            assert_true(asking.text == NULL && strcmp(asking.error.text, "not now") == 0);
        free(asking.text);
    }
    free(large);
    assert_null(control_socket_open(path, give_answer, &server, &error));
    assert_int_equal(error.kind, ERROR_EXISTS);
    control_socket_free(server.control);
    assert_int_equal(access(path, F_OK), -1);
    struct control_request request = {CONTROL_STATUS, 0};
    error = (struct error){0};
    assert_null(control_ask(path, &request, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
}

static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Those who say nothing, too much or half a word hold nobody else up for long. */
static void test_bad_clients(void **state)
{
    (void)state;
    struct error error = {0};
    struct server server = {.answer = (char *)(uintptr_t) "fine\n"};
    server.control = control_socket_open(path, give_answer, &server, &error);
    assert_non_null(server.control);
    int silent[CONTROL_CLIENTS_MAX], late = -1;
    char bytes[CONTROL_REQUEST_MAX + 1], said[64] = "";
    struct pollfd polls[CONTROL_POLLS];
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
        silent[i] = connected();
    late = connected();
    assert_int_equal(send(late, "pause\n", 6, 0), 6);
    memset(bytes, 's', sizeof(bytes));
    assert_int_equal(send(silent[0], bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(send(silent[1], "pau", 3, 0), 3);
    control_socket_step(server.control, 100);
    assert_int_equal(control_socket_deadline(server.control), 100 + CONTROL_PATIENCE_NS);
    control_socket_step(server.control, 200); /* the long one is gone, the late one in */
    control_socket_step(server.control, 300);
    assert_int_equal(server.asked, 1);
    assert_int_equal(recv(late, said, sizeof(said) - 1, 0), 8);
    assert_string_equal(said, "ok\nfine\n");
    control_socket_step(server.control, 300 + CONTROL_PATIENCE_NS);
    assert_int_equal(control_socket_polls(server.control, polls), 1);
    assert_true(control_socket_deadline(server.control) == TIME_NEVER);
    close(late);
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
        close(silent[i]);
    control_socket_forget(server.control); /* as after a kill: the file is left */
    assert_int_equal(access(path, F_OK), 0);
    server.control = control_socket_open(path, give_answer, &server, &error);
    assert_non_null(server.control);
    control_socket_free(server.control);
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && fclose(file) == 0);
    assert_null(control_socket_open(path, give_answer, &server, &error));
    assert_non_null(strstr(error.text, "no socket"));
    unlink(path);
}

static void test_names(void **state)
{
    (void)state;
    char long_path[200];
    struct error error = {0};
    memset(long_path, 'a', sizeof(long_path));
    long_path[0] = '/';
    long_path[sizeof(long_path) - 1] = '\0';
    assert_null(control_socket_open(long_path, give_answer, NULL, &error));
    assert_non_null(strstr(error.text, "--control"));
    setenv("RUNTIME_DIRECTORY", "/run/petrel", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/5", 1);
    char *found = control_socket_default_path(&error);
    assert_string_equal(found, "/run/petrel/control");
    free(found);
    unsetenv("RUNTIME_DIRECTORY");
    found = control_socket_default_path(&error);
    assert_string_equal(found, "/run/user/5/petrel/control");
    free(found);
    unsetenv("XDG_RUNTIME_DIR");
    found = control_socket_default_path(&error);
    assert_string_equal(found, "/run/petrel/control");
    free(found);
}

static int prepare(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%.40s/sub/control", folder);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    char sub[64];
    snprintf(sub, sizeof(sub), "%.40s/sub", folder);
    rmdir(sub);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),     cmocka_unit_test(test_no_words),
        cmocka_unit_test(test_questions), cmocka_unit_test(test_bad_clients),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
