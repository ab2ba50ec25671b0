#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/source_internal.h"

/* Goes through the list, and for each path through the directories above it that the one before did
 * not have: what lies deeper needs them at the destination. With list_trees a directory means all
 * that it holds, and what the list names in it besides comes with it. */
struct list_walk {
    struct file_list_reader reader;
    int root, parent;              /* parent: the directory that parent_path names, -1 */
    char path[PACK_PATH_MAX + 1];  /* of the list */
    size_t size, shown;            /* shown: where the last component given ends */
    char given[PACK_PATH_MAX + 1]; /* the directory whose entry was given last, with those above */
    char parent_path[PACK_PATH_MAX + 1];
    bool has_path, root_given;
    bool in_tree;  /* walk->scan goes through the directory `tree` */
    bool has_tree; /* `tree` was gone through */
    char tree[PACK_PATH_MAX + 1];
    char joined[2 * PACK_PATH_MAX + 2]; /* path of the item in hand */
};

void list_walk_close(struct walk *walk)
{
    struct list_walk *list = walk->list;
    if (list == NULL)
        return;
    if (list->root >= 0)
        close(list->root);
    if (list->parent >= 0)
        close(list->parent);
    free(list);
    walk->list = NULL;
}

static bool fail(struct file_source *source, struct walk *walk, int os_errno, const char *what)
{
    struct error error = {0};
    if (walk == &source->counting)
        return false;
    error_set_errno(&error, os_errno, "%s", what);
    source_problem(source, &walk->item, &error);
    return false;
}

static bool begin(struct file_source *source, struct walk *walk)
{
    struct list_walk *list = calloc(1, sizeof *list);
    walk->item = (struct item){.name = (uint32_t)walk->operand, .path = ""};
    if (list == NULL) {
        walk->operand++;
        return fail(source, walk, ENOMEM, "cannot be gone through");
    }
    list->reader.list = source->list;
    list->parent = -1;
    list->root = source_open_operand(source, walk->operand);
    walk->list = list;
    if (list->root >= 0)
        return true;
    fail(source, walk, errno, "cannot be opened");
    list_walk_close(walk);
    walk->operand++;
    return false;
}

/* Whether `path` is `directory` or below it. */
static bool is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    return strncmp(path, directory, size) == 0 &&
           (size == 0 || path[size] == '\0' || path[size] == '/');
}

/* How much of the path was given already: the directories above it that are also above (or are)
 * the one given last. */
static size_t already_given(const struct list_walk *list)
{
    size_t common = 0;
    for (size_t i = 0; i < list->size; i++) {
        if (list->path[i] != list->given[i])
            return common;
        bool ends = list->given[i + 1] == '\0' || list->given[i + 1] == '/';
        if (ends && list->path[i + 1] == '/')
            common = i + 1;
        if (list->given[i + 1] == '\0')
            return common;
    }
    return common;
}

/* The next path. False at the end of the list, or when it is none. */
static bool next_path(struct file_source *source, struct walk *walk)
{
    struct list_walk *list = walk->list;
    for (;;) {
        struct error error = {0};
        enum file_list_result result =
            file_list_next(&list->reader, list->path, &list->size, &error);
        if (result == FILE_LIST_FAILED)
            source->fatal = error;
        if (result != FILE_LIST_PATH) {
            list_walk_close(walk);
            walk->operand++;
            return false;
        }
        if (list->has_tree && is_below(list->path, list->tree))
            continue;
        if (!filter_admits(&source->filter, list->path, list->size, false) &&
            !filter_admits(&source->filter, list->path, list->size, true))
            continue;
        list->shown = already_given(list);
        list->has_path = true;
        return true;
    }
}

/* The directory that holds path[0..size), open; -1 with errno. */
static int open_parent(struct file_source *source, struct list_walk *list, size_t size)
{
    const char *slash = memrchr(list->path, '/', size);
    size_t above = slash != NULL ? (size_t)(slash - list->path) : 0;
    if (above == 0)
        return list->root;
    if (list->parent >= 0 && strlen(list->parent_path) == above &&
        memcmp(list->parent_path, list->path, above) == 0)
        return list->parent;
    if (list->parent >= 0)
        close(list->parent);
    memcpy(list->parent_path, list->path, above);
    list->parent_path[above] = '\0';
    list->parent = source->follow_links
                       ? openat(list->root, list->parent_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                       : beneath_open(list->root, list->parent_path, O_RDONLY | O_DIRECTORY, 0);
    return list->parent;
}

/* Looks at path[0..size), which is the whole path or a directory above. */
static bool look(struct file_source *source, struct walk *walk, size_t size)
{
    struct list_walk *list = walk->list;
    struct item *item = &walk->item;
    bool whole = size == list->size;
    memcpy(list->joined, list->path, size);
    list->joined[size] = '\0';
    *item = (struct item){.name = (uint32_t)walk->operand,
                          .path = list->joined,
                          .path_size = size,
                          .leaf = size == 0 ? "." : beneath_leaf(list->joined),
                          .follow = source->follow_links};
    item->directory = open_parent(source, list, size);
    int flags = source->follow_links ? 0 : AT_SYMLINK_NOFOLLOW;
    if (item->directory < 0 || fstatat(item->directory, item->leaf, &item->status, flags) != 0)
        return fail(source, walk, errno, "cannot be read");
    if (!whole && !S_ISDIR(item->status.st_mode))
        return fail(source, walk, ENOTDIR, "is not copied, nor what is listed below it");
    if (source_is_special(&item->status) && (source->flags & TRANSFER_SPECIALS) == 0)
        return fail(source, walk, EINVAL, "is neither a file, a directory nor a link");
    return !whole ||
           filter_admits(&source->filter, item->path, size, S_ISDIR(item->status.st_mode));
}

/* Begins to go through the listed directory that was just looked at. Its own entry comes first. */
static bool enter_tree(struct file_source *source, struct walk *walk)
{
    struct list_walk *list = walk->list;
    int fd = openat(walk->item.directory, walk->item.leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    walk->scan = fd >= 0 ? scan_new(fd, source->follow_links) : NULL;
    if (walk->scan == NULL) {
        int failure = fd >= 0 ? ENOMEM : errno;
        if (fd >= 0)
            close(fd);
        return fail(source, walk, failure, "cannot be opened");
    }
    strcpy(list->tree, list->path);
    list->in_tree = list->has_tree = true;
    if (walk == &source->deliveries)
        scan_set_read_ahead(walk->scan, source->ahead);
    if ((source->flags & TRANSFER_SPECIALS) != 0)
        scan_set_specials(walk->scan);
    if (scan_set_filter(walk->scan, &source->filter, FILTER_SENDER, list->tree))
        return true;
    return fail(source, walk, ENOMEM, "cannot be gone through");
}

/* The next entry of the listed directory. */
static bool next_of_tree(struct file_source *source, struct walk *walk)
{
    struct list_walk *list = walk->list;
    struct scan_entry found;
    struct error error = {0};
    enum scan_result result = scan_next(walk->scan, &found, &error);
    if (result == SCAN_END) {
        scan_free(walk->scan);
        walk->scan = NULL;
        list->in_tree = false;
        return false;
    }
    size_t size = strlen(list->tree);
    memcpy(list->joined, list->tree, size);
    if (size > 0 && found.path_size > 0)
        list->joined[size++] = '/';
    memcpy(list->joined + size, found.path, found.path_size + 1);
    size += found.path_size;
    walk->item = (struct item){.name = (uint32_t)walk->operand,
                               .path = list->joined,
                               .path_size = size,
                               .directory = found.directory,
                               .leaf = found.leaf,
                               .follow = source->follow_links,
                               .status = found.status};
    if (result == SCAN_ENTRY && size <= PACK_PATH_MAX - 1)
        return true;
    if (result == SCAN_ENTRY)
        error_set_errno(&error, ENAMETOOLONG, "not sent");
    if (walk != &source->counting)
        source_problem(source, &walk->item, &error);
    return false;
}

static size_t end_of_component(const struct list_walk *list, size_t from)
{
    const char *slash =
        from < list->size ? memchr(list->path + from + 1, '/', list->size - from - 1) : NULL;
    return slash != NULL ? (size_t)(slash - list->path) : list->size;
}

bool list_walk_next(struct file_source *source, struct walk *walk)
{
    if (walk->list == NULL && !begin(source, walk))
        return false;
    struct list_walk *list = walk->list;
    if (list->in_tree)
        return next_of_tree(source, walk);
    if (!list->has_path && !next_path(source, walk))
        return false;
    if (!list->root_given) { /* the source itself, above all others */
        list->root_given = true;
        return look(source, walk, 0);
    }
    size_t end = end_of_component(list, list->shown);
    bool whole = end == list->size;
    list->shown = end;
    list->has_path = !whole;
    if (!look(source, walk, end)) {
        list->has_path = false; /* and what lies below it */
        return false;
    }
    if (S_ISDIR(walk->item.status.st_mode))
        strcpy(list->given, list->joined);
    if (whole && source->list_trees && S_ISDIR(walk->item.status.st_mode))
        return enter_tree(source, walk) && next_of_tree(source, walk);
    return true;
}
