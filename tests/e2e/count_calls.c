/* Preloaded into a program: counts what nothing on the way of a packet may do, and writes the
 * counts to the file that PETREL_TEST_COUNTS names when the program ends. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_ullong allocations, locks;

void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(old, size);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    typedef int lock_function(pthread_mutex_t *);
    static _Atomic(lock_function *) real;
    lock_function *next = atomic_load(&real);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
        atomic_store(&real, next);
    }
    atomic_fetch_add_explicit(&locks, 1, memory_order_relaxed);
    return next != NULL ? next(mutex) : EINVAL;
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("PETREL_TEST_COUNTS");
    unsigned long long allocated = allocations, locked = locks;
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%llu %llu\n", allocated, locked);
    fclose(file);
}
