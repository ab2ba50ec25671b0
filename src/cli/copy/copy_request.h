/* What the options of a copy ask for, as the request that travels. */
#ifndef PETREL_CLI_COPY_REQUEST_H
#define PETREL_CLI_COPY_REQUEST_H

#include "cli/options/copy_options.h"
#include "tree/file_list.h"
#include "tree/request.h"

/* What options name and only files (perhaps standard input) say: read once, for all tries. */
struct copy_lists {
    struct filter filter;
    struct file_list *files; /* of --files-from, NULL without */
};

/* Fills the zeroed `lists`, which the caller releases also on failure. */
bool copy_lists_read(const struct copy_options *options, struct copy_lists *lists,
                     struct error *error);
void copy_lists_release(struct copy_lists *lists);
/* Fills the zeroed `request` but for a push's names, which its source adds. */
bool copy_request_fill(const struct copy_options *options, const struct copy_lists *lists,
                       struct transfer_request *request, struct error *error);
/* A source's path as it is asked for: with --files-from a directory's contents. The caller frees.
 */
char *copy_request_path(const struct copy_options *options, size_t source);

#endif
