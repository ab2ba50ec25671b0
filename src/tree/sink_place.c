#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/display.h"
#include "tree/jail.h"
#include "tree/operand.h"
#include "tree/sink_internal.h"

#define SHOWN 300 /* bytes of a path in an error */

static char *last_slash(char *path)
{
    return strrchr(path, '/');
}

/* Cuts "/" from the end, but leaves "/" itself. True when there was one. */
static bool cut_slashes(char *path)
{
    size_t size = strlen(path);
    bool had = size > 0 && path[size - 1] == '/';
    while (size > 1 && path[size - 1] == '/')
        path[--size] = '\0';
    return had;
}

static bool any_directory(const struct transfer_request *request)
{
    for (size_t i = 0; i < request->name_count; i++) {
        if (request->name_is_directory[i])
            return true;
    }
    return false;
}

static int open_directory(const char *path)
{
    int fd = jail_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && errno == EACCES)
        fd = jail_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    return fd;
}

/* mkdir -p, and the last component with the usual mode; *made tells whether that was new. */
static bool make_directories(char *path, bool parents, bool *made)
{
    for (char *at = path; parents && (at = strchr(at + 1, '/')) != NULL;) {
        *at = '\0';
        bool there = jail_mkdir(path, 0777) == 0 || errno == EEXIST;
        *at = '/';
        if (!there)
            return false;
    }
    *made = jail_mkdir(path, 0777) == 0;
    struct stat status;
    return *made || (errno == EEXIST && jail_fstatat(AT_FDCWD, path, &status, 0) == 0 &&
                     S_ISDIR(status.st_mode));
}

static bool may_write(const char *path)
{
    int fd = jail_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    bool may = fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return may;
}

/* Whether make_directories would do it, for a dry run; errno as it would be. */
static bool could_make(const char *path, bool parents)
{
    char *above = strdup(path);
    struct stat status;
    bool could = false, more = above != NULL;
    while (more) {
        /* A link that leads nowhere. */
        if (jail_fstatat(AT_FDCWD, above, &status, AT_SYMLINK_NOFOLLOW) == 0) {
            errno = ENOENT;
            break;
        }
        char *slash = last_slash(above);
        if (slash != NULL && slash != above)
            *slash = '\0';
        const char *parent = slash == NULL ? "." : slash == above ? "/" : above;
        could = may_write(parent);
        more = !could && errno == ENOENT && parents && parent == above;
    }
    free(above);
    return could;
}

static bool missing_parent(const char *path, struct error *error)
{
    char shown[SHOWN];
    return error_set(error, ERROR_NOT_FOUND,
                     "the directory that should hold %s does not exist; make it, or use --mkpath",
                     display_name(shown, sizeof shown, path));
}

/* The destination must be a directory and is missing. */
static bool make_root(struct place *place, const struct transfer_request *request, char *path,
                      struct error *error)
{
    char shown[SHOWN];
    bool parents = (request->flags & TRANSFER_MAKE_PATH) != 0;
    if (!parents && !any_directory(request))
        return error_set(error, ERROR_NOT_FOUND,
                         "the directory %s does not exist; make it, or use --mkpath",
                         display_name(shown, sizeof shown, path));
    bool dry_run = (request->flags & TRANSFER_DRY_RUN) != 0;
    if (dry_run ? !could_make(path, parents)
                : !make_directories(path, parents, &place->root_made)) {
        if (errno == ENOENT)
            return missing_parent(path, error);
        return error_set_errno(error, errno, "cannot make the directory %s",
                               display_name(shown, sizeof shown, path));
    }
    if (dry_run)
        return true;
    place->root = open_directory(path);
    return place->root >= 0 || error_set_errno(error, errno, "cannot open the directory %s",
                                               display_name(shown, sizeof shown, path));
}

/* A single file under a name of its own: the root is its parent. */
static bool open_parent(struct place *place, const struct transfer_request *request, char *path,
                        struct error *error)
{
    char shown[SHOWN];
    char *slash = last_slash(path);
    const char *leaf = slash != NULL ? slash + 1 : path;
    free(place->prefixes[0]);
    place->prefixes[0] = strdup(leaf);
    if (place->prefixes[0] == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for the destination");
    char root[] = "/", here[] = ".";
    char *parent = slash == NULL ? here : slash == path ? root : path;
    if (parent == path)
        *slash = '\0';
    bool make = (request->flags & TRANSFER_MAKE_PATH) != 0;
    bool dry_run = (request->flags & TRANSFER_DRY_RUN) != 0;
    bool made = false;
    place->root = open_directory(parent);
    if (place->root < 0 && errno == ENOENT && make && dry_run && could_make(parent, true))
        return true;
    if (place->root < 0 && errno == ENOENT && make && !dry_run &&
        make_directories(parent, true, &made))
        place->root = open_directory(parent);
    if (place->root >= 0)
        return true;
    if (errno == ENOENT)
        return error_set(error, ERROR_NOT_FOUND,
                         "the directory %s, which should hold %.80s, does not exist; make it, or "
                         "use --mkpath",
                         display_name(shown, sizeof shown, parent), place->prefixes[0]);
    return error_set_errno(error, errno, "cannot open the directory %s",
                           display_name(shown, sizeof shown, parent));
}

static bool find_root(struct place *place, const struct transfer_request *request, char *path,
                      struct error *error)
{
    char shown[SHOWN];
    bool wants_directory = cut_slashes(path) || request->name_count != 1 ||
                           (request->flags & TRANSFER_DESTINATION_IS_DIRECTORY) != 0 ||
                           any_directory(request);
    struct stat status;
    bool exists = jail_fstatat(AT_FDCWD, path, &status, 0) == 0;
    if (!exists && errno != ENOENT) {
        error_set_errno(error, errno, "cannot reach %s", display_name(shown, sizeof shown, path));
        jail_explain(error);
        return false;
    }
    if (exists && S_ISDIR(status.st_mode) && (request->flags & TRANSFER_STREAM) != 0)
        return error_set(error, ERROR_EXISTS,
                         "%s is a directory; name the file that standard input becomes",
                         display_name(shown, sizeof shown, path));
    if (exists && S_ISDIR(status.st_mode)) {
        place->root = open_directory(path);
        return place->root >= 0 || error_set_errno(error, errno, "cannot open the directory %s",
                                                   display_name(shown, sizeof shown, path));
    }
    if (!wants_directory)
        return open_parent(place, request, path, error);
    if (exists)
        return error_set(error, ERROR_EXISTS,
                         "%s is no directory, and one is needed; name another destination",
                         display_name(shown, sizeof shown, path));
    return make_root(place, request, path, error);
}

static bool is_empty(int root)
{
    DIR *stream = beneath_list(root);
    if (stream == NULL)
        return false;
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(stream)) != NULL)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return !found;
}

/* Finds what exists, and what is in the way of the only thing to come. */
static bool look_at_names(struct place *place, struct error *error)
{
    for (size_t i = 0; i < place->count && place->root >= 0; i++) {
        const char *prefix = place->prefixes[i];
        if (prefix[0] == '\0') {
            place->existed[i] = !place->root_made && !is_empty(place->root);
            continue;
        }
        struct stat status;
        if (fstatat(place->root, prefix, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        place->existed[i] = true;
        bool is_directory = S_ISDIR(status.st_mode);
        bool is_plain = S_ISREG(status.st_mode) || S_ISLNK(status.st_mode) ||
                        (place->in_place && S_ISBLK(status.st_mode));
        if (place->count != 1 || (place->is_directory[i] ? is_directory : is_plain))
            continue;
        char shown[SHOWN];
        return error_set(error, ERROR_EXISTS,
                         "%s exists at the destination and is %s; move it away, or name another "
                         "destination",
                         display_name(shown, sizeof shown, prefix),
                         place->is_directory[i] ? "no directory"
                         : is_directory         ? "a directory"
                                                : "no plain file");
    }
    return true;
}

/* Refuses at once where nothing could be written. Our own directory may be closed by its mode when
 * a copy of it is being updated: then it is opened for the time being. */
static bool is_writable(const struct place *place, const char *destination, struct error *error)
{
    struct stat status;
    if (place->root < 0 || faccessat(place->root, ".", W_OK | X_OK, AT_EACCESS) == 0)
        return true;
    int failure = errno;
    bool contents = false;
    for (size_t i = 0; i < place->count; i++)
        contents = contents || place->prefixes[i][0] == '\0';
    if (failure == EACCES && contents && fstat(place->root, &status) == 0 &&
        status.st_uid == geteuid())
        return true;
    char shown[SHOWN];
    return error_set_errno(error, failure, "the destination %s cannot be written to",
                           display_name(shown, sizeof shown, destination));
}

static bool copy_names(struct place *place, const struct transfer_request *request)
{
    size_t count = request->name_count;
    place->names = calloc(count + 1, sizeof *place->names);
    place->prefixes = calloc(count + 1, sizeof *place->prefixes);
    place->is_directory = calloc(count + 1, 1);
    place->existed = calloc(count + 1, 1);
    if (place->names == NULL || place->prefixes == NULL || place->is_directory == NULL ||
        place->existed == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        place->names[i] = strdup(request->names[i]);
        place->prefixes[i] = strdup(request->names[i]);
        place->is_directory[i] = request->name_is_directory[i];
        place->count++;
        if (place->names[i] == NULL || place->prefixes[i] == NULL)
            return false;
    }
    return true;
}

void place_close(struct place *place)
{
    for (size_t i = 0; i < place->count; i++) {
        free(place->names[i]);
        free(place->prefixes[i]);
    }
    free(place->names);
    free(place->prefixes);
    free(place->is_directory);
    free(place->existed);
    if (place->root >= 0)
        close(place->root);
    if (place->reference >= 0)
        close(place->reference);
    *place = (struct place){.root = -1, .reference = -1};
}

static bool open_reference(struct place *place, const struct transfer_request *request,
                           struct error *error)
{
    char shown[SHOWN];
    if ((request->flags & TRANSFER_REFERENCE) == 0)
        return true;
    char *path = path_from_home(request->reference, error);
    if (path == NULL)
        return false;
    place->reference = open_directory(path);
    free(path);
    return place->reference >= 0 ||
           error_set_errno(error, errno, "cannot open the directory of --reference, %s",
                           display_name(shown, sizeof shown, request->reference));
}

bool place_open(struct place *place, const struct transfer_request *request, struct error *error)
{
    *place = (struct place){
        .root = -1, .reference = -1, .in_place = (request->flags & TRANSFER_IN_PLACE) != 0};
    if (request->name_count == 0)
        return error_set(error, ERROR_PROTOCOL, "the request names nothing");
    if (!transfer_request_names_valid(request, error))
        return false;
    if (!copy_names(place, request))
        return error_set(error, ERROR_MEMORY, "no memory for the destination");
    char *path = path_from_home(request->destination != NULL ? request->destination : "", error);
    bool valid =
        path != NULL && find_root(place, request, path, error) && look_at_names(place, error) &&
        open_reference(place, request, error) &&
        is_writable(place, request->destination != NULL ? request->destination : "~", error);
    free(path);
    if (!valid)
        place_close(place);
    return valid;
}
