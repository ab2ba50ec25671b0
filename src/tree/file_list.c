#include "tree/file_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crypto/tree_hash.h"
#include "tree/display.h"
#include "tree/pack.h"
#include "tree/sorted_spool.h"
#include "tree/spool_file.h"
#include "tree/write_at.h"

#define HEAD_SIZE 2u
#define KEY_SIZE 17u /* what is known of a path, and 16 bytes of its hash */

_Static_assert(HEAD_SIZE + PACK_PATH_MAX < sizeof(((struct file_list_reader *)0)->bytes), "");

enum known { KNOWN_LISTED = 'l', KNOWN_ABOVE = 'a' };

struct file_list {
    struct sorted_spool *paths; /* while paths are added; "/" as NUL, so that trees stay together */
    int fd;                     /* the list */
    uint64_t size;
    int index; /* sorted keys, -1: none */
    uint64_t index_count;
};

struct file_list *file_list_new(void)
{
    struct file_list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return NULL;
    list->fd = list->index = -1;
    return list;
}

void file_list_free(struct file_list *list)
{
    if (list == NULL)
        return;
    sorted_spool_free(list->paths);
    if (list->fd >= 0)
        close(list->fd);
    if (list->index >= 0)
        close(list->index);
    free(list);
}

static bool append(int *fd, uint64_t *at, const uint8_t *bytes, size_t size, struct error *error)
{
    if (*fd < 0)
        *fd = spool_file_open(error);
    if (*fd < 0)
        return false;
    if (!write_at(*fd, bytes, size, *at))
        return error_set_errno(error, errno, "cannot write the list of files to TMPDIR");
    *at += size;
    return true;
}

bool file_list_append(struct file_list *list, const uint8_t *bytes, size_t size,
                      struct error *error)
{
    return append(&list->fd, &list->size, bytes, size, error);
}

/* ---- what a user wrote ---- */

static bool refuse(struct error *error, const char *path, size_t size, const char *why)
{
    char shown[300];
    return error_set(error, ERROR_USAGE, "--files-from: %s %s",
                     display_bytes(shown, sizeof shown, path, size), why);
}

bool file_list_add(struct file_list *list, const char *path, size_t size, struct error *error)
{
    char cleaned[PACK_PATH_MAX + 1];
    size_t length = 0;
    for (size_t at = 0; at < size;) {
        size_t end = at;
        while (end < size && path[end] != '/')
            end++;
        size_t part = end - at;
        bool dot = part == 1 && path[at] == '.';
        if (part == 2 && path[at] == '.' && path[at + 1] == '.')
            return refuse(error, path, size, "leads out of the source; name paths inside it");
        if (part > 0 && !dot) {
            if (length + part + 1 > PACK_PATH_MAX)
                return refuse(error, path, size, "is too long");
            if (length > 0)
                cleaned[length++] = '\0';
            memcpy(cleaned + length, path + at, part);
            length += part;
        }
        at = end + 1;
    }
    if (list->paths == NULL)
        list->paths = sorted_spool_new(0);
    if (list->paths == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for the list of files");
    return sorted_spool_add(list->paths, cleaned, length, error);
}

/* ---- the index ---- */

static void make_key(uint8_t key[KEY_SIZE], enum known known, const char *path, size_t size)
{
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(path, size, hash);
    memcpy(key, hash, KEY_SIZE - 1);
    key[KEY_SIZE - 1] = (uint8_t)known;
}

static bool index_path(struct sorted_spool *keys, const char *path, size_t size,
                       struct error *error)
{
    uint8_t key[KEY_SIZE];
    make_key(key, KNOWN_LISTED, path, size);
    if (!sorted_spool_add(keys, key, sizeof key, error))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (path[i] != '/' && i > 0)
            continue;
        make_key(key, KNOWN_ABOVE, path, path[i] == '/' ? i : 0);
        if (!sorted_spool_add(keys, key, sizeof key, error))
            return false;
    }
    return true;
}

static bool write_index(struct file_list *list, struct sorted_spool *keys, struct error *error)
{
    const uint8_t *key;
    size_t size;
    uint64_t written = 0;
    uint8_t last[KEY_SIZE] = {0}, block[KEY_SIZE * 240];
    size_t filled = 0;
    enum spool_result result;
    if (!sorted_spool_rewind(keys, error))
        return false;
    while ((result = sorted_spool_next(keys, &key, &size, error)) == SPOOL_RECORD) {
        if (memcmp(key, last, KEY_SIZE) == 0)
            continue;
        memcpy(last, key, KEY_SIZE);
        memcpy(block + filled, key, KEY_SIZE);
        filled += KEY_SIZE;
        list->index_count++;
        if (filled == sizeof block) {
            if (!append(&list->index, &written, block, filled, error))
                return false;
            filled = 0;
        }
    }
    return result == SPOOL_END && append(&list->index, &written, block, filled, error);
}

static bool holds(const struct file_list *list, enum known known, const char *path, size_t size)
{
    uint8_t key[KEY_SIZE], found[KEY_SIZE];
    make_key(key, known, path, size);
    uint64_t low = 0, high = list->index_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (pread(list->index, found, KEY_SIZE, (off_t)(middle * KEY_SIZE)) != (ssize_t)KEY_SIZE)
            return false;
        int order = memcmp(found, key, KEY_SIZE);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

bool file_list_admits(const struct file_list *list, const char *path, size_t size,
                      bool is_directory, bool below)
{
    if (holds(list, KNOWN_LISTED, path, size) ||
        (is_directory && (size == 0 || holds(list, KNOWN_ABOVE, path, size))))
        return true;
    if (!below)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (path[i] == '/' && holds(list, KNOWN_LISTED, path, i))
            return true;
    }
    return size > 0 && holds(list, KNOWN_LISTED, "", 0);
}

/* ---- the list itself ---- */

bool file_list_finish(struct file_list *list, bool index, struct error *error)
{
    if (list->paths == NULL)
        return error_set(error, ERROR_USAGE, "--files-from names no file");
    struct sorted_spool *keys = index ? sorted_spool_new(0) : NULL;
    bool good = sorted_spool_rewind(list->paths, error);
    char path[PACK_PATH_MAX + 1], last[PACK_PATH_MAX + 1];
    uint8_t block[4 * PACK_PATH_MAX];
    size_t last_size = SIZE_MAX, filled = 0;
    const uint8_t *bytes;
    size_t size;
    enum spool_result result = SPOOL_END;
    while (good &&
           (result = sorted_spool_next(list->paths, &bytes, &size, error)) == SPOOL_RECORD) {
        for (size_t i = 0; i < size; i++)
            path[i] = bytes[i] == '\0' ? '/' : (char)bytes[i];
        if (size == last_size && memcmp(path, last, size) == 0)
            continue;
        memcpy(last, path, size);
        last_size = size;
        if (filled + HEAD_SIZE + size > sizeof block) {
            good = file_list_append(list, block, filled, error);
            filled = 0;
        }
        block[filled++] = (uint8_t)(size >> 8);
        block[filled++] = (uint8_t)size;
        memcpy(block + filled, path, size);
        filled += size;
        good = good && (keys == NULL || index_path(keys, path, size, error));
    }
    good = good && result == SPOOL_END && file_list_append(list, block, filled, error) &&
           (keys == NULL || write_index(list, keys, error));
    sorted_spool_free(keys);
    sorted_spool_free(list->paths);
    list->paths = NULL;
    return good || error_set(error, ERROR_MEMORY, "no memory for the list of files");
}

ptrdiff_t file_list_read(const struct file_list *list, uint64_t offset, uint8_t *bytes,
                         size_t capacity, struct error *error)
{
    size_t got = 0;
    while (got < capacity && offset + got < list->size) {
        ssize_t n = pread(list->fd, bytes + got, capacity - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            error_set_errno(error, n < 0 ? errno : EIO, "cannot read the list of files back");
            return -1;
        }
        got += (size_t)n;
    }
    return (ptrdiff_t)got;
}

enum file_list_result file_list_next(struct file_list_reader *reader, char *path, size_t *size,
                                     struct error *error)
{
    size_t have = reader->filled - reader->first;
    if (have < HEAD_SIZE + PACK_PATH_MAX) { /* perhaps not a whole record */
        memmove(reader->bytes, reader->bytes + reader->first, have);
        ptrdiff_t got = file_list_read(reader->list, reader->at, reader->bytes + have,
                                       sizeof reader->bytes - have, error);
        if (got < 0)
            return FILE_LIST_FAILED;
        reader->first = 0;
        reader->at += (uint64_t)got;
        have += (size_t)got;
        reader->filled = have;
    }
    if (have == 0)
        return FILE_LIST_END;
    const uint8_t *record = reader->bytes + reader->first;
    size_t length = have >= HEAD_SIZE ? (size_t)record[0] << 8 | record[1] : SIZE_MAX;
    if (length > PACK_PATH_MAX || HEAD_SIZE + length > have ||
        !pack_path_valid((const char *)record + HEAD_SIZE, length)) {
        error_set(error, ERROR_PROTOCOL, "the list of files holds what is no path");
        return FILE_LIST_FAILED;
    }
    memcpy(path, record + HEAD_SIZE, length);
    path[length] = '\0';
    *size = length;
    reader->first += HEAD_SIZE + length;
    return FILE_LIST_PATH;
}
