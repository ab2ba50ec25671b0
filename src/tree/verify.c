#include "tree/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/hash_files.h"
#include "tree/jail.h"
#include "tree/scan.h"
#include "tree/sorted_spool.h"

#define DIRECTORY_MODE 01777 /* the bits that a copy keeps */
#define FILE_MODE 0777

struct check {
    const struct verify *asked;
    struct verify_counts *counts;
    struct error *error;
    int root;
    struct manifest_reader reader;
    struct sorted_spool *found; /* all names in directories that the manifest has */
    struct hash_file files[HASH_FILES_MAX];
    uint8_t wanted[HASH_FILES_MAX][TREE_HASH_SIZE];
    size_t file_count;
    uint64_t bytes;
    char line[MANIFEST_LINE_MAX + 2];
};

const char *difference_name(enum difference difference)
{
    static const char *const names[DIFFERENCE_COUNT] = {
        [DIFFERENCE_MISSING] = "missing",
        [DIFFERENCE_EXTRA] = "extra",
        [DIFFERENCE_TYPE] = "type",
        [DIFFERENCE_SIZE] = "size",
        [DIFFERENCE_CONTENT] = "content",
        [DIFFERENCE_TARGET] = "target",
        [DIFFERENCE_MODE] = "mode",
        [DIFFERENCE_TIME] = "time",
        [DIFFERENCE_UNREADABLE] = "unreadable",
    };
    return names[difference];
}

static void differs(struct check *check, enum difference difference, const char *path,
                    const char *text)
{
    check->counts->differences++;
    check->asked->differs(check->asked->context, difference, path, text);
}

/* ---- reading the manifest ---- */

static bool rewind_manifest(struct check *check)
{
    memset(&check->reader, 0, sizeof check->reader);
    return fseeko(check->asked->manifest, 0, SEEK_SET) == 0 ||
           error_set_errno(check->error, errno, "cannot read the manifest");
}

/* The next whole entry. False at the end, with an error when that is not a proper one. */
static bool next_entry(struct check *check)
{
    const volatile int *stop = check->asked->stop;
    while (fgets(check->line, sizeof check->line, check->asked->manifest) != NULL) {
        size_t size = strlen(check->line);
        if (stop != NULL && *stop != 0)
            return error_set(check->error, ERROR_INTERRUPTED, "interrupted");
        if (size == 0 || check->line[size - 1] != '\n')
            return error_set(check->error, ERROR_USAGE,
                             "line %llu of the manifest is too long, or the last one is cut",
                             (unsigned long long)check->reader.line + 1);
        switch (manifest_read(&check->reader, check->line, size - 1, check->error)) {
        case MANIFEST_MORE:
            break;
        case MANIFEST_ENTRY:
            return true;
        case MANIFEST_INVALID:
            return false;
        }
    }
    if (ferror(check->asked->manifest))
        return error_set_errno(check->error, errno, "cannot read the manifest");
    manifest_read_end(&check->reader, check->error);
    return false;
}

/* ---- comparing ---- */

static bool flush(struct check *check)
{
    hash_files(check->files, check->file_count, check->asked->stop);
    for (size_t i = 0; i < check->file_count; i++) {
        struct hash_file *file = &check->files[i];
        if (file->error.kind == ERROR_INTERRUPTED)
            error_set(check->error, ERROR_INTERRUPTED, "interrupted");
        else if (file->error.kind != ERROR_NONE)
            differs(check, DIFFERENCE_UNREADABLE, file->path, file->error.text);
        else if (memcmp(file->hash, check->wanted[i], TREE_HASH_SIZE) != 0)
            differs(check, DIFFERENCE_CONTENT, file->path, "");
        free((char *)file->path);
    }
    check->file_count = 0;
    check->bytes = 0;
    return check->error->kind == ERROR_NONE;
}

static bool hash_later(struct check *check, const struct manifest_entry *entry)
{
    char *path = strdup(entry->path);
    if (path == NULL)
        return error_set(check->error, ERROR_MEMORY, "no memory for a path");
    memcpy(check->wanted[check->file_count], entry->hash, TREE_HASH_SIZE);
    check->files[check->file_count++] =
        (struct hash_file){.root = check->root, .path = path, .size = entry->size};
    check->bytes += entry->size;
    check->counts->bytes += entry->size;
    bool full = check->file_count == HASH_FILES_MAX || check->bytes >= HASH_BYTES_MAX;
    return !full || flush(check);
}

static bool note_names(struct check *check, const struct manifest_entry *entry)
{
    int fd = beneath_open(check->root, entry->path, O_RDONLY | O_DIRECTORY, 0);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        differs(check, DIFFERENCE_UNREADABLE, entry->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return true;
    }
    char path[MANIFEST_PATH_MAX + 258];
    const struct dirent *found;
    bool good = true;
    memcpy(path, entry->path, entry->path_size);
    path[entry->path_size] = '/';
    while (good && (found = readdir(stream)) != NULL) {
        size_t size = strlen(found->d_name);
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0 ||
            scan_is_own_name(found->d_name))
            continue;
        memcpy(path + entry->path_size + 1, found->d_name, size + 1);
        good = sorted_spool_add(check->found, path, entry->path_size + 1 + size, check->error);
    }
    closedir(stream);
    return good;
}

static const char *kind_name(mode_t mode)
{
    return S_ISDIR(mode)   ? "a directory"
           : S_ISREG(mode) ? "a file"
           : S_ISLNK(mode) ? "a link"
                           : "a device";
}

static void compare_link(struct check *check, const struct manifest_entry *entry, int fd)
{
    char target[MANIFEST_PATH_MAX + 1];
    ssize_t size = readlinkat(fd, "", target, sizeof target - 1);
    target[size > 0 ? size : 0] = '\0';
    if (size < 0)
        differs(check, DIFFERENCE_UNREADABLE, entry->path, strerror(errno));
    else if ((size_t)size != entry->target_size ||
             memcmp(target, entry->target, entry->target_size) != 0)
        differs(check, DIFFERENCE_TARGET, entry->path, target);
}

static void compare_attributes(struct check *check, const struct manifest_entry *entry,
                               const struct stat *status)
{
    char text[48];
    uint32_t mask = entry->kind == MANIFEST_DIRECTORY ? DIRECTORY_MODE : FILE_MODE;
    if (check->asked->content_only)
        return;
    if (entry->kind != MANIFEST_LINK && ((status->st_mode ^ entry->mode) & mask) != 0) {
        snprintf(text, sizeof text, "%04o", (unsigned)(status->st_mode & mask));
        differs(check, DIFFERENCE_MODE, entry->path, text);
    }
    if (status->st_mtim.tv_sec != entry->mtime_s ||
        status->st_mtim.tv_nsec != (long)entry->mtime_ns) {
        snprintf(text, sizeof text, "%lld.%09ld", (long long)status->st_mtim.tv_sec,
                 status->st_mtim.tv_nsec);
        differs(check, DIFFERENCE_TIME, entry->path, text);
    }
}

static bool compare_opened(struct check *check, const struct manifest_entry *entry, int fd)
{
    struct stat status;
    char text[32];
    if (fstat(fd, &status) != 0) {
        differs(check, DIFFERENCE_UNREADABLE, entry->path, strerror(errno));
        return true;
    }
    bool same = entry->kind == MANIFEST_DIRECTORY ? S_ISDIR(status.st_mode)
                : entry->kind == MANIFEST_LINK    ? S_ISLNK(status.st_mode)
                                                  : S_ISREG(status.st_mode);
    if (!same) {
        differs(check, DIFFERENCE_TYPE, entry->path, kind_name(status.st_mode));
        return true;
    }
    compare_attributes(check, entry, &status);
    if (entry->kind == MANIFEST_DIRECTORY)
        return note_names(check, entry);
    if (entry->kind == MANIFEST_LINK) {
        compare_link(check, entry, fd);
        return true;
    }
    check->counts->files++;
    if ((uint64_t)status.st_size == entry->size)
        return hash_later(check, entry);
    snprintf(text, sizeof text, "%llu bytes", (unsigned long long)status.st_size);
    differs(check, DIFFERENCE_SIZE, entry->path, text);
    return true;
}

static bool compare(struct check *check, const struct manifest_entry *entry)
{
    check->counts->entries++;
    int fd = beneath_open(check->root, entry->path, O_PATH, 0);
    if (fd < 0) {
        bool missing = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
        differs(check, missing ? DIFFERENCE_MISSING : DIFFERENCE_UNREADABLE, entry->path,
                missing ? "" : strerror(errno));
        return true;
    }
    bool good = compare_opened(check, entry, fd);
    close(fd);
    return good;
}

static bool compare_all(struct check *check)
{
    if (!rewind_manifest(check))
        return false;
    while (next_entry(check)) {
        if (!compare(check, &check->reader.entry))
            return false;
    }
    return check->error->kind == ERROR_NONE && flush(check);
}

/* ---- what the manifest does not have ---- */

static bool find_extras(struct check *check)
{
    bool more = rewind_manifest(check) && next_entry(check);
    if (!sorted_spool_rewind(check->found, check->error))
        return false;
    for (;;) {
        const uint8_t *bytes;
        size_t size;
        enum spool_result result = sorted_spool_next(check->found, &bytes, &size, check->error);
        if (result != SPOOL_RECORD)
            return result == SPOOL_END && check->error->kind == ERROR_NONE;
        const struct manifest_entry *entry = &check->reader.entry;
        while (more &&
               manifest_compare(entry->path, entry->path_size, (const char *)bytes, size) < 0)
            more = next_entry(check);
        if (more && manifest_compare(entry->path, entry->path_size, (const char *)bytes, size) == 0)
            continue;
        char path[MANIFEST_PATH_MAX + 258];
        memcpy(path, bytes, size);
        path[size] = '\0';
        differs(check, DIFFERENCE_EXTRA, path, "");
    }
}

bool verify_run(const struct verify *asked, struct verify_counts *counts, struct error *error)
{
    *counts = (struct verify_counts){0};
    struct check *check = calloc(1, sizeof *check);
    int root = jail_openat(AT_FDCWD, asked->directory, O_RDONLY | O_DIRECTORY);
    bool good = root >= 0;
    if (!good)
        error_set_errno(error, errno, "cannot open the directory %s", asked->directory);
    if (good && check != NULL) {
        *check = (struct check){.asked = asked, .counts = counts, .error = error, .root = root};
        check->found = sorted_spool_new(0);
        good = check->found != NULL && compare_all(check) && find_extras(check);
        sorted_spool_free(check->found);
    }
    if (check == NULL || (good && check->found == NULL))
        good = error_set(error, ERROR_MEMORY, "no memory to verify");
    if (root >= 0)
        close(root);
    free(check);
    return good;
}
