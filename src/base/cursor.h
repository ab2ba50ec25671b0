/* Bounded reading and writing of byte strings: a cursor cannot run past its end.
 *
 * A failed read or write sets `failed`, moves nothing, and every later call fails as well, so a
 * parser checks once at the end. Integers are big-endian. Varints are LEB128: seven bits a byte,
 * least significant first, at most ten bytes, shortest form only.
 */
#ifndef PETREL_BASE_CURSOR_H
#define PETREL_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
    const uint8_t *at, *end;
    bool failed;
};

struct reader reader_of(const void *bytes, size_t size);
size_t reader_left(const struct reader *reader);
/* True when everything was read and nothing failed. */
bool reader_finished(const struct reader *reader);
uint8_t read_u8(struct reader *reader);
uint16_t read_u16(struct reader *reader);
uint32_t read_u32(struct reader *reader);
uint64_t read_u64(struct reader *reader);
/* `size` bytes (1 to 8) as one big-endian integer. */
uint64_t read_uint(struct reader *reader, size_t size);
uint64_t read_varint(struct reader *reader);
/* Borrowed pointer to the next `size` bytes, NULL on failure. */
const uint8_t *read_bytes(struct reader *reader, size_t size);
/* A varint length, then that many bytes; fails when the length is over `limit`. */
const uint8_t *read_sized(struct reader *reader, size_t limit, size_t *size);

struct writer {
    uint8_t *start, *at, *end;
    bool failed;
};

struct writer writer_of(void *bytes, size_t capacity);
size_t writer_size(const struct writer *writer);
size_t writer_left(const struct writer *writer);
void write_u8(struct writer *writer, uint8_t value);
void write_u16(struct writer *writer, uint16_t value);
void write_u32(struct writer *writer, uint32_t value);
void write_u64(struct writer *writer, uint64_t value);
void write_uint(struct writer *writer, uint64_t value, size_t size);
void write_varint(struct writer *writer, uint64_t value);
void write_bytes(struct writer *writer, const void *bytes, size_t size);
void write_sized(struct writer *writer, const void *bytes, size_t size);

#endif
