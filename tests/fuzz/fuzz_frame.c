/* The inside of a control packet: whatever is read is within its limits and writes the same again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t again[65536];
    if (size > sizeof(again))
        return 0;
    struct reader reader = reader_of(data, size);
    struct frame frame;
    const uint8_t *before = reader.at;
    while (frame_read(&reader, &frame)) {
        struct writer writer = writer_of(again, sizeof(again));
        frame_write(&writer, &frame);
        size_t length = (size_t)(reader.at - before);
        require(!writer.failed && writer_size(&writer) == length);
        require(memcmp(again, before, length) == 0);
        if (frame.type == FRAME_ACK)
            require(frame.ack.bitmap_size <= ACK_BITMAP_MAX);
        if (frame.type == FRAME_ABORT)
            require(frame.abort.size <= FRAME_ABORT_TEXT_MAX);
        before = reader.at;
    }
    return 0;
}
