#include "tree/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "tree/hash_files.h"
#include "tree/jail.h"
#include "tree/pack.h"
#include "tree/scan.h"

#define DIRECTORY_MODE 01777 /* the bits that a copy keeps */
#define FILE_MODE 0777
#define RECORD_MAX (2u * MANIFEST_PATH_MAX)

_Static_assert(RECORD_MAX <= SORTED_SPOOL_RECORD_MAX, "a record fits");

/* An entry on its way to the text: kept until the hashes of its batch are there. */
struct pending {
    struct manifest_entry entry;
    char *path;     /* its own, with the target behind it */
    char *file;     /* to open; NULL: not read */
    size_t hashing; /* its place among the files that are hashed */
    bool several;   /* a file with several names */
};

struct build {
    const struct manifest_build *asked;
    struct error *error;
    struct sorted_spool *spool;
    struct pending pending[HASH_FILES_MAX];
    struct hash_file files[HASH_FILES_MAX];
    size_t pending_count, file_count;
    uint64_t bytes;
    uint64_t problems;
    struct tree_hash *parts; /* of the text */
    uint8_t block[TREE_HASH_BLOCK];
    size_t block_size;
    uint64_t block_index, text_size;
    /* The record of `known` that was read last. */
    const uint8_t *known;
    size_t known_size;
    bool known_ended;
    char text[MANIFEST_ENTRY_MAX];
};

static void problem(struct build *build, const char *path, const struct error *error)
{
    build->problems++;
    build->asked->problem(build->asked->context, path, error);
}

/* ---- the text and its hash ---- */

static bool close_block(struct build *build)
{
    uint8_t value[TREE_HASH_SIZE];
    tree_hash_block(build->block, build->block_size, build->block_index, value);
    if (!tree_hash_add(build->parts, build->block_index++, value))
        return error_set(build->error, ERROR_MEMORY, "no memory for the manifest's hash");
    build->block_size = 0;
    return true;
}

static bool put_text(struct build *build, const char *bytes, size_t size)
{
    build->text_size += size;
    for (size_t done = 0; done < size;) {
        size_t room = TREE_HASH_BLOCK - build->block_size;
        size_t part = size - done < room ? size - done : room;
        if (room == 0 && !close_block(build))
            return false;
        memcpy(build->block + build->block_size, bytes + done, room == 0 ? 0 : part);
        build->block_size += room == 0 ? 0 : part;
        done += room == 0 ? 0 : part;
    }
    return build->asked->text(build->asked->context, bytes, size) ||
           error_set(build->error, ERROR_IO, "the manifest cannot be written");
}

static bool finish_text(struct build *build, uint8_t hash[32])
{
    if (build->block_index == 0) {
        tree_hash_whole(build->block, build->block_size, hash);
        return true;
    }
    if (!close_block(build) || !tree_hash_set_size(build->parts, build->text_size) ||
        !tree_hash_result(build->parts, hash))
        return error_set(build->error, ERROR_MEMORY, "no memory for the manifest's hash");
    return true;
}

/* ---- what is found ---- */

static size_t join_path(const char *name, const char *path, char *out)
{
    size_t name_size = strlen(name), path_size = strlen(path);
    bool slash = name_size > 0 && path_size > 0;
    if (name_size + path_size + slash > MANIFEST_PATH_MAX)
        return SIZE_MAX;
    memcpy(out, name, name_size);
    if (slash)
        out[name_size] = '/';
    memcpy(out + name_size + slash, path, path_size + 1);
    return name_size + slash + path_size;
}

/* path NUL kind mode time size root several target */
static bool spool_entry(struct build *build, size_t root, const char *path, size_t path_size,
                        const struct stat *status, const char *target, size_t target_size)
{
    static uint8_t record[RECORD_MAX];
    struct writer writer = writer_of(record, sizeof record);
    bool is_directory = S_ISDIR(status->st_mode);
    write_bytes(&writer, path, path_size + 1);
    write_u8(&writer, is_directory               ? MANIFEST_DIRECTORY
                      : S_ISLNK(status->st_mode) ? MANIFEST_LINK
                                                 : MANIFEST_FILE);
    write_u32(&writer, status->st_mode & (is_directory ? DIRECTORY_MODE : FILE_MODE));
    write_u64(&writer, (uint64_t)status->st_mtim.tv_sec);
    write_u32(&writer, (uint32_t)status->st_mtim.tv_nsec);
    write_u64(&writer, (uint64_t)status->st_size);
    write_u32(&writer, (uint32_t)root);
    write_u8(&writer, S_ISREG(status->st_mode) && status->st_nlink > 1);
    write_sized(&writer, target, target_size);
    if (writer.failed)
        return error_set(build->error, ERROR_USAGE, "a path is too long for a manifest");
    return sorted_spool_add(build->spool, record, writer_size(&writer), build->error);
}

static bool take_link(struct build *build, size_t root, const char *path, size_t path_size,
                      const struct scan_entry *found)
{
    char target[PACK_PATH_MAX + 1];
    ssize_t size = readlinkat(found->directory, found->leaf, target, sizeof target);
    struct error error = {0};
    if (size > 0 && (size_t)size <= PACK_PATH_MAX)
        return spool_entry(build, root, path, path_size, &found->status, target, (size_t)size);
    error_set_errno(&error, size < 0 ? errno : ENAMETOOLONG, "the link cannot be read");
    problem(build, path, &error);
    return true;
}

static bool take_found(struct build *build, size_t root, const struct scan_entry *found)
{
    char path[MANIFEST_PATH_MAX + 1];
    const struct manifest_build *asked = build->asked;
    size_t size = join_path(asked->names[root], found->path, path);
    struct error error = {0};
    if (size == SIZE_MAX) {
        error_set_errno(&error, ENAMETOOLONG, "left out");
        problem(build, found->path, &error);
        return true;
    }
    if (size == 0 || (asked->filter != NULL &&
                      !filter_admits(asked->filter, path, size, S_ISDIR(found->status.st_mode))))
        return true;
    if (S_ISLNK(found->status.st_mode))
        return take_link(build, root, path, size, found);
    return spool_entry(build, root, path, size, &found->status, "", 0);
}

static bool walk_tree(struct build *build, size_t root, int directory)
{
    struct scan *scan = scan_new(directory, build->asked->follow_links);
    const volatile int *stop = build->asked->stop;
    if (scan == NULL) {
        close(directory);
        return error_set(build->error, ERROR_MEMORY, "no memory to walk the tree");
    }
    bool good = true;
    enum scan_result result = SCAN_ENTRY;
    while (good && result != SCAN_END) {
        struct scan_entry found;
        struct error error = {0};
        result = scan_next(scan, &found, &error);
        if (stop != NULL && *stop != 0)
            good = error_set(build->error, ERROR_INTERRUPTED, "interrupted");
        else if (result == SCAN_PROBLEM)
            problem(build, found.path, &error);
        else if (result == SCAN_ENTRY)
            good = take_found(build, root, &found);
    }
    scan_free(scan);
    return good;
}

static bool walk_root(struct build *build, size_t root)
{
    const struct manifest_build *asked = build->asked;
    struct stat status;
    struct error error = {0};
    if (jail_fstatat(AT_FDCWD, asked->paths[root], &status, 0) != 0) {
        error_set_errno(&error, errno, "left out");
    } else if (S_ISREG(status.st_mode)) {
        const char *name = asked->names[root];
        return spool_entry(build, root, name, strlen(name), &status, "", 0);
    } else if (S_ISDIR(status.st_mode)) {
        int directory = jail_openat(AT_FDCWD, asked->paths[root], O_RDONLY | O_DIRECTORY);
        if (directory >= 0)
            return walk_tree(build, root, directory);
        error_set_errno(&error, errno, "left out");
    } else {
        error_set(&error, ERROR_USAGE, "left out: it is neither a file nor a directory");
    }
    problem(build, asked->paths[root], &error);
    return true;
}

/* ---- what is known ---- */

bool manifest_know(struct sorted_spool *known, const char *path, const uint8_t hash[32],
                   uint64_t size, struct error *error)
{
    uint8_t record[MANIFEST_PATH_MAX + 64];
    struct writer writer = writer_of(record, sizeof record);
    write_bytes(&writer, path, strlen(path) + 1);
    write_bytes(&writer, hash, 32);
    write_u64(&writer, size);
    return !writer.failed && sorted_spool_add(known, record, writer_size(&writer), error);
}

/* Behind the real ones of the same path, for it sorts last. */
static const uint8_t left_out[32] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

bool manifest_leave_out(struct sorted_spool *known, const char *path, struct error *error)
{
    return manifest_know(known, path, left_out, 0, error);
}

/* The record of `known` in hand is this entry's. */
static void take_known(const struct build *build, size_t path_size, struct manifest_entry *entry,
                       bool *found, bool *hashed)
{
    static const uint8_t none[32];
    struct reader reader =
        reader_of(build->known + path_size + 1, build->known_size - path_size - 1);
    const uint8_t *hash = read_bytes(&reader, 32);
    uint64_t size = read_u64(&reader);
    *found = reader.failed || memcmp(hash, left_out, 32) != 0;
    *hashed = *found && !reader.failed && size == entry->size && memcmp(hash, none, 32) != 0;
    if (*hashed)
        memcpy(entry->hash, hash, 32);
}

/* Both are sorted alike. *found: the file is known at all; *hashed: so is its hash. */
static bool look_up(struct build *build, struct manifest_entry *entry, bool several, bool *found,
                    bool *hashed)
{
    *hashed = false;
    *found = several && build->asked->hard_links;
    for (;;) {
        size_t path_size = build->known != NULL ? strlen((const char *)build->known) : 0;
        int order = build->known == NULL ? -1
                                         : manifest_compare((const char *)build->known, path_size,
                                                            entry->path, entry->path_size);
        if (order > 0 || (build->known == NULL && build->known_ended))
            return true;
        if (order == 0) {
            take_known(build, path_size, entry, found, hashed);
            return true;
        }
        enum spool_result result =
            sorted_spool_next(build->asked->known, &build->known, &build->known_size, build->error);
        if (result == SPOOL_FAILED)
            return false;
        build->known_ended = result == SPOOL_END;
        if (build->known_ended)
            build->known = NULL;
    }
}

/* ---- entries, hashed in batches ---- */

static void release(struct build *build)
{
    for (size_t i = 0; i < build->pending_count; i++) {
        free(build->pending[i].path);
        free(build->pending[i].file);
    }
    build->pending_count = build->file_count = 0;
    build->bytes = 0;
}

static bool flush(struct build *build)
{
    bool good = true;
    hash_files(build->files, build->file_count, build->asked->stop);
    for (size_t i = 0; i < build->pending_count && good; i++) {
        struct pending *pending = &build->pending[i];
        const struct hash_file *file = &build->files[pending->hashing];
        if (pending->file != NULL && file->error.kind == ERROR_INTERRUPTED) {
            good = error_set(build->error, ERROR_INTERRUPTED, "interrupted");
        } else if (pending->file != NULL && file->error.kind != ERROR_NONE) {
            problem(build, pending->path, &file->error);
        } else {
            if (pending->file != NULL)
                memcpy(pending->entry.hash, file->hash, sizeof file->hash);
            good = put_text(build, build->text, manifest_write(&pending->entry, build->text));
        }
    }
    release(build);
    return good;
}

/* The file of an entry as open() takes it: below the path that was asked for. */
static char *file_of(const struct manifest_build *asked, size_t root, const char *path)
{
    const char *name = asked->names[root], *base = asked->paths[root];
    size_t skip = strlen(name);
    const char *below = path[skip] == '/' ? path + skip + 1 : path + skip;
    char *file = malloc(strlen(base) + strlen(below) + 2);
    if (file == NULL)
        return NULL;
    strcpy(file, base);
    if (below[0] != '\0') {
        strcat(file, "/");
        strcat(file, below);
    }
    return file;
}

static bool hash_later(struct build *build, struct pending *pending, size_t root)
{
    pending->file = file_of(build->asked, root, pending->path);
    if (pending->file == NULL)
        return error_set(build->error, ERROR_MEMORY, "no memory for a path");
    pending->hashing = build->file_count;
    build->files[build->file_count++] = (struct hash_file){
        .root = AT_FDCWD, .path = pending->file, .follow = true, .size = pending->entry.size};
    build->bytes += pending->entry.size;
    return true;
}

/* Takes a record of the spool apart into the next pending entry. */
static bool read_record(struct build *build, const uint8_t *record, size_t size, size_t *root)
{
    struct pending *pending = &build->pending[build->pending_count];
    size_t path_size = strlen((const char *)record), target_size = 0;
    struct reader reader = reader_of(record + path_size + 1, size - path_size - 1);
    struct manifest_entry *entry = &pending->entry;
    *pending = (struct pending){0};
    entry->kind = (enum manifest_kind)read_u8(&reader);
    entry->mode = read_u32(&reader);
    entry->mtime_s = (int64_t)read_u64(&reader);
    entry->mtime_ns = read_u32(&reader);
    entry->size = read_u64(&reader);
    *root = read_u32(&reader);
    pending->several = read_u8(&reader) != 0;
    const uint8_t *target = read_sized(&reader, PACK_PATH_MAX, &target_size);
    pending->path = malloc(path_size + target_size + 1);
    if (reader.failed || pending->path == NULL) {
        free(pending->path);
        return error_set(build->error, ERROR_MEMORY, "no memory for a path");
    }
    memcpy(pending->path, record, path_size + 1);
    if (target_size > 0)
        memcpy(pending->path + path_size + 1, target, target_size);
    entry->path = pending->path;
    entry->path_size = path_size;
    entry->target = pending->path + path_size + 1;
    entry->target_size = target_size;
    return true;
}

static bool take_record(struct build *build, const uint8_t *record, size_t size)
{
    size_t root;
    if (!read_record(build, record, size, &root))
        return false;
    struct pending *pending = &build->pending[build->pending_count++];
    bool found = true, hashed = false;
    if (pending->entry.kind == MANIFEST_FILE && build->asked->known != NULL &&
        !look_up(build, &pending->entry, pending->several, &found, &hashed))
        return false;
    if (!found) { /* it was not delivered, which was said then */
        free(pending->path);
        build->pending_count--;
        return true;
    }
    if (pending->entry.kind == MANIFEST_FILE && !hashed && !hash_later(build, pending, root))
        return false;
    bool full = build->pending_count == HASH_FILES_MAX || build->bytes >= HASH_BYTES_MAX;
    return !full || flush(build);
}

static bool write_entries(struct build *build)
{
    const uint8_t *record;
    size_t size;
    if (!sorted_spool_rewind(build->spool, build->error) ||
        (build->asked->known != NULL && !sorted_spool_rewind(build->asked->known, build->error)) ||
        !put_text(build, MANIFEST_FIRST_LINE "\n", sizeof MANIFEST_FIRST_LINE))
        return false;
    for (;;) {
        switch (sorted_spool_next(build->spool, &record, &size, build->error)) {
        case SPOOL_RECORD:
            if (!take_record(build, record, size))
                return false;
            break;
        case SPOOL_END:
            return flush(build);
        case SPOOL_FAILED:
            return false;
        }
    }
}

bool manifest_build(const struct manifest_build *asked, uint8_t hash[32], uint64_t *problems,
                    struct error *error)
{
    struct build *build = calloc(1, sizeof *build);
    if (build == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for a manifest");
    build->asked = asked;
    build->error = error;
    build->spool = sorted_spool_new(0);
    build->parts = tree_hash_new(TREE_HASH_SIZE_UNKNOWN);
    bool good = build->spool != NULL && build->parts != NULL;
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory for a manifest");
    for (size_t i = 0; i < asked->count && good; i++)
        good = walk_root(build, i);
    good = good && write_entries(build) && finish_text(build, hash);
    *problems = build->problems;
    release(build);
    sorted_spool_free(build->spool);
    tree_hash_free(build->parts);
    free(build);
    return good;
}
