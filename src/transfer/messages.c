#include "transfer/messages.h"

#include <string.h>

#include "base/bits.h"
#include "base/block.h"
#include "base/units.h"
#include "tree/storage.h"

#define HASH_SIZE 32u

size_t message_limit(uint64_t type)
{
    switch (type) {
    case MESSAGE_REQUEST:
    case MESSAGE_READY:
    case MESSAGE_ANSWER:
    case MESSAGE_NAMES:
        return MESSAGE_LONG_BODY_MAX;
    default:
        return type > 0 && type < MESSAGE_TYPE_COUNT ? MESSAGE_BODY_MAX : 0;
    }
}

static size_t varint_size(uint64_t value)
{
    size_t size = 1;
    while (value >= 128) {
        value >>= 7;
        size++;
    }
    return size;
}

static void write_text(struct writer *writer, const char *text, size_t length, size_t limit)
{
    write_sized(writer, text, length < limit ? length : limit);
}

static void write_figures(struct writer *writer, const struct sender_figures *figures)
{
    write_varint(writer, figures->packets_sent);
    write_varint(writer, figures->packets_lost);
    write_varint(writer, figures->payload_sent);
    write_varint(writer, figures->payload_resent);
    write_varint(writer, MESSAGE_LIMITS);
    for (unsigned i = 0; i < MESSAGE_LIMITS; i++)
        write_varint(writer, figures->limited_us[i]);
    write_varint(writer, figures->path.rate_bps);
    uint64_t rtt_us = figures->path.rtt_ns / NS_PER_US;
    write_varint(writer, rtt_us < MESSAGE_RTT_MAX_US ? rtt_us : MESSAGE_RTT_MAX_US);
    write_varint(writer, figures->path.loss_millionths);
    write_varint(writer, figures->memory_use);
}

/* The blocks of a file that HASHES or KEEP tells of. */
static void write_blocks(struct writer *writer, const struct message *message)
{
    write_varint(writer, message->first);
    write_varint(writer, message->count);
    write_u64(writer, message->kept);
}

static void encode_body(const struct message *message, struct writer *writer)
{
    switch (message->type) {
    case MESSAGE_REQUEST:
    case MESSAGE_NAMES:
    case MESSAGE_LIST:
        write_bytes(writer, message->bytes, message->length);
        break;
    case MESSAGE_READY:
        write_sized(writer, message->bytes, message->length);
        break;
    case MESSAGE_ANSWER:
        write_varint(writer, message->block);
        write_sized(writer, message->bytes, message->length);
        break;
    case MESSAGE_COMPLETE:
        write_varint(writer, message->file_id);
        write_varint(writer, message->size);
        write_bytes(writer, message->hash, sizeof message->hash);
        break;
    case MESSAGE_WITHDRAW:
        write_varint(writer, message->file_id);
        write_u8(writer, (uint8_t)message->kind);
        write_text(writer, message->text, message->text_length, MESSAGE_TEXT_MAX);
        break;
    case MESSAGE_END:
        write_varint(writer, message->blocks);
        write_varint(writer, message->files);
        break;
    case MESSAGE_PROBLEM:
        write_u8(writer, (uint8_t)message->kind);
        write_text(writer, message->path, message->path_length, MESSAGE_PATH_MAX);
        write_text(writer, message->text, message->text_length, MESSAGE_TEXT_MAX);
        break;
    case MESSAGE_PROGRESS:
        write_varint(writer, message->size);
        write_varint(writer, message->files);
        write_varint(writer, message->skipped);
        write_varint(writer, message->failed);
        write_varint(writer, message->disk_wait_ns);
        write_varint(writer, message->kept_bytes);
        break;
    case MESSAGE_TOTALS:
        write_varint(writer, message->files);
        write_varint(writer, message->size);
        write_u8(writer, message->totals_final ? 1 : 0);
        write_varint(writer, message->new_bytes);
        break;
    case MESSAGE_FILE_DONE:
        write_text(writer, message->path, message->path_length, MESSAGE_PATH_MAX);
        write_varint(writer, message->size);
        write_bytes(writer, message->hash, sizeof message->hash);
        break;
    case MESSAGE_NOTE:
    case MESSAGE_LOST:
        write_text(writer, message->text, message->text_length, MESSAGE_TEXT_MAX);
        break;
    case MESSAGE_UNSUPPORTED:
        write_varint(writer, message->unsupported);
        break;
    case MESSAGE_STATS:
        write_figures(writer, &message->figures);
        break;
    case MESSAGE_FILE_SKIPPED:
        write_text(writer, message->path, message->path_length, MESSAGE_PATH_MAX);
        write_varint(writer, message->size);
        break;
    case MESSAGE_DELETED:
        write_varint(writer, message->files);
        write_text(writer, message->path, message->path_length, MESSAGE_PATH_MAX);
        break;
    case MESSAGE_HASHES:
        write_varint(writer, message->block);
        write_varint(writer, message->entry);
        write_blocks(writer, message);
        write_bytes(writer, message->bytes, message->length);
        break;
    case MESSAGE_KEEP:
        write_varint(writer, message->file_id);
        write_blocks(writer, message);
        break;
    case MESSAGE_HOLES:
        write_varint(writer, message->file_id);
        write_varint(writer, message->first);
        write_varint(writer, message->count);
        break;
    case MESSAGE_FORGET:
        write_varint(writer, message->block);
        write_varint(writer, message->entry);
        break;
    case MESSAGE_TYPE_COUNT:
        writer->failed = true;
        break;
    }
}

void message_encode(const struct message *message, struct writer *writer)
{
    /* The length goes first and its own size depends on it, so the body is written behind a head
     * of the longest form and moved down. */
    size_t gap = varint_size(message->type) + varint_size(MESSAGE_LONG_BODY_MAX);
    if (writer->failed || writer_left(writer) < gap) {
        writer->failed = true;
        return;
    }
    struct writer body = writer_of(writer->at + gap, writer_left(writer) - gap);
    encode_body(message, &body);
    size_t size = writer_size(&body);
    if (body.failed || size > message_limit(message->type)) {
        writer->failed = true;
        return;
    }
    write_varint(writer, message->type);
    write_varint(writer, size);
    memmove(writer->at, body.start, size);
    writer->at += size;
}

static void read_text(struct reader *reader, const char **text, size_t *length, size_t limit)
{
    const uint8_t *bytes = read_sized(reader, limit, length);
    *text = bytes != NULL && *length > 0 ? (const char *)bytes : "";
    /* Text ends up in C strings: a NUL inside would hide what follows it. */
    if (bytes != NULL && *length > 0 && memchr(bytes, 0, *length) != NULL)
        reader->failed = true;
}

static void read_hash(struct reader *reader, uint8_t hash[32])
{
    const uint8_t *bytes = read_bytes(reader, 32);
    if (bytes != NULL)
        memcpy(hash, bytes, 32);
}

static bool read_flag(struct reader *reader)
{
    uint8_t value = read_u8(reader);
    if (value > 1)
        reader->failed = true;
    return value == 1;
}

/* A kind that a later version added is still a failure: it is told as the peer's. */
static enum error_kind read_kind(struct reader *reader)
{
    uint8_t kind = read_u8(reader);
    if (kind == ERROR_NONE)
        reader->failed = true;
    return kind < ERROR_KIND_COUNT ? (enum error_kind)kind : ERROR_PEER;
}

static void read_memory(struct reader *reader, struct sender_figures *figures)
{
    uint64_t rate_bps = read_varint(reader), rtt_us = read_varint(reader);
    uint64_t loss_millionths = read_varint(reader), use = read_varint(reader);
    if (rtt_us > MESSAGE_RTT_MAX_US || loss_millionths > 1000000 || use > MEMORY_FAILED) {
        reader->failed = true;
        return;
    }
    figures->path = (struct rate_memory){.rate_bps = rate_bps,
                                         .rtt_ns = rtt_us * NS_PER_US,
                                         .loss_millionths = (uint32_t)loss_millionths};
    figures->memory_use = (enum rate_memory_use)use;
}

/* Limits of kinds that a later version knows are skipped; missing ones are zero. */
static void read_figures(struct reader *reader, struct sender_figures *figures)
{
    figures->packets_sent = read_varint(reader);
    figures->packets_lost = read_varint(reader);
    figures->payload_sent = read_varint(reader);
    figures->payload_resent = read_varint(reader);
    uint64_t count = read_varint(reader);
    if (count > MESSAGE_LIMITS_MAX)
        reader->failed = true;
    for (uint64_t i = 0; i < count && !reader->failed; i++) {
        uint64_t value = read_varint(reader);
        if (i < MESSAGE_LIMITS)
            figures->limited_us[i] = value;
    }
    read_memory(reader, figures);
}

static uint32_t read_block_number(struct reader *reader)
{
    uint64_t block = read_varint(reader);
    if (block >= BLOCK_NUMBER_LIMIT)
        reader->failed = true;
    return (uint32_t)block;
}

/* Bits past the count say something about blocks that the message is not about. */
static void read_blocks(struct reader *reader, struct message *message)
{
    message->first = read_block_number(reader);
    uint64_t count = read_varint(reader);
    message->count = (uint32_t)count;
    message->kept = read_u64(reader);
    if (count > HASH_PIECE_BLOCKS || count > BLOCK_NUMBER_LIMIT - message->first ||
        (count < HASH_PIECE_BLOCKS && message->kept >> count != 0))
        reader->failed = true;
}

static void read_hashes(struct reader *reader, struct message *message)
{
    message->length = reader_left(reader);
    message->bytes = read_bytes(reader, message->length);
    if (message->length != HASH_SIZE * (size_t)bits_set(message->kept))
        reader->failed = true;
}

static void decode_body(struct message *message, struct reader *reader)
{
    switch (message->type) {
    case MESSAGE_REQUEST:
    case MESSAGE_NAMES:
    case MESSAGE_LIST:
        message->length = reader_left(reader);
        message->bytes = read_bytes(reader, message->length);
        break;
    case MESSAGE_READY:
        message->bytes = read_sized(reader, MESSAGE_LONG_BODY_MAX, &message->length);
        break;
    case MESSAGE_ANSWER:
        message->block = read_block_number(reader);
        message->bytes = read_sized(reader, MESSAGE_LONG_BODY_MAX, &message->length);
        break;
    case MESSAGE_COMPLETE:
        message->file_id = read_varint(reader);
        message->size = read_varint(reader);
        read_hash(reader, message->hash);
        break;
    case MESSAGE_WITHDRAW:
        message->file_id = read_varint(reader);
        message->kind = read_kind(reader);
        read_text(reader, &message->text, &message->text_length, MESSAGE_TEXT_MAX);
        break;
    case MESSAGE_END:
        message->blocks = read_varint(reader);
        message->files = read_varint(reader);
        break;
    case MESSAGE_PROBLEM:
        message->kind = read_kind(reader);
        read_text(reader, &message->path, &message->path_length, MESSAGE_PATH_MAX);
        read_text(reader, &message->text, &message->text_length, MESSAGE_TEXT_MAX);
        break;
    case MESSAGE_PROGRESS:
        message->size = read_varint(reader);
        message->files = read_varint(reader);
        message->skipped = read_varint(reader);
        message->failed = read_varint(reader);
        message->disk_wait_ns = read_varint(reader);
        message->kept_bytes = read_varint(reader);
        break;
    case MESSAGE_TOTALS:
        message->files = read_varint(reader);
        message->size = read_varint(reader);
        message->totals_final = read_flag(reader);
        message->new_bytes = read_varint(reader);
        break;
    case MESSAGE_FILE_DONE:
        read_text(reader, &message->path, &message->path_length, MESSAGE_PATH_MAX);
        message->size = read_varint(reader);
        read_hash(reader, message->hash);
        break;
    case MESSAGE_NOTE:
    case MESSAGE_LOST:
        read_text(reader, &message->text, &message->text_length, MESSAGE_TEXT_MAX);
        break;
    case MESSAGE_UNSUPPORTED:
        message->unsupported = read_varint(reader);
        break;
    case MESSAGE_STATS:
        read_figures(reader, &message->figures);
        break;
    case MESSAGE_FILE_SKIPPED:
        read_text(reader, &message->path, &message->path_length, MESSAGE_PATH_MAX);
        message->size = read_varint(reader);
        break;
    case MESSAGE_DELETED:
        message->files = read_varint(reader);
        read_text(reader, &message->path, &message->path_length, MESSAGE_PATH_MAX);
        break;
    case MESSAGE_HASHES:
        message->block = read_block_number(reader);
        message->entry = read_block_number(reader);
        read_blocks(reader, message);
        read_hashes(reader, message);
        break;
    case MESSAGE_KEEP:
        message->file_id = read_varint(reader);
        read_blocks(reader, message);
        if (message->count == 0)
            reader->failed = true;
        break;
    case MESSAGE_HOLES:
        message->file_id = read_varint(reader);
        message->first = read_block_number(reader);
        message->count = read_block_number(reader);
        if (message->count == 0 || message->count > BLOCK_NUMBER_LIMIT - message->first)
            reader->failed = true;
        break;
    case MESSAGE_FORGET:
        message->block = read_block_number(reader);
        message->entry = read_block_number(reader);
        break;
    case MESSAGE_TYPE_COUNT:
        reader->failed = true;
        break;
    }
}

bool message_decode(struct message *message, uint64_t type, const uint8_t *body, size_t size,
                    struct error *error)
{
    size_t limit = message_limit(type);
    if (limit == 0 || size > limit) {
        return error_set(error, ERROR_PROTOCOL, "control message %llu of %u bytes is not known",
                         (unsigned long long)type, (unsigned)size);
    }
    struct message read = {.type = (enum message_type)type, .path = "", .text = ""};
    struct reader reader = reader_of(body, size);
    decode_body(&read, &reader);
    if (!reader_finished(&reader)) {
        return error_set(error, ERROR_PROTOCOL, "control message %u of %u bytes is malformed",
                         (unsigned)type, (unsigned)size);
    }
    *message = read;
    return true;
}

void names_encode(const struct transfer_request *names, struct writer *writer)
{
    write_varint(writer, names->name_count);
    for (size_t i = 0; i < names->name_count; i++) {
        write_sized(writer, names->names[i], strlen(names->names[i]));
        write_u8(writer, names->name_is_directory[i] ? 1 : 0);
    }
}

static bool names_read(struct transfer_request *names, struct reader *reader, struct error *error)
{
    uint64_t count = read_varint(reader);
    if (reader->failed || count > REQUEST_PATHS_MAX)
        return error_set(error, ERROR_PROTOCOL, "the peer's list of names is malformed");
    for (uint64_t i = 0; i < count; i++) {
        char name[REQUEST_PATH_LIMIT + 1];
        const char *text;
        size_t length;
        read_text(reader, &text, &length, REQUEST_PATH_LIMIT);
        bool directory = read_flag(reader);
        if (reader->failed)
            return error_set(error, ERROR_PROTOCOL, "the peer's list of names is malformed");
        memcpy(name, text, length);
        name[length] = 0;
        if (!transfer_request_add(names, name, directory))
            return error_set(error, ERROR_MEMORY, "out of memory for the list of names");
    }
    if (!reader_finished(reader))
        return error_set(error, ERROR_PROTOCOL, "the peer's list of names is malformed");
    return true;
}

bool names_decode(struct transfer_request *names, const uint8_t *body, size_t size,
                  struct error *error)
{
    struct reader reader = reader_of(body, size);
    if (!names_read(names, &reader, error)) {
        transfer_request_release(names);
        *names = (struct transfer_request){0};
        return false;
    }
    return true;
}
