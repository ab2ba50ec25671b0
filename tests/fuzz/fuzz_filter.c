/* Filter rules as users write them, line by line, and their patterns matched against the input. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tree/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* What a copy of the rules says has to be the same. */
static void check(const struct filter *filter, const char *path, size_t size)
{
    struct filter copy = {0};
    require(filter_copy(&copy, filter, NULL) && copy.count == filter->count);
    for (int is_directory = 0; is_directory < 2; is_directory++) {
        bool out = filter_excludes(filter, FILTER_SENDER, path, size, is_directory != 0);
        require(filter_excludes(&copy, FILTER_SENDER, path, size, is_directory != 0) == out);
        if (out)
            require(!filter_admits(filter, path, size, is_directory != 0));
    }
    filter_release(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 400)
        return 0;
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct filter filter = {0};
    unsigned form = 0;
    for (size_t at = 0; at < size;) {
        size_t length = strcspn(text + at, "\n");
        bool ended = text[at + length] == '\n';
        text[at + length] = '\0';
        struct filter_merge merge;
        struct error error = {0};
        if (!filter_parse(&filter, (enum filter_form)(form++ % 3), text + at, &merge, &error))
            require(error.kind != ERROR_NONE);
        at += length + 1;
        if (!ended)
            break;
    }
    check(&filter, text, strlen(text));
    check(&filter, "a/b.c", 5);
    check(&filter, "foo/[x]/a", 9);
    filter_release(&filter);
    free(text);
    return 0;
}
