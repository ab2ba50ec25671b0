/* Lines on a server's control socket: what is taken survives being written and read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/control_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control_request request, again;
    struct error error = {0};
    char line[CONTROL_REQUEST_MAX];
    if (!control_request_parse((const char *)data, size, &request, &error)) {
        require(error.kind == ERROR_USAGE);
        return 0;
    }
    control_request_format(line, &request);
    require(control_request_parse(line, strlen(line), &again, &error));
    require(again.what == request.what && again.limit_bps == request.limit_bps);
    return 0;
}
