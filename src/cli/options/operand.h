/* A source or destination as the user writes it: local path, [user@]host:path,
 * scp://[user@]host[:port]/path, or petrel://host[:port]/name/path at a listening petrel. */
#ifndef PETREL_CLI_OPERAND_H
#define PETREL_CLI_OPERAND_H

#include <stdbool.h>

#include "base/error.h"

struct operand {
    bool remote;
    bool listens; /* petrel://: a petrel that listens, and not ssh, is there */
    char *host;   /* as given to ssh: [user@]host, without IPv6 brackets */
    char *port;   /* scp:// and petrel:// only, else NULL */
    char *path;   /* "" for the remote home; petrel://: "name/path" */
};

/* A word is remote when a colon comes before any slash (scp's rule); "./a:b" is local. A host that
 * begins with '-' is refused. */
bool operand_parse(struct operand *operand, const char *word, struct error *error);
/* A host alone, as ssh has it; also as it stands in front of a path (host:, [::1]:,
 * scp://host:22/). */
bool operand_parse_host(struct operand *host, const char *word, struct error *error);
void operand_release(struct operand *operand);

#endif
