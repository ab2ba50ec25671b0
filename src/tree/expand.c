#include "tree/expand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/jail.h"
#include "tree/wildcard.h"

void path_list_release(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    memset(list, 0, sizeof *list);
}

/* Adds base + name + end. */
static bool add(struct path_list *list, size_t limit, const char *base, const char *name,
                size_t name_size, const char *end, struct error *error)
{
    if (list->count == limit)
        return error_set(error, ERROR_USAGE, "a wildcard matches more than %zu names", limit);
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 16;
        char **paths = realloc(list->paths, capacity * sizeof *paths);
        if (paths == NULL)
            return error_set(error, ERROR_MEMORY, "no memory to expand a wildcard");
        list->paths = paths;
        list->capacity = capacity;
    }
    size_t base_size = strlen(base), end_size = strlen(end);
    char *path = malloc(base_size + name_size + end_size + 1);
    if (path == NULL)
        return error_set(error, ERROR_MEMORY, "no memory to expand a wildcard");
    memcpy(path, base, base_size);
    memcpy(path + base_size, name, name_size);
    memcpy(path + base_size + name_size, end, end_size + 1);
    list->paths[list->count++] = path;
    return true;
}

bool path_list_add(struct path_list *list, const char *path, struct error *error)
{
    return add(list, SIZE_MAX, path, "", 0, "", error);
}

/* Adds what in the directory `base` matches the component. */
static bool match_in(struct path_list *list, size_t limit, const char *base, const char *component,
                     size_t size, const char *end, struct error *error)
{
    int fd = jail_openat(AT_FDCWD, base[0] == '\0' ? "." : base, O_RDONLY | O_DIRECTORY);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (directory == NULL) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        errno = why;
        list->closed = list->closed || errno == EACCES;
        return true;
    }
    bool valid = true;
    const struct dirent *found;
    while (valid && (found = readdir(directory)) != NULL) {
        const char *name = found->d_name;
        size_t name_size = strlen(name);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            wildcard_match(component, size, name, name_size))
            valid = add(list, limit, base, name, name_size, end, error);
    }
    closedir(directory);
    return valid;
}

/* Removes what does not exist (as a directory, when the path goes on). */
static void drop_missing(struct path_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct stat status;
        if (jail_fstatat(AT_FDCWD, list->paths[i], &status, AT_SYMLINK_NOFOLLOW) == 0) {
            list->paths[kept++] = list->paths[i];
        } else {
            list->closed = list->closed || errno == EACCES;
            free(list->paths[i]);
        }
    }
    list->count = kept;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool expand_path(const char *pattern, struct path_list *list, size_t limit, struct error *error)
{
    size_t slashes = strspn(pattern, "/");
    if (!add(list, limit, "", pattern, slashes, "", error))
        return false;
    pattern += slashes;
    bool valid = true;
    while (*pattern != '\0' && valid) {
        size_t size = strcspn(pattern, "/");
        slashes = strspn(pattern + size, "/");
        struct path_list next = {.closed = list->closed};
        const char *end = slashes > 0 ? "/" : "";
        for (size_t i = 0; i < list->count && valid; i++) {
            if (wildcard_is_pattern(pattern, size))
                valid = match_in(&next, limit, list->paths[i], pattern, size, end, error);
            else
                valid = add(&next, limit, list->paths[i], pattern, size, end, error);
        }
        path_list_release(list);
        *list = next;
        drop_missing(list);
        pattern += size + slashes;
    }
    if (!valid)
        path_list_release(list);
    else if (list->count > 1)
        qsort(list->paths, list->count, sizeof *list->paths, compare_paths);
    return valid;
}
