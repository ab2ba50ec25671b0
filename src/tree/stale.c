#include "tree/stale.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/jail.h"
#include "tree/journal.h"
#include "tree/scan.h"

#define YOUNG_S 600
#define NAME_SIZE 25u /* ".petrel-", 16 digits, NUL */

struct search {
    bool remove;
    stale_found *found;
    void *context;
    int64_t now_s;
};

static uint64_t age_of(const struct search *search, const struct stat *status)
{
    return search->now_s > status->st_ctim.tv_sec
               ? (uint64_t)(search->now_s - status->st_ctim.tv_sec)
               : 0;
}

static void say(const struct search *search, const struct scan_entry *entry, enum stale_state state,
                uint64_t bytes, uint64_t age_s, const struct error *error)
{
    struct stale stale = {.state = state, .path = entry->path, .bytes = bytes, .age_s = age_s};
    if (error != NULL)
        stale.error = *error;
    search->found(search->context, &stale);
}

static void fail(const struct search *search, const struct scan_entry *entry, const char *what)
{
    struct error error = {0};
    error_set_errno(&error, errno, "%s", what);
    say(search, entry, STALE_PROBLEM, 0, 0, &error);
}

/* A journal stands for its half-written file, too. */
static void take_journal(const struct search *search, const struct scan_entry *entry)
{
    char half[NAME_SIZE];
    struct stat status;
    uint64_t bytes = (uint64_t)entry->status.st_blocks * 512;
    uint64_t age_s = age_of(search, &entry->status);
    memcpy(half, entry->leaf, NAME_SIZE - 1);
    half[NAME_SIZE - 1] = '\0';
    if (fstatat(entry->directory, half, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        bytes += (uint64_t)status.st_blocks * 512;
        age_s = age_of(search, &status) < age_s ? age_of(search, &status) : age_s;
    }
    int lock = journal_take(entry->directory, entry->leaf);
    if (lock < 0 && errno == EWOULDBLOCK) {
        say(search, entry, STALE_IN_USE, bytes, age_s, NULL);
        return;
    }
    if (lock < 0 && errno != ENOENT) {
        fail(search, entry, "cannot be opened");
        return;
    }
    if (search->remove && ((unlinkat(entry->directory, half, 0) != 0 && errno != ENOENT) ||
                           (unlinkat(entry->directory, entry->leaf, 0) != 0 && errno != ENOENT)))
        fail(search, entry, "cannot be removed");
    else
        say(search, entry, STALE_LEFT, bytes, age_s, NULL);
    if (lock >= 0)
        close(lock);
}

/* Without a journal only its age tells. */
static void take_half(const struct search *search, const struct scan_entry *entry)
{
    char journal[NAME_SIZE + 8];
    struct stat status;
    uint64_t bytes = (uint64_t)entry->status.st_blocks * 512;
    uint64_t age_s = age_of(search, &entry->status);
    memcpy(journal, entry->leaf, NAME_SIZE - 1);
    strcpy(journal + NAME_SIZE - 1, ".journal");
    if (fstatat(entry->directory, journal, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return;
    if (age_s < YOUNG_S)
        say(search, entry, STALE_IN_USE, bytes, age_s, NULL);
    else if (search->remove && unlinkat(entry->directory, entry->leaf, 0) != 0 && errno != ENOENT)
        fail(search, entry, "cannot be removed");
    else
        say(search, entry, STALE_LEFT, bytes, age_s, NULL);
}

static void take(const struct search *search, const struct scan_entry *entry)
{
    bool is_plain = S_ISREG(entry->status.st_mode) || S_ISLNK(entry->status.st_mode);
    if (!is_plain || !scan_is_own_name(entry->leaf))
        return;
    if (strlen(entry->leaf) > NAME_SIZE)
        take_journal(search, entry);
    else
        take_half(search, entry);
}

bool stale_find(const char *path, bool remove, const volatile int *stop, stale_found *found,
                void *context, struct error *error)
{
    struct search search = {
        .remove = remove, .found = found, .context = context, .now_s = (int64_t)time(NULL)};
    int root = jail_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (root < 0)
        return error_set_errno(error, errno, "cannot open the directory %s", path);
    struct scan *scan = scan_new(root, false);
    if (scan == NULL) {
        close(root);
        return error_set(error, ERROR_MEMORY, "no memory to look through %s", path);
    }
    scan_set_everything(scan);
    enum scan_result result;
    struct scan_entry entry;
    do {
        struct error problem = {0};
        result = scan_next(scan, &entry, &problem);
        if (result == SCAN_ENTRY)
            take(&search, &entry);
        else if (result == SCAN_PROBLEM && problem.kind != ERROR_USAGE) /* devices and the like */
            say(&search, &entry, STALE_PROBLEM, 0, 0, &problem);
    } while (result != SCAN_END && (stop == NULL || *stop == 0));
    scan_free(scan);
    return true;
}
