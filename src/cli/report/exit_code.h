/* Exit codes: rsync's numbers where the meanings agree, 255 for ssh, petrel's own from 40. */
#ifndef PETREL_CLI_EXIT_CODE_H
#define PETREL_CLI_EXIT_CODE_H

#include <stdint.h>

#include "base/error.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_USAGE = 1,        /* the command line */
    EXIT_FILE_IO = 11,     /* a file or disk error on either side */
    EXIT_PROTOCOL = 12,    /* the two ends do not understand each other */
    EXIT_INTERRUPTED = 20, /* SIGINT, SIGTERM or SIGHUP */
    EXIT_PARTIAL = 23,     /* some files were not copied */
    EXIT_VANISHED = 24,    /* some source files vanished or changed while they were read */
    EXIT_MAX_DELETE = 25,
    EXIT_TIMEOUT = 30,     /* the peer fell silent */
    EXIT_UNREACHABLE = 40, /* no UDP packet got through */
    EXIT_VERIFY = 41,      /* bytes differ from their hash */
    EXIT_NO_REMOTE = 42,   /* petrel is missing over there, or of another version */
    EXIT_NO_SPACE = 43,
    EXIT_PERMISSION = 44,
    EXIT_REFUSED = 45, /* the peer sent what was not asked for */
    EXIT_CRYPTO = 46,
    EXIT_NOT_FOUND = 47, /* a source or a destination's folder is missing */
    EXIT_EXISTS = 48,    /* something of another type is in the way */
    EXIT_MEMORY = 49,
    EXIT_LOST = 50, /* all is there but something that was asked for besides */
    EXIT_SSH = 255
};

int exit_code_of(enum error_kind kind);

/* Single files that failed in a copy that went on. */
struct failures {
    uint64_t count;
    enum error_kind kind; /* the first one's */
    bool mixed;           /* there were others */
    bool verify;          /* one of them was ERROR_VERIFY */
};

void failures_add(struct failures *failures, enum error_kind kind);
/* `others`: files that were copied or skipped. When nothing but failures of one kind came of the
 * copy it ends as that failure would. */
int exit_code_of_failures(const struct failures *failures, uint64_t others);

#endif
