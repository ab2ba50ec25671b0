#include "tree/operand.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/display.h"
#include "tree/expand.h"
#include "tree/jail.h"
#include "tree/wildcard.h"

void operands_release(struct operands *operands)
{
    for (size_t i = 0; i < operands->names.name_count; i++)
        free(operands->paths[i]);
    for (size_t i = 0; i < operands->problem_count; i++)
        free(operands->problems[i].path);
    transfer_request_release(&operands->names);
    free(operands->paths);
    free(operands->sizes);
    free(operands->problems);
    memset(operands, 0, sizeof *operands);
}

char *path_from_home(const char *path, struct error *error)
{
    bool home = path[0] == '\0' || strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0;
    const char *rest = path[0] == '\0' || path[1] == '\0' ? "" : path + 1;
    const char *start = "";
    if (home) {
        start = getenv("HOME");
        const struct passwd *user = start == NULL ? getpwuid(geteuid()) : NULL;
        if (user != NULL)
            start = user->pw_dir;
        if (start == NULL || start[0] == '\0') {
            error_set(error, ERROR_NOT_FOUND, "the user has no home directory");
            return NULL;
        }
    } else {
        rest = path;
    }
    size_t size = strlen(start) + strlen(rest) + 1;
    char *result = malloc(size);
    if (result == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a path");
        return NULL;
    }
    strcpy(result, start);
    strcat(result, rest);
    return result;
}

static bool no_memory(struct error *error)
{
    return error_set(error, ERROR_MEMORY, "no memory for the list of sources");
}

static bool add_problem(struct operands *operands, const char *path, int os_errno, const char *what)
{
    size_t count = operands->problem_count;
    struct operand_problem *problems = realloc(operands->problems, (count + 1) * sizeof *problems);
    if (problems == NULL)
        return false;
    operands->problems = problems;
    problems[count] = (struct operand_problem){.path = strdup(path)};
    if (problems[count].path == NULL)
        return false;
    if (os_errno != 0)
        error_set_errno(&problems[count].error, os_errno, "%s", what);
    else
        error_set(&problems[count].error, ERROR_USAGE, "%s", what);
    operands->problem_count++;
    return true;
}

/* The two arrays beside the names have room for all that can come. */
static bool prepare(struct operands *operands, struct error *error)
{
    operands->paths = calloc(REQUEST_PATHS_MAX, sizeof *operands->paths);
    operands->sizes = calloc(REQUEST_PATHS_MAX, sizeof *operands->sizes);
    return (operands->paths != NULL && operands->sizes != NULL) || no_memory(error);
}

static bool add_found(struct operands *operands, const char *path, const struct stat *status,
                      struct error *error)
{
    bool is_directory = S_ISDIR(status->st_mode);
    size_t size = 0;
    const char *last = transfer_source_name(path, &size);
    size_t index = operands->names.name_count;
    if (index == REQUEST_PATHS_MAX)
        return error_set(error, ERROR_USAGE, "more than %d sources: copy their directory instead",
                         REQUEST_PATHS_MAX);
    char *name = strndup(last, size);
    char *copy = strdup(path);
    bool added =
        name != NULL && copy != NULL && transfer_request_add(&operands->names, name, is_directory);
    free(name);
    if (!added) {
        free(copy);
        return no_memory(error);
    }
    operands->paths[index] = copy;
    operands->sizes[index] = is_directory ? 0 : (uint64_t)status->st_size;
    return true;
}

/* Adds one path, or a problem when it cannot be a source. */
static bool add_path(struct operands *operands, const char *path, struct error *error)
{
    struct stat status;
    int failure = 0;
    const char *what = "cannot be read";
    if (path[0] == '\0' || jail_fstatat(AT_FDCWD, path, &status, 0) != 0) {
        failure = path[0] == '\0' ? ENOENT : errno;
    } else if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) {
        what = "is neither a file nor a directory";
    } else {
        return add_found(operands, path, &status, error);
    }
    return add_problem(operands, path, failure, what) || no_memory(error);
}

static int compare_indexes(const void *a, const void *b, void *names)
{
    char **list = names;
    return strcmp(list[*(const uint16_t *)a], list[*(const uint16_t *)b]);
}

/* Two sources with one name would overwrite each other at the destination. */
static bool names_differ(const struct operands *operands, struct error *error)
{
    static _Thread_local uint16_t order[REQUEST_PATHS_MAX];
    size_t count = operands->names.name_count;
    char **names = operands->names.names;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint16_t)i;
    qsort_r(order, count, sizeof *order, compare_indexes, names);
    for (size_t i = 1; i < count; i++) {
        const char *name = names[order[i]];
        if (name[0] == '\0' || strcmp(name, names[order[i - 1]]) != 0)
            continue;
        char text[128];
        return error_set(error, ERROR_USAGE,
                         "two sources are both named \"%s\" and would overwrite each other: copy "
                         "them one by one",
                         display_name(text, sizeof text, name));
    }
    return true;
}

static bool finish(struct operands *operands, struct error *error)
{
    if (operands->names.name_count > 0)
        return names_differ(operands, error);
    if (operands->problem_count == 0)
        return error_set(error, ERROR_USAGE, "no sources are given");
    const struct operand_problem *first = &operands->problems[0];
    char text[300];
    return error_set(error, first->error.kind, "%s %s",
                     display_name(text, sizeof text, first->path), first->error.text);
}

bool operands_from_local(struct operands *operands, const char *const *paths, size_t count,
                         struct error *error)
{
    bool valid = prepare(operands, error);
    for (size_t i = 0; i < count && valid; i++)
        valid = add_path(operands, paths[i], error);
    if (valid && finish(operands, error))
        return true;
    operands_release(operands);
    return false;
}

static bool add_source(struct operands *operands, const char *source, bool wildcards,
                       struct error *error)
{
    /* The home itself has no name that was asked for: its contents are meant. */
    bool home = source[0] == '\0' || strcmp(source, "~") == 0;
    char *path = path_from_home(home ? "~/" : source, error);
    if (path == NULL)
        return false;
    struct stat status;
    bool as_written = !wildcards || jail_fstatat(AT_FDCWD, path, &status, 0) == 0;
    int why = as_written ? 0 : errno;
    struct path_list list = {0};
    bool valid = true;
    if (as_written) {
        valid = add_path(operands, path, error);
    } else if (!expand_path(path, &list, REQUEST_PATHS_MAX, error)) {
        valid = false;
    } else if (list.count == 0) {
        bool pattern = wildcard_is_pattern(path, strlen(path));
        valid = (pattern && list.closed
                     ? add_problem(operands, path, EACCES, "matches nothing that may be looked at")
                 : pattern ? add_problem(operands, path, ENOENT, "matches nothing")
                           : add_problem(operands, path, why, "cannot be read")) ||
                no_memory(error);
    }
    for (size_t i = 0; i < list.count && valid; i++)
        valid = add_path(operands, list.paths[i], error);
    path_list_release(&list);
    free(path);
    return valid;
}

bool operands_from_request(struct operands *operands, const struct transfer_request *request,
                           struct error *error)
{
    bool wildcards = (request->flags & TRANSFER_WILDCARDS) != 0;
    bool valid = prepare(operands, error);
    for (size_t i = 0; i < request->name_count && valid; i++)
        valid = add_source(operands, request->names[i], wildcards, error);
    if (valid && finish(operands, error))
        return true;
    operands_release(operands);
    return false;
}
