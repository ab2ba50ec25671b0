/* A peer's hello: what is taken keeps within its limits and encodes to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/hello.h"
#include "transport/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = {0};
    struct hello hello;
    uint8_t bytes[HELLO_SIZE];

    if (!hello_decode(&hello, data, size, &error)) {
        require(error.kind == ERROR_PROTOCOL);
        return 0;
    }
    require(size >= HELLO_SIZE && size <= HELLO_MAX);
    require(hello.lanes_max >= 1 && hello.lanes_max <= LANES_MAX);
    require(hello.version_min >= 1 && hello.version_min <= hello.version_max);
    require((hello.connection_base & 0x0f) == 0);
    require(hello_encode(&hello, bytes, sizeof bytes) == HELLO_SIZE);
    bytes[8] = data[8]; /* unknown flags are not kept */
    require(memcmp(bytes, data, HELLO_SIZE) == 0);
    return 0;
}
