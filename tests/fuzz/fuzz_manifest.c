/* A manifest, line by line. Whatever is accepted as an entry is written back as the same lines. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tree/manifest_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct manifest_reader reader;
    static char text[MANIFEST_ENTRY_MAX];
    memset(&reader, 0, sizeof reader);
    const char *at = (const char *)data, *end = at + size, *entry_start = at;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = newline != NULL ? (size_t)(newline - at) : (size_t)(end - at);
        struct error error = {0};
        char *exact = malloc(length > 0 ? length : 1);
        require(exact != NULL);
        memcpy(exact, at, length);
        enum manifest_result result = manifest_read(&reader, exact, length, &error);
        free(exact);
        require((result == MANIFEST_INVALID) == (error.kind != ERROR_NONE));
        if (result == MANIFEST_INVALID)
            return 0;
        at += length + (newline != NULL);
        if (result == MANIFEST_ENTRY && newline != NULL) {
            size_t written = manifest_write(&reader.entry, text);
            require(written == (size_t)(at - entry_start));
            require(memcmp(text, entry_start, written) == 0);
        }
        if (result == MANIFEST_ENTRY || !reader.second)
            entry_start = at;
    }
    struct error error = {0};
    require(manifest_read_end(&reader, &error) == (error.kind == ERROR_NONE));
    return 0;
}
