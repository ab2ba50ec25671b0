/* What petrel serve keeps of this machine once it is open for business (serve/confine.h): its
 * roots, the directory of authorized_keys, TMPDIR, and the control socket's place. */
#ifndef PETREL_CLI_SERVE_CONFINE_H
#define PETREL_CLI_SERVE_CONFINE_H

#include "cli/server/serve_grant.h"
#include "serve/confine.h"

/* `keys`: the file's name; `control`: the socket's, may be NULL. */
bool serve_confine(const struct serve_roots *roots, const char *keys, const char *control,
                   struct confine_done *done, struct error *error);
/* For the log: "confined by Landlock and seccomp", or what of it this kernel lacks. Returns
 * `text`. */
#define SERVE_CONFINE_TEXT 160
char *serve_confine_describe(char text[SERVE_CONFINE_TEXT], const struct confine_done *done);

#endif
