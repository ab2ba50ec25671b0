#include "cli/copy/path_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/report/json_fields.h"

#define FILE_MAX_BYTES 4096u
#define NAME_MAX_BYTES                                                                             \
    240u /* of a file, which may have 255 and gets a suffix while it is written */
#define ENDING ".json"

static const struct field fields[] = {
    FIELD(struct path_record, host, FIELD_TEXT, 0),
    FIELD(struct path_record, to, FIELD_BOOL, 0),
    FIELD_AS("rate_bps", struct path_record, path.rate_bps, FIELD_U64, 0),
    FIELD_AS("rtt_ns", struct path_record, path.rtt_ns, FIELD_U64, 0),
    FIELD_AS("loss_millionths", struct path_record, path.loss_millionths, FIELD_U32, 1000000),
    FIELD(struct path_record, when_s, FIELD_U64, 0),
    FIELD(struct path_record, failures, FIELD_U32, 0),
    FIELDS_END,
};

/* ---- names ---- */

/* The folder; made if it is missing. -1 when there is none. */
static int open_folder(bool make)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char path[4096];
    int length;
    if (state != NULL && state[0] == '/')
        length = snprintf(path, sizeof(path), "%s/petrel/paths", state);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, sizeof(path), "%s/.local/state/petrel/paths", home);
    else
        return -1;
    if (length >= (int)sizeof(path))
        return -1;
    for (char *slash = path + 1; make && (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700); /* what it cannot make, open tells */
        *slash = '/';
    }
    if (make)
        mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static const char *without_user(const char *host)
{
    const char *at = strrchr(host, '@');
    return at != NULL ? at + 1 : host;
}

/* "host.to.json"; what could mean something in a file's name is written as %XX. False when it gets
 * too long. */
static bool file_name(char *name, const char *host, bool to)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t at = 0;
    for (; *host != '\0'; host++) {
        if (at + 16 > NAME_MAX_BYTES)
            return false;
        if (strchr(plain, *host) != NULL || (*host == '.' && at > 0))
            name[at++] = *host;
        else
            at += (size_t)sprintf(name + at, "%%%02X", (unsigned char)*host);
    }
    sprintf(name + at, ".%s" ENDING, to ? "to" : "from");
    return at > 0;
}

/* ---- one record ---- */

static bool read_record(int folder, const char *name, struct path_record *record)
{
    char text[FILE_MAX_BYTES + 1];
    int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    ssize_t length = read(descriptor, text, FILE_MAX_BYTES);
    close(descriptor);
    if (length <= 0)
        return false;
    text[length] = '\0';
    json_t *object = json_loads(text, 0, NULL);
    memset(record, 0, sizeof(*record));
    bool good = json_is_object(object) && fields_read(record, fields, object, NULL) &&
                record->host[0] != '\0' && record->path.rate_bps != 0 && record->path.rtt_ns != 0;
    json_decref(object);
    return good;
}

static bool write_whole(int descriptor, const char *text)
{
    size_t length = strlen(text);
    return write(descriptor, text, length) == (ssize_t)length;
}

/* A crash may lose the newest record, but never leaves half of one: so no sync. */
static void write_record(int folder, const char *name, const struct path_record *record)
{
    char temporary[NAME_MAX_BYTES + 16];
    snprintf(temporary, sizeof(temporary), ".%.*s.new", (int)NAME_MAX_BYTES, name);
    json_t *object = json_pack("{s:i}", "schema", 1);
    fields_write(object, fields, record);
    char *text = json_dumps(object, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(object);
    /* Somebody else's, written at this moment, or left by a crash: whoever comes last wins. */
    unlinkat(folder, temporary, 0);
    int descriptor =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool good = text != NULL && descriptor >= 0 && write_whole(descriptor, text);
    if (descriptor >= 0)
        close(descriptor);
    if (!good || renameat(folder, temporary, folder, name) != 0)
        unlinkat(folder, temporary, 0);
    free(text);
}

/* ---- for copies ---- */

void path_memory_read(const char *host, bool to, struct rate_memory *path)
{
    char name[NAME_MAX_BYTES + 1];
    struct path_record record;
    *path = (struct rate_memory){0};
    int folder = open_folder(false);
    if (folder < 0)
        return;
    uint64_t now_s = (uint64_t)time(NULL);
    /* A record from the future is of another clock: as good as none. */
    if (file_name(name, without_user(host), to) && read_record(folder, name, &record) &&
        record.when_s <= now_s && now_s - record.when_s < PATH_MEMORY_LIFE_S)
        *path = record.path;
    close(folder);
}

void path_memory_note(const char *host, bool to, const struct rate_memory *found,
                      enum rate_memory_use use)
{
    char name[NAME_MAX_BYTES + 1];
    struct path_record record;
    bool known = found->rate_bps != 0 && found->rtt_ns != 0;
    if ((!known && use != MEMORY_FAILED) || !file_name(name, without_user(host), to))
        return;
    int folder = open_folder(known);
    if (folder < 0)
        return;
    if (known) {
        record = (struct path_record){.to = to, .path = *found, .when_s = (uint64_t)time(NULL)};
        snprintf(record.host, sizeof(record.host), "%s", without_user(host));
        write_record(folder, name, &record);
    } else if (read_record(folder, name, &record)) {
        record.path.rate_bps /= 2;
        if (++record.failures >= 2 || record.path.rate_bps == 0)
            unlinkat(folder, name, 0);
        else
            write_record(folder, name, &record);
    }
    close(folder);
}

/* ---- for people ---- */

static int is_record(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > strlen(ENDING) &&
           strcmp(entry->d_name + length - strlen(ENDING), ENDING) == 0;
}

/* The folder's records by name, -1 with the error when it cannot be read; none when it is missing.
 */
static int list_names(int *folder, struct dirent ***names, struct error *error)
{
    *names = NULL;
    *folder = open_folder(false);
    if (*folder < 0)
        return errno == ENOENT ? 0
                               : (error_set_errno(error, errno,
                                                  "cannot open what is "
                                                  "remembered of paths"),
                                  -1);
    int count = scandirat(*folder, ".", names, is_record, alphasort);
    if (count < 0)
        error_set_errno(error, errno, "cannot read what is remembered of paths");
    return count;
}

static void free_names(int folder, struct dirent **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (folder >= 0)
        close(folder);
}

bool path_memory_list(void (*visit)(void *context, const struct path_record *record), void *context,
                      struct error *error)
{
    struct dirent **names;
    struct path_record record;
    int folder, count = list_names(&folder, &names, error);
    for (int i = 0; i < count; i++) {
        if (read_record(folder, names[i]->d_name, &record))
            visit(context, &record);
    }
    free_names(folder, names, count);
    return count >= 0;
}

static bool clear_one(int folder, const char *name, unsigned *count, struct error *error)
{
    if (unlinkat(folder, name, 0) == 0)
        (*count)++;
    else if (errno != ENOENT)
        return error_set_errno(error, errno, "cannot forget %s", name);
    return true;
}

static bool clear_host(const char *host, unsigned *count, struct error *error)
{
    char name[NAME_MAX_BYTES + 1];
    int folder = open_folder(false);
    if (folder < 0)
        return errno == ENOENT || error_set_errno(error, errno, "cannot open what is remembered");
    bool good = true;
    for (unsigned to = 0; to < 2; to++)
        good = good && (!file_name(name, without_user(host), to != 0) ||
                        clear_one(folder, name, count, error));
    close(folder);
    return good;
}

bool path_memory_clear(const char *host, unsigned *count, struct error *error)
{
    *count = 0;
    if (host != NULL)
        return clear_host(host, count, error);
    struct dirent **names;
    int folder, found = list_names(&folder, &names, error);
    bool good = found >= 0;
    for (int i = 0; i < found; i++)
        good = clear_one(folder, names[i]->d_name, count, error) && good;
    free_names(folder, names, found);
    return good;
}
