/* Configuration files as users write them: lines, blocks and patterns, and each value as copy takes
 * it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/config_text.h"
#include "cli/options/copy_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool take(void *context, const struct config_line *line, struct error *error)
{
    unsigned *last = context;
    require(line->number > *last);
    *last = line->number;
    require(line->key[0] != '\0' && line->key[strcspn(line->key, " \t=\n")] == '\0');
    bool negated;
    const struct option *option =
        options_find(copy_options_table(), line->key, strlen(line->key), &negated);
    struct error cause = {0};
    if (option == NULL)
        return strcmp(line->key, "stop") != 0 || error_set(error, ERROR_USAGE, "stopped");
    if (!copy_options_check(option, negated ? "no" : line->value, &cause))
        require(cause.kind == ERROR_USAGE && cause.text[0] != '\0');
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    unsigned last = 0, number = 0;
    struct error error = {0};
    if (!config_text_read(text, size, "big.example.org", take, &last, &number, &error))
        require(error.kind == ERROR_USAGE && number > 0 && number >= last);
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\0' || is_blank((char)data[i]))
            text[i] = ' ';
    }
    text[size] = '\0';
    config_host_matches(text, "big.example.org");
    free(text);
    return 0;
}
