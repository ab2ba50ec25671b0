#include "cli/copy/copy_request.h"
#include "tree/squeeze.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_in_slash(const char *path)
{
    size_t length = strlen(path);
    return length > 0 && path[length - 1] == '/';
}

char *copy_request_path(const struct copy_options *options, size_t source)
{
    const char *path = options->sources[source].path;
    char *copy = malloc(strlen(path) + 3);
    if (copy == NULL)
        return NULL;
    strcpy(copy, path);
    if (options->files_from != NULL && !ends_in_slash(path))
        strcat(copy, path[0] == '\0' ? "~/" : "/");
    return copy;
}

/* ---- --files-from ---- */

static bool read_list(FILE *file, bool from_nul, struct file_list *list, struct error *error)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    bool good = true;
    while (good && (length = getdelim(&line, &capacity, from_nul ? '\0' : '\n', file)) >= 0) {
        while (length > 0 && (line[length - 1] == (from_nul ? '\0' : '\n') ||
                              (!from_nul && line[length - 1] == '\r')))
            length--;
        if (length > 0 && line[0] != '#' && line[0] != ';')
            good = file_list_add(list, line, (size_t)length, error);
    }
    free(line);
    if (good && ferror(file) != 0)
        good = error_set_errno(error, errno, "--files-from cannot be read");
    return good;
}

/* Only a pull's receiver has to look paths up. */
static struct file_list *make_list(const struct copy_options *options, struct error *error)
{
    const char *path = options->files_from;
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    struct file_list *list = file != NULL ? file_list_new() : NULL;
    if (file == NULL)
        error_set_errno(error, errno, "--files-from: %s cannot be read", path);
    else if (list == NULL)
        error_set(error, ERROR_MEMORY, "no memory for the list of files");
    bool good = list != NULL && read_list(file, options->from_nul, list, error) &&
                file_list_finish(list, !options->push, error);
    if (file != NULL && !standard)
        fclose(file);
    if (good)
        return list;
    file_list_free(list);
    return NULL;
}

/* ---- flags ---- */

static void set(struct transfer_request *request, bool wanted, uint64_t flag)
{
    if (wanted)
        request->flags |= flag;
}

static void set_flags(const struct copy_options *options, struct transfer_request *request)
{
    bool several = options->source_count > 1 || ends_in_slash(options->destination.path);
    bool named = options->dry_run || options->verbose > 0 || options->json != NULL ||
                 options->manifest != NULL;
    set(request, !options->checksum, TRANSFER_QUICK_CHECK);
    set(request, options->whole, TRANSFER_WHOLE);
    set(request, options->reference != NULL, TRANSFER_REFERENCE);
    set(request, options->in_place, TRANSFER_IN_PLACE);
    set(request, options->verify_disk, TRANSFER_VERIFY_DISK);
    set(request, options->make_path, TRANSFER_MAKE_PATH);
    set(request, options->follow_links, TRANSFER_FOLLOW_LINKS);
    set(request, options->dry_run, TRANSFER_DRY_RUN);
    set(request, options->push && named, TRANSFER_NAME_FILES);
    set(request, several, TRANSFER_DESTINATION_IS_DIRECTORY);
    set(request, !options->push, TRANSFER_WILDCARDS);
    set(request, options->delete_others || options->delete_excluded, TRANSFER_DELETE);
    set(request, options->max_delete != UINT64_MAX, TRANSFER_MAX_DELETE);
    set(request, (options->archive || options->owner) && !options->no_owner, TRANSFER_OWNER);
    set(request, (options->archive || options->group) && !options->no_group, TRANSFER_GROUP);
    set(request, options->owner || options->group, TRANSFER_OWNERS_ASKED);
    set(request, options->numeric_ids, TRANSFER_NUMERIC_IDS);
    set(request, (options->archive || options->devices) && !options->no_specials,
        TRANSFER_SPECIALS);
    set(request, options->hard_links, TRANSFER_HARD_LINKS);
    set(request, options->sparse, TRANSFER_SPARSE);
    set(request, options->squeeze_level >= 0 && !options->stream && squeeze_is_possible(),
        TRANSFER_SQUEEZE);
    if (options->squeeze_level > 0)
        request->squeeze_level = (unsigned)options->squeeze_level;
    set(request, options->xattrs, TRANSFER_XATTRS);
    set(request, options->acls, TRANSFER_ACLS);
    set(request, options->no_perms, TRANSFER_NO_PERMS);
    set(request, options->no_times, TRANSFER_NO_TIMES);
    set(request, options->update, TRANSFER_UPDATE);
    set(request, options->ignore_existing, TRANSFER_IGNORE_EXISTING);
    set(request, options->existing, TRANSFER_EXISTING);
    set(request, options->push && options->stream, TRANSFER_STREAM);
    set(request, options->remove_source, TRANSFER_REMOVE_SOURCE);
    set(request, options->files_from != NULL, TRANSFER_FILES_FROM);
    set(request, options->files_from != NULL && options->recursive, TRANSFER_LIST_TREES);
}

static bool check(const struct copy_options *options, struct error *error)
{
    if (options->files_from == NULL)
        return true;
    if (options->source_count != 1)
        return error_set(error, ERROR_USAGE, "--files-from names paths in one source");
    if (options->delete_others || options->delete_excluded)
        return error_set(error, ERROR_USAGE,
                         "--delete and --files-from exclude each other: a list "
                         "says nothing about what it does not name");
    return true;
}

bool copy_lists_read(const struct copy_options *options, struct copy_lists *lists,
                     struct error *error)
{
    if (!check(options, error) ||
        !filter_words_build(&options->filters, options->from_nul, &lists->filter, error))
        return false;
    if (options->delete_excluded)
        filter_unprotect(&lists->filter);
    return options->files_from == NULL || (lists->files = make_list(options, error)) != NULL;
}

void copy_lists_release(struct copy_lists *lists)
{
    filter_release(&lists->filter);
    file_list_free(lists->files);
    *lists = (struct copy_lists){.files = NULL};
}

bool copy_request_fill(const struct copy_options *options, const struct copy_lists *lists,
                       struct transfer_request *request, struct error *error)
{
    struct filter filter = {0};
    if (!filter_copy(&filter, &lists->filter, error))
        return false;
    set_flags(options, request);
    request->max_delete = options->max_delete;
    transfer_request_take_filter(request, &filter);
    request->destination = strdup(options->destination.path);
    if (options->reference != NULL)
        request->reference = strdup(options->reference);
    if (request->destination == NULL || (options->reference != NULL && request->reference == NULL))
        return error_set(error, ERROR_MEMORY, "no memory for the destination");
    for (size_t i = 0; !options->push && i < options->source_count; i++) {
        char *path = copy_request_path(options, i);
        bool added = path != NULL && transfer_request_add(request, path, false);
        free(path);
        if (!added)
            return error_set(error, ERROR_USAGE, "too many sources, or a name that is too long");
    }
    return true;
}
