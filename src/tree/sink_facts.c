#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tree/attributes.h"
#include "tree/beneath.h"
#include "tree/jail.h"
#include "tree/sink_internal.h"

/* What a file, link or directory gets besides its bytes: owner, permissions, extended attributes,
 * time; in this order, for each but the last can change the one before. */

#define FILE_MODE 0777u

/* Something to be changed: `name` in the directory `fd`, or what `fd` names itself. */
struct thing {
    int fd;
    const char *name; /* "" for fd itself */
    int flags;        /* of the calls that take a name */
    struct stat status;
};

static bool look(struct thing *thing)
{
    return fstatat(thing->fd, thing->name, &thing->status, thing->flags) == 0;
}

static bool find_owner(const struct facts *facts, struct attribute *owner)
{
    struct reader reader = reader_of(facts->extra, facts->extra_size);
    while (attributes_next(&reader, owner) == ATTRIBUTES_ITEM) {
        if (owner->kind == ATTRIBUTE_OWNER)
            return true;
    }
    return false;
}

/* ---- owners ---- */

#define NOBODY UINT32_MAX /* leaves an owner as it is */

static uint32_t wanted_id(struct file_sink *sink, bool group, uint32_t id, const char *name,
                          size_t size)
{
    if ((sink->flags & (group ? TRANSFER_GROUP : TRANSFER_OWNER)) == 0)
        return NOBODY;
    if (sink->owners == NULL && (sink->flags & TRANSFER_NUMERIC_IDS) == 0)
        sink->owners = owner_names_new();
    return sink->owners != NULL ? owner_id(sink->owners, group, id, name, size) : id;
}

static void count_owner(struct file_sink *sink)
{
    if ((sink->flags & TRANSFER_OWNERS_ASKED) != 0)
        sink_lost(sink, LOSS_OWNER);
}

/* Gives the thing its owner and group as far as that is permitted. *kept: which of the set-id bits
 * mean here what they meant there. */
static void set_owner(struct file_sink *sink, struct thing *thing, const struct facts *facts,
                      uint32_t *kept)
{
    struct attribute owner;
    *kept = 0;
    if ((sink->flags & (TRANSFER_OWNER | TRANSFER_GROUP)) == 0 || !find_owner(facts, &owner))
        return;
    if (jail_is_entered()) { /* what a guest brings is never somebody else's here */
        count_owner(sink);
        return;
    }
    if (!look(thing))
        return;
    uint32_t uid = wanted_id(sink, false, owner.uid, owner.user, owner.user_size);
    uint32_t gid = wanted_id(sink, true, owner.gid, owner.group, owner.group_size);
    bool other_user = uid != NOBODY && uid != thing->status.st_uid;
    bool other_group = gid != NOBODY && gid != thing->status.st_gid;
    bool done =
        (!other_user && !other_group) || fchownat(thing->fd, thing->name, other_user ? uid : NOBODY,
                                                  other_group ? gid : NOBODY, thing->flags) == 0;
    if (!done && other_user && other_group &&
        fchownat(thing->fd, thing->name, NOBODY, gid, thing->flags) == 0)
        other_group = false;
    bool has_user = uid != NOBODY && (done || !other_user);
    bool has_group = gid != NOBODY && (done || !other_group);
    if ((uid != NOBODY && !has_user) || (gid != NOBODY && !has_group))
        count_owner(sink);
    *kept = (has_user ? S_ISUID : 0u) | (has_group ? S_ISGID : 0u);
}

/* ---- extended attributes ---- */

static bool is_acl(const char *name)
{
    return strcmp(name, "system.posix_acl_access") == 0 ||
           strcmp(name, "system.posix_acl_default") == 0;
}

/* Whether an attribute with this name was asked for. A capability is as much as a set-user-id bit:
 * it is worth something only where the owner is the same. */
static bool is_wanted(const struct file_sink *sink, const char *name, uint32_t kept)
{
    if (is_acl(name))
        return (sink->flags & TRANSFER_ACLS) != 0;
    if ((sink->flags & TRANSFER_XATTRS) == 0 || strncmp(name, "system.", 7) == 0)
        return false;
    if (jail_is_entered() && strncmp(name, "user.", 5) != 0)
        return false; /* what the system heeds is not for guests to say */
    return strcmp(name, "security.capability") != 0 || (kept & S_ISUID) != 0;
}

/* Attributes are reached through a descriptor, or, where that is of kind O_PATH, by the path of a
 * directory in /proc. */
struct holder {
    int fd;
    const char *path; /* NULL: fd */
};

static ssize_t get_value(const struct holder *holder, const char *name, void *value, size_t size)
{
    return holder->path != NULL ? getxattr(holder->path, name, value, size)
                                : fgetxattr(holder->fd, name, value, size);
}

static bool set_value(const struct holder *holder, const struct attribute *attribute,
                      const char *name)
{
    int result = holder->path != NULL
                     ? setxattr(holder->path, name, attribute->value, attribute->value_size, 0)
                     : fsetxattr(holder->fd, name, attribute->value, attribute->value_size, 0);
    return result == 0;
}

static bool has_already(const struct holder *holder, const char *name,
                        const struct attribute *attribute, uint8_t *room)
{
    ssize_t size = get_value(holder, name, room, ATTRIBUTES_MAX);
    return size >= 0 && (size_t)size == attribute->value_size &&
           (size == 0 || memcmp(room, attribute->value, (size_t)size) == 0);
}

static bool is_listed(const struct facts *facts, const char *name)
{
    struct reader reader = reader_of(facts->extra, facts->extra_size);
    struct attribute attribute;
    while (attributes_next(&reader, &attribute) == ATTRIBUTES_ITEM) {
        if (attribute.kind == ATTRIBUTE_EXTENDED && strlen(name) == attribute.name_size &&
            memcmp(name, attribute.name, attribute.name_size) == 0)
            return true;
    }
    return false;
}

/* What is there and did not come: attributes of users, and access control lists, which a new file
 * inherits from its directory. */
static void remove_others(struct file_sink *sink, const struct holder *holder,
                          const struct facts *facts, char *room)
{
    ssize_t size = holder->path != NULL ? listxattr(holder->path, room, ATTRIBUTES_MAX)
                                        : flistxattr(holder->fd, room, ATTRIBUTES_MAX);
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(room + at) + 1) {
        const char *name = room + at;
        bool ours = strncmp(name, "user.", 5) == 0 || is_acl(name);
        if (!ours || !is_wanted(sink, name, 0) || is_listed(facts, name))
            continue;
        if (holder->path != NULL)
            removexattr(holder->path, name);
        else
            fremovexattr(holder->fd, name);
    }
}

static void set_extended(struct file_sink *sink, const struct holder *holder,
                         const struct facts *facts, uint32_t kept)
{
    if ((sink->flags & (TRANSFER_XATTRS | TRANSFER_ACLS)) == 0)
        return;
    if (sink->room == NULL)
        sink->room = malloc(ATTRIBUTES_MAX);
    if (sink->room == NULL) {
        sink_lost(sink, LOSS_EXTENDED);
        return;
    }
    remove_others(sink, holder, facts, (char *)sink->room);
    struct reader reader = reader_of(facts->extra, facts->extra_size);
    struct attribute attribute;
    bool lost = false, lost_acl = false;
    while (attributes_next(&reader, &attribute) == ATTRIBUTES_ITEM) {
        char name[ATTRIBUTES_NAME_MAX + 1];
        if (attribute.kind != ATTRIBUTE_EXTENDED)
            continue;
        memcpy(name, attribute.name, attribute.name_size);
        name[attribute.name_size] = '\0';
        if (!is_wanted(sink, name, kept) || has_already(holder, name, &attribute, sink->room) ||
            set_value(holder, &attribute, name))
            continue;
        lost = lost || !is_acl(name);
        lost_acl = lost_acl || is_acl(name);
    }
    if (lost)
        sink_lost(sink, LOSS_EXTENDED);
    if (lost_acl)
        sink_lost(sink, LOSS_ACL);
}

/* ---- files ---- */

uint32_t facts_mode(const struct file_sink *sink, uint32_t mode, const struct stat *old)
{
    if ((sink->flags & TRANSFER_NO_PERMS) == 0)
        return mode;
    return old != NULL ? (old->st_mode & 07777u) : mode & FILE_MODE & ~sink->umask;
}

/* The bits of a mode that mean here what they meant there. */
static uint32_t allowed(struct file_sink *sink, uint32_t mode, uint32_t kept)
{
    if ((mode & 06000u & ~kept) != 0 && (sink->flags & TRANSFER_NO_PERMS) == 0)
        sink_lost(sink, LOSS_SET_ID);
    return mode & (FILE_MODE | kept);
}

static bool set_mode(struct file_sink *sink, int fd, uint32_t mode, struct error *error)
{
    if (fchmod(fd, mode) == 0)
        return true;
    if (!sink_cannot_hold(errno))
        return error_set_errno(error, errno, "its permissions cannot be set");
    sink_lost(sink, LOSS_MODE);
    return true;
}

static bool set_time(struct file_sink *sink, int fd, const struct facts *facts, struct error *error)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = facts->mtime_s, .tv_nsec = facts->mtime_ns}};
    if ((sink->flags & TRANSFER_NO_TIMES) != 0 || futimens(fd, times) == 0)
        return true;
    if (!sink_cannot_hold(errno))
        return error_set_errno(error, errno, "its time cannot be set");
    sink_lost(sink, LOSS_TIME);
    return true;
}

uint32_t facts_mode_at_once(const struct file_sink *sink, uint32_t mode)
{
    const uint64_t more = TRANSFER_OWNER | TRANSFER_GROUP | TRANSFER_XATTRS | TRANSFER_ACLS;
    bool simple = (sink->flags & more) == 0 && (mode & sink->umask & FILE_MODE) == 0;
    return simple ? mode & FILE_MODE : 0;
}

bool facts_set(struct file_sink *sink, int fd, const struct facts *facts, struct error *error)
{
    struct thing thing = {.fd = fd, .name = "", .flags = AT_EMPTY_PATH};
    struct holder holder = {.fd = fd};
    uint32_t kept;
    set_owner(sink, &thing, facts, &kept);
    uint32_t mode = allowed(sink, facts->mode, kept);
    bool is_given = facts->given != 0 && mode == facts->given;
    if (!is_given && !set_mode(sink, fd, mode, error))
        return false;
    set_extended(sink, &holder, facts, kept);
    return set_time(sink, fd, facts, error);
}

/* Whether anything but bytes and time may have to be changed. */
static bool may_differ(const struct file_sink *sink, const struct stat *found,
                       const struct entry *entry)
{
    bool more =
        (sink->flags & (TRANSFER_OWNER | TRANSFER_GROUP | TRANSFER_XATTRS | TRANSFER_ACLS)) != 0;
    bool mode = (sink->flags & TRANSFER_NO_PERMS) == 0 &&
                (found->st_mode & 07777u) != (entry->mode & FILE_MODE);
    return more || mode;
}

void facts_adjust(struct file_sink *sink, int parent, const char *leaf, const struct stat *found,
                  const struct entry *entry)
{
    if (!may_differ(sink, found, entry))
        return;
    int fd = openat(parent, leaf, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && status.st_ino == found->st_ino && S_ISREG(status.st_mode)) {
        struct facts facts = facts_of(entry);
        struct thing thing = {.fd = fd, .name = "", .flags = AT_EMPTY_PATH};
        struct holder holder = {.fd = fd};
        uint32_t kept;
        set_owner(sink, &thing, &facts, &kept);
        uint32_t mode = allowed(sink, facts_mode(sink, entry->mode, &status), kept);
        if (fstat(fd, &status) == 0 && (status.st_mode & 07777u) != mode && fchmod(fd, mode) != 0)
            errno = 0; /* another's file: the bytes are right, which is what was asked */
        set_extended(sink, &holder, &facts, kept);
    }
    close(fd);
}

/* ---- others ---- */

void facts_set_named(struct file_sink *sink, int parent, const char *name,
                     const struct facts *facts, bool is_link)
{
    struct thing thing = {.fd = parent, .name = name, .flags = AT_SYMLINK_NOFOLLOW};
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = facts->mtime_s, .tv_nsec = facts->mtime_ns}};
    uint32_t kept;
    set_owner(sink, &thing, facts, &kept);
    if (!is_link)
        fchmodat(parent, name, facts->mode & FILE_MODE, 0);
    if ((sink->flags & TRANSFER_NO_TIMES) == 0)
        utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW); /* not every file system can */
}

void facts_set_directory(struct file_sink *sink, int fd, const struct facts *facts, uint32_t *kept)
{
    struct thing thing = {.fd = fd, .name = "", .flags = AT_EMPTY_PATH};
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d/.", fd);
    struct holder holder = {.path = path};
    set_owner(sink, &thing, facts, kept);
    set_extended(sink, &holder, facts, *kept);
}
