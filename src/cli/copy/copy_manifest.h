/* petrel copy --manifest: what was delivered, as a manifest, made at this end once the copy has
 * ended. Hashes come from the copy's own events; only files that were skipped unread are read. */
#ifndef PETREL_CLI_COPY_MANIFEST_H
#define PETREL_CLI_COPY_MANIFEST_H

#include "transfer/transfer.h"

struct copy_manifest;

/* Opens `file` for writing ("-": stdout), so that it fails early. NULL and an error. */
struct copy_manifest *copy_manifest_new(const char *file, struct error *error);
void copy_manifest_free(struct copy_manifest *manifest);
/* Of every file that is done or skipped. */
void copy_manifest_event(struct copy_manifest *manifest, const struct transfer_event *event);
/* A pull: the names that come and the destination, as the sink is opened with them. */
void copy_manifest_set_names(struct copy_manifest *manifest,
                             const struct transfer_request *request);
/* Writes it. `request`: the copy's own; `sources`: a push's operands, in the user's order, else
 * NULL. `problem` is told of what could not be read again. False with an error. */
bool copy_manifest_write(struct copy_manifest *manifest, const struct transfer_request *request,
                         const char *const *sources, size_t source_count,
                         void (*problem)(void *, const char *, const struct error *), void *context,
                         struct error *error);

#endif
