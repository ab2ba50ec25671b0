#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define FRESH_TRIES 4

/* The journal of one path may not pass for another's. */
static void identity_of(const char *path, uint8_t identity[JOURNAL_IDENTITY_SIZE])
{
    tree_hash_whole(path, strlen(path), identity);
}

static void warn(struct file_sink *sink, const char *path, const char *what)
{
    struct sink_report report = {.kind = SINK_NOTE};
    error_set(&report.error, ERROR_VERIFY,
              "the journal of the half-written %.300s is %s: it is not used", path, what);
    sink->emit(sink->context, &report);
}

/* A file of ours that nobody can have swapped for something else. */
static int open_temp(int parent, uint64_t temp)
{
    char name[TEMP_NAME_SIZE];
    struct stat status;
    sink_temp_name(temp, name);
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

/* The journal is locked: nobody else writes the file. */
static void remove_half(int parent, uint64_t temp, struct journal *journal)
{
    char name[TEMP_NAME_SIZE];
    sink_temp_name(temp, name);
    unlinkat(parent, name, 0);
    sink_journal_name(temp, name);
    journal_remove(journal, parent, name);
}

bool half_open(struct file_sink *sink, const char *path, struct half *half)
{
    char name[TEMP_NAME_SIZE];
    uint8_t identity[JOURNAL_IDENTITY_SIZE];
    uint64_t temp = sink_large_temp_of(path);
    int parent = sink_parent(sink, path, false);
    *half = (struct half){.fd = -1};
    if (parent < 0 || sink->journal_count >= JOURNALS_OPEN)
        return false;
    enum journal_found found;
    const char *what = NULL;
    sink_journal_name(temp, name);
    identity_of(path, identity);
    struct journal *journal = journal_open(parent, name, false, identity, &found, &what);
    if (journal == NULL)
        return false;
    int fd = found == JOURNAL_USABLE ? open_temp(parent, temp) : -1;
    if (found == JOURNAL_USELESS)
        warn(sink, path, what);
    if (fd < 0) { /* one without the other is of no use */
        remove_half(parent, temp, journal);
        return false;
    }
    sink->journal_count++;
    *half = (struct half){.fd = fd, .journal = journal};
    return true;
}

void half_close(struct file_sink *sink, struct half *half)
{
    if (half->fd >= 0)
        close(half->fd);
    if (half->journal != NULL) {
        journal_close(half->journal);
        sink->journal_count--;
    }
    *half = (struct half){.fd = -1};
}

static uint64_t fresh_temp(void)
{
    uint64_t temp = 0;
    if (getrandom(&temp, sizeof temp, 0) != (ssize_t)sizeof temp)
        temp = sink_clock_ns();
    return temp;
}

static struct journal *make_journal(int parent, const char *path, uint64_t temp,
                                    enum journal_found *found)
{
    char name[TEMP_NAME_SIZE];
    uint8_t identity[JOURNAL_IDENTITY_SIZE];
    const char *what = NULL;
    sink_journal_name(temp, name);
    identity_of(path, identity);
    return journal_open(parent, name, true, identity, found, &what);
}

/* Opens a directory of ours that its mode closes, as a file made in it would. */
static int writable_parent(struct file_sink *sink, const char *path)
{
    int parent = sink_parent(sink, path, true);
    size_t size = (size_t)(beneath_leaf(path) - path);
    if (parent >= 0 && faccessat(parent, ".", W_OK | X_OK, AT_EACCESS) != 0 && errno == EACCES)
        directory_make_accessible(sink, path, size > 0 ? size - 1 : 0);
    return parent;
}

void half_begin(struct file_sink *sink, struct large_file *file)
{
    char name[TEMP_NAME_SIZE];
    enum journal_found found = JOURNAL_BUSY;
    int parent = writable_parent(sink, file->path);
    if (parent < 0 || file->size <= BATCH_FILE_MAX || sink->journal_count >= JOURNALS_OPEN) {
        if (parent >= 0)
            half_clear(sink, parent, file->key);
        file->temp = sink_temp_of(sink, file->path);
        return;
    }
    file->temp = file->key;
    for (int i = 0; i < FRESH_TRIES && file->journal == NULL && found == JOURNAL_BUSY; i++) {
        if (i > 0)
            file->temp = fresh_temp();
        file->journal = make_journal(parent, file->path, file->temp, &found);
    }
    if (file->journal == NULL) { /* no journal can be made here: the file does without */
        file->temp = sink_temp_of(sink, file->path);
        return;
    }
    sink->journal_count++;
    sink_temp_name(file->temp, name);
    unlinkat(parent, name, 0);
    if (!journal_start(file->journal, file->size))
        half_end(sink, file, false);
}

bool half_clear(struct file_sink *sink, int parent, uint64_t temp)
{
    char name[TEMP_NAME_SIZE];
    static const uint8_t nobody[JOURNAL_IDENTITY_SIZE];
    enum journal_found found;
    const char *what = NULL;
    (void)sink;
    sink_journal_name(temp, name);
    struct journal *journal = journal_open(parent, name, false, nobody, &found, &what);
    if (journal != NULL)
        journal_remove(journal, parent, name);
    return found != JOURNAL_BUSY;
}

void half_sweep(struct file_sink *sink, const char *path)
{
    char name[TEMP_NAME_SIZE];
    struct stat status;
    uint64_t temp = sink_large_temp_of(path);
    int parent = sink_parent(sink, path, false);
    sink_journal_name(temp, name);
    if (parent < 0 || fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !half_clear(sink, parent, temp))
        return;
    sink_temp_name(temp, name);
    unlinkat(parent, name, 0);
}

void half_end(struct file_sink *sink, struct large_file *file, bool keep)
{
    char name[TEMP_NAME_SIZE];
    int parent = sink_parent(sink, file->path, false);
    if (file->in_place)
        return;
    keep = keep && file->journal != NULL && !journal_is_empty(file->journal);
    sink_temp_name(file->temp, name);
    if (file->made && !keep && parent >= 0)
        unlinkat(parent, name, 0);
    if (file->journal == NULL)
        return;
    sink_journal_name(file->temp, name);
    if (keep || parent < 0)
        journal_close(file->journal);
    else
        journal_remove(file->journal, parent, name);
    file->journal = NULL;
    sink->journal_count--;
}
