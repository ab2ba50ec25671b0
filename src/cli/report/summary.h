/* The last lines of a copy for people: how much, how fast, what held it back. */
#ifndef PETREL_CLI_SUMMARY_H
#define PETREL_CLI_SUMMARY_H

#include "transfer/transfer.h"

struct summary_file { /* of a copy of one file */
    bool known;
    uint8_t hash[32];
    char name[256]; /* as it may be printed */
};

/* Whose limits there may be. */
struct summary_limits {
    bool own;    /* --limit, or a fixed rate */
    bool guests; /* of a listening petrel, which keeps them by what it takes */
};

/* Writes lines, each ended by a newline, to `text`. Returns `text`. */
char *summary_text(char *text, size_t capacity, const struct transfer_progress *progress,
                   const struct summary_file *file, const struct summary_limits *limits,
                   uint64_t command_ns);
/* The same after a dry run: what would move. */
char *summary_dry_run(char *text, size_t capacity, const struct transfer_progress *progress,
                      uint64_t files, uint64_t bytes);

#endif
