#include "base/aligned.h"
#include "tree/sink_internal.h"
#include "tree/squeeze.h"

#define PAGE 4096u

/* A content block that is shorter than its file says, and a packed block of that form, are squeezed
 * (-z). */
bool sink_unsqueeze(struct file_sink *sink, const uint8_t *bytes, size_t size, size_t most,
                    uint32_t *length)
{
    if (sink->squeezer == NULL)
        sink->squeezer = squeezer_new();
    if (sink->unsqueezed == NULL)
        sink->unsqueezed = aligned_new(BLOCK_SIZE, PAGE);
    size_t got;
    if (sink->squeezer == NULL || sink->unsqueezed == NULL ||
        !squeezer_unpack(sink->squeezer, bytes, size, sink->unsqueezed, most, &got))
        return false;
    *length = (uint32_t)got;
    return true;
}
