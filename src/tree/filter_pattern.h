/* One pattern of a filter rule, compiled once and matched against many paths (tree/filter.h has the
 * language). Pure, without recursion; matching takes at most the product of both lengths.
 */
#ifndef PETREL_TREE_FILTER_PATTERN_H
#define PETREL_TREE_FILTER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pattern_token;

struct filter_pattern {
    struct pattern_token *tokens;
    size_t count;
    uint8_t (*classes)[32]; /* one bit for each byte */
    size_t components;      /* of the pattern */
    bool bound;             /* begins with "/" */
    bool directory;         /* ended in "/" */
    bool whole_path;        /* matched against the path, not its last component */
    bool any_start;         /* "**" inside: may begin behind each "/" */
    bool slash_before;      /* begins with "**": the path counts as "/path" */
    bool slash_behind;      /* ends in three stars: a directory counts as "path/" */
    bool never;             /* a bracket that does not end */
};

/* `text` has at least one byte and no NUL. False without memory. */
bool filter_pattern_compile(struct filter_pattern *pattern, const char *text, size_t size);
void filter_pattern_release(struct filter_pattern *pattern);
/* `path` is not empty. */
bool filter_pattern_match(const struct filter_pattern *pattern, const char *path, size_t size,
                          bool is_directory);

#endif
