/* What petrel install hears from a host, and what it takes for a program. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/start/install_answer.h"
#include "cli/start/install_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool fits(const char *text, size_t capacity)
{
    return memchr(text, '\0', capacity) != NULL && strpbrk(text, "\n\r\x1b") == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct install_answer answer = {.length = 0};
    for (size_t i = 0; i < size; i++) {
        if (!install_answer_take(&answer, (char)data[i]))
            continue;
        require(answer.word <= INSTALL_ERROR && fits(answer.text, sizeof(answer.text)));
        require((answer.word == INSTALL_READY) == (answer.hash[0] != '\0'));
        (void)install_error_kind(answer.text);
    }
    install_answer_end(&answer);
    require(fits(answer.noise, sizeof(answer.noise)));
    (void)program_is_static(data, size);
    return 0;
}
