#include "tree/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/pack.h"

#define PATH_LIMIT (PACK_PATH_MAX - 1) /* what the system takes, without the final NUL */
#define OPEN_LIMIT 32                  /* descriptors held by frames */
/* Bytes of names held at once: sorted as a whole up to this size. Deep frames hold less, so that
 * the sum stays within about 50 MiB at the greatest depth a path can have. */
#define CHUNK_SIZE (1024u * 1024)
#define CHUNK_SIZE_DEEP (16u * 1024)
#define DEEP 16

/* A directory on the way from the root to the current entry. */
struct frame {
    DIR *stream;   /* NULL when everything is read, or while it is closed to save descriptors */
    int fd;        /* borrowed from stream, or owned; -1 while closed */
    bool more;     /* names are left in the directory */
    long position; /* of the next name, for a stream that was closed */
    dev_t device;
    ino_t inode;
    size_t path_size;
    char *names; /* each a byte of type and the name, ended by NUL */
    size_t names_size, names_capacity;
    uint32_t *order; /* offsets into names */
    size_t count, capacity, next;
    size_t hinted; /* names before this one need no hint any more */
};

struct scan {
    int root;
    bool follow_links, specials, everything;
    bool started, enter; /* enter: the entry just given is a directory to go into */
    struct frame *frames;
    size_t depth, capacity;
    size_t open_count;
    const struct filter *filter; /* NULL: none */
    unsigned side;
    size_t prefix_size; /* of the path as the filter sees it, with its "/" */
    char *filtered;     /* prefix, and room for a path */
    bool flat;
    struct read_ahead *ahead; /* NULL: nobody reads them */
    uint64_t own_names;
    size_t path_size;
    char path[PACK_PATH_MAX + 256];
};

bool scan_is_own_name(const char *name)
{
    static const char prefix[] = ".petrel-";
    size_t size = sizeof prefix - 1;
    return strncmp(name, prefix, size) == 0 && strspn(name + size, "0123456789abcdef") == 16 &&
           (name[size + 16] == '\0' || strcmp(name + size + 16, ".journal") == 0);
}

struct scan *scan_new(int root, bool follow_links)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL)
        return NULL;
    scan->root = root;
    scan->follow_links = follow_links;
    return scan;
}

uint64_t scan_own_names(const struct scan *scan)
{
    return scan->own_names;
}

void scan_set_specials(struct scan *scan)
{
    scan->specials = true;
}

void scan_set_everything(struct scan *scan)
{
    scan->specials = scan->everything = true;
}

void scan_set_flat(struct scan *scan)
{
    scan->flat = true;
}

void scan_set_read_ahead(struct scan *scan, struct read_ahead *ahead)
{
    scan->ahead = ahead;
}

bool scan_set_filter(struct scan *scan, const struct filter *filter, unsigned side,
                     const char *prefix)
{
    size_t size = strlen(prefix);
    if (filter->count == 0)
        return true;
    scan->filtered = malloc(size + 1 + sizeof scan->path);
    if (scan->filtered == NULL)
        return false;
    memcpy(scan->filtered, prefix, size);
    if (size > 0)
        scan->filtered[size++] = '/';
    scan->prefix_size = size;
    scan->filter = filter;
    scan->side = side;
    return true;
}

static void close_frame(struct scan *scan, struct frame *frame)
{
    if (frame->fd >= 0)
        scan->open_count--;
    if (frame->stream != NULL)
        closedir(frame->stream);
    else if (frame->fd >= 0)
        close(frame->fd);
    frame->stream = NULL;
    frame->fd = -1;
}

static void pop(struct scan *scan)
{
    struct frame *frame = &scan->frames[--scan->depth];
    close_frame(scan, frame);
    free(frame->names);
    free(frame->order);
}

void scan_free(struct scan *scan)
{
    if (scan == NULL)
        return;
    while (scan->depth > 0)
        pop(scan);
    free(scan->frames);
    free(scan->filtered);
    close(scan->root);
    free(scan);
}

static void set_path_size(struct scan *scan, size_t size)
{
    scan->path_size = size;
    scan->path[size] = '\0';
}

/* Opens the directory at the current path, from the nearest frame that is open. */
static int open_current(struct scan *scan, int parent, const char *leaf)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
    if (scan->path_size == 0)
        return openat(scan->root, ".", flags);
    return openat(parent, leaf, scan->follow_links ? flags : flags | O_NOFOLLOW);
}

/* Closes the open frame nearest to the root when too many are open. */
static void spare_descriptors(struct scan *scan)
{
    for (size_t i = 0; i + 1 < scan->depth && scan->open_count >= OPEN_LIMIT; i++) {
        struct frame *frame = &scan->frames[i];
        if (frame->stream != NULL)
            frame->position = telldir(frame->stream);
        close_frame(scan, frame);
    }
}

/* Opens a frame that was closed to save descriptors again, and makes sure it is the same one. */
static bool reopen(struct scan *scan, struct frame *frame)
{
    if (frame->fd >= 0)
        return true;
    set_path_size(scan, frame->path_size);
    int flags = O_RDONLY | O_DIRECTORY;
    const char *path = frame->path_size == 0 ? "." : scan->path;
    int fd = scan->follow_links ? openat(scan->root, path, flags | O_CLOEXEC)
                                : beneath_open(scan->root, scan->path, flags, 0);
    if (fd < 0)
        return false;
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_dev != frame->device ||
        status.st_ino != frame->inode) {
        close(fd);
        errno = ESTALE;
        return false;
    }
    if (frame->more) {
        frame->stream = fdopendir(fd);
        if (frame->stream == NULL) {
            close(fd);
            return false;
        }
        seekdir(frame->stream, frame->position);
    }
    frame->fd = fd;
    scan->open_count++;
    return true;
}

static bool add_name(struct frame *frame, const struct dirent *found)
{
    size_t size = strlen(found->d_name) + 2;
    if (frame->names_size + size > frame->names_capacity) {
        size_t capacity = frame->names_capacity * 2 + 1024;
        char *names = realloc(frame->names, capacity);
        if (names == NULL)
            return false;
        frame->names = names;
        frame->names_capacity = capacity;
    }
    if (frame->count == frame->capacity) {
        size_t capacity = frame->capacity * 2 + 32;
        uint32_t *order = realloc(frame->order, capacity * sizeof *order);
        if (order == NULL)
            return false;
        frame->order = order;
        frame->capacity = capacity;
    }
    frame->names[frame->names_size] = (char)found->d_type;
    memcpy(frame->names + frame->names_size + 1, found->d_name, size - 1);
    frame->order[frame->count++] = (uint32_t)frame->names_size;
    frame->names_size += size;
    return true;
}

static int compare_names(const void *a, const void *b, void *names)
{
    const char *base = names;
    return strcmp(base + *(const uint32_t *)a + 1, base + *(const uint32_t *)b + 1);
}

/* Reads the next chunk of names. False with errno when the directory cannot be read on. */
static bool read_chunk(struct scan *scan, struct frame *frame)
{
    size_t limit = scan->depth <= DEEP ? CHUNK_SIZE : CHUNK_SIZE_DEEP;
    frame->names_size = frame->count = frame->next = frame->hinted = 0;
    while (frame->names_size + NAME_MAX + 2 < limit) {
        errno = 0;
        struct dirent *found = readdir(frame->stream);
        if (found == NULL) {
            frame->more = false;
            break;
        }
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
            continue;
        if (!scan->everything && scan_is_own_name(found->d_name)) {
            scan->own_names++;
            continue;
        }
        if (!add_name(frame, found)) {
            errno = ENOMEM;
            frame->more = false;
            break;
        }
    }
    int failure = frame->more ? 0 : errno;
    if (frame->count > 1)
        qsort_r(frame->order, frame->count, sizeof *frame->order, compare_names, frame->names);
    errno = failure;
    return failure == 0;
}

bool scan_set_error(struct error *error, int os_errno, const char *what)
{
    if (os_errno == ENOENT)
        return error_set(error, ERROR_CHANGED, "vanished before it was sent");
    if (os_errno == ENOTDIR || os_errno == ELOOP)
        return error_set(error, ERROR_CHANGED, "became something else before it was sent");
    return error_set_errno(error, os_errno, "%s", what);
}

static enum scan_result problem(struct scan *scan, struct scan_entry *entry, struct error *error,
                                int os_errno, const char *what)
{
    entry->path = scan->path;
    entry->path_size = scan->path_size;
    entry->leaf = beneath_leaf(scan->path);
    entry->directory = -1;
    error_clear(error);
    if (scan->follow_links) /* a link may lead in a circle or nowhere all the time */
        error_set_errno(error, os_errno, "%s", what);
    else
        scan_set_error(error, os_errno, what);
    return SCAN_PROBLEM;
}

static bool is_ancestor(const struct scan *scan, const struct stat *status)
{
    for (size_t i = 0; i < scan->depth; i++) {
        if (scan->frames[i].device == status->st_dev && scan->frames[i].inode == status->st_ino)
            return true;
    }
    return false;
}

static bool grow(struct scan *scan)
{
    if (scan->depth < scan->capacity)
        return true;
    size_t capacity = scan->capacity * 2 + 16;
    struct frame *frames = realloc(scan->frames, capacity * sizeof *frames);
    if (frames == NULL)
        return false;
    scan->frames = frames;
    scan->capacity = capacity;
    return true;
}

/* Goes into the directory at the current path. False with errno. */
static bool push(struct scan *scan)
{
    if (!grow(scan)) {
        errno = ENOMEM;
        return false;
    }
    int parent = scan->depth > 0 ? scan->frames[scan->depth - 1].fd : scan->root;
    int fd = open_current(scan, parent, beneath_leaf(scan->path));
    if (fd < 0)
        return false;
    struct stat status;
    DIR *stream = fstat(fd, &status) == 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        int saved = errno;
        close(fd);
        errno = saved;
        return false;
    }
    scan->frames[scan->depth++] = (struct frame){.stream = stream,
                                                 .fd = fd,
                                                 .more = true,
                                                 .device = status.st_dev,
                                                 .inode = status.st_ino,
                                                 .path_size = scan->path_size};
    scan->open_count++;
    spare_descriptors(scan);
    return true;
}

/* Sets the current path to `name` in the frame. False when it is too long. */
static bool set_path(struct scan *scan, const struct frame *frame, const char *name)
{
    size_t at = frame->path_size, size = strlen(name);
    if (at > 0)
        scan->path[at++] = '/';
    memcpy(scan->path + at, name, size < 255 ? size + 1 : 256);
    set_path_size(scan, at + (size < 255 ? size : 255));
    return scan->path_size <= PATH_LIMIT;
}

static bool is_excluded(struct scan *scan, bool is_directory)
{
    if (scan->filter == NULL)
        return false;
    memcpy(scan->filtered + scan->prefix_size, scan->path, scan->path_size);
    return filter_excludes(scan->filter, scan->side, scan->filtered,
                           scan->prefix_size + scan->path_size, is_directory);
}

/* What cannot be looked at may be anything: it is no problem when it would have been excluded. */
static bool is_hidden(struct scan *scan)
{
    return is_excluded(scan, false) || is_excluded(scan, true);
}

/* Looks at the current name. SCAN_END: the filter leaves it out. */
static enum scan_result look(struct scan *scan, const struct frame *frame, struct scan_entry *entry,
                             struct error *error)
{
    entry->path = scan->path;
    entry->path_size = scan->path_size;
    entry->directory = frame->fd;
    entry->leaf = beneath_leaf(scan->path);
    int flags = scan->follow_links ? 0 : AT_SYMLINK_NOFOLLOW;
    if (fstatat(frame->fd, entry->leaf, &entry->status, flags) != 0) {
        if (is_hidden(scan))
            return SCAN_END;
        bool dangling = errno == ENOENT && scan->follow_links;
        const char *what = dangling ? "a link that leads nowhere, or vanished" : "cannot be read";
        return problem(scan, entry, error, errno, what);
    }
    entry->excluded = is_excluded(scan, S_ISDIR(entry->status.st_mode));
    if (entry->excluded)
        return scan->everything ? SCAN_ENTRY : SCAN_END;
    if (S_ISDIR(entry->status.st_mode)) {
        if (scan->follow_links && is_ancestor(scan, &entry->status))
            return problem(scan, entry, error, ELOOP, "a directory that contains itself");
        scan->enter = !scan->flat;
        return SCAN_ENTRY;
    }
    if (S_ISREG(entry->status.st_mode) || S_ISLNK(entry->status.st_mode) || scan->specials)
        return SCAN_ENTRY;
    error_clear(error);
    const char *kind = S_ISSOCK(entry->status.st_mode)   ? "a socket"
                       : S_ISFIFO(entry->status.st_mode) ? "a named pipe"
                                                         : "a device";
    error_set(error, ERROR_USAGE, "not sent: it is %s", kind);
    return SCAN_PROBLEM;
}

/* The first call: the root itself. */
static enum scan_result start(struct scan *scan, struct scan_entry *entry, struct error *error)
{
    scan->started = true;
    set_path_size(scan, 0);
    entry->path = scan->path;
    entry->path_size = 0;
    entry->directory = scan->root;
    entry->leaf = ".";
    entry->excluded = false;
    if (fstat(scan->root, &entry->status) != 0)
        return problem(scan, entry, error, errno, "cannot be read");
    scan->enter = true;
    return SCAN_ENTRY;
}

/* Makes sure that the frame has a name to give. SCAN_ENTRY: it has; SCAN_END: nothing is left. */
static enum scan_result prepare(struct scan *scan, struct frame *frame, struct scan_entry *entry,
                                struct error *error)
{
    if (frame->next == frame->count && !frame->more)
        return SCAN_END;
    if (!reopen(scan, frame)) {
        problem(scan, entry, error, errno, "the directory cannot be read on");
        frame->next = frame->count;
        frame->more = false;
        return SCAN_PROBLEM;
    }
    if (frame->next < frame->count)
        return SCAN_ENTRY;
    if (!read_chunk(scan, frame)) {
        set_path_size(scan, frame->path_size);
        return problem(scan, entry, error, errno, "the directory cannot be read to its end");
    }
    return frame->count > 0 ? SCAN_ENTRY : SCAN_END;
}

static const char *name_of(const struct frame *frame, size_t index)
{
    return frame->names + frame->order[index] + 1;
}

static bool is_plain(const struct frame *frame, size_t index)
{
    return (unsigned char)frame->names[frame->order[index]] == DT_REG;
}

/* The names that follow the current one. */
static void hint_ahead(struct scan *scan, struct frame *frame)
{
    if (frame->hinted <= frame->next)
        frame->hinted = frame->next + 1;
    size_t end = frame->next + READ_AHEAD_FILES;
    if (end > frame->count)
        end = frame->count;
    for (; frame->hinted < end && read_ahead_has_room(scan->ahead); frame->hinted++) {
        const char *name = name_of(frame, frame->hinted);
        if (is_plain(frame, frame->hinted) && set_path(scan, frame, name) &&
            !is_excluded(scan, false))
            read_ahead_hint(scan->ahead, frame->fd, name);
    }
}

enum scan_result scan_next(struct scan *scan, struct scan_entry *entry, struct error *error)
{
    if (!scan->started)
        return start(scan, entry, error);
    if (scan->enter) {
        scan->enter = false;
        if (!push(scan))
            return problem(scan, entry, error, errno, "the directory cannot be opened");
    }
    while (scan->depth > 0) {
        struct frame *frame = &scan->frames[scan->depth - 1];
        enum scan_result ready = prepare(scan, frame, entry, error);
        if (ready == SCAN_PROBLEM)
            return SCAN_PROBLEM;
        if (ready == SCAN_END) {
            pop(scan);
            continue;
        }
        if (is_plain(frame, frame->next) && read_ahead_is_useful(scan->ahead))
            hint_ahead(scan, frame);
        const char *name = name_of(frame, frame->next++);
        if (!set_path(scan, frame, name))
            return problem(scan, entry, error, ENAMETOOLONG, "not sent");
        enum scan_result result = look(scan, frame, entry, error);
        if (result != SCAN_END)
            return result;
    }
    return SCAN_END;
}
