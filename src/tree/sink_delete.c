#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/scan.h"
#include "tree/sink_internal.h"
#include "tree/sorted_spool.h"

/* What came is written down as it comes: for each entry its directory, NUL and its name, and for
 * each directory a mark, its path and NUL alone, which sorts before what is in it. At the end, when
 * everything is there, the list and each marked directory are read side by side, both sorted; what
 * only the directory has goes. No set of names is ever held in memory. */

#define RECORD_MAX (SINK_PATH_MAX + 8)

enum pass { PASS_COUNT, PASS_DELETE };

bool deletion_open(struct file_sink *sink, const struct transfer_request *request,
                   struct error *error)
{
    struct deletion *deletion = &sink->deletion;
    if ((request->flags & TRANSFER_DELETE) == 0)
        return true;
    deletion->max = (request->flags & TRANSFER_MAX_DELETE) != 0 ? request->max_delete : UINT64_MAX;
    deletion->spool = sorted_spool_new(0);
    return deletion->spool != NULL || error_set(error, ERROR_MEMORY, "no memory for --delete");
}

void deletion_close(struct file_sink *sink)
{
    sorted_spool_free(sink->deletion.spool);
    sink->deletion.spool = NULL;
}

static bool note(struct file_sink *sink, const char *directory, size_t size, const char *leaf)
{
    char record[RECORD_MAX];
    struct error error = {0};
    size_t leaf_size = strlen(leaf);
    memcpy(record, directory, size);
    record[size] = '\0';
    memcpy(record + size + 1, leaf, leaf_size);
    return sorted_spool_add(sink->deletion.spool, record, size + 1 + leaf_size, &error) ||
           sink_fail(sink, &error);
}

bool deletion_note(struct file_sink *sink, const struct entry *entry)
{
    if (sink->deletion.spool == NULL)
        return true;
    const char *path = sink->path, *leaf = beneath_leaf(path);
    size_t above = (size_t)(leaf - path);
    if (path[0] != '\0' && !note(sink, path, above > 0 ? above - 1 : 0, leaf))
        return false;
    return entry->kind != ENTRY_DIRECTORY || note(sink, path, strlen(path), "");
}

/* ---- removing ---- */

static bool unlink_at(struct file_sink *sink, const char *path, bool is_directory)
{
    size_t above = (size_t)(beneath_leaf(path) - path);
    int flags = is_directory ? AT_REMOVEDIR : 0;
    int parent = sink_parent(sink, path, false);
    if (parent >= 0 && unlinkat(parent, beneath_leaf(path), flags) == 0)
        return true;
    return parent >= 0 && errno == EACCES &&
           directory_make_accessible(sink, path, above > 0 ? above - 1 : 0) &&
           unlinkat(parent, beneath_leaf(path), flags) == 0;
}

static void remove_one(struct file_sink *sink, enum pass pass, const char *path, bool is_directory)
{
    struct deletion *deletion = &sink->deletion;
    struct error error = {0};
    size_t above = (size_t)(beneath_leaf(path) - path);
    bool gone = pass == PASS_COUNT ||
                (sink_is_dry(sink) ? foresee_may_write(sink, path, above > 0 ? above - 1 : 0)
                                   : unlink_at(sink, path, is_directory));
    if (!gone && errno != ENOENT) {
        if (is_directory && (errno == ENOTEMPTY || errno == EEXIST)) {
            deletion->kept++;
            return;
        }
        error_set_errno(&error, errno, "cannot be deleted");
        sink_file_failed(sink, path, false, &error);
        return;
    }
    deletion->count++;
    if (pass == PASS_COUNT)
        return;
    struct sink_report report = {.kind = SINK_DELETED, .path = path};
    sink->emit(sink->context, &report);
}

/* ---- a directory with all that it holds ---- */

/* Two bytes that sort deeper paths first, the path, NUL, and 'd' for a directory, 'f' for anything
 * else, or before both 'a': something in that directory stays. */
static bool list_one(struct sorted_spool *list, const char *path, size_t size, char kind,
                     struct error *error)
{
    char record[RECORD_MAX];
    unsigned depth = 0;
    for (size_t i = 0; i < size; i++)
        depth += path[i] == '/';
    record[0] = (char)((0xffffu - depth) >> 8);
    record[1] = (char)((0xffffu - depth) & 0xff);
    memcpy(record + 2, path, size);
    record[2 + size] = '\0';
    record[3 + size] = kind;
    return sorted_spool_add(list, record, size + 4, error);
}

/* What stays keeps all directories above it, up to the one that was to go. */
static bool list_kept(struct sorted_spool *list, const char *path, size_t size, size_t root_size,
                      struct error *error)
{
    while (size > root_size) {
        while (size > root_size && path[size - 1] != '/')
            size--;
        size -= size > root_size;
        if (!list_one(list, path, size, 'a', error))
            return false;
    }
    return true;
}

static bool list_tree(struct file_sink *sink, struct sorted_spool *list, const char *root,
                      struct error *error)
{
    size_t root_size = strlen(root);
    int fd = beneath_open(sink->place.root, root, O_RDONLY | O_DIRECTORY, 0);
    struct scan *scan = fd >= 0 ? scan_new(fd, false) : NULL;
    if (scan == NULL) {
        if (fd >= 0)
            close(fd);
        return error_set_errno(error, fd < 0 ? errno : ENOMEM, "cannot be opened to be deleted");
    }
    scan_set_everything(scan);
    bool good = scan_set_filter(scan, &sink->filter, FILTER_BELOW_DELETED, root);
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory to delete");
    struct scan_entry entry;
    enum scan_result result = SCAN_END;
    while (good && (result = scan_next(scan, &entry, error)) == SCAN_ENTRY) {
        char path[RECORD_MAX];
        size_t size = root_size;
        if (entry.path_size + root_size + 2 > SINK_PATH_MAX) {
            good = error_set(error, ERROR_IO, "holds a path that is too long to be deleted");
            break;
        }
        memcpy(path, root, root_size);
        if (entry.path_size > 0)
            path[size++] = '/';
        memcpy(path + size, entry.path, entry.path_size);
        size += entry.path_size;
        good = entry.excluded
                   ? list_kept(list, path, size, root_size, error)
                   : list_one(list, path, size, S_ISDIR(entry.status.st_mode) ? 'd' : 'f', error);
    }
    scan_free(scan);
    return good && result == SCAN_END;
}

static void remove_listed(struct file_sink *sink, enum pass pass, struct sorted_spool *list,
                          struct error *error)
{
    const uint8_t *record;
    size_t size;
    char kept[RECORD_MAX] = "";
    bool has_kept = false;
    enum spool_result result = SPOOL_END;
    while (!sink->has_failed && !sink_is_stopped(sink) &&
           (result = sorted_spool_next(list, &record, &size, error)) == SPOOL_RECORD) {
        char path[RECORD_MAX], kind = (char)record[size - 1];
        memcpy(path, record + 2, size - 3);
        if (kind == 'a') {
            sink->deletion.kept += !has_kept || strcmp(kept, path) != 0;
            strcpy(kept, path);
            has_kept = true;
        } else if (kind == 'f' || !has_kept || strcmp(kept, path) != 0) {
            remove_one(sink, pass, path, kind == 'd');
        }
    }
    if (result == SPOOL_FAILED)
        sink_fail(sink, error);
}

static void remove_tree(struct file_sink *sink, enum pass pass, const char *path)
{
    struct error error = {0};
    struct sorted_spool *list = sorted_spool_new(0);
    if (list == NULL) {
        sink_fail_protocol(sink, "no memory to delete");
        return;
    }
    if (!list_tree(sink, list, path, &error) || !sorted_spool_rewind(list, &error))
        sink_file_failed(sink, path, false, &error);
    else
        remove_listed(sink, pass, list, &error);
    sorted_spool_free(list);
}

static void remove_extraneous(struct file_sink *sink, enum pass pass, const char *directory,
                              const char *leaf)
{
    char path[RECORD_MAX];
    size_t size = strlen(directory);
    struct stat status;
    memcpy(path, directory, size);
    if (size > 0)
        path[size++] = '/';
    strcpy(path + size, leaf);
    int parent = sink_directory(sink, directory, strlen(directory), false);
    if (parent < 0 || fstatat(parent, leaf, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return; /* gone meanwhile */
    bool is_directory = S_ISDIR(status.st_mode);
    if (filter_excludes(&sink->filter, FILTER_RECEIVER, path, strlen(path), is_directory))
        return;
    if (is_directory)
        remove_tree(sink, pass, path);
    else
        remove_one(sink, pass, path, false);
}

/* ---- side by side ---- */

/* The names in a directory here, sorted. */
struct listing {
    struct sorted_spool *spool; /* NULL: nothing is there */
    char name[NAME_MAX + 1];    /* the next */
    bool ended;
};

static bool listing_next(struct listing *listing, struct error *error)
{
    const uint8_t *bytes;
    size_t size;
    enum spool_result result = SPOOL_END;
    if (listing->spool != NULL)
        result = sorted_spool_next(listing->spool, &bytes, &size, error);
    listing->ended = result != SPOOL_RECORD;
    if (result == SPOOL_RECORD) {
        memcpy(listing->name, bytes, size);
        listing->name[size] = '\0';
    }
    return result != SPOOL_FAILED;
}

static bool read_names(struct listing *listing, DIR *stream, struct error *error)
{
    const struct dirent *found;
    while (errno = 0, (found = readdir(stream)) != NULL) {
        const char *name = found->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || scan_is_own_name(name))
            continue;
        if (!sorted_spool_add(listing->spool, name, strlen(name), error))
            return false;
    }
    if (errno != 0)
        return error_set_errno(error, errno, "the directory cannot be read, to delete in it");
    return sorted_spool_rewind(listing->spool, error) && listing_next(listing, error);
}

/* A directory that is not there, as in a dry run, has no names. */
static bool listing_open(struct listing *listing, struct file_sink *sink, const char *directory,
                         struct error *error)
{
    *listing = (struct listing){.ended = true};
    int parent = sink_directory(sink, directory, strlen(directory), false);
    if (parent < 0 && errno == ENOENT)
        return true;
    DIR *stream = parent < 0 ? NULL : beneath_list(parent);
    if (stream == NULL)
        return error_set_errno(error, errno, "the directory cannot be read, to delete in it");
    listing->spool = sorted_spool_new(0);
    bool good = listing->spool != NULL && read_names(listing, stream, error);
    closedir(stream);
    return good || error_set(error, ERROR_MEMORY, "no memory to delete");
}

static void listing_close(struct listing *listing)
{
    sorted_spool_free(listing->spool);
    *listing = (struct listing){.ended = true};
}

/* A directory of the list that is being gone through. */
struct place_in_list {
    char directory[RECORD_MAX];
    bool any, marked; /* marked: it was sent, what is not in the list goes */
    struct listing listing;
};

/* Removes what stands before `leaf` here and does not come in the list; NULL: all that is left. */
static bool catch_up(struct file_sink *sink, enum pass pass, struct place_in_list *at,
                     const char *leaf, struct error *error)
{
    while (!at->listing.ended && !sink->has_failed && !sink_is_stopped(sink)) {
        int order = leaf != NULL ? strcmp(at->listing.name, leaf) : -1;
        if (order > 0)
            break;
        if (order < 0)
            remove_extraneous(sink, pass, at->directory, at->listing.name);
        if (!listing_next(&at->listing, error))
            return false;
    }
    return true;
}

static bool begin_directory(struct file_sink *sink, enum pass pass, struct place_in_list *at,
                            const char *directory, size_t size, bool marked, struct error *error)
{
    if (at->any && at->marked && !catch_up(sink, pass, at, NULL, error))
        return false;
    listing_close(&at->listing);
    memcpy(at->directory, directory, size);
    at->directory[size] = '\0';
    at->any = true;
    at->marked = marked;
    struct error problem = {0};
    if (marked && !listing_open(&at->listing, sink, at->directory, &problem)) {
        sink_file_failed(sink, at->directory, false, &problem);
        listing_close(&at->listing);
    }
    return true;
}

static bool take_record(struct file_sink *sink, enum pass pass, struct place_in_list *at,
                        const uint8_t *record, size_t size, struct error *error)
{
    char leaf[RECORD_MAX];
    const uint8_t *end = memchr(record, 0, size);
    size_t above = (size_t)(end - record), leaf_size = size - above - 1;
    memcpy(leaf, end + 1, leaf_size);
    leaf[leaf_size] = '\0';
    bool same =
        at->any && strlen(at->directory) == above && memcmp(at->directory, record, above) == 0;
    if (!same &&
        !begin_directory(sink, pass, at, (const char *)record, above, leaf_size == 0, error))
        return false;
    return !at->marked || leaf_size == 0 || catch_up(sink, pass, at, leaf, error);
}

static bool go_through(struct file_sink *sink, enum pass pass)
{
    struct place_in_list *at = calloc(1, sizeof *at);
    struct error error = {0};
    const uint8_t *record;
    size_t size;
    sink->deletion.count = sink->deletion.kept = 0;
    bool good = (at != NULL || error_set(&error, ERROR_MEMORY, "no memory to delete")) &&
                sorted_spool_rewind(sink->deletion.spool, &error);
    enum spool_result result = good ? SPOOL_END : SPOOL_FAILED;
    while (good && !sink->has_failed && !sink_is_stopped(sink) &&
           (result = sorted_spool_next(sink->deletion.spool, &record, &size, &error)) ==
               SPOOL_RECORD)
        good = take_record(sink, pass, at, record, size, &error);
    good = good && result != SPOOL_FAILED;
    if (good && at->any && at->marked)
        good = catch_up(sink, pass, at, NULL, &error);
    if (at != NULL)
        listing_close(&at->listing);
    free(at);
    return good || sink_fail(sink, &error);
}

static void say(struct file_sink *sink, const char *format, uint64_t count)
{
    struct sink_report report = {.kind = SINK_NOTE};
    error_set(&report.error, ERROR_PERMISSION, format, (unsigned long long)count);
    sink->emit(sink->context, &report);
}

void deletion_run(struct file_sink *sink, uint64_t problems)
{
    struct deletion *deletion = &sink->deletion;
    if (deletion->spool == NULL || sink->has_failed)
        return;
    if (sink->failures + problems > 0) {
        say(sink, "nothing was deleted, because %llu could not be copied",
            sink->failures > problems ? sink->failures : problems);
        return;
    }
    if (deletion->max != UINT64_MAX) {
        if (!go_through(sink, PASS_COUNT))
            return;
        if (deletion->count > deletion->max) {
            struct error error = {0};
            error_set(&error, ERROR_LIMIT,
                      "%llu would be deleted, more than --max-delete allows: nothing was",
                      (unsigned long long)deletion->count);
            sink_file_failed(sink, "", false, &error);
            return;
        }
    }
    if (go_through(sink, PASS_DELETE) && deletion->kept > 0)
        say(sink, "%llu directories were not deleted, because something in them stays",
            deletion->kept);
}
