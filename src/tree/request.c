#include "tree/request.h"

#include <stdlib.h>
#include <string.h>

#include "tree/display.h"
#include "tree/squeeze.h"
#include "tree/wildcard.h"

#define KNOWN_FLAGS                                                                                \
    (((TRANSFER_VERIFY_DISK << 1) - 1) | TRANSFER_FILTERS | TRANSFER_DELETE |                      \
     TRANSFER_MAX_DELETE | TRANSFER_FILES_FROM | TRANSFER_LIST_TREES | TRANSFER_UPDATE |           \
     TRANSFER_IGNORE_EXISTING | TRANSFER_EXISTING | TRANSFER_NO_PERMS | TRANSFER_NO_TIMES |        \
     TRANSFER_OWNER | TRANSFER_GROUP | TRANSFER_NUMERIC_IDS | TRANSFER_OWNERS_ASKED |              \
     TRANSFER_XATTRS | TRANSFER_ACLS | TRANSFER_SPECIALS | TRANSFER_HARD_LINKS |                   \
     TRANSFER_REMOVE_SOURCE | TRANSFER_SPARSE | TRANSFER_STREAM | TRANSFER_SQUEEZE)

void transfer_request_release(struct transfer_request *request)
{
    for (size_t i = 0; i < request->name_count; i++)
        free(request->names[i]);
    free(request->names);
    free(request->name_is_directory);
    free(request->destination);
    free(request->reference);
    filter_release(&request->filter);
    memset(request, 0, sizeof *request);
}

static char *copy_text(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return NULL;
    if (size > 0)
        memcpy(text, bytes, size);
    text[size] = '\0';
    return text;
}

/* The arrays double whenever the count is a power of two, so no capacity needs to be kept. */
static bool make_room(struct transfer_request *request)
{
    size_t count = request->name_count;
    if (count >= REQUEST_PATHS_MAX)
        return false;
    if (count != 0 && (count & (count - 1)) != 0)
        return true;
    size_t capacity = count == 0 ? 1 : count * 2;
    char **names = realloc(request->names, capacity * sizeof *names);
    if (names == NULL)
        return false;
    request->names = names;
    uint8_t *directories = realloc(request->name_is_directory, capacity);
    if (directories == NULL)
        return false;
    request->name_is_directory = directories;
    return true;
}

static bool add_bytes(struct transfer_request *request, const uint8_t *bytes, size_t size,
                      bool is_directory)
{
    if (!make_room(request))
        return false;
    char *copy = copy_text(bytes, size);
    if (copy == NULL)
        return false;
    request->names[request->name_count] = copy;
    request->name_is_directory[request->name_count] = is_directory;
    request->name_count++;
    return true;
}

bool transfer_request_add(struct transfer_request *request, const char *name, bool is_directory)
{
    size_t size = strlen(name);
    return size <= REQUEST_PATH_LIMIT &&
           add_bytes(request, (const uint8_t *)name, size, is_directory);
}

static void write_filter(const struct filter *filter, struct writer *writer)
{
    write_varint(writer, filter->count);
    for (size_t i = 0; i < filter->count; i++) {
        const char *pattern = filter_rule_pattern(filter, i);
        write_u8(writer, (uint8_t)filter_rule_flags(filter, i));
        write_sized(writer, pattern, strlen(pattern));
    }
}

void transfer_request_encode(const struct transfer_request *request, struct writer *writer)
{
    const char *destination = request->destination != NULL ? request->destination : "";
    write_varint(writer, request->flags);
    write_varint(writer, request->name_count);
    for (size_t i = 0; i < request->name_count; i++) {
        write_sized(writer, request->names[i], strlen(request->names[i]));
        write_u8(writer, request->name_is_directory[i] != 0);
    }
    write_sized(writer, destination, strlen(destination));
    if ((request->flags & TRANSFER_FILTERS) != 0)
        write_filter(&request->filter, writer);
    if ((request->flags & TRANSFER_MAX_DELETE) != 0)
        write_varint(writer, request->max_delete);
    if ((request->flags & TRANSFER_REFERENCE) != 0)
        write_sized(writer, request->reference, strlen(request->reference));
    if ((request->flags & TRANSFER_SQUEEZE) != 0)
        write_u8(writer, (uint8_t)request->squeeze_level);
}

void transfer_request_take_filter(struct transfer_request *request, struct filter *filter)
{
    filter_release(&request->filter);
    request->filter = *filter;
    *filter = (struct filter){0};
    if (request->filter.count > 0)
        request->flags |= TRANSFER_FILTERS;
}

/* A path of the peer's: within the limit and without NUL. NULL and an error otherwise. */
static const uint8_t *read_path(struct reader *reader, size_t *size, struct error *error)
{
    const uint8_t *bytes = read_sized(reader, REQUEST_PATH_LIMIT, size);
    if (bytes == NULL) {
        error_set(error, ERROR_PROTOCOL, "a request is cut short or holds a path over %d bytes",
                  REQUEST_PATH_LIMIT);
        return NULL;
    }
    if (*size > 0 && memchr(bytes, 0, *size) != NULL) {
        error_set(error, ERROR_PROTOCOL, "a path in a request holds a NUL byte");
        return NULL;
    }
    return bytes;
}

static bool read_names(struct transfer_request *request, struct reader *reader, struct error *error)
{
    uint64_t count = read_varint(reader);
    if (reader->failed || count > REQUEST_PATHS_MAX)
        return error_set(error, ERROR_PROTOCOL, "a request names more than %d paths",
                         REQUEST_PATHS_MAX);
    for (uint64_t i = 0; i < count; i++) {
        size_t size = 0;
        const uint8_t *bytes = read_path(reader, &size, error);
        if (bytes == NULL)
            return false;
        uint8_t is_directory = read_u8(reader);
        if (reader->failed || is_directory > 1)
            return error_set(error, ERROR_PROTOCOL, "a request is cut short or malformed");
        if (!add_bytes(request, bytes, size, is_directory != 0))
            return error_set(error, ERROR_MEMORY, "no memory for a request of %llu names",
                             (unsigned long long)count);
    }
    return true;
}

static bool read_filter(struct filter *filter, struct reader *reader, struct error *error)
{
    uint64_t count = read_varint(reader);
    if (reader->failed || count == 0 || count > FILTER_RULES_MAX)
        return error_set(error, ERROR_PROTOCOL, "a request holds no or more than %u filter rules",
                         FILTER_RULES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        size_t size = 0;
        unsigned flags = read_u8(reader);
        const uint8_t *pattern = read_sized(reader, FILTER_PATTERN_MAX, &size);
        if (pattern == NULL || size == 0 || flags > FILTER_FLAGS || (flags & FILTER_SIDES) == 0 ||
            memchr(pattern, 0, size) != NULL)
            return error_set(error, ERROR_PROTOCOL, "a filter rule in a request is malformed");
        if (!filter_add(filter, flags, (const char *)pattern, size, error))
            return false;
    }
    return true;
}

static bool read_request(struct transfer_request *request, struct reader *reader,
                         struct error *error)
{
    uint64_t flags = read_varint(reader);
    if (reader->failed || (flags & ~(uint64_t)KNOWN_FLAGS) != 0)
        return error_set(error, ERROR_PROTOCOL,
                         "the request holds options that this version does not know");
    request->flags = flags;
    if (!read_names(request, reader, error))
        return false;
    size_t size = 0;
    const uint8_t *bytes = read_path(reader, &size, error);
    if (bytes == NULL)
        return false;
    request->destination = copy_text(bytes, size);
    if (request->destination == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for a request");
    if ((request->flags & TRANSFER_FILTERS) != 0 && !read_filter(&request->filter, reader, error))
        return false;
    if ((request->flags & TRANSFER_MAX_DELETE) != 0)
        request->max_delete = read_varint(reader);
    if ((request->flags & TRANSFER_REFERENCE) != 0) {
        bytes = read_path(reader, &size, error);
        request->reference = bytes != NULL ? copy_text(bytes, size) : NULL;
        if (request->reference == NULL)
            return error_set(error, ERROR_MEMORY, "no memory for a request");
    }
    if ((request->flags & TRANSFER_SQUEEZE) != 0)
        request->squeeze_level = read_u8(reader);
    if (!reader_finished(reader) || request->squeeze_level > SQUEEZE_LEVEL_MAX)
        return error_set(error, ERROR_PROTOCOL, "a request is cut short or too long");
    return true;
}

bool transfer_request_decode(struct transfer_request *request, struct reader *reader,
                             struct error *error)
{
    memset(request, 0, sizeof *request);
    if (read_request(request, reader, error))
        return true;
    transfer_request_release(request);
    return false;
}

static bool is_top_level_name(const char *name)
{
    return strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool transfer_request_names_valid(const struct transfer_request *names, struct error *error)
{
    for (size_t i = 0; i < names->name_count; i++) {
        const char *name = names->names[i];
        if (is_top_level_name(name) && (name[0] != '\0' || names->name_is_directory[i]))
            continue;
        char text[200];
        return error_set(error, ERROR_PROTOCOL, "\"%s\" is no name that a destination can take",
                         display_name(text, sizeof text, name));
    }
    return true;
}

const char *transfer_source_name(const char *path, size_t *size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    bool contents = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
                    (slash == NULL && strcmp(name, "~") == 0);
    *size = contents ? 0 : strlen(name);
    return name;
}

static bool source_admits(const char *source, bool wildcards, const char *name)
{
    size_t size = 0;
    const char *last = transfer_source_name(source, &size);
    size_t name_size = strlen(name);
    if (size == name_size && memcmp(last, name, size) == 0)
        return true;
    return wildcards && size > 0 && name_size > 0 && wildcard_match(last, size, name, name_size);
}

bool transfer_request_admits(const struct transfer_request *request,
                             const struct transfer_request *names, struct error *error)
{
    if (!transfer_request_names_valid(names, error))
        return false;
    bool wildcards = (request->flags & TRANSFER_WILDCARDS) != 0;
    if (!wildcards && names->name_count > request->name_count)
        return error_set(error, ERROR_REFUSED, "the peer offers %llu names, %llu were asked for",
                         (unsigned long long)names->name_count,
                         (unsigned long long)request->name_count);
    for (size_t i = 0; i < names->name_count; i++) {
        bool admitted = false;
        for (size_t k = 0; k < request->name_count && !admitted; k++)
            admitted = source_admits(request->names[k], wildcards, names->names[i]);
        if (!admitted) {
            char text[200];
            return error_set(error, ERROR_REFUSED,
                             "the peer offers \"%s\", which was not asked for",
                             display_name(text, sizeof text, names->names[i]));
        }
    }
    return true;
}
