#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tree/attributes.h"
#include "tree/jail.h"
#include "tree/source_internal.h"

/* Owner and extended attributes of what is sent, as far as they are asked for. */

#define PATH_ROOM (PACK_PATH_MAX + 64)

static void write_owner(struct file_source *source, const struct stat *status,
                        struct writer *writer)
{
    struct attribute owner = {.kind = ATTRIBUTE_OWNER,
                              .uid = status->st_uid,
                              .gid = status->st_gid,
                              .user = "",
                              .group = ""};
    if ((source->flags & TRANSFER_NUMERIC_IDS) == 0) {
        owner.user = owner_name(source->owners, false, status->st_uid);
        owner.group = owner_name(source->owners, true, status->st_gid);
    }
    owner.user_size = strlen(owner.user);
    owner.group_size = strlen(owner.group);
    attributes_write(writer, &owner);
}

static bool is_acl(const char *name)
{
    return strcmp(name, "system.posix_acl_access") == 0 ||
           strcmp(name, "system.posix_acl_default") == 0;
}

/* Labels of a security module are the destination's own business. */
static bool is_wanted(const struct file_source *source, const char *name)
{
    if (is_acl(name))
        return (source->flags & TRANSFER_ACLS) != 0;
    return (source->flags & TRANSFER_XATTRS) != 0 && strncmp(name, "system.", 7) != 0 &&
           strcmp(name, "security.selinux") != 0;
}

/* Adds one attribute. False when there is no room for it. */
static bool write_extended(struct file_source *source, const char *path, bool follow,
                           const char *name, struct writer *writer)
{
    uint8_t *value = source->extra_room;
    ssize_t size = follow ? getxattr(path, name, value, ATTRIBUTES_MAX)
                          : lgetxattr(path, name, value, ATTRIBUTES_MAX);
    if (size < 0)
        return errno != ERANGE && errno != E2BIG; /* gone meanwhile, or not for us to read */
    struct attribute attribute = {.kind = ATTRIBUTE_EXTENDED,
                                  .name = name,
                                  .name_size = strlen(name),
                                  .value = value,
                                  .value_size = (size_t)size};
    struct writer before = *writer;
    attributes_write(writer, &attribute);
    if (!writer->failed)
        return true;
    *writer = before;
    return false;
}

/* The item as a path for calls that take no directory. *held is -1, or to be closed after use. */
static bool path_of_item(const struct item *item, char path[PATH_ROOM], int *held)
{
    int length;
    *held = -1;
    if (item->directory != AT_FDCWD) {
        length = snprintf(path, PATH_ROOM, "/proc/self/fd/%d/%s", item->directory, item->leaf);
    } else if (!jail_is_entered()) {
        length = snprintf(path, PATH_ROOM, "%s", item->leaf);
    } else {
        *held = jail_openat(AT_FDCWD, item->leaf, O_PATH);
        if (*held < 0)
            return false;
        length = snprintf(path, PATH_ROOM, "/proc/self/fd/%d", *held);
    }
    return length > 0 && (size_t)length < PATH_ROOM;
}

static void write_all_extended(struct file_source *source, const struct item *item,
                               struct writer *writer)
{
    char path[PATH_ROOM], *names = (char *)source->extra_room + ATTRIBUTES_MAX;
    int held;
    if (!path_of_item(item, path, &held))
        return;
    ssize_t size = item->follow ? listxattr(path, names, ATTRIBUTES_MAX)
                                : llistxattr(path, names, ATTRIBUTES_MAX);
    bool lost = size < 0 && errno == E2BIG;
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1) {
        if (is_wanted(source, names + at))
            lost = !write_extended(source, path, item->follow, names + at, writer) || lost;
    }
    if (held >= 0)
        close(held);
    source->extra_lost += lost;
}

bool extra_open(struct file_source *source, struct error *error)
{
    bool extended = (source->flags & (TRANSFER_XATTRS | TRANSFER_ACLS)) != 0;
    bool owners = (source->flags & (TRANSFER_OWNER | TRANSFER_GROUP)) != 0;
    if (extended || owners)
        source->extra = malloc(ATTRIBUTES_MAX);
    if (extended)
        source->extra_room = malloc(2 * (size_t)ATTRIBUTES_MAX);
    if (owners)
        source->owners = owner_names_new();
    bool good = (source->extra != NULL || !(extended || owners)) &&
                (source->extra_room != NULL || !extended) && (source->owners != NULL || !owners);
    return good || error_set(error, ERROR_MEMORY, "no memory for owners and attributes");
}

void extra_close(struct file_source *source)
{
    free(source->extra);
    free(source->extra_room);
    owner_names_free(source->owners);
}

void extra_fill(struct file_source *source, const struct item *item, const struct stat *status,
                struct entry *entry)
{
    if (source->extra == NULL)
        return;
    struct writer writer = writer_of(source->extra, ATTRIBUTES_MAX);
    if ((source->flags & (TRANSFER_OWNER | TRANSFER_GROUP)) != 0)
        write_owner(source, status, &writer);
    if (source->extra_room != NULL && !S_ISLNK(status->st_mode))
        write_all_extended(source, item, &writer);
    entry->extra = source->extra;
    entry->extra_size = writer_size(&writer);
}
