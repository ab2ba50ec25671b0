#include "tree/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "tree/jail.h"
#include "tree/pack.h"
#include "tree/scan.h"

/* NULL when there is none to tell. */
static const char *read_target(const struct scan_entry *entry, char target[PACK_PATH_MAX + 1])
{
    if (!S_ISLNK(entry->status.st_mode))
        return NULL;
    ssize_t size = readlinkat(entry->directory, entry->leaf, target, PACK_PATH_MAX);
    if (size < 0)
        return NULL;
    target[size] = '\0';
    return target;
}

static bool list_directory(const struct listing *listing, int directory, struct error *error)
{
    char target[PACK_PATH_MAX + 1];
    struct scan *scan = scan_new(directory, false);
    if (scan == NULL) {
        close(directory);
        return error_set(error, ERROR_MEMORY, "no memory to list a directory");
    }
    scan_set_specials(scan);
    if (!listing->recursive)
        scan_set_flat(scan);
    enum scan_result result = SCAN_ENTRY;
    bool goes_on = true, stopped = false;
    while (goes_on && result != SCAN_END) {
        struct scan_entry entry;
        struct error problem = {0};
        result = scan_next(scan, &entry, &problem);
        stopped = listing->stop != NULL && *listing->stop != 0;
        if (result == SCAN_PROBLEM)
            listing->problem(listing->context, entry.path, &problem);
        else if (result == SCAN_ENTRY && entry.path_size > 0)
            goes_on = listing->found(listing->context,
                                     &(struct listed){.path = entry.path,
                                                      .status = &entry.status,
                                                      .target = read_target(&entry, target)});
        goes_on = goes_on && !stopped;
    }
    scan_free(scan);
    return !stopped || error_set(error, ERROR_INTERRUPTED, "interrupted");
}

bool listing_run(const struct listing *listing, const char *path, struct error *error)
{
    struct stat status;
    /* A link that leads nowhere is there all the same. */
    if (jail_fstatat(AT_FDCWD, path, &status, 0) != 0 &&
        (errno != ENOENT || jail_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0))
        return error_set_errno(error, errno, "cannot be listed");
    if (!S_ISDIR(status.st_mode)) {
        listing->found(listing->context, &(struct listed){.status = &status});
        return true;
    }
    int directory = jail_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (directory < 0)
        return error_set_errno(error, errno, "cannot be listed");
    return list_directory(listing, directory, error);
}
