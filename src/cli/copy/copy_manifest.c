#include "cli/copy/copy_manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tree/manifest.h"
#include "tree/operand.h"

struct copy_manifest {
    FILE *out;
    struct sorted_spool *known;
    uint64_t count;
    char first[MANIFEST_PATH_MAX + 1]; /* the path of the first file */
    struct transfer_request names;     /* a pull's */
    struct error error;                /* the first that an event met */
};

struct copy_manifest *copy_manifest_new(const char *file, struct error *error)
{
    struct copy_manifest *manifest = calloc(1, sizeof(*manifest));
    if (manifest != NULL)
        manifest->known = sorted_spool_new(0);
    if (manifest == NULL || manifest->known == NULL) {
        copy_manifest_free(manifest);
        error_set(error, ERROR_MEMORY, "no memory for the manifest");
        return NULL;
    }
    manifest->out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    if (manifest->out != NULL)
        return manifest;
    error_set_errno(error, errno, "cannot write the manifest to %s", file);
    copy_manifest_free(manifest);
    return NULL;
}

void copy_manifest_free(struct copy_manifest *manifest)
{
    if (manifest == NULL)
        return;
    if (manifest->out != NULL && manifest->out != stdout)
        fclose(manifest->out);
    sorted_spool_free(manifest->known);
    transfer_request_release(&manifest->names);
    free(manifest);
}

void copy_manifest_event(struct copy_manifest *manifest, const struct transfer_event *event)
{
    if (event->kind == TRANSFER_FILE_FAILED)
        manifest_leave_out(manifest->known, event->path, &manifest->error);
    if (event->kind != TRANSFER_FILE_DONE && event->kind != TRANSFER_FILE_SKIPPED)
        return;
    if (manifest->count++ == 0)
        snprintf(manifest->first, sizeof(manifest->first), "%s", event->path);
    manifest_know(manifest->known, event->path, event->hash, event->size, &manifest->error);
}

void copy_manifest_set_names(struct copy_manifest *manifest, const struct transfer_request *request)
{
    transfer_request_release(&manifest->names);
    manifest->names = (struct transfer_request){0};
    bool good = true;
    for (size_t i = 0; i < request->name_count && good; i++)
        good = transfer_request_add(&manifest->names, request->names[i],
                                    request->name_is_directory[i] != 0);
    manifest->names.destination = strdup(request->destination);
    if (!good || manifest->names.destination == NULL)
        error_set(&manifest->error, ERROR_MEMORY, "no memory for the manifest");
}

/* ---- where the files are at this end ---- */

struct places {
    char **paths;
    const char **names;
    size_t count;
};

static void release(struct places *places)
{
    for (size_t i = 0; i < places->count; i++)
        free(places->paths[i]);
    free(places->paths);
    free(places->names);
}

static bool make_room(struct places *places, size_t count)
{
    places->paths = calloc(count + 1, sizeof(*places->paths));
    places->names = calloc(count + 1, sizeof(*places->names));
    return places->paths != NULL && places->names != NULL;
}

/* A pull's: below the destination, or the destination itself when it is no directory. */
static bool pulled(struct copy_manifest *manifest, struct places *places)
{
    const struct transfer_request *names = &manifest->names;
    struct stat status;
    bool is_directory = stat(names->destination, &status) == 0 && S_ISDIR(status.st_mode);
    if (!make_room(places, names->name_count))
        return false;
    for (size_t i = 0; i < names->name_count; i++) {
        const char *name = names->names[i];
        char *path = malloc(strlen(names->destination) + strlen(name) + 2);
        if (path == NULL)
            return false;
        strcpy(path, names->destination);
        if (is_directory && name[0] != '\0') {
            strcat(path, "/");
            strcat(path, name);
        }
        places->paths[i] = path;
        places->names[i] = is_directory ? name : manifest->first;
        places->count++;
    }
    return true;
}

static bool pushed(const struct copy_manifest *manifest, const struct operands *operands,
                   struct places *places)
{
    const struct transfer_request *names = &operands->names;
    if (!make_room(places, names->name_count))
        return false;
    /* A single file may have got another name over there. */
    bool single = names->name_count == 1 && !names->name_is_directory[0] && manifest->count > 0;
    for (size_t i = 0; i < names->name_count; i++) {
        places->paths[i] = strdup(operands->paths[i]);
        places->names[i] = single ? manifest->first : names->names[i];
        if (places->paths[i] == NULL)
            return false;
        places->count++;
    }
    return true;
}

struct writing {
    FILE *out;
    void (*problem)(void *, const char *, const struct error *);
    void *context;
};

static bool put_text(void *context, const char *bytes, size_t size)
{
    const struct writing *writing = context;
    return fwrite(bytes, 1, size, writing->out) == size;
}

static void tell_problem(void *context, const char *path, const struct error *error)
{
    const struct writing *writing = context;
    writing->problem(writing->context, path, error);
}

static bool build(const struct copy_manifest *manifest, const struct places *places,
                  const struct transfer_request *request, struct writing *writing,
                  struct error *error)
{
    struct manifest_build asked = {.paths = (const char *const *)places->paths,
                                   .names = places->names,
                                   .count = places->count,
                                   .follow_links = (request->flags & TRANSFER_FOLLOW_LINKS) != 0,
                                   .filter = &request->filter,
                                   .hard_links = (request->flags & TRANSFER_HARD_LINKS) != 0,
                                   .known = manifest->known,
                                   .text = put_text,
                                   .problem = tell_problem,
                                   .context = writing};
    uint8_t hash[32];
    uint64_t count;
    return manifest_build(&asked, hash, &count, error);
}

bool copy_manifest_write(struct copy_manifest *manifest, const struct transfer_request *request,
                         const char *const *sources, size_t source_count,
                         void (*problem)(void *, const char *, const struct error *), void *context,
                         struct error *error)
{
    struct places places = {0};
    struct operands operands = {0};
    struct writing writing = {.out = manifest->out, .problem = problem, .context = context};
    bool good = manifest->error.kind == ERROR_NONE ||
                error_set(error, manifest->error.kind, "%s", manifest->error.text);
    if (good && sources != NULL)
        good = operands_from_local(&operands, sources, source_count, error) &&
               (pushed(manifest, &operands, &places) ||
                error_set(error, ERROR_MEMORY, "no memory for the manifest"));
    else if (good)
        good = pulled(manifest, &places) ||
               error_set(error, ERROR_MEMORY, "no memory for the manifest");
    good = good && build(manifest, &places, request, &writing, error);
    release(&places);
    operands_release(&operands);
    return good && (fflush(manifest->out) == 0 ||
                    error_set_errno(error, errno, "cannot write the manifest"));
}
