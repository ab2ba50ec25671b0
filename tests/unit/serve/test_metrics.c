#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "serve/metrics.h"
#include "serve/metrics_http.h"

static void says(const char *text, const char *line)
{
    const char *found = text;
    while ((found = strstr(found, line)) != NULL &&
           ((found != text && found[-1] != '\n') || found[strlen(line)] != '\n'))
        found++;
    if (found == NULL)
        fail_msg("no line \"%s\" in:\n%s", line, text);
}

static void test_text(void **state)
{
    (void)state;
    struct metrics metrics = {.started_s = 5, .accepted = 6, .paused = true};
    struct board *board = board_new(8, NULL);
    const struct board_client client = {.job = 1, .peer = "192.0.2.5:9"};
    const struct board_guest guest = {.who = "anna"};
    const struct board_report in = {.direction = BOARD_TO_SERVER,
                                    .bytes_done = 100,
                                    .files_done = 2,
                                    .rate_bps = 800,
                                    .memory_bytes = 64};
    const struct board_report out = {
        .direction = BOARD_FROM_SERVER, .bytes_done = 7, .files_done = 1, .files_failed = 1};
    size_t size;
    metrics.refused[REFUSED_KEY] = 9;
    metrics_count_job(&metrics, &in, false);
    metrics_count_job(&metrics, &out, false);
    metrics_count_job(&metrics, &in, true);
    board_take(board, 3, &client);
    board_admit(board, 3, &guest);
    board_report(board, 3, &in);
    board_take(board, 4, &client);
    char *text = metrics_text(&metrics, board, &size);
    assert_int_equal(strlen(text), size);
    says(text, "petrel_start_time_seconds 5");
    says(text, "petrel_received_bytes_total 200");
    says(text, "petrel_sent_bytes_total 7");
    says(text, "petrel_received_files_total 4");
    says(text, "petrel_jobs_total{result=\"ok\"} 1");
    says(text, "petrel_jobs_total{result=\"partial\"} 1");
    says(text, "petrel_jobs_total{result=\"failed\"} 1");
    says(text, "petrel_refused_total{why=\"key\"} 9");
    says(text, "petrel_refused_total{why=\"request\"} 0");
    says(text, "petrel_paused 1");
    says(text, "petrel_sessions 1");
    says(text, "petrel_half_open 1");
    says(text, "petrel_sessions_max 8");
    says(text, "petrel_rate_bits_per_second 800");
    says(text, "petrel_buffer_bytes 64");
    assert_true(strstr(text, "anna") == NULL && strstr(text, "192.0") == NULL);
    /* Each sample has its two lines of comment before it, once. */
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        assert_true(strncmp(line, "# HELP petrel_", 14) == 0 ||
                    strncmp(line, "# TYPE petrel_", 14) == 0 || strncmp(line, "petrel_", 7) == 0);
    free(text);
    board_free(board);
}

#ifdef HAVE_MICROHTTPD

static char *give(void *context, size_t *size)
{
    ++*(unsigned *)context;
    *size = 15;
    return strdup("petrel_fine 1\n\n");
}

/* One request to the daemon, which is stepped meanwhile; returns what it answered. */
static const char *fetched(struct metrics_http *http, const char *request)
{
    static char answer[4096];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(metrics_http_port(http))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t size = 0;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    for (unsigned turn = 0; turn < 1000; turn++) {
        struct pollfd polls[2] = {{.fd = fd, .events = POLLIN},
                                  {.fd = metrics_http_fd(http), .events = POLLIN}};
        poll(polls, 2, 10);
        metrics_http_step(http);
        ssize_t got = recv(fd, answer + size, sizeof(answer) - 1 - size, MSG_DONTWAIT);
        if (got == 0)
            break;
        size += got > 0 ? (size_t)got : 0;
    }
    answer[size] = '\0';
    close(fd);
    return answer;
}

static void test_http(void **state)
{
    (void)state;
    struct error error = {0};
    unsigned asked = 0;
    struct metrics_http *http = metrics_http_open("127.0.0.1:0", give, &asked, &error);
    assert_non_null(http);
    assert_true(metrics_http_port(http) != 0);
    const char *text = fetched(http, "GET /metrics HTTP/1.0\r\n\r\n");
    assert_true(strncmp(text, "HTTP/1.", 7) == 0 && strstr(text, " 200 ") != NULL);
    assert_non_null(strstr(text, "text/plain; version=0.0.4"));
    assert_non_null(strstr(text, "\r\n\r\npetrel_fine 1\n"));
    assert_int_equal(asked, 1);
    assert_non_null(strstr(fetched(http, "GET / HTTP/1.0\r\n\r\n"), " 404 "));
    assert_non_null(strstr(fetched(http, "DELETE /metrics HTTP/1.0\r\n\r\n"), " 405 "));
    assert_null(strstr(fetched(http, "\x16\x03\x01 garbage\r\n\r\n"), " 200 "));
    assert_int_equal(asked, 1);
    char where[32];
    snprintf(where, sizeof(where), "127.0.0.1:%u", (unsigned)metrics_http_port(http));
    assert_null(metrics_http_open(where, give, &asked, &error));
    assert_int_equal(error.kind, ERROR_IO);
    metrics_http_free(http);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const none[] = {"",      "9117",        ":9117",   "127.0.0.1",
                                       "::1:9", "localhost:9", "[::1]",   "127.0.0.1:65536",
                                       "[::1",  "1.2.3.4:",    "1.2.3:80"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        struct error error = {0};
        assert_null(metrics_http_open(none[i], give, NULL, &error));
        if (error.kind != ERROR_USAGE || strstr(error.text, "--metrics") == NULL)
            fail_msg("%s: %s", none[i], error.text);
    }
    struct metrics_http *http = metrics_http_open("[::1]:0", give, NULL, NULL);
    if (http != NULL) /* some machines have no IPv6 */
        assert_true(metrics_http_port(http) != 0 && metrics_http_deadline(http, 5) == TIME_NEVER);
    metrics_http_free(http);
}

#else

static void test_http(void **state)
{
    (void)state;
    struct error error = {0};
    assert_null(metrics_http_open("127.0.0.1:0", NULL, NULL, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
}

static void test_addresses(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_http),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
