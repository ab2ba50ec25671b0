/* The cursors: a script of reads over its own bytes. Whatever is read must lie within, and what is
 * written of the values read must read back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void step(struct reader *reader, struct writer *writer, uint8_t what)
{
    size_t length = 0;
    const uint8_t *bytes;
    switch (what % 4) {
    case 0:
        write_varint(writer, read_varint(reader));
        break;
    case 1:
        length = 1 + what / 4 % 8;
        write_uint(writer, read_uint(reader, length), length);
        break;
    case 2:
        bytes = read_sized(reader, what, &length);
        require(bytes == NULL || length <= what);
        write_sized(writer, bytes, bytes != NULL ? length : 0);
        break;
    default:
        length = what / 4;
        bytes = read_bytes(reader, length);
        write_bytes(writer, bytes, bytes != NULL ? length : 0);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t script_size = size < 32 ? size / 2 : 16;
    struct reader reader = reader_of(data + script_size, size - script_size);
    const uint8_t *start = reader.at;
    uint8_t *copy = malloc(size + 16);
    require(copy != NULL);
    struct writer writer = writer_of(copy, size);
    for (size_t i = 0; i < script_size && !reader.failed; i++) {
        size_t before = reader_left(&reader);
        size_t written = writer_size(&writer);
        step(&reader, &writer, data[i]);
        if (reader.failed)
            require(reader_left(&reader) == before);
        else /* every encoding is the only one, so it comes out as it went in */
            require(!writer.failed &&
                    writer_size(&writer) - written == before - reader_left(&reader));
        if (!reader.failed)
            require(memcmp(copy, start, writer_size(&writer)) == 0);
    }
    free(copy);
    return 0;
}
