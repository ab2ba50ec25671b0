#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define WORTH_LOOKING                                                                              \
    (16u << 20) /* a file of this size beside a new one makes it worth a question */
#define LOOKED_MAX 4096

/* ---- what is looked through ---- */

static void add_root(struct file_sink *sink, int base, const char *path, bool recursive)
{
    int fd =
        openat(base, path[0] != '\0' ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        content_index_add(sink->index, fd, recursive);
}

/* The trees that are being updated, the files beside them, and the directory that the user named.
 */
static void begin(struct file_sink *sink)
{
    const struct place *place = &sink->place;
    bool contents = false;
    sink->index = content_index_new();
    sink->index_ready = sink->index == NULL;
    if (sink->index == NULL)
        return;
    for (size_t i = 0; i < place->count; i++) {
        if (place->existed[i] && place->is_directory[i])
            add_root(sink, place->root, place->prefixes[i], true);
        contents = contents || place->prefixes[i][0] == '\0';
    }
    if (!contents)
        add_root(sink, place->root, "", false);
    if (place->reference >= 0)
        add_root(sink, place->reference, "", true);
}

bool find_is_ready(struct file_sink *sink)
{
    if (sink->index == NULL && !sink->index_ready)
        begin(sink);
    if (!sink->index_ready)
        sink->index_ready = !content_index_step(sink->index);
    return sink->index_ready;
}

int find_open(struct file_sink *sink, uint64_t size, int64_t mtime_s, uint32_t mtime_ns,
              struct stat *status)
{
    return sink->index == NULL ? -1
                               : content_index_open(sink->index, size, mtime_s, mtime_ns, status);
}

void find_close(struct file_sink *sink)
{
    content_index_free(sink->index);
    sink->index = NULL;
}

/* ---- whether it is worth a round trip ---- */

bool find_may_help(const struct file_sink *sink)
{
    if (sink->place.reference >= 0)
        return true;
    DIR *stream = beneath_list(sink->place.root);
    if (stream == NULL)
        return false;
    bool found = false;
    const struct dirent *entry;
    for (unsigned i = 0; i < LOOKED_MAX && !found && (entry = readdir(stream)) != NULL; i++) {
        struct stat status;
        found = (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) &&
                fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(status.st_mode) && status.st_size >= (off_t)WORTH_LOOKING;
    }
    closedir(stream);
    return found;
}
