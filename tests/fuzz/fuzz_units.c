/* Every parser of what users write, on the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct error error = {0};
    uint64_t value;
    uint32_t parts;
    char form[24];
    if (parse_rate(text, &value, &error))
        format_bit_rate(form, sizeof form, value);
    else
        require(error.kind == ERROR_USAGE);
    if (parse_size(text, &value, NULL))
        format_size(form, sizeof form, value);
    if (parse_time(text, &value, NULL)) {
        require(value != TIME_NEVER);
        format_time(form, sizeof form, value);
    }
    (void)parse_share(text, &parts, NULL);
    if (parse_unsigned(text, 1000, &value, NULL))
        require(value <= 1000);
    free(text);
    return 0;
}
