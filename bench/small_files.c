/* Trees of small files for bench/files, and the floor under what any program can do with them.
 *
 *   small_files make FOLDER FILES DIRECTORIES BYTES     makes such a tree of random bytes
 *   small_files floor FOLDER FILES DIRECTORIES BYTES    the same as petrel's receiving end writes
 * it (no name, a sync for each 4,096 files on a thread of its own, then the name), from memory and
 * with nothing else; where the file system knows no files without a name it fails
 *
 * With DIRECTORIES 1 all files are in FOLDER itself. Prints the seconds it took.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BATCH 4096u
#define BYTES_MAX 65536u

struct tree {
    const char *folder;
    unsigned files, directories, bytes;
    uint64_t state;
    uint8_t content[BYTES_MAX];
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void refuse(const char *what, const char *path)
{
    fprintf(stderr, "small_files: %s %s: ", what, path);
    perror(NULL);
    exit(1);
}

/* No two files alike: splitmix64. */
static void refill(struct tree *tree)
{
    for (unsigned at = 0; at + 8 <= tree->bytes; at += 8) {
        uint64_t value = tree->state += UINT64_C(0x9e3779b97f4a7c15);
        value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
        value ^= value >> 31;
        memcpy(tree->content + at, &value, 8);
    }
}

static int open_directory(const struct tree *tree, unsigned index)
{
    char path[4096];
    if (tree->directories == 1)
        snprintf(path, sizeof path, "%s", tree->folder);
    else
        snprintf(path, sizeof path, "%s/d%05u", tree->folder, index);
    if (tree->directories > 1 && mkdir(path, 0755) != 0)
        refuse("cannot make", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        refuse("cannot open", path);
    return fd;
}

static int write_file(const struct tree *tree, int directory, const char *name)
{
    bool named = name != NULL;
    int flags = named ? O_CREAT | O_EXCL : O_TMPFILE;
    int fd = openat(directory, named ? name : ".", O_WRONLY | O_CLOEXEC | flags, 0644);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1700000000, .tv_nsec = 5}};
    bool done = fd >= 0 && write(fd, tree->content, tree->bytes) == (ssize_t)tree->bytes &&
                (named || futimens(fd, times) == 0);
    if (!done)
        refuse("cannot write", named ? name : "a file without a name");
    return fd;
}

struct waiting {
    int directory, fd;
    unsigned file;
    bool last; /* of its directory */
};

struct batch {
    struct waiting files[BATCH];
    unsigned count;
};

static void file_name(unsigned file, char name[32])
{
    snprintf(name, 32, "f%07u", file);
}

static void *sync_all(void *context)
{
    syncfs(*(int *)context);
    return NULL;
}

/* A batch whose bytes are on the disk. */
static void give_names(struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++) {
        const struct waiting *file = &batch->files[i];
        char name[32], path[64];
        file_name(file->file, name);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
        if (linkat(file->fd, "", file->directory, name, AT_EMPTY_PATH) != 0 &&
            linkat(AT_FDCWD, path, file->directory, name, AT_SYMLINK_FOLLOW) != 0)
            refuse("cannot name", name);
        close(file->fd);
        if (file->last)
            close(file->directory);
    }
    batch->count = 0;
}

/* The full batch is synced while the next one fills; what was synced before gets its names. */
struct pipeline {
    struct batch batches[2];
    unsigned filling;
    int root;
    bool syncs;
    pthread_t thread;
};

static void next_batch(struct pipeline *pipeline)
{
    if (pipeline->syncs)
        pthread_join(pipeline->thread, NULL);
    pipeline->syncs = false;
    unsigned other = !pipeline->filling;
    give_names(&pipeline->batches[other]);
    if (pthread_create(&pipeline->thread, NULL, sync_all, &pipeline->root) != 0)
        refuse("cannot start", "a thread");
    pipeline->syncs = true;
    pipeline->filling = other;
}

static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < 20000 ? limit.rlim_max : 20000;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void go_through(struct tree *tree, bool is_floor)
{
    static struct pipeline pipeline;
    unsigned each = (tree->files + tree->directories - 1) / tree->directories;
    int directory = -1;
    pipeline.root = open(tree->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned file = 0; file < tree->files; file++) {
        char name[32];
        bool last = file % each == each - 1 || file == tree->files - 1;
        if (file % each == 0)
            directory = open_directory(tree, file / each);
        file_name(file, name);
        refill(tree);
        int fd = write_file(tree, directory, is_floor ? NULL : name);
        if (!is_floor) {
            close(fd);
            if (last)
                close(directory);
            continue;
        }
        struct batch *batch = &pipeline.batches[pipeline.filling];
        batch->files[batch->count++] =
            (struct waiting){.directory = directory, .fd = fd, .file = file, .last = last};
        if (batch->count == BATCH)
            next_batch(&pipeline);
    }
    for (int i = 0; i < 2 && is_floor; i++)
        next_batch(&pipeline);
    if (pipeline.syncs)
        pthread_join(pipeline.thread, NULL);
    close(pipeline.root);
}

int main(int argc, char **argv)
{
    static struct tree tree;
    bool is_floor = argc == 6 && strcmp(argv[1], "floor") == 0;
    if (argc != 6 || (!is_floor && strcmp(argv[1], "make") != 0)) {
        fprintf(stderr, "usage: small_files make|floor FOLDER FILES DIRECTORIES BYTES\n");
        return 2;
    }
    tree.folder = argv[2];
    tree.files = (unsigned)strtoul(argv[3], NULL, 10);
    tree.directories = (unsigned)strtoul(argv[4], NULL, 10);
    tree.bytes = (unsigned)strtoul(argv[5], NULL, 10);
    tree.state = is_floor ? 1 : 2;
    if (tree.files == 0 || tree.directories == 0 || tree.directories > tree.files ||
        tree.bytes > BYTES_MAX) {
        fprintf(stderr, "small_files: those numbers make no tree\n");
        return 2;
    }
    if (mkdir(tree.folder, 0755) != 0)
        refuse("cannot make", tree.folder);
    allow_descriptors();
    double start = seconds_now();
    go_through(&tree, is_floor);
    printf("%.3f\n", seconds_now() - start);
    return 0;
}
