#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/copy/copy_internal.h"
#include "cli/copy/squeezed_storage.h"
#include "cli/test_hook.h"
#include "tree/pipe_sink.h"
#include "tree/pipe_source.h"
#include "tree/sink.h"

/* Standard input cannot be read twice. */
static bool prepare_stream(struct copy *copy, struct error *error)
{
    return transfer_request_add(&copy->request, "-", false) ||
           error_set(error, ERROR_MEMORY, "no memory for the request");
}

static bool prepare_push(struct copy *copy, struct error *error)
{
    const struct copy_options *options = &copy->options;
    if (options->stream)
        return prepare_stream(copy, error);
    if (copy->source != NULL) /* of a try that did not come to it */
        file_source_ops.close(copy->source);
    copy->source = NULL;
    char **paths = calloc(options->source_count, sizeof(*paths));
    bool good = paths != NULL;
    for (size_t i = 0; good && i < options->source_count; i++)
        good = (paths[i] = copy_request_path(options, i)) != NULL;
    if (good)
        copy->source = file_source_new_push((const char *const *)paths, options->source_count,
                                            &copy->request, error);
    for (size_t i = 0; paths != NULL && i < options->source_count; i++)
        free(paths[i]);
    free(paths);
    if (!good)
        return error_set(error, ERROR_MEMORY, "no memory for the sources");
    return copy->source != NULL && (copy->lists.files == NULL ||
                                    file_source_set_list(copy->source, copy->lists.files, error));
}

bool copy_prepare(struct copy *copy, struct error *error)
{
    transfer_request_release(&copy->request);
    return copy_request_fill(&copy->options, &copy->lists, &copy->request, error) &&
           (!copy->options.push || prepare_push(copy, error));
}

ptrdiff_t copy_read_list(void *context, uint64_t offset, uint8_t *bytes, size_t capacity,
                         struct error *error)
{
    const struct copy *copy = context;
    return file_list_read(copy->lists.files, offset, bytes, capacity, error);
}

static bool open_stream(struct copy *copy, struct storage *storage, struct error *error)
{
    copy->stream_begun = true;
    if (copy->options.push) {
        storage->source = pipe_source_new(STDIN_FILENO, 0666, (int64_t)time(NULL));
        storage->source_ops = &pipe_source_ops;
    } else {
        storage->sink = pipe_sink_new(STDOUT_FILENO);
        storage->sink_ops = &pipe_sink_ops;
    }
    return storage->source != NULL || storage->sink != NULL ||
           error_set(error, ERROR_MEMORY, "no memory for a pipe");
}

bool copy_open_storage(void *context, const struct transfer_request *request,
                       struct storage *storage, struct error *error)
{
    struct copy *copy = context;
    *storage = (struct storage){0};
    if (copy->manifest != NULL && !copy->options.push)
        copy_manifest_set_names(copy->manifest, request);
    if (test_hook_storage(copy->options.push, request, storage))
        return true;
    if (copy->options.stream)
        return open_stream(copy, storage, error);
    if (copy->options.push) {
        storage->source = copy->source;
        storage->source_ops = &file_source_ops;
        copy->source = NULL;
        squeezed_storage(request, storage);
        return true;
    }
    storage->sink = file_sink_new();
    storage->sink_ops = &file_sink_ops;
    squeezed_storage(request, storage);
    if (storage->sink != NULL && copy->lists.files != NULL)
        file_sink_set_list(storage->sink, copy->lists.files);
    return storage->sink != NULL || error_set(error, ERROR_MEMORY, "no memory for the sink");
}
