/* Requests, and what is done with the names in them: matched, and made safe to print. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tree/display.h"
#include "tree/request.h"
#include "tree/wildcard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_display(const char *name)
{
    char text[64];
    display_name(text, sizeof text, name);
    require(strlen(text) < sizeof text);
    for (const char *at = text; *at != '\0'; at++)
        require((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void check_names(const struct transfer_request *request)
{
    for (size_t i = 0; i < request->name_count && i < 16; i++) {
        const char *name = request->names[i];
        size_t last_size = 0;
        const char *last = transfer_source_name(name, &last_size);
        require(last >= name && last_size <= strlen(name));
        check_display(name);
        if (strlen(name) < 100)
            wildcard_match(name, strlen(name), request->destination, strlen(request->destination));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct transfer_request request, again;
    struct error error = {0};
    struct reader reader = reader_of(data, size);
    if (!transfer_request_decode(&request, &reader, &error)) {
        require(error.kind != ERROR_NONE && request.name_count == 0);
        return 0;
    }
    uint8_t *copy = malloc(size + 1);
    require(copy != NULL);
    struct writer writer = writer_of(copy, size);
    transfer_request_encode(&request, &writer);
    require(!writer.failed && writer_size(&writer) == size && memcmp(copy, data, size) == 0);
    reader = reader_of(copy, size);
    require(transfer_request_decode(&again, &reader, &error));
    check_names(&request);
    bool valid = transfer_request_names_valid(&request, NULL);
    if (transfer_request_admits(&request, &again, NULL))
        require(valid);
    transfer_request_release(&request);
    transfer_request_release(&again);
    free(copy);
    return 0;
}
