/* What an intruder in the server's process would try, each in a confined process of its own. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/confine.h"

static char folder[] = "/tmp/petrel-confine-XXXXXX";
static char can_write[64], can_read[64], outside[64];
static struct confine_done has; /* what this kernel can do */

enum { TRIED = 0, NOT_CONFINED = 100 };

/* Runs `attempt` in a child that is confined to the three folders. Returns what it returned, or
 * 1000 + the signal that killed the child. */
static int confined(int (*attempt)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct confine_rule rules[] = {{can_write, CONFINE_WRITE}, {can_read, CONFINE_READ}};
        struct confine_done done;
        if (!confine_files(rules, 2, &done, NULL) || !confine_calls(&done, NULL))
            _exit(NOT_CONFINED);
        _exit(attempt());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const char *beneath(const char *directory, const char *name)
{
    static char paths[4][96];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    return path;
}

static int opened(const char *path, int flags)
{
    return open(path, flags | O_CLOEXEC, 0600) >= 0 ? 0 : errno;
}

/* ---- files ---- */

static int read_passwd(void)
{
    return opened("/etc/passwd", O_RDONLY);
}

static int read_memory(void)
{
    return opened("/proc/self/mem", O_RDWR);
}

static int list_root(void)
{
    return opened("/", O_RDONLY | O_DIRECTORY);
}

static int climb_out(void)
{
    return opened(beneath(can_write, "../outside/file"), O_RDONLY);
}

static int follow_link_out(void)
{
    return opened(beneath(can_write, "link"), O_RDONLY);
}

static int write_where_reading_is(void)
{
    return opened(beneath(can_read, "new"), O_WRONLY | O_CREAT);
}

static int rename_out(void)
{
    return rename(beneath(can_write, "file"), beneath(outside, "taken")) == 0 ? 0 : errno;
}

static int make_device(void)
{
    return mknod(beneath(can_write, "device"), S_IFCHR | 0600, 0x0103) == 0 ? 0 : errno;
}

/* What a copy does: read there, write here, rename, make and remove. */
static int work_inside(void)
{
    int failed = opened(beneath(can_read, "file"), O_RDONLY);
    if (failed == 0)
        failed = opened(beneath(can_write, "new"), O_WRONLY | O_CREAT | O_TRUNC);
    if (failed != 0 || mkdir(beneath(can_write, "sub"), 0700) != 0 ||
        rename(beneath(can_write, "new"), beneath(can_write, "renamed")) != 0 ||
        symlink("x", beneath(can_write, "sub/link")) != 0 ||
        unlink(beneath(can_write, "sub/link")) != 0 || rmdir(beneath(can_write, "sub")) != 0 ||
        unlink(beneath(can_write, "renamed")) != 0)
        return failed != 0 ? failed : errno;
    return 0;
}

static void test_files(void **state)
{
    (void)state;
    if (has.landlock == 0)
        skip();
    int (*const forbidden[])(void) = {read_passwd, read_memory,           list_root,
                                      climb_out,   follow_link_out,       make_device,
                                      rename_out,  write_where_reading_is};
    for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
        int got = confined(forbidden[i]);
        if (got != EACCES && got != EPERM && got != EXDEV)
            fail_msg("attempt %zu: %d", i, got);
    }
    assert_int_equal(confined(work_inside), 0);
}

/* ---- system calls ---- */

static int execute(void)
{
    char *const words[] = {(char *)(uintptr_t) "true", NULL};
    execv("/bin/true", words);
    return errno;
}

static int trace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : errno;
}

static int become_root(void)
{
    return setuid(0) == 0 ? 0 : errno;
}

static int leave_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

static int enter_ring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL) == 0 ? 0 : errno;
}

static int clone_namespace(void)
{
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(0);
    return child > 0 ? 0 : errno;
}

static int talk_netlink(void)
{
    return socket(AF_NETLINK, SOCK_RAW, 0) >= 0 ? 0 : errno;
}

static int type_for_user(void)
{
    return ioctl(0, TIOCSTI, "x") == 0 ? 0 : errno;
}

static void *nothing(void *context)
{
    return context;
}

/* What sessions do: processes, threads, sockets. */
static int run_sessions(void)
{
    pthread_t thread;
    int status = 1, pair[2];
    pid_t child = fork();
    if (child == 0)
        _exit(read_passwd() == 0 ? 0 : 3); /* a child is no less confined */
    if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
        return 1;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    return socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0 &&
                   socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0
               ? 0
               : 3;
}

static void test_calls(void **state)
{
    (void)state;
    if (!has.calls)
        skip();
    int (*const fatal[])(void) = {execute, trace, become_root, leave_namespace, enter_ring};
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        int got = confined(fatal[i]);
        if (got != 1000 + SIGSYS)
            fail_msg("attempt %zu: %d", i, got);
    }
    int (*const refused[])(void) = {clone_namespace, talk_netlink, type_for_user};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        int got = confined(refused[i]);
        if (got != ENOSYS)
            fail_msg("refused %zu: %d", i, got);
    }
    if (has.landlock > 0)
        assert_int_equal(confined(run_sessions), 0);
}

/* ---- network and signals, by Landlock ---- */

static int connect_out(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : errno;
}

static int listen_elsewhere(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET};
    return bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : errno;
}

static int signal_parent(void)
{
    return kill(getppid(), SIGCONT) == 0 ? 0 : errno;
}

static void test_network_and_signals(void **state)
{
    (void)state;
    if (has.landlock < 6)
        skip();
    assert_int_equal(confined(connect_out), EACCES);
    assert_int_equal(confined(listen_elsewhere), EACCES);
    assert_int_equal(confined(signal_parent), EPERM);
}

static void test_a_missing_root(void **state)
{
    (void)state;
    if (has.landlock == 0)
        skip();
    const struct confine_rule rule = {"/nonexistent/root", CONFINE_READ};
    struct confine_done done = {.landlock = 9};
    struct error error = {0};
    assert_false(confine_files(&rule, 1, &done, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nonexistent/root"));
    assert_int_equal(done.landlock, 0);
    assert_int_equal(read_passwd(), 0); /* nothing was taken */
}

/* ---- */

static int probe(void)
{
    return 0;
}

static void write_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static int prepare(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(can_write, sizeof(can_write), "%.40s/write", folder);
    snprintf(can_read, sizeof(can_read), "%.40s/read", folder);
    snprintf(outside, sizeof(outside), "%.40s/outside", folder);
    const char *const folders[] = {can_write, can_read, outside};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mkdir(folders[i], 0700), 0);
        write_file(beneath(folders[i], "file"));
    }
    assert_int_equal(symlink("../outside/file", beneath(can_write, "link")), 0);
    /* In a child, since it cannot be taken back. */
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    pid_t child = fork();
    if (child == 0) {
        struct confine_done done = {0};
        bool good = confine_files(NULL, 0, &done, NULL) && confine_calls(&done, NULL);
        _exit(good && write(pair[1], &done, sizeof(done)) == sizeof(done) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(read(pair[0], &has, sizeof(has)), sizeof(has));
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(confined(probe), TRIED);
#ifndef HAVE_SECCOMP
    assert_false(has.calls);
#endif
    return status;
}

static int clean(void **state)
{
    (void)state;
    const char *const folders[] = {can_write, can_read, outside};
    unlink(beneath(can_write, "link"));
    for (size_t i = 0; i < 3; i++) {
        unlink(beneath(folders[i], "file"));
        rmdir(folders[i]);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_network_and_signals),
        cmocka_unit_test(test_a_missing_root),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
