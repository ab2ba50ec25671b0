/* What a user and the system's administrator have set for a host beside the command line: in the
 * environment (PETREL_UDP_PORTS), in ~/.config/petrel/config (XDG_CONFIG_HOME is obeyed) and in
 * /etc/petrel/config. The first of these that says something of an option decides, of an option
 * that may be repeated all do, in this order; what the command line says comes before them.
 *
 * There is no list of settings: every long option is one, and means what it means there.
 */
#ifndef PETREL_CLI_SETTINGS_H
#define PETREL_CLI_SETTINGS_H

#include "cli/options/options.h"

#define SETTINGS_FILES 2
#define SETTINGS_NONE "none" /* in place of a file's name: no file is read */

/* Zeroed at the start; owns what the fields of options, and option_uses, borrow. */
struct settings {
    char *texts[SETTINGS_FILES];
    char *paths[SETTINGS_FILES];
    struct option_list expanded; /* values in which ~ was replaced; they are owned, too */
};

struct settings_wanted {
    const struct option *known; /* the options that are settings: copy's */
    /* Whether copy takes the value; every line is asked, also those for other hosts. */
    bool (*check)(const struct option *option, const char *value, struct error *error);
    const struct option *table; /* the command's own options */
    void *target;
    const char *host;   /* [user@]host */
    const char *config; /* the one file to read; NULL: PETREL_CONFIG, else the usual ones */
};

/* Sets the fields of `target` of which `uses` says nothing yet, and adds to it what was set. Errors
 * (ERROR_USAGE) begin with the file and line, or the variable. A file is refused that somebody else
 * may write; that there is none is no error, unless it was named. */
bool settings_take(struct settings *settings, const struct settings_wanted *wanted,
                   struct option_uses *uses, struct error *error);
void settings_release(struct settings *settings);

/* "PETREL_UDP_PORTS" for "udp-ports". */
#define SETTINGS_VARIABLE_MAX 64
const char *settings_variable(char name[SETTINGS_VARIABLE_MAX], const struct option *option);
/* Whether it has a key and a variable, of whatever effect. */
bool settings_has_key(const struct option *option);

#endif
