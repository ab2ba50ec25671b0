#include "cli/files/list_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/files/file_job_json.h"
#include "tree/display.h"
#include "tree/expand.h"
#include "tree/jail.h"
#include "tree/listing.h"
#include "tree/operand.h"
#include "tree/wildcard.h"

#define SHOWN 4096 /* bytes of a path on the screen */
#define MODE_SIZE 11

/* The path that is being listed. */
struct listing_of {
    struct list_job *list;
    const char *path;
    bool named; /* it is one of several: it stands before the names */
    size_t problems;
};

bool list_job_names_roots(const char *path)
{
    return path[strspn(path, "/")] == '\0';
}

/* ---- a line ---- */

static char type_letter(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return 'd';
    case S_IFLNK:
        return 'l';
    case S_IFIFO:
        return 'p';
    case S_IFSOCK:
        return 's';
    case S_IFCHR:
        return 'c';
    case S_IFBLK:
        return 'b';
    default:
        return '-';
    }
}

/* As ls -l has it. */
static const char *mode_text(char text[MODE_SIZE], mode_t mode)
{
    static const char letters[] = "rwxrwxrwx";
    text[0] = type_letter(mode);
    for (unsigned i = 0; i < 9; i++)
        text[1 + i] = '-';
    for (unsigned i = 0; i < 9; i++) {
        if ((mode & (0400u >> i)) != 0)
            text[1 + i] = letters[i];
    }
    if ((mode & S_ISUID) != 0)
        text[3] = (mode & S_IXUSR) != 0 ? 's' : 'S';
    if ((mode & S_ISGID) != 0)
        text[6] = (mode & S_IXGRP) != 0 ? 's' : 'S';
    if ((mode & S_ISVTX) != 0)
        text[9] = (mode & S_IXOTH) != 0 ? 't' : 'T';
    text[10] = '\0';
    return text;
}

/* In UTC: the reader may live elsewhere than the file. */
static const char *time_text(char text[32], time_t seconds)
{
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M:%SZ", &parts) == 0)
        strcpy(text, "?");
    return text;
}

static void put_line(struct list_job *list, const struct listed *entry, const char *path)
{
    const struct stat *status = entry->status;
    char name[SHOWN], target[SHOWN], mode[MODE_SIZE], when[32], size[24] = "-", head[96] = "";
    char line[2 * SHOWN + 128];
    if (S_ISREG(status->st_mode) || S_ISLNK(status->st_mode))
        snprintf(size, sizeof(size), "%llu", (unsigned long long)status->st_size);
    if (list->job->details)
        snprintf(head, sizeof(head), "%s %15s %s ", mode_text(mode, status->st_mode), size,
                 time_text(when, status->st_mtim.tv_sec));
    bool leads = list->job->details && entry->target != NULL;
    snprintf(line, sizeof(line), "%s%s%s%s%s\n", head, display_name(name, sizeof(name), path),
             S_ISDIR(status->st_mode) ? "/" : "", leads ? " -> " : "",
             leads ? display_name(target, sizeof(target), entry->target) : "");
    list->gone = !list->output->out(list->output->context, line, strlen(line)) || list->gone;
}

/* ---- a path ---- */

/* The caller frees. */
static char *join(const struct listing_of *of, const char *below)
{
    const char *path = of->named || below == NULL ? of->path : "";
    size_t size = strlen(path);
    bool slash = size > 0 && below != NULL && path[size - 1] != '/';
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s", path, slash ? "/" : "", below != NULL ? below : "") < 0)
        return NULL;
    return joined;
}

static bool on_found(void *context, const struct listed *entry)
{
    struct listing_of *of = context;
    struct list_job *list = of->list;
    char *path = join(of, entry->path);
    if (path == NULL)
        list->gone = true;
    else if (list->job->json)
        list->gone = !job_json_listed(list->output, entry, path) || list->gone;
    else
        put_line(list, entry, path);
    free(path);
    return !list->gone;
}

static void on_problem(void *context, const char *below, const struct error *error)
{
    struct listing_of *of = context;
    char *path = join(of, below[0] != '\0' ? below : NULL);
    of->list->problem(of->list->context, path != NULL ? path : below, error);
    free(path);
}

/* ---- the roots of a listening petrel ---- */

static const char *rights_of(const struct file_job_root *root)
{
    return root->may_fetch && root->may_send ? "read-write"
           : root->may_fetch                 ? "read-only"
           : root->may_send                  ? "write-only"
                                             : "none";
}

/* Of what may only be written to nothing is told but its name. */
static void put_root(struct list_job *list, const struct file_job_root *root)
{
    struct stat status;
    char mode[MODE_SIZE], when[32], head[96] = "", line[256];
    bool open = root->may_fetch && fstat(root->directory, &status) == 0;
    if (list->job->json) {
        list->gone = !job_json_root(list->output, root->name, rights_of(root)) || list->gone;
        return;
    }
    if (list->job->details)
        snprintf(head, sizeof(head), "%s %15s %20s ",
                 open ? mode_text(mode, status.st_mode) : "d?????????", "-",
                 open ? time_text(when, status.st_mtim.tv_sec) : "?");
    bool whole = !list->job->details || (root->may_fetch && root->may_send);
    snprintf(line, sizeof(line), "%s%s/%s%s%s\n", head, root->name, whole ? "" : " (",
             whole ? "" : rights_of(root), whole ? "" : ")");
    list->gone = !list->output->out(list->output->context, line, strlen(line)) || list->gone;
}

static void put_roots(struct list_job *list)
{
    struct file_job_root root;
    for (size_t i = 0; !list->gone && list->host->root(list->host->context, i, &root); i++)
        put_root(list, &root);
}

/* ---- all paths ---- */

/* As the operands of a copy from there: from the home directory, with wildcards. */
static bool expand(const char *asked, struct path_list *found, struct error *error)
{
    struct stat status;
    char *path = path_from_home(asked, error);
    if (path == NULL)
        return false;
    bool good = true;
    if (wildcard_is_pattern(path, strlen(path)) &&
        jail_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0)
        good = expand_path(path, found, FILE_JOB_PATHS_MAX, error) &&
               (found->count > 0 ||
                error_set_errno(error, found->closed ? EACCES : ENOENT, "matches nothing"));
    else
        good = path_list_add(found, path, error);
    free(path);
    return good;
}

static bool list_one(struct list_job *list, const char *path, bool named, struct error *error)
{
    struct listing_of of = {.list = list, .path = path, .named = named};
    const struct listing listing = {.recursive = list->job->recursive,
                                    .stop = list->output->stop,
                                    .found = on_found,
                                    .problem = on_problem,
                                    .context = &of};
    return listing_run(&listing, path, error);
}

/* One of several that fails is a problem, the only one is the error. */
static bool settle(struct list_job *list, const char *path, bool only, struct error *cause,
                   struct error *error)
{
    char shown[SHOWN];
    if (only || cause->kind == ERROR_INTERRUPTED)
        return error_set(error, cause->kind, "%s: %s",
                         display_name(shown, sizeof(shown), path[0] != '\0' ? path : "~"),
                         cause->text);
    list->problem(list->context, path, cause);
    return true;
}

static bool list_asked(struct list_job *list, const char *asked, bool only, struct error *error)
{
    struct path_list found = {0};
    struct error cause = {0};
    bool good = list->far ? expand(asked, &found, &cause) : path_list_add(&found, asked, &cause);
    bool going = good || settle(list, asked, only, &cause, error);
    only = only && found.count == 1;
    for (size_t i = 0; i < found.count && going && !list->gone; i++) {
        struct error problem = {0};
        going = list_one(list, found.paths[i], !only, &problem) ||
                settle(list, found.paths[i], only, &problem, error);
    }
    path_list_release(&found);
    return going;
}

bool list_job_run(struct list_job *list, struct error *error)
{
    const struct file_job *job = list->job;
    bool going = true;
    for (size_t i = 0; i < job->path_count && going && !list->gone; i++) {
        if (list->host != NULL && list_job_names_roots(job->paths[i]))
            put_roots(list);
        else
            going = list_asked(list, job->paths[i], job->path_count == 1, error);
    }
    return going;
}
