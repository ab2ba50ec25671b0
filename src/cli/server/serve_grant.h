/* What a guest of a listening petrel may do: the directories that are offered, the key that it has
 * shown, and whether a request keeps within both.
 *
 * Decides on names only; that nothing leads out of a root is tree/jail's work.
 */
#ifndef PETREL_CLI_SERVE_GRANT_H
#define PETREL_CLI_SERVE_GRANT_H

#include "cli/files/file_job.h"
#include "keys/authorized_keys.h"
#include "tree/storage.h"

#define SERVE_ROOTS_MAX 64u

struct serve_root {
    char name[ROOT_NAME_MAX + 1];
    const char *path;         /* as it was given; borrowed */
    bool may_fetch, may_send; /* from and to it */
    int directory;            /* open; -1: not yet */
};

struct serve_roots {
    struct serve_root list[SERVE_ROOTS_MAX];
    size_t count;
};

/* "name=DIR", "name=DIR:ro" or "name=DIR:wo". `word` is borrowed. ERROR_USAGE. */
bool serve_roots_add(struct serve_roots *roots, const char *word, struct error *error);
/* Opens the directories. */
bool serve_roots_open(struct serve_roots *roots, struct error *error);
const struct serve_root *serve_roots_find(const struct serve_roots *roots, const char *name);

struct serve_grant {
    const struct serve_roots *roots;
    const struct authorized_key *key;
};

/* Whether a copy may be: `sends`, from us. ERROR_PERMISSION names what is not allowed; of roots
 * that there are not it says the same as of those that are not for this key. */
bool serve_grant_admits(const struct serve_grant *grant, bool sends,
                        const struct transfer_request *request, struct error *error);
/* The root of that index among those that the key may use; false: there is none any more. */
bool serve_grant_root(const struct serve_grant *grant, size_t index, struct file_job_root *root);
bool serve_grant_admits_job(const struct serve_grant *grant, const struct file_job *job,
                            struct error *error);
/* A sink for guests who may not learn what is there: it says that nothing is. */
const struct sink_ops *serve_blind_sink_ops(void);
/* Whether the push is by such a guest. */
bool serve_grant_is_blind(const struct serve_grant *grant, const struct transfer_request *request);

#endif
