#include "cli/server/serve_grant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/files/list_job.h"
#include "tree/display.h"
#include "tree/sink.h"

#define SHOWN 200

/* ---- roots ---- */

static bool take_rights(struct serve_root *root, char *path)
{
    size_t length = strlen(path);
    const char *end = length > 3 ? path + length - 3 : "";
    root->may_fetch = strcmp(end, ":wo") != 0;
    root->may_send = strcmp(end, ":ro") != 0;
    if (!root->may_fetch || !root->may_send)
        path[length - 3] = '\0';
    return path[0] != '\0';
}

bool serve_roots_add(struct serve_roots *roots, const char *word, struct error *error)
{
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : 0;
    struct serve_root *root = &roots->list[roots->count];
    if (equals == NULL || !root_name_is_good(word, length))
        return error_set(
            error, ERROR_USAGE,
            "--root takes name=DIR, name=DIR:ro or name=DIR:wo, not %s; a name is made "
            "of letters, digits, \".\", \"_\" and \"-\"",
            word);
    if (roots->count == SERVE_ROOTS_MAX)
        return error_set(error, ERROR_USAGE, "at most %u roots", SERVE_ROOTS_MAX);
    memcpy(root->name, word, length);
    root->name[length] = '\0';
    if (serve_roots_find(roots, root->name) != NULL)
        return error_set(error, ERROR_USAGE, "two roots are named %s", root->name);
    char *path = strdup(equals + 1);
    if (path == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for a root");
    root->directory = -1;
    root->path = path; /* for the process's life */
    if (!take_rights(root, path))
        return error_set(error, ERROR_USAGE, "--root %s names no directory", word);
    roots->count++;
    return true;
}

bool serve_roots_open(struct serve_roots *roots, struct error *error)
{
    for (size_t i = 0; i < roots->count; i++) {
        struct serve_root *root = &roots->list[i];
        root->directory = open(root->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root->directory < 0)
            return error_set_errno(error, errno, "the directory %s of --root %s cannot be opened%s",
                                   root->path, root->name,
                                   strrchr(root->path, ':') != NULL
                                       ? " (what may be done there is said by :ro or :wo)"
                                       : "");
    }
    return true;
}

const struct serve_root *serve_roots_find(const struct serve_roots *roots, const char *name)
{
    for (size_t i = 0; i < roots->count; i++) {
        if (strcmp(roots->list[i].name, name) == 0)
            return &roots->list[i];
    }
    return NULL;
}

/* ---- paths ---- */

static bool has_dots(const char *path)
{
    while (*path != '\0') {
        size_t size = strcspn(path, "/");
        if (size == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += size;
        path += strspn(path, "/");
    }
    return false;
}

/* The root that a path begins with, if it is there for this key. */
static const struct serve_root *root_of(const struct serve_grant *grant, const char *path)
{
    char name[ROOT_NAME_MAX + 1];
    size_t size = strcspn(path, "/");
    if (size == 0 || size > ROOT_NAME_MAX)
        return NULL;
    memcpy(name, path, size);
    name[size] = '\0';
    const struct serve_root *root = serve_roots_find(grant->roots, name);
    return root != NULL && authorized_key_admits_root(grant->key, name) ? root : NULL;
}

static bool check_path(const struct serve_grant *grant, const char *path, bool fetches, bool sends,
                       struct error *error)
{
    char shown[SHOWN];
    const struct serve_root *root = root_of(grant, path);
    display_name(shown, sizeof(shown), path);
    if (path[strspn(path, "/")] == '\0')
        return error_set(error, ERROR_PERMISSION,
                         "a root has to be named: petrel://host/name/path; petrel ls petrel://host "
                         "shows them");
    if (root == NULL)
        return error_set(error, ERROR_PERMISSION,
                         "%s: there is no such root, or not for this key; paths here are written "
                         "name/path",
                         shown);
    if (has_dots(path))
        return error_set(error, ERROR_PERMISSION,
                         "%s: paths here have no \"..\", wherever it leads", shown);
    if (fetches && (!root->may_fetch || !grant->key->may_fetch))
        return error_set(error, ERROR_PERMISSION, "%s may not be read%s", shown,
                         root->may_fetch ? " with this key" : ": its root is write-only");
    if (sends && (!root->may_send || !grant->key->may_send))
        return error_set(error, ERROR_PERMISSION, "%s may not be written to%s", shown,
                         root->may_send ? " with this key" : ": its root is read-only");
    return true;
}

/* ---- requests ---- */

static bool check_fetch(const struct serve_grant *grant, const struct transfer_request *request,
                        struct error *error)
{
    bool removes = (request->flags & TRANSFER_REMOVE_SOURCE) != 0;
    if ((request->flags & TRANSFER_FOLLOW_LINKS) != 0)
        return error_set(error, ERROR_PERMISSION,
                         "links inside trees are not followed (-L) by a listening petrel");
    for (size_t i = 0; i < request->name_count; i++) {
        if (!check_path(grant, request->names[i], true, removes, error))
            return false;
    }
    return true;
}

bool serve_grant_is_blind(const struct serve_grant *grant, const struct transfer_request *request)
{
    const struct serve_root *root = root_of(grant, request->destination);
    return !grant->key->may_fetch || root == NULL || !root->may_fetch;
}

static bool check_send(const struct serve_grant *grant, const struct transfer_request *request,
                       struct error *error)
{
    const uint64_t asks = TRANSFER_DELETE | TRANSFER_DRY_RUN | TRANSFER_UPDATE |
                          TRANSFER_IGNORE_EXISTING | TRANSFER_EXISTING | TRANSFER_REFERENCE;
    if (!check_path(grant, request->destination != NULL ? request->destination : "", false, true,
                    error))
        return false;
    if (serve_grant_is_blind(grant, request) && (request->flags & asks) != 0)
        return error_set(error, ERROR_PERMISSION,
                         "what may only be written to cannot be asked what it holds: not with "
                         "-n, -u, --delete, --existing, --ignore-existing or --reference");
    return (request->flags & TRANSFER_REFERENCE) == 0 ||
           check_path(grant, request->reference, true, false, error);
}

bool serve_grant_admits(const struct serve_grant *grant, bool sends,
                        const struct transfer_request *request, struct error *error)
{
    return sends ? check_fetch(grant, request, error) : check_send(grant, request, error);
}

bool serve_grant_root(const struct serve_grant *grant, size_t index, struct file_job_root *found)
{
    for (size_t i = 0; i < grant->roots->count; i++) {
        const struct serve_root *root = &grant->roots->list[i];
        if (!authorized_key_admits_root(grant->key, root->name) || index-- > 0)
            continue;
        *found = (struct file_job_root){.name = root->name,
                                        .directory = root->directory,
                                        .may_fetch = root->may_fetch && grant->key->may_fetch,
                                        .may_send = root->may_send && grant->key->may_send};
        return true;
    }
    return false;
}

bool serve_grant_admits_job(const struct serve_grant *grant, const struct file_job *job,
                            struct error *error)
{
    bool cleans = job->kind == FILE_JOB_CLEAN;
    if (job->follow_links)
        return error_set(error, ERROR_PERMISSION,
                         "links inside trees are not followed (-L) by a listening petrel");
    for (size_t i = 0; i < job->path_count; i++) {
        if (job->kind == FILE_JOB_LIST && list_job_names_roots(job->paths[i]))
            continue; /* only what this key may use is told */
        if (!check_path(grant, job->paths[i], !cleans || job->dry_run, cleans && !job->dry_run,
                        error))
            return false;
    }
    return true;
}

/* ---- a sink that tells nothing ---- */

static bool blind_open(void *sink, const struct transfer_request *request, uint8_t *existing_bitmap,
                       size_t bitmap_size, struct error *error)
{
    if (!file_sink_ops.open(sink, request, existing_bitmap, bitmap_size, error))
        return false;
    memset(existing_bitmap, 0, (request->name_count + 7) / 8); /* behind it stands another byte */
    return true;
}

const struct sink_ops *serve_blind_sink_ops(void)
{
    static struct sink_ops ops;
    ops = file_sink_ops;
    ops.open = blind_open;
    return &ops;
}
