/* The options of petrel copy, and the words that are no options. */
#ifndef PETREL_CLI_COPY_OPTIONS_H
#define PETREL_CLI_COPY_OPTIONS_H

#include <stdint.h>

#include "cli/options/filter_options.h"
#include "cli/options/operand.h"
#include "cli/options/send_policy.h"
#include "cli/options/settings.h"
#include "cli/options/ssh_options.h"

enum udp_use {
    UDP_AUTO,  /* with the way through ssh beside it */
    UDP_ONLY,  /* or not at all */
    UDP_NEVER, /* through ssh */
};

struct copy_options {
    struct ssh_options ssh;
    bool checksum, whole, in_place, verify_disk;
    const char *reference; /* --reference, or NULL */
    const char *manifest;  /* NULL: none; "-": to stdout; else a file */
    bool archive, owner, group, no_owner, no_group, no_specials, numeric_ids;
    bool devices, hard_links, sparse, xattrs, acls, no_perms, no_times;
    bool update, ignore_existing, existing, remove_source;
    bool delete_others, delete_excluded;
    uint64_t max_delete; /* UINT64_MAX: any number */
    bool no_memory;      /* neither use nor keep what is remembered of the path */
    bool quiet, dry_run, make_path, follow_links, install, help, version;
    int verbose;
    struct option_list remarks; /* lines about options that are not needed */
    struct filter_words filters;
    const char *files_from; /* NULL: none */
    bool recursive;         /* with --files-from */
    bool from_nul;          /* lists in files are separated by NUL */
    unsigned lanes;         /* 0: auto */
    uint16_t first_port, last_port;
    enum udp_use udp;
    uint64_t limit_bps;
    uint64_t retry_for_ns; /* 0: not at all */
    struct send_policy policy;
    const char *compress; /* as it was written; NULL: not */
    int squeeze_level;    /* -1: not, 0: auto */
    const char *json;     /* NULL: off; "": to stdout; else a file */
    struct operand *sources;
    size_t source_count;
    struct operand destination;
    bool push;               /* the destination is remote */
    bool stream;             /* "-": from standard input, or to standard output */
    const char *host;        /* borrowed from an operand */
    struct option_uses uses; /* what was said, by the command line and by settings */
    struct settings settings;
};

/* Parses and checks everything that can be checked before anything starts. */
bool copy_options_parse(struct copy_options *options, int argc, char **argv, struct error *error);
void copy_options_release(struct copy_options *options);
void copy_options_print_help(void);

/* The table, for who asks about options; they are the keys of settings, too. */
const struct option *copy_options_table(void);
/* What the option has where nothing was said, as options_set takes it; NULL: nothing. */
const char *copy_options_default(const struct option *option);
/* Whether the value is one; ERROR_USAGE says why not. */
bool copy_options_check(const struct option *option, const char *value, struct error *error);
/* For other commands: settings of copy's options that they have, too, for their own `table` and
 * options; `ssh` is what these begin with. */
bool copy_options_lend(struct settings *settings, const struct option *table,
                       struct ssh_options *ssh, const char *host, struct option_uses *uses,
                       struct error *error);
/* What a copy to or from `host` has without a command line but --config (NULL: none). */
bool copy_options_settle(struct copy_options *options, const char *host, const char *config,
                         struct error *error);

#endif
