#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/start/ssh_process.h"

static void on_signal(int number)
{
    (void)number;
}

static void test_session(void **state)
{
    (void)state;
    assert_false(ssh_process_has_session(getpid()));
    struct sigaction action = {.sa_handler = on_signal}, before;
    assert_int_equal(sigaction(SIGTERM, &action, &before), 0);
    assert_true(ssh_process_has_session(getpid()));
    assert_int_equal(sigaction(SIGTERM, &before, NULL), 0);
    assert_false(ssh_process_has_session(getpid()));
    assert_false(ssh_process_has_session(0));
}

static void test_asks(void **state)
{
    (void)state;
    assert_false(ssh_process_asks(getpid()));
    assert_false(ssh_process_asks(0));
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        skip(); /* no terminal to ask on */
    assert_true(ssh_process_asks(getpid()));
    close(tty);
    assert_false(ssh_process_asks(getpid()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_session), cmocka_unit_test(test_asks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
