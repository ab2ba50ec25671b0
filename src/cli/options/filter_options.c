#include "cli/options/filter_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (16u << 20) /* bytes of a file of rules */
#define MERGE_DEPTH 16       /* files that name files */

bool filter_words_add(struct filter_words *words, enum filter_form form, bool is_file,
                      const char *value, struct error *error)
{
    struct filter_word *larger = realloc(words->words, (words->count + 1) * sizeof(*larger));
    if (larger == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for filter rules");
    words->words = larger;
    larger[words->count++] = (struct filter_word){.form = form, .is_file = is_file, .value = value};
    return true;
}

void filter_words_release(struct filter_words *words)
{
    free(words->words);
    *words = (struct filter_words){0};
}

/* All of a file, with a NUL behind it. NULL and an error. */
static char *read_all(const char *path, size_t *size, struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *bytes = file != NULL ? malloc(FILE_MAX + 1) : NULL;
    if (file == NULL || bytes == NULL) {
        error_set_errno(error, errno, "the file of filter rules %s cannot be read", path);
        if (file != NULL && !standard)
            fclose(file);
        return NULL;
    }
    *size = fread(bytes, 1, FILE_MAX, file);
    bool whole = ferror(file) == 0 && fgetc(file) == EOF;
    if (ferror(file) != 0)
        error_set_errno(error, errno, "the file of filter rules %s cannot be read", path);
    else if (!whole)
        error_set(error, ERROR_USAGE, "the file of filter rules %s is larger than %u MiB", path,
                  FILE_MAX >> 20);
    if (!standard)
        fclose(file);
    if (!whole) {
        free(bytes);
        return NULL;
    }
    bytes[*size] = '\0';
    return bytes;
}

struct build {
    struct filter *filter;
    bool from_nul;
    unsigned depth;
};

static bool add_file(struct build *build, enum filter_form form, const char *path,
                     struct error *error);

static bool add_text(struct build *build, enum filter_form form, const char *text,
                     struct error *error)
{
    struct filter_merge merge;
    if (!filter_parse(build->filter, form, text, &merge, error))
        return false;
    return merge.file == NULL || add_file(build, merge.form, merge.file, error);
}

/* A file of the user's may name another, not without end. */
static bool add_file(struct build *build, enum filter_form form, const char *path,
                     struct error *error)
{
    if (build->depth == MERGE_DEPTH)
        return error_set(error, ERROR_USAGE, "%s: files of filter rules name each other %d deep",
                         path, MERGE_DEPTH);
    size_t size;
    char *bytes = read_all(path, &size, error);
    if (bytes == NULL)
        return false;
    build->depth++;
    bool good = true;
    for (size_t at = 0; at < size && good;) {
        char *line = bytes + at;
        size_t length = build->from_nul ? strlen(line) : strcspn(line, "\r\n");
        at += length + 1;
        line[length] = '\0';
        if (line[0] != '\0' && line[0] != '#' && line[0] != ';')
            good = add_text(build, form, line, error);
    }
    build->depth--;
    free(bytes);
    return good;
}

bool filter_words_build(const struct filter_words *words, bool from_nul, struct filter *filter,
                        struct error *error)
{
    struct build build = {.filter = filter, .from_nul = from_nul};
    for (size_t i = 0; i < words->count; i++) {
        const struct filter_word *word = &words->words[i];
        bool good = word->is_file ? add_file(&build, word->form, word->value, error)
                                  : add_text(&build, word->form, word->value, error);
        if (!good) {
            filter_release(filter);
            return false;
        }
    }
    return true;
}
