#include "base/cursor.h"

#include <string.h>

#define VARINT_SIZE_MAX 10u

struct reader reader_of(const void *bytes, size_t size)
{
    const uint8_t *start = bytes;
    /* NULL + 0 is undefined in C17, and an empty string may well be NULL. */
    return (struct reader){.at = start, .end = size > 0 ? start + size : start};
}

size_t reader_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

bool reader_finished(const struct reader *reader)
{
    return !reader->failed && reader->at == reader->end;
}

const uint8_t *read_bytes(struct reader *reader, size_t size)
{
    if (reader->failed || size > reader_left(reader)) {
        reader->failed = true;
        return NULL;
    }
    if (size == 0) /* a pointer that may be compared to NULL, even in an empty string */
        return reader->at != NULL ? reader->at : (const uint8_t *)"";
    const uint8_t *bytes = reader->at;
    reader->at += size;
    return bytes;
}

uint64_t read_uint(struct reader *reader, size_t size)
{
    if (size == 0 || size > 8) {
        reader->failed = true;
        return 0;
    }
    const uint8_t *bytes = read_bytes(reader, size);
    uint64_t value = 0;
    if (bytes != NULL) {
        for (size_t i = 0; i < size; i++)
            value = value << 8 | bytes[i];
    }
    return value;
}

uint8_t read_u8(struct reader *reader)
{
    return (uint8_t)read_uint(reader, 1);
}

uint16_t read_u16(struct reader *reader)
{
    return (uint16_t)read_uint(reader, 2);
}

uint32_t read_u32(struct reader *reader)
{
    return (uint32_t)read_uint(reader, 4);
}

uint64_t read_u64(struct reader *reader)
{
    return read_uint(reader, 8);
}

uint64_t read_varint(struct reader *reader)
{
    if (reader->failed)
        return 0;
    size_t left = reader_left(reader);
    uint64_t value = 0;
    for (size_t i = 0; i < left && i < VARINT_SIZE_MAX; i++) {
        uint8_t byte = reader->at[i];
        if (i == VARINT_SIZE_MAX - 1 && byte > 1)
            break; /* bits beyond the 64th, or an eleventh byte */
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            if (byte == 0 && i > 0)
                break; /* a shorter form exists: one value, one spelling */
            reader->at += i + 1;
            return value;
        }
    }
    reader->failed = true;
    return 0;
}

const uint8_t *read_sized(struct reader *reader, size_t limit, size_t *size)
{
    struct reader trial = *reader;
    uint64_t length = read_varint(&trial);
    const uint8_t *bytes = NULL;
    if (length <= limit && length <= reader_left(&trial))
        bytes = read_bytes(&trial, (size_t)length);
    if (bytes == NULL) {
        reader->failed = true;
        return NULL;
    }
    *reader = trial;
    *size = (size_t)length;
    return bytes;
}

struct writer writer_of(void *bytes, size_t capacity)
{
    uint8_t *start = bytes;
    return (struct writer){
        .start = start, .at = start, .end = capacity > 0 ? start + capacity : start};
}

size_t writer_size(const struct writer *writer)
{
    return (size_t)(writer->at - writer->start);
}

size_t writer_left(const struct writer *writer)
{
    return (size_t)(writer->end - writer->at);
}

void write_bytes(struct writer *writer, const void *bytes, size_t size)
{
    if (writer->failed || size > writer_left(writer)) {
        writer->failed = true;
        return;
    }
    if (size > 0) {
        memcpy(writer->at, bytes, size);
        writer->at += size;
    }
}

void write_uint(struct writer *writer, uint64_t value, size_t size)
{
    if (size == 0 || size > 8 || (size < 8 && value >> (8 * size) != 0)) {
        writer->failed = true;
        return;
    }
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
    write_bytes(writer, bytes, size);
}

void write_u8(struct writer *writer, uint8_t value)
{
    write_uint(writer, value, 1);
}

void write_u16(struct writer *writer, uint16_t value)
{
    write_uint(writer, value, 2);
}

void write_u32(struct writer *writer, uint32_t value)
{
    write_uint(writer, value, 4);
}

void write_u64(struct writer *writer, uint64_t value)
{
    write_uint(writer, value, 8);
}

static size_t varint_encode(uint8_t bytes[VARINT_SIZE_MAX], uint64_t value)
{
    size_t size = 0;
    while (value > 0x7f) {
        bytes[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[size++] = (uint8_t)value;
    return size;
}

void write_varint(struct writer *writer, uint64_t value)
{
    uint8_t bytes[VARINT_SIZE_MAX];
    size_t size = varint_encode(bytes, value);
    write_bytes(writer, bytes, size);
}

void write_sized(struct writer *writer, const void *bytes, size_t size)
{
    struct writer trial = *writer;
    write_varint(&trial, size);
    write_bytes(&trial, bytes, size);
    if (trial.failed)
        writer->failed = true; /* and the length is not left behind without its bytes */
    else
        *writer = trial;
}
