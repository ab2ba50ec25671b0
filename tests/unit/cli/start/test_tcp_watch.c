#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/start/tcp_watch.h"
#include "net/sockaddr.h"

#define S NS_PER_S

/* A port of this machine; `listens`, or nobody is there. */
static int open_port(struct address *address, bool listens)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage storage = {0};
    socklen_t size = sizeof(storage);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(tcp, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(getsockname(tcp, (struct sockaddr *)&storage, &size), 0);
    assert_true(sockaddr_to_address(address, &storage));
    if (listens)
        assert_int_equal(listen(tcp, 8), 0);
    return tcp;
}

/* Asked ten times a second from one time to another; the last answer. */
static enum channel_verdict judge(struct tcp_watch *watch, uint64_t heard_ns, uint64_t from_ns,
                                  uint64_t to_ns)
{
    enum channel_verdict verdict = CHANNEL_FINE;
    for (uint64_t now_ns = from_ns; now_ns <= to_ns; now_ns += S / 10) {
        verdict = tcp_watch_judge(watch, heard_ns, now_ns);
        if (watch->trying) { /* on this machine it is decided at once */
            struct pollfd waits = {.fd = watch->tcp, .events = POLLOUT};
            poll(&waits, 1, 1000);
        }
        if (verdict == CHANNEL_OVER)
            break;
    }
    return verdict;
}

static void a_session_that_is_heard_is_left_alone(void **state)
{
    (void)state;
    struct address address;
    int tcp = open_port(&address, true);
    struct tcp_watch watch = {.addresses = &address, .count = 1};
    assert_int_equal(judge(&watch, 0, 100 * S, 200 * S), CHANNEL_FINE);
    assert_int_equal(judge(&watch, 100 * S, 100 * S, 102 * S), CHANNEL_FINE);
    assert_int_equal(judge(&watch, 100 * S, 103 * S, 104 * S), CHANNEL_ASK);
    assert_false(watch.trying || watch.reached_ns != 0);
    close(tcp);
}

static void where_tcp_gets_through_it_is_over(void **state)
{
    (void)state;
    struct address addresses[2];
    int none = open_port(&addresses[0], false), tcp = open_port(&addresses[1], true);
    struct tcp_watch watch = {.addresses = addresses, .count = 2};
    assert_int_equal(judge(&watch, 100 * S, 103 * S, 106 * S), CHANNEL_ASK);
    assert_int_equal(judge(&watch, 100 * S, 106 * S, 110 * S), CHANNEL_OVER);
    tcp_watch_end(&watch);
    close(none);
    close(tcp);
}

/* An answer by UDP meanwhile: all is forgotten. */
static void who_answers_after_all_lives_on(void **state)
{
    (void)state;
    struct address address;
    int tcp = open_port(&address, true);
    struct tcp_watch watch = {.addresses = &address, .count = 1};
    assert_int_equal(judge(&watch, 100 * S, 103 * S, 106 * S), CHANNEL_ASK);
    assert_int_not_equal(watch.reached_ns, 0);
    assert_int_equal(judge(&watch, 106 * S, 106 * S, 108 * S), CHANNEL_FINE);
    assert_int_equal(watch.reached_ns, 0);
    assert_int_equal(judge(&watch, 106 * S, 109 * S, 112 * S), CHANNEL_ASK);
    tcp_watch_end(&watch);
    close(tcp);
}

static void where_nothing_gets_through_it_is_waited_for(void **state)
{
    (void)state;
    struct address address;
    int tcp = open_port(&address, false);
    struct tcp_watch watch = {.addresses = &address, .count = 1};
    assert_int_equal(judge(&watch, 100 * S, 103 * S, 189 * S), CHANNEL_ASK);
    tcp_watch_end(&watch);
    close(tcp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_is_heard_is_left_alone),
        cmocka_unit_test(where_tcp_gets_through_it_is_over),
        cmocka_unit_test(who_answers_after_all_lives_on),
        cmocka_unit_test(where_nothing_gets_through_it_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
