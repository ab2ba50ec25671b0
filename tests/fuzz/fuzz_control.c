/* The control stream: the first byte says how the rest is cut into pieces. Whatever comes out as a
 * message must read back the same from its own encoding, and the list of names likewise. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_names(const struct message *message)
{
    struct transfer_request names = {0};
    struct error error = {0};
    if (!names_decode(&names, message->bytes, message->length, &error)) {
        require(error.kind != ERROR_NONE && names.name_count == 0);
        return;
    }
    require(names.name_count <= REQUEST_PATHS_MAX);
    uint8_t *bytes = malloc(message->length + 16);
    require(bytes != NULL);
    struct writer writer = writer_of(bytes, message->length + 16);
    names_encode(&names, &writer);
    require(!writer.failed && writer_size(&writer) == message->length);
    require(memcmp(bytes, message->bytes, message->length) == 0);
    free(bytes);
    transfer_request_release(&names);
}

static void check_request(const struct message *message)
{
    struct transfer_request request = {0};
    struct error error = {0};
    struct reader reader = reader_of(message->bytes, message->length);
    if (transfer_request_decode(&request, &reader, &error))
        transfer_request_release(&request);
    else
        require(error.kind != ERROR_NONE);
}

static void check_message(const struct message *message)
{
    size_t capacity = 128 + message->length + message->path_length + message->text_length;
    uint8_t *bytes = malloc(capacity);
    require(bytes != NULL);
    struct writer writer = writer_of(bytes, capacity);
    message_encode(message, &writer);
    require(!writer.failed);
    struct reader reader = reader_of(bytes, writer_size(&writer));
    struct control_in in = {0};
    struct message again;
    struct error error = {0};
    require(control_in_take(&in, &reader, &again, &error) == CONTROL_MESSAGE);
    require(reader_left(&reader) == 0 && again.type == message->type);
    require(again.length == message->length && again.path_length == message->path_length);
    require(again.text_length == message->text_length && again.kind == message->kind);
    require(memcmp(again.hash, message->hash, sizeof again.hash) == 0);
    require(again.block == message->block && again.size == message->size);
    require(again.entry == message->entry && again.first == message->first);
    require(again.count == message->count && again.kept == message->kept);
    require(again.files == message->files && again.blocks == message->blocks);
    control_in_release(&in);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t piece = 1 + data[0];
    struct control_in in = {0};
    enum control_result result = CONTROL_MORE;
    for (size_t at = 1; at < size && result != CONTROL_FAILED; at += piece) {
        struct reader reader = reader_of(data + at, at + piece < size ? piece : size - at);
        do {
            struct message message;
            struct error error = {0};
            result = control_in_take(&in, &reader, &message, &error);
            require((error.kind != ERROR_NONE) == (result == CONTROL_FAILED));
            if (result != CONTROL_MESSAGE)
                continue;
            require(message.length <= message_limit(message.type));
            check_message(&message);
            if (message.type == MESSAGE_NAMES)
                check_names(&message);
            if (message.type == MESSAGE_REQUEST)
                check_request(&message);
        } while (result == CONTROL_MESSAGE || result == CONTROL_UNKNOWN);
        require(result == CONTROL_FAILED || reader_left(&reader) == 0);
    }
    control_in_release(&in);
    return 0;
}
