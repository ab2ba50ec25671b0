#include "lab/crash_point.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_uint_fast64_t calls;
static uint64_t fatal;
static bool fatal_after;

/* ---- counting ---- */

void crash_point_arm(uint64_t call, bool after)
{
    fatal = call;
    fatal_after = after;
    atomic_store(&calls, 0);
}

uint64_t crash_point_count(void)
{
    return atomic_load(&calls);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* The number of this call. */
static uint64_t before(void)
{
    uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    if (call == fatal && !fatal_after)
        die();
    return call;
}

static void after(uint64_t call)
{
    if (call != 0 && call == fatal && fatal_after)
        die();
}

int __real_fstat64(int fd, struct stat *status);

static bool is_on_disk(int fd)
{
    struct stat status;
    int saved = errno;
    bool yes = __real_fstat64(fd, &status) == 0 &&
               (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode));
    errno = saved;
    return yes;
}

/* 0, which is no call's number, for what is no file's. */
static uint64_t before_on(int fd)
{
    return is_on_disk(fd) ? before() : 0;
}

/* ---- the calls ---- */

#define CALL(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        uint64_t call = before();                                                                  \
        type result = __real_##name arguments;                                                     \
        after(call);                                                                               \
        return result;                                                                             \
    }

#define CALL_ON(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        uint64_t call = before_on(fd);                                                             \
        type result = __real_##name arguments;                                                     \
        after(call);                                                                               \
        return result;                                                                             \
    }

CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
CALL(int, unlink, (const char *path), (path))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode))
CALL(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
CALL(int, renameat, (int a, const char *b, int c, const char *d), (a, b, c, d))
CALL(int, renameat2, (int a, const char *b, int c, const char *d, unsigned e), (a, b, c, d, e))
CALL(int, symlinkat, (const char *target, int fd, const char *path), (target, fd, path))
CALL(int, linkat, (int a, const char *b, int c, const char *d, int e), (a, b, c, d, e))
CALL(ssize_t, readlinkat, (int fd, const char *path, char *to, size_t size), (fd, path, to, size))
CALL(int, fstatat64, (int fd, const char *path, struct stat *status, int flags),
     (fd, path, status, flags))
CALL(int, stat64, (const char *path, struct stat *status), (path, status))
CALL(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags))
CALL(int, chmod, (const char *path, mode_t mode), (path, mode))
CALL(int, utimensat, (int fd, const char *path, const struct timespec *times, int flags),
     (fd, path, times, flags))
CALL_ON(int, fsync, (int fd), (fd))
CALL_ON(int, fdatasync, (int fd), (fd))
CALL_ON(int, syncfs, (int fd), (fd))
CALL_ON(int, fchmod, (int fd, mode_t mode), (fd, mode))
CALL_ON(int, futimens, (int fd, const struct timespec *times), (fd, times))
CALL_ON(int, ftruncate64, (int fd, off_t size), (fd, size))
CALL_ON(int, fallocate64, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size))
CALL_ON(ssize_t, pread64, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
CALL_ON(ssize_t, pwrite64, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
CALL_ON(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
CALL_ON(int, flock, (int fd, int operation), (fd, operation))
CALL_ON(int, fstatvfs64, (int fd, struct statvfs *status), (fd, status))
CALL_ON(int, fstat64, (int fd, struct stat *status), (fd, status))

/* Its file descriptor is gone afterwards. */
CALL_ON(int, close, (int fd), (fd))

#define TAKE(type)                                                                                 \
    va_list list;                                                                                  \
    va_start(list, last);                                                                          \
    type argument = va_arg(list, type);                                                            \
    va_end(list)

int __real_open64(const char *path, int last, ...);
int __wrap_open64(const char *path, int last, ...);
int __wrap_open64(const char *path, int last, ...)
{
    TAKE(unsigned);
    uint64_t call = before();
    int result = __real_open64(path, last, argument);
    after(call);
    return result;
}

int __real_openat64(int fd, const char *path, int last, ...);
int __wrap_openat64(int fd, const char *path, int last, ...);
int __wrap_openat64(int fd, const char *path, int last, ...)
{
    TAKE(unsigned);
    uint64_t call = before();
    int result = __real_openat64(fd, path, last, argument);
    after(call);
    return result;
}

int __real_ioctl(int fd, unsigned long last, ...);
int __wrap_ioctl(int fd, unsigned long last, ...);
int __wrap_ioctl(int fd, unsigned long last, ...)
{
    TAKE(void *);
    uint64_t call = before_on(fd);
    int result = __real_ioctl(fd, last, argument);
    after(call);
    return result;
}

/* openat2, which the C library has no function for. */
long __real_syscall(long last, ...);
long __wrap_syscall(long last, ...);
long __wrap_syscall(long last, ...)
{
    va_list list;
    long arguments[6];
    va_start(list, last);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    uint64_t call = before();
    long result = __real_syscall(last, arguments[0], arguments[1], arguments[2], arguments[3],
                                 arguments[4], arguments[5]);
    after(call);
    return result;
}

/* ---- by the environment ---- */

static const char *count_file;

__attribute__((constructor)) static void take_environment(void)
{
    const char *text = getenv("PETREL_TEST_CRASH");
    if (text == NULL)
        return;
    if (strncmp(text, "count:", 6) == 0) {
        count_file = text + 6;
        return;
    }
    char *end;
    uint64_t call = strtoull(text, &end, 10);
    crash_point_arm(call, *end == '+');
}

__attribute__((destructor)) static void tell_count(void)
{
    uint64_t total = crash_point_count();
    FILE *file = count_file != NULL ? fopen(count_file, "we") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%llu\n", (unsigned long long)total);
    fclose(file);
}
