#include "lab/power_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "lab/crash_point.h"

enum thing_kind { THING_FILE, THING_DIRECTORY, THING_LINK };

/* A file, directory or link, ever; `real` is its inode number while it lives. */
struct thing {
    enum thing_kind kind;
    ino_t real;
    bool gone; /* its inode number may be another's now */
    char *target;
    mode_t mode;
    struct timespec time; /* of what was there at the beginning */
};

enum change_kind { CHANGE_NAME, CHANGE_RENAME, CHANGE_UNNAME, CHANGE_WRITE, CHANGE_RESIZE };

struct change {
    enum change_kind kind;
    size_t call;    /* after which call it happened */
    size_t durable; /* after which call it is synced; SIZE_MAX: never */
    bool dropped;   /* a sync of it has failed: no other one makes it durable */
    size_t thing;   /* the file; of a NAME what gets it */
    size_t directory, to_directory;
    char *name, *to_name;
    uint64_t offset;
    size_t size;
    uint8_t *bytes;
};

struct power_disk {
    struct thing *things;
    size_t thing_count;
    struct change *changes;
    size_t change_count;
    size_t calls;
    size_t sync_began; /* after which call the sync of everything that goes on began */
};

static struct power_disk *recorded;

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void check(bool good)
{
    if (!good)
        abort();
}

/* ---- things ---- */

static size_t add_thing(struct power_disk *disk, struct thing thing)
{
    disk->things = must(realloc(disk->things, (disk->thing_count + 1) * sizeof *disk->things));
    disk->things[disk->thing_count] = thing;
    return disk->thing_count++;
}

static size_t find_real(const struct power_disk *disk, ino_t real)
{
    for (size_t i = disk->thing_count; i-- > 0;) {
        if (disk->things[i].real == real && !disk->things[i].gone)
            return i;
    }
    return SIZE_MAX;
}

static size_t thing_of(const struct power_disk *disk, int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? find_real(disk, status.st_ino) : SIZE_MAX;
}

static size_t thing_at(const struct power_disk *disk, int fd, const char *name)
{
    struct stat status;
    return fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? find_real(disk, status.st_ino)
                                                                : SIZE_MAX;
}

/* ---- changes ---- */

static struct change *add_change(struct power_disk *disk, enum change_kind kind)
{
    disk->changes = must(realloc(disk->changes, (disk->change_count + 1) * sizeof *disk->changes));
    struct change *change = &disk->changes[disk->change_count++];
    *change = (struct change){.kind = kind, .call = disk->calls, .durable = SIZE_MAX};
    return change;
}

static bool is_about_names(const struct change *change)
{
    return change->kind <= CHANGE_UNNAME;
}

/* What happened until the call `until`; `thing` SIZE_MAX: everything. */
static void make_durable(struct power_disk *disk, size_t thing, size_t until)
{
    for (size_t i = 0; i < disk->change_count && disk->changes[i].call <= until; i++) {
        struct change *change = &disk->changes[i];
        bool concerns =
            thing == SIZE_MAX ||
            (is_about_names(change) ? change->directory == thing || change->to_directory == thing
                                    : change->thing == thing);
        if (change->durable == SIZE_MAX && !change->dropped && concerns)
            change->durable = disk->calls;
    }
}

/* Sizes are with the names, which a file system keeps or gives up altogether. */
static void drop_bytes(struct power_disk *disk, size_t thing)
{
    for (size_t i = 0; i < disk->change_count; i++) {
        struct change *change = &disk->changes[i];
        if (change->kind == CHANGE_WRITE && change->thing == thing && change->durable == SIZE_MAX)
            change->dropped = true;
    }
}

/* A new file that has no name yet. */
static void make_unnamed(struct power_disk *disk, int file)
{
    struct stat status;
    if (fstat(file, &status) == 0)
        add_thing(disk, (struct thing){.kind = THING_FILE,
                                       .real = status.st_ino,
                                       .mode = status.st_mode & 0777});
}

static void add_name(struct power_disk *disk, size_t parent, const char *name, size_t thing)
{
    struct change *change = add_change(disk, CHANGE_NAME);
    change->thing = thing;
    change->directory = change->to_directory = parent;
    change->name = must(strdup(name));
}

static void name_thing(struct power_disk *disk, int directory, const char *name,
                       enum thing_kind kind, const char *target)
{
    struct stat status;
    size_t parent = thing_of(disk, directory);
    if (parent == SIZE_MAX || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return; /* elsewhere */
    size_t thing =
        add_thing(disk, (struct thing){.kind = kind,
                                       .real = status.st_ino,
                                       .mode = status.st_mode & 0777,
                                       .target = target != NULL ? strdup(target) : NULL});
    add_name(disk, parent, name, thing);
}

static void record_name(struct power_disk *disk, const struct file_call *call)
{
    size_t parent = thing_of(disk, call->fd), thing = thing_at(disk, call->fd, call->name);
    if (parent != SIZE_MAX && thing != SIZE_MAX)
        add_name(disk, parent, call->name, thing);
}

static void record_rename(struct power_disk *disk, const struct file_call *call)
{
    size_t from = thing_of(disk, call->fd), to = thing_of(disk, call->to_fd);
    if (from == SIZE_MAX || to == SIZE_MAX)
        return;
    struct change *change = add_change(disk, CHANGE_RENAME);
    change->thing = thing_at(disk, call->to_fd, call->target);
    change->directory = from;
    change->to_directory = to;
    change->name = must(strdup(call->name));
    change->to_name = must(strdup(call->target));
}

/* Things whose name is gone: their inode numbers may come again. */
static void forget_missing(struct power_disk *disk, size_t thing)
{
    if (thing != SIZE_MAX && disk->things[thing].kind != THING_DIRECTORY)
        disk->things[thing].gone = true;
}

static void record_unlink(struct power_disk *disk, const struct file_call *call)
{
    size_t parent = thing_of(disk, call->fd);
    if (parent == SIZE_MAX)
        return;
    /* The model knows best what had that name. */
    size_t thing = SIZE_MAX;
    for (size_t i = 0; i < disk->change_count; i++) {
        const struct change *change = &disk->changes[i];
        if (change->kind == CHANGE_NAME && change->directory == parent &&
            strcmp(change->name, call->name) == 0)
            thing = change->thing;
        if (change->kind == CHANGE_RENAME && change->to_directory == parent &&
            strcmp(change->to_name, call->name) == 0)
            thing = change->thing;
    }
    forget_missing(disk, thing);
    struct change *change = add_change(disk, CHANGE_UNNAME);
    change->directory = change->to_directory = parent;
    change->name = must(strdup(call->name));
}

static void record_bytes(struct power_disk *disk, const struct file_call *call)
{
    size_t thing = thing_of(disk, call->fd);
    if (thing == SIZE_MAX)
        return;
    bool writes = call->kind == FILE_CALL_WRITE;
    struct change *change = add_change(disk, writes ? CHANGE_WRITE : CHANGE_RESIZE);
    change->thing = thing;
    change->offset = call->offset;
    change->size = call->size;
    if (writes)
        change->bytes = memcpy(must(malloc(call->size + 1)), call->bytes, call->size);
}

static void on_call(const struct file_call *call)
{
    struct power_disk *disk = recorded;
    disk->calls++;
    switch (call->kind) {
    case FILE_CALL_CREATE:
        if (call->name == NULL)
            make_unnamed(disk, call->result);
        else
            name_thing(disk, call->fd, call->name, THING_FILE, NULL);
        break;
    case FILE_CALL_NAME:
        record_name(disk, call);
        break;
    case FILE_CALL_MKDIR:
        name_thing(disk, call->fd, call->name, THING_DIRECTORY, NULL);
        break;
    case FILE_CALL_LINK:
        name_thing(disk, call->fd, call->name, THING_LINK, call->target);
        break;
    case FILE_CALL_WRITE:
    case FILE_CALL_RESIZE:
        record_bytes(disk, call);
        break;
    case FILE_CALL_RENAME:
        record_rename(disk, call);
        break;
    case FILE_CALL_UNLINK:
        record_unlink(disk, call);
        break;
    case FILE_CALL_SYNC:
        if (thing_of(disk, call->fd) != SIZE_MAX)
            make_durable(disk, thing_of(disk, call->fd), disk->calls);
        break;
    case FILE_CALL_SYNC_ALL_BEGINS:
        disk->sync_began = disk->calls;
        break;
    case FILE_CALL_SYNC_ALL:
        make_durable(disk, SIZE_MAX, disk->sync_began);
        break;
    case FILE_CALL_SYNC_FAILED:
        drop_bytes(disk, thing_of(disk, call->fd));
        break;
    }
}

/* ---- the beginning ---- */

static uint8_t *read_all(const char *path, size_t size)
{
    uint8_t *bytes = must(malloc(size + 1));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0);
    for (size_t got = 0; got < size;) {
        ssize_t n = pread(fd, bytes + got, size - got, (off_t)got);
        check(n > 0);
        got += (size_t)n;
    }
    close(fd);
    return bytes;
}

static void take_thing(struct power_disk *disk, size_t parent, const char *folder,
                       const char *name);

static void take_folder(struct power_disk *disk, size_t thing, const char *path)
{
    DIR *stream = must(opendir(path));
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            take_thing(disk, thing, path, entry->d_name);
    }
    closedir(stream);
}

/* A test's own tree is shallow. */
static void take_thing(struct power_disk *disk, size_t parent, const char *folder, const char *name)
{
    char path[4096], target[4096] = "";
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check(lstat(path, &status) == 0);
    struct thing thing = {.kind = S_ISDIR(status.st_mode)   ? THING_DIRECTORY
                                  : S_ISLNK(status.st_mode) ? THING_LINK
                                                            : THING_FILE,
                          .real = status.st_ino,
                          .mode = status.st_mode & 07777,
                          .time = status.st_mtim};
    if (thing.kind == THING_LINK) {
        check(readlink(path, target, sizeof target - 1) > 0);
        thing.target = must(strdup(target));
    }
    size_t index = add_thing(disk, thing);
    struct change *change = add_change(disk, CHANGE_NAME);
    change->thing = index;
    change->directory = change->to_directory = parent;
    change->name = must(strdup(name));
    if (thing.kind == THING_FILE) {
        change = add_change(disk, CHANGE_WRITE);
        change->thing = index;
        change->size = (size_t)status.st_size;
        change->bytes = read_all(path, change->size);
    }
    if (thing.kind == THING_DIRECTORY)
        take_folder(disk, index, path);
}

struct power_disk *power_disk_new(const char *root)
{
    struct power_disk *disk = must(calloc(1, sizeof *disk));
    struct stat status;
    check(stat(root, &status) == 0);
    size_t thing = add_thing(disk, (struct thing){.kind = THING_DIRECTORY, .real = status.st_ino});
    take_folder(disk, thing, root);
    make_durable(disk, SIZE_MAX, disk->calls);
    recorded = disk;
    crash_point_watch(on_call);
    return disk;
}

void power_disk_stop(struct power_disk *disk)
{
    check(disk == recorded);
    crash_point_watch(NULL);
    recorded = NULL;
}

void power_disk_free(struct power_disk *disk)
{
    for (size_t i = 0; i < disk->thing_count; i++)
        free(disk->things[i].target);
    for (size_t i = 0; i < disk->change_count; i++) {
        free(disk->changes[i].name);
        free(disk->changes[i].to_name);
        free(disk->changes[i].bytes);
    }
    free(disk->things);
    free(disk->changes);
    free(disk);
}

size_t power_disk_count(const struct power_disk *disk)
{
    return disk->calls;
}

/* ---- states ---- */

struct name {
    size_t directory, thing;
    const char *name;
    bool written;
};

struct state {
    const struct power_disk *disk;
    struct name *names;
    size_t count;
    uint8_t *there; /* one a change */
};

static void unname(struct state *state, size_t directory, const char *name)
{
    for (size_t i = 0; i < state->count; i++) {
        if (state->names[i].directory == directory && strcmp(state->names[i].name, name) == 0) {
            state->names[i] = state->names[--state->count];
            return;
        }
    }
}

static void set_name(struct state *state, size_t directory, const char *name, size_t thing)
{
    unname(state, directory, name);
    state->names[state->count++] =
        (struct name){.directory = directory, .thing = thing, .name = name};
}

static void apply_names(struct state *state)
{
    for (size_t i = 0; i < state->disk->change_count; i++) {
        const struct change *change = &state->disk->changes[i];
        if (!state->there[i] || !is_about_names(change))
            continue;
        if (change->kind != CHANGE_NAME)
            unname(state, change->directory, change->name);
        if (change->kind == CHANGE_NAME)
            set_name(state, change->directory, change->name, change->thing);
        if (change->kind == CHANGE_RENAME && change->thing != SIZE_MAX)
            set_name(state, change->to_directory, change->to_name, change->thing);
    }
}

static void write_bytes(const struct state *state, size_t thing, int fd)
{
    for (size_t i = 0; i < state->disk->change_count; i++) {
        const struct change *change = &state->disk->changes[i];
        if (!state->there[i] || is_about_names(change) || change->thing != thing)
            continue;
        struct stat status;
        if (change->kind == CHANGE_WRITE)
            check(pwrite(fd, change->bytes, change->size, (off_t)change->offset) ==
                  (ssize_t)change->size);
        else if (fstat(fd, &status) == 0)
            check(ftruncate(fd, (off_t)change->size) == 0);
    }
}

static void write_thing(struct state *state, struct name *name, const char *path);

static void write_folder(struct state *state, size_t directory, const char *path)
{
    for (size_t i = 0; i < state->count; i++) {
        char below[4096];
        snprintf(below, sizeof below, "%s/%s", path, state->names[i].name);
        if (state->names[i].directory == directory)
            write_thing(state, &state->names[i], below);
    }
}

static void write_thing(struct state *state, struct name *name, const char *path)
{
    const struct thing *thing = &state->disk->things[name->thing];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, thing->time};
    if (name->written)
        return;
    name->written = true;
    if (thing->kind == THING_LINK) {
        check(symlink(thing->target, path) == 0);
    } else if (thing->kind == THING_DIRECTORY) {
        check(mkdir(path, 0755) == 0);
        write_folder(state, name->thing, path);
    } else {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, thing->mode | 0600);
        check(fd >= 0);
        write_bytes(state, name->thing, fd);
        close(fd);
    }
    if (thing->time.tv_sec != 0)
        utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

void power_disk_write(const struct power_disk *disk, size_t count, enum power_luck luck,
                      uint64_t seed, const char *into)
{
    struct random random;
    random_seed(&random, seed);
    struct state state = {.disk = disk};
    state.names = must(calloc(disk->change_count + 1, sizeof *state.names));
    state.there = must(calloc(disk->change_count + 1, 1));
    for (size_t i = 0; i < disk->change_count; i++) {
        bool lucky =
            luck == POWER_ALL_THERE || (luck == POWER_RANDOM && random_below(&random, 2) != 0);
        state.there[i] =
            disk->changes[i].call <= count && (disk->changes[i].durable <= count || lucky);
    }
    apply_names(&state);
    write_folder(&state, 0, into);
    free(state.names);
    free(state.there);
}
