/* Trees of small files for bench/files, and the floor under what any program can do with them.
 *
 *   small_files make FOLDER FILES DIRECTORIES BYTES     makes such a tree of random bytes
 *   small_files floor FOLDER FILES DIRECTORIES BYTES    the same as petrel's receiving end writes
 * it (temporary name, one sync for 4,096 files, rename), from memory and with nothing else
 *
 * With DIRECTORIES 1 all files are in FOLDER itself. Prints the seconds it took.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void write_file(const struct tree *tree, int directory, const char *name, bool finish)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1700000000, .tv_nsec = 5}};
    bool done = fd >= 0 && write(fd, tree->content, tree->bytes) == (ssize_t)tree->bytes &&
                (!finish || (fchmod(fd, 0644) == 0 && futimens(fd, times) == 0));
    if (!done || close(fd) != 0)
        refuse("cannot write", name);
}

struct waiting {
    int directory;
    unsigned file;
    bool last; /* of its directory */
};

static void temporary_name(unsigned file, char name[32])
{
    snprintf(name, 32, ".petrel-%016llx", file * 0x9e3779b97f4a7c15ULL);
}

static void finish_batch(struct waiting *batch, unsigned count)
{
    char from[32], to[32];
    if (count == 0 || syncfs(batch[0].directory) != 0)
        return;
    for (unsigned i = 0; i < count; i++) {
        temporary_name(batch[i].file, from);
        snprintf(to, sizeof to, "f%07u", batch[i].file);
        if (renameat(batch[i].directory, from, batch[i].directory, to) != 0)
            refuse("cannot rename", from);
    }
    syncfs(batch[0].directory);
    for (unsigned i = 0; i < count; i++) {
        if (batch[i].last)
            close(batch[i].directory);
    }
}

static void go_through(struct tree *tree, bool is_floor)
{
    static struct waiting batch[BATCH];
    unsigned count = 0, each = (tree->files + tree->directories - 1) / tree->directories;
    int directory = -1;
    for (unsigned file = 0; file < tree->files; file++) {
        char name[32];
        bool last = file % each == each - 1 || file == tree->files - 1;
        if (file % each == 0)
            directory = open_directory(tree, file / each);
        if (is_floor)
            temporary_name(file, name);
        else
            snprintf(name, sizeof name, "f%07u", file);
        refill(tree);
        write_file(tree, directory, name, is_floor);
        if (!is_floor && last)
            close(directory);
        if (!is_floor)
            continue;
        batch[count++] = (struct waiting){.directory = directory, .file = file, .last = last};
        if (count == BATCH) {
            finish_batch(batch, count);
            count = 0;
        }
    }
    finish_batch(batch, count);
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
    double start = seconds_now();
    go_through(&tree, is_floor);
    printf("%.3f\n", seconds_now() - start);
    return 0;
}
