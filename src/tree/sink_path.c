#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/display.h"
#include "tree/scan.h"
#include "tree/sink_internal.h"

/* ---- paths ---- */

/* Whether the user's filter lets an entry with this path pass. Directories are looked at once as
 * long as what is in them comes together. */
static bool filter_passes(struct file_sink *sink, const char *path, bool is_directory)
{
    size_t size = strlen(path), parent = (size_t)(beneath_leaf(path) - path);
    if (sink->admitted != NULL && parent > 0 && strlen(sink->admitted) == parent - 1 &&
        memcmp(sink->admitted, path, parent - 1) == 0)
        return !filter_excludes(&sink->filter, FILTER_SENDER, path, size, is_directory);
    if (!filter_admits(&sink->filter, path, size, is_directory))
        return false;
    free(sink->admitted);
    sink->admitted = parent > 0 ? strndup(path, parent - 1) : NULL;
    return true;
}

bool sink_has_own_name(const char *path)
{
    char name[NAME_MAX + 1];
    for (;;) {
        size_t size = strcspn(path, "/");
        if (size <= NAME_MAX && path[0] == '.') {
            memcpy(name, path, size);
            name[size] = '\0';
            if (scan_is_own_name(name))
                return true;
        }
        if (path[size] == '\0')
            return false;
        path += size + 1;
    }
}

void sink_entry_path(const struct file_sink *sink, const struct entry *entry,
                     char path[SINK_PATH_MAX + 2])
{
    const char *prefix = sink->place.prefixes[entry->name];
    size_t size = strlen(prefix);
    memcpy(path, prefix, size);
    if (size > 0 && entry->path_size > 0)
        path[size++] = '/';
    memcpy(path + size, entry->path, entry->path_size);
    path[size + entry->path_size] = '\0';
}

bool sink_set_path(struct file_sink *sink, const struct entry *entry)
{
    const struct place *place = &sink->place;
    bool is_root = entry->path_size == 0;
    bool is_directory = entry->kind == ENTRY_DIRECTORY;
    struct error error = {0};
    if (place->is_directory[entry->name] ? is_root && !is_directory
                                         : !is_root || is_directory || entry->kind == ENTRY_LINK ||
                                               entry->kind == ENTRY_SPECIAL) {
        error_set(&error, ERROR_REFUSED,
                  "the peer sent something else under a name than it had announced");
        return sink_fail(sink, &error);
    }
    if ((entry->kind == ENTRY_SPECIAL && (sink->flags & TRANSFER_SPECIALS) == 0) ||
        (entry->kind == ENTRY_HARD_LINK && (sink->flags & TRANSFER_HARD_LINKS) == 0)) {
        error_set(&error, ERROR_REFUSED,
                  entry->kind == ENTRY_SPECIAL
                      ? "the peer sent a device, pipe or socket, which was not asked for"
                      : "the peer sent a hard link, which was not asked for");
        return sink_fail(sink, &error);
    }
    sink_entry_path(sink, entry, sink->path);
    if (sink_has_own_name(sink->path)) {
        char name[200];
        error_set(&error, ERROR_REFUSED, "the peer sent %s, a name that petrel keeps to itself",
                  display_name(name, sizeof name, sink->path));
        return sink_fail(sink, &error);
    }
    const char *asked = is_root ? place->names[entry->name] : sink->path;
    bool listed =
        sink->list == NULL || file_list_admits(sink->list, asked, strlen(asked), is_directory,
                                               (sink->flags & TRANSFER_LIST_TREES) != 0);
    if (listed && (sink->filter.count == 0 || filter_passes(sink, asked, is_directory)))
        return deletion_note(sink, entry);
    char shown[200];
    error_set(&error, ERROR_REFUSED, "the peer sent %s, which %s",
              display_name(shown, sizeof shown, asked),
              listed ? "the filter excludes" : "--files-from does not name");
    return sink_fail(sink, &error);
}

bool sink_target_path(struct file_sink *sink, const struct entry *entry,
                      char target[SINK_PATH_MAX + 2])
{
    char path[SINK_PATH_MAX + 2], below[PACK_PATH_MAX + 1];
    memcpy(below, entry->target, entry->target_size);
    below[entry->target_size] = '\0';
    struct entry file = {.kind = ENTRY_FILE,
                         .name = entry->target_name,
                         .path = below,
                         .path_size = entry->target_size};
    strcpy(path, sink->path);
    bool good = sink_set_path(sink, &file);
    strcpy(target, sink->path);
    strcpy(sink->path, path);
    return good;
}

/* ---- open directories ---- */

static void close_slot(struct open_directory *slot)
{
    if (slot->path != NULL)
        close(slot->fd);
    free(slot->path);
    *slot = (struct open_directory){.fd = -1};
}

void sink_forget_directories(struct file_sink *sink)
{
    for (size_t i = 0; i < DIRECTORIES_OPEN; i++)
        close_slot(&sink->directories[i]);
}

/* The slot that holds `path`, or else the one to use for it. */
static struct open_directory *find_slot(struct file_sink *sink, const char *path, size_t size)
{
    struct open_directory *oldest = &sink->directories[0];
    for (size_t i = 0; i < DIRECTORIES_OPEN; i++) {
        struct open_directory *slot = &sink->directories[i];
        if (slot->path != NULL && strlen(slot->path) == size && memcmp(slot->path, path, size) == 0)
            return slot;
        if (slot->used < oldest->used)
            oldest = slot;
    }
    close_slot(oldest);
    return oldest;
}

int sink_directory(struct file_sink *sink, const char *path, size_t size, bool make)
{
    if (sink->place.root < 0) {
        errno = ENOENT;
        return -1;
    }
    struct open_directory *slot = find_slot(sink, path, size);
    slot->used = ++sink->clock;
    if (slot->path != NULL)
        return slot->fd;
    char *copy = strndup(path, size);
    if (copy == NULL) {
        errno = ENOMEM;
        return -1;
    }
    struct stat status;
    int fd =
        beneath_open_directory(sink->place.root, copy, make ? sink_directory_mode(sink) : 0, NULL);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int saved = errno;
        free(copy);
        if (fd >= 0)
            close(fd);
        slot->used = 0;
        errno = saved;
        return -1;
    }
    *slot = (struct open_directory){
        .path = copy, .fd = fd, .device = status.st_dev, .used = sink->clock};
    return fd;
}

static size_t parent_size(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

int sink_parent(struct file_sink *sink, const char *path, bool make)
{
    return sink_directory(sink, path, parent_size(path), make);
}

/* ---- temporary files ---- */

static uint64_t temp_of_hash(const uint8_t hash[TREE_HASH_SIZE])
{
    uint64_t temp = 0;
    for (size_t i = 0; i < 8; i++)
        temp = temp << 8 | hash[i];
    return temp;
}

uint64_t sink_temp_of(const struct file_sink *sink, const char *path)
{
    char text[SINK_PATH_MAX + 16];
    size_t size = strlen(path);
    memcpy(text, path, size);
    if (sink->salt != 0) {
        memcpy(text + size, &sink->salt, sizeof sink->salt);
        size += sizeof sink->salt;
    }
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(text, size, hash);
    return temp_of_hash(hash);
}

uint64_t sink_large_temp_of(const char *path)
{
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(path, strlen(path), hash);
    return temp_of_hash(hash);
}

void sink_journal_name(uint64_t temp, char name[TEMP_NAME_SIZE])
{
    snprintf(name, TEMP_NAME_SIZE, ".petrel-%016llx.journal", (unsigned long long)temp);
}

void sink_temp_name(uint64_t temp, char name[TEMP_NAME_SIZE])
{
    snprintf(name, TEMP_NAME_SIZE, ".petrel-%016llx", (unsigned long long)temp);
}

bool sink_clear_temp(struct file_sink *sink, int parent, const char *path, uint64_t temp,
                     struct error *error)
{
    if (batch_holds_temp(sink, temp)) {
        batch_flush(sink);
        parent = sink_parent(sink, path, false);
    }
    char name[TEMP_NAME_SIZE];
    sink_temp_name(temp, name);
    if (!half_clear(sink, parent, temp))
        return error_set(error, ERROR_EXISTS, "another copy writes this file now");
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return true;
    return error_set_errno(error, errno, "a temporary file of an earlier run (%s) is in the way",
                           name);
}

/* One attempt; makes the directory and its parents, and opens a directory that its mode closes. */
static int try_create(struct file_sink *sink, const char *path, const char *name, int flags,
                      int *parent)
{
    *parent = sink_parent(sink, path, true);
    if (*parent < 0)
        return -1;
    int fd = openat(*parent, name, flags, 0600);
    if (fd >= 0 || errno != EACCES || !directory_make_accessible(sink, path, parent_size(path)))
        return fd;
    return openat(*parent, name, flags, 0600);
}

int sink_create_temp(struct file_sink *sink, const char *path, uint64_t temp, int flags,
                     int *parent, struct error *error)
{
    char name[TEMP_NAME_SIZE];
    sink_temp_name(temp, name);
    flags |= O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = try_create(sink, path, name, flags, parent);
    if (fd < 0 && errno == EEXIST) {
        if (!sink_clear_temp(sink, *parent, path, temp, error))
            return -1;
        fd = try_create(sink, path, name, flags, parent);
    }
    if (fd < 0)
        sink_not_made(error, "cannot be created");
    return fd;
}

bool sink_not_made(struct error *error, const char *what)
{
    return errno == ELOOP || errno == ENOTDIR
               ? error_set(error, ERROR_EXISTS, "a link or a file is where its directory should be")
               : error_set_errno(error, errno, "%s", what);
}

bool sink_way_is_free(struct file_sink *sink, const struct entry *entry, int parent, bool *is_new,
                      struct error *error)
{
    struct stat status;
    sink->old = (struct stat){.st_mode = 0};
    *is_new = !sink->place.existed[entry->name] ||
              fstatat(parent, beneath_leaf(sink->path), &status, AT_SYMLINK_NOFOLLOW) != 0;
    if (!*is_new && S_ISREG(status.st_mode))
        sink->old = status;
    if (*is_new || S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
        return true;
    return error_set(error, ERROR_EXISTS, "%s is in the way and is left alone; move it away",
                     S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
}
