#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/files/file_job.h"
#include "cli/report/json_fields.h"

static const char *const kinds[FILE_JOB_COUNT] = {[FILE_JOB_CLEAN] = "clean",
                                                  [FILE_JOB_MANIFEST] = "manifest",
                                                  [FILE_JOB_VERIFY] = "verify",
                                                  [FILE_JOB_LIST] = "list"};

void file_job_release(struct file_job *job)
{
    for (size_t i = 0; i < job->path_count; i++)
        free(job->paths[i]);
    free(job->paths);
    *job = (struct file_job){0};
}

bool file_job_add_path(struct file_job *job, const char *path)
{
    char **paths = realloc(job->paths, (job->path_count + 1) * sizeof(*paths));
    if (paths == NULL)
        return false;
    job->paths = paths;
    paths[job->path_count] = strdup(path);
    job->path_count += paths[job->path_count] != NULL;
    return paths[job->path_count - 1] != NULL;
}

/* Paths need not be UTF-8, as JSON has to be. */
static json_t *hex_of(const char *path)
{
    size_t size = strlen(path);
    char *text = malloc(2 * size + 1);
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)(unsigned char)path[i]);
    text[2 * size] = '\0';
    json_t *value = json_string(text);
    free(text);
    return value;
}

size_t file_job_write(const struct file_job *job, char *line, size_t capacity)
{
    json_t *paths = json_array();
    for (size_t i = 0; i < job->path_count; i++)
        json_array_append_new(paths, hex_of(job->paths[i]));
    json_t *object =
        json_pack("{s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:o}", "do", kinds[job->kind],
                  "dry_run", job->dry_run, "hash_only", job->hash_only, "follow_links",
                  job->follow_links, "content_only", job->content_only, "details", job->details,
                  "recursive", job->recursive, "json", job->json, "paths", paths);
    if (object == NULL)
        return 0;
    size_t size = json_dumpb(object, line, capacity, JSON_COMPACT);
    json_decref(object);
    if (size == 0 || size + 1 > capacity)
        return 0;
    line[size] = '\n';
    return size + 1;
}

static bool read_path(struct file_job *job, const json_t *value)
{
    char path[FILE_JOB_PATH_MAX + 1];
    size_t size = json_string_length(value) / 2;
    if (size >= sizeof(path) || !json_read_hex(value, (uint8_t *)path, size))
        return false;
    path[size] = '\0';
    return strlen(path) == size && file_job_add_path(job, path);
}

static bool read_fields(struct file_job *job, const json_t *object)
{
    const char *kind = json_string_value(json_object_get(object, "do"));
    const json_t *paths = json_object_get(object, "paths");
    job->kind = FILE_JOB_COUNT;
    for (unsigned i = 0; kind != NULL && i < FILE_JOB_COUNT; i++) {
        if (strcmp(kind, kinds[i]) == 0)
            job->kind = (enum file_job_kind)i;
    }
    job->dry_run = json_is_true(json_object_get(object, "dry_run"));
    job->hash_only = json_is_true(json_object_get(object, "hash_only"));
    job->follow_links = json_is_true(json_object_get(object, "follow_links"));
    job->content_only = json_is_true(json_object_get(object, "content_only"));
    job->details = json_is_true(json_object_get(object, "details"));
    job->recursive = json_is_true(json_object_get(object, "recursive"));
    job->json = json_is_true(json_object_get(object, "json"));
    size_t count = json_array_size(paths);
    if (job->kind == FILE_JOB_COUNT || count == 0 || count > FILE_JOB_PATHS_MAX ||
        (job->kind != FILE_JOB_MANIFEST && job->kind != FILE_JOB_LIST && count != 1))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!read_path(job, json_array_get(paths, i)))
            return false;
    }
    return true;
}

bool file_job_read(struct file_job *job, const char *line, size_t size, struct error *error)
{
    *job = (struct file_job){0};
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(object) && read_fields(job, object);
    json_decref(object);
    if (good)
        return true;
    file_job_release(job);
    return error_set(error, ERROR_PROTOCOL, "the job is not understood");
}
