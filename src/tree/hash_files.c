#include "tree/hash_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/block.h"
#include "tree/beneath.h"
#include "tree/jail.h"

#define THREADS_MAX 16

struct pool {
    struct hash_file *files;
    size_t count, at; /* at: the first file with blocks that nobody has taken */
    const volatile int *stop;
    pthread_mutex_t lock;
};

static uint32_t length_of(const struct hash_file *file, uint32_t index)
{
    uint64_t left = file->size - (uint64_t)index * BLOCK_SIZE;
    return left < BLOCK_SIZE ? (uint32_t)left : BLOCK_SIZE;
}

static bool open_file(struct hash_file *file)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct stat status;
    file->fd = file->follow ? jail_openat(file->root, file->path, flags)
                            : beneath_open(file->root, file->path, flags, 0);
    if (file->fd < 0)
        return error_set_errno(&file->error, errno, "cannot be opened");
    if (fstat(file->fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        (uint64_t)status.st_size != file->size)
        return error_set(&file->error, ERROR_CHANGED, "changed while it was read");
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return true;
}

static bool read_block(const struct hash_file *file, uint32_t index, uint8_t *buffer,
                       struct error *error)
{
    size_t length = length_of(file, index), got = 0;
    while (got < length) {
        ssize_t n = pread(file->fd, buffer + got, length - got,
                          (off_t)((uint64_t)index * BLOCK_SIZE + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(error, errno, "cannot be read");
        if (n == 0)
            return error_set(error, ERROR_CHANGED, "shrank while it was read");
        got += (size_t)n;
    }
    return true;
}

static void close_file(struct hash_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* At most one block: whoever takes it does all of it. */
static void hash_small(struct hash_file *file, uint8_t *buffer)
{
    if (open_file(file) && (file->size == 0 || read_block(file, 0, buffer, &file->error)))
        tree_hash_whole(buffer, (size_t)file->size, file->hash);
    close_file(file);
}

/* Opens a large file, once. Called with the lock held. */
static bool prepare(struct hash_file *file)
{
    if (file->parts != NULL || file->error.kind != ERROR_NONE)
        return file->error.kind == ERROR_NONE;
    file->parts = tree_hash_new(file->size);
    if (file->parts == NULL)
        return error_set(&file->error, ERROR_MEMORY, "no memory to hash it");
    return open_file(file);
}

/* The next piece of work: a file and a block of it. False when there is none. */
static bool take(struct pool *pool, struct hash_file **file, uint32_t *index)
{
    bool found = false;
    pthread_mutex_lock(&pool->lock);
    while (!found && pool->at < pool->count) {
        struct hash_file *next = &pool->files[pool->at];
        bool stopped = pool->stop != NULL && *pool->stop != 0;
        if (stopped)
            error_set(&next->error, ERROR_INTERRUPTED, "interrupted");
        bool usable = !stopped && (next->blocks <= 1 || prepare(next));
        if (!usable && next->left == 0)
            close_file(next);
        if (!usable) {
            pool->at++;
            continue;
        }
        found = true;
        *file = next;
        *index = next->next++;
        next->left++;
        if (next->next >= next->blocks)
            pool->at++;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

/* A block of a large file is hashed; the last one makes the whole. */
static void finish(struct pool *pool, struct hash_file *file, uint32_t index,
                   const uint8_t value[TREE_HASH_SIZE], const struct error *error)
{
    pthread_mutex_lock(&pool->lock);
    file->left--;
    if (error->kind != ERROR_NONE)
        error_set(&file->error, error->kind, "%s", error->text);
    else if (!tree_hash_add(file->parts, index, value))
        error_set(&file->error, ERROR_MEMORY, "no memory to hash it");
    bool over = file->left == 0 && (file->next >= file->blocks || file->error.kind != ERROR_NONE);
    if (over && file->error.kind == ERROR_NONE)
        tree_hash_result(file->parts, file->hash);
    if (over)
        close_file(file);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *context)
{
    struct pool *pool = context;
    struct hash_file *file;
    uint32_t index;
    uint8_t *buffer = aligned_new(BLOCK_SIZE, 4096);
    while (buffer != NULL && take(pool, &file, &index)) {
        uint8_t value[TREE_HASH_SIZE];
        struct error error = {0};
        if (file->blocks <= 1) {
            hash_small(file, buffer);
            continue;
        }
        if (read_block(file, index, buffer, &error))
            tree_hash_block(buffer, length_of(file, index), index, value);
        finish(pool, file, index, value, &error);
    }
    aligned_free(buffer);
    return NULL;
}

void hash_files(struct hash_file *files, size_t count, const volatile int *stop)
{
    struct pool pool = {.files = files, .count = count, .stop = stop};
    pthread_t threads[THREADS_MAX];
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        files[i].error = (struct error){0};
        files[i].parts = NULL;
        files[i].fd = -1;
        files[i].next = files[i].left = 0;
        files[i].blocks = (uint32_t)((files[i].size + BLOCK_SIZE - 1) / BLOCK_SIZE);
        bytes += files[i].size;
    }
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors < 1             ? 1
                    : processors > THREADS_MAX ? THREADS_MAX
                                               : (size_t)processors;
    wanted = count < 2 && bytes <= BLOCK_SIZE ? 0 : wanted - 1; /* besides this one */
    size_t running = 0;
    pthread_mutex_init(&pool.lock, NULL);
    while (running < wanted && pthread_create(&threads[running], NULL, work, &pool) == 0)
        running++;
    work(&pool);
    for (size_t i = 0; i < running; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&pool.lock);
    for (size_t i = 0; i < count; i++) {
        if (pool.at < count && i >= pool.at) /* not even this thread had a buffer */
            error_set(&files[i].error, ERROR_MEMORY, "no memory to hash it");
        close_file(&files[i]);
        tree_hash_free(files[i].parts);
        files[i].parts = NULL;
    }
}
