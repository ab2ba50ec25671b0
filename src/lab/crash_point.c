#include "lab/crash_point.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
static atomic_uint_fast64_t syncs;
static uint64_t failing_sync;
static void (*watch)(const struct file_call *call);

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

void crash_point_fail_sync(uint64_t sync)
{
    failing_sync = sync;
    atomic_store(&syncs, 0);
}

uint64_t crash_point_syncs(void)
{
    return atomic_load(&syncs);
}

void crash_point_watch(void (*watcher)(const struct file_call *call))
{
    watch = watcher;
}

static void tell(bool done, struct file_call call)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (done && watch != NULL)
        watch(&call);
    pthread_mutex_unlock(&lock);
    errno = saved;
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

/* `told` is the initialiser of what the watcher hears of a call that returned at least 0. */
#define TOLD(...) ((struct file_call){__VA_ARGS__})
#define CALL_TOLD(type, name, number, parameters, arguments, told)                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        uint64_t call = number;                                                                    \
        type result = __real_##name arguments;                                                     \
        tell(result >= 0, told);                                                                   \
        after(call);                                                                               \
        return result;                                                                             \
    }

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

CALL_TOLD(int, unlinkat, before(), (int fd, const char *path, int flags), (fd, path, flags),
          TOLD(.kind = FILE_CALL_UNLINK, .fd = fd, .name = path))
CALL(int, unlink, (const char *path), (path))
CALL_TOLD(int, mkdir, before(), (const char *path, mode_t mode), (path, mode),
          TOLD(.kind = FILE_CALL_MKDIR, .fd = AT_FDCWD, .name = path))
CALL_TOLD(int, mkdirat, before(), (int fd, const char *path, mode_t mode), (fd, path, mode),
          TOLD(.kind = FILE_CALL_MKDIR, .fd = fd, .name = path))
CALL_TOLD(int, renameat, before(), (int a, const char *b, int c, const char *d), (a, b, c, d),
          TOLD(.kind = FILE_CALL_RENAME, .fd = a, .name = b, .to_fd = c, .target = d))
CALL_TOLD(int, renameat2, before(), (int a, const char *b, int c, const char *d, unsigned e),
          (a, b, c, d, e),
          TOLD(.kind = FILE_CALL_RENAME, .fd = a, .name = b, .to_fd = c, .target = d))
CALL_TOLD(int, symlinkat, before(), (const char *to, int fd, const char *path), (to, fd, path),
          TOLD(.kind = FILE_CALL_LINK, .fd = fd, .name = path, .target = to))
CALL_TOLD(int, linkat, before(), (int a, const char *b, int c, const char *d, int e),
          (a, b, c, d, e), TOLD(.kind = FILE_CALL_NAME, .fd = c, .name = d))
CALL(ssize_t, readlinkat, (int fd, const char *path, char *to, size_t size), (fd, path, to, size))
CALL(int, fstatat64, (int fd, const char *path, struct stat *status, int flags),
     (fd, path, status, flags))
CALL(int, stat64, (const char *path, struct stat *status), (path, status))
CALL(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags))
CALL(int, chmod, (const char *path, mode_t mode), (path, mode))
CALL(int, utimensat, (int fd, const char *path, const struct timespec *times, int flags),
     (fd, path, times, flags))

/* Syncs; one may be told to fail. */
static int sync_or_fail(int (*real)(int), int fd, enum file_call_kind kind)
{
    uint64_t call = before_on(fd);
    bool fails = call != 0 && atomic_fetch_add(&syncs, 1) + 1 == failing_sync;
    tell(kind == FILE_CALL_SYNC_ALL, TOLD(.kind = FILE_CALL_SYNC_ALL_BEGINS, .fd = fd));
    int result = fails ? -1 : real(fd);
    if (fails)
        errno = EIO;
    tell(result >= 0, TOLD(.kind = kind, .fd = fd));
    tell(fails && kind == FILE_CALL_SYNC, TOLD(.kind = FILE_CALL_SYNC_FAILED, .fd = fd));
    after(call);
    return result;
}

#define SYNC(name, kind)                                                                           \
    int __real_##name(int fd);                                                                     \
    int __wrap_##name(int fd);                                                                     \
    int __wrap_##name(int fd)                                                                      \
    {                                                                                              \
        return sync_or_fail(__real_##name, fd, kind);                                              \
    }

SYNC(fsync, FILE_CALL_SYNC)
SYNC(fdatasync, FILE_CALL_SYNC)
SYNC(syncfs, FILE_CALL_SYNC_ALL)
CALL_ON(int, fchmod, (int fd, mode_t mode), (fd, mode))
CALL_ON(int, futimens, (int fd, const struct timespec *times), (fd, times))
CALL_TOLD(int, ftruncate64, before_on(fd), (int fd, off_t size), (fd, size),
          TOLD(.kind = FILE_CALL_RESIZE, .fd = fd, .size = (size_t)size))
CALL_TOLD(int, fallocate64, before_on(fd), (int fd, int mode, off_t at, off_t size),
          (fd, mode, at, size),
          TOLD(.kind = FILE_CALL_RESIZE, .fd = fd, .size = (size_t)(at + size)))
CALL_ON(ssize_t, pread64, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
CALL_TOLD(ssize_t, pwrite64, before_on(fd), (int fd, const void *from, size_t size, off_t at),
          (fd, from, size, at),
          TOLD(.kind = FILE_CALL_WRITE, .fd = fd, .bytes = from, .offset = (uint64_t)at,
               .size = (size_t)result))

CALL_ON(int, flock, (int fd, int operation), (fd, operation))
CALL_ON(int, fstatvfs64, (int fd, struct statvfs *status), (fd, status))
CALL_ON(int, fstat64, (int fd, struct stat *status), (fd, status))

/* Where it writes is only known before. */
ssize_t __real_write(int fd, const void *from, size_t size);
ssize_t __wrap_write(int fd, const void *from, size_t size);
ssize_t __wrap_write(int fd, const void *from, size_t size)
{
    uint64_t call = before_on(fd);
    off_t at = call != 0 && watch != NULL ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t result = __real_write(fd, from, size);
    tell(call != 0 && result >= 0, TOLD(.kind = FILE_CALL_WRITE, .fd = fd, .bytes = from,
                                        .offset = (uint64_t)at, .size = (size_t)result));
    after(call);
    return result;
}

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
    bool is_new = watch != NULL && (last & O_CREAT) != 0 && faccessat(fd, path, F_OK, 0) != 0;
    int result = __real_openat64(fd, path, last, argument);
    bool is_unnamed = (last & O_TMPFILE) == O_TMPFILE;
    tell(result >= 0 && (is_new || is_unnamed),
         TOLD(.kind = FILE_CALL_CREATE, .fd = fd, .name = is_unnamed ? NULL : path,
              .result = result));
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
    if (strncmp(text, "sync:", 5) == 0) {
        crash_point_fail_sync(strtoull(text + 5, NULL, 10));
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
