/* What a user wants copied, as paths on this machine and the top-level names they travel under.
 *
 * `dir` travels as its last component, `dir/`, `.` and `..` as "" (contents); an operand that is a
 * symbolic link is followed. A path that is missing is kept as a problem to report; only when all
 * are missing nothing can be done.
 */
#ifndef PETREL_TREE_OPERAND_H
#define PETREL_TREE_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tree/request.h"

struct operand_problem {
    char *path;
    struct error error;
};

struct operands {
    struct transfer_request names; /* names and name_is_directory, one for each path */
    char **paths;
    uint64_t *sizes; /* of plain files; 0 for directories */
    struct operand_problem *problems;
    size_t problem_count;
};

/* Local operands of a push, as the user wrote them. `operands` is zeroed by the caller; on failure
 * it is left empty. */
bool operands_from_local(struct operands *operands, const char *const *paths, size_t count,
                         struct error *error);
/* The sources of a pull's request: "~/x" and "" are the home directory's, others relative to the
 * current directory; with TRANSFER_WILDCARDS, * ? and [...] are expanded as a shell does (sorted,
 * hidden files only by a leading "."), a path that exists as written is taken as written, and a
 * pattern without a match is missing. */
bool operands_from_request(struct operands *operands, const struct transfer_request *request,
                           struct error *error);
void operands_release(struct operands *operands);

/* "" and "~" become the home directory, "~/x" a path in it; everything else is copied. The caller
 * frees; NULL and an error when there is no home directory. */
char *path_from_home(const char *path, struct error *error);

#endif
