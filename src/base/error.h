/* What went wrong, said once, where it is known.
 *
 * A function that can fail returns false (or NULL) and fills the caller's `struct error`; it
 * writes its outputs only on success. Nothing here prints: programs do.
 */
#ifndef PETREL_BASE_ERROR_H
#define PETREL_BASE_ERROR_H

#include <stdbool.h>

/* Formats follow C99 also on Windows, whose own printf knows no %zu. */
#ifdef __MINGW32__
#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(gnu_printf, format_index, first_index)))
#else
#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
#endif

enum error_kind {
    ERROR_NONE = 0,
    ERROR_USAGE,       /* the user asked for something impossible or unclear */
    ERROR_PROTOCOL,    /* the peer said something it may not say */
    ERROR_VERSION,     /* no common protocol version */
    ERROR_CRYPTO,      /* handshake refused, library failure */
    ERROR_VERIFY,      /* bytes differ from their hash */
    ERROR_IO,          /* a system call failed; os_errno says how */
    ERROR_NOT_FOUND,   /* a file or directory is missing */
    ERROR_PERMISSION,  /* not allowed */
    ERROR_NO_SPACE,    /* disk or quota full */
    ERROR_EXISTS,      /* something of another type is in the way */
    ERROR_CHANGED,     /* a source changed while it was read */
    ERROR_REFUSED,     /* the peer offered what was not asked for */
    ERROR_UNREACHABLE, /* no answer to any handshake packet */
    ERROR_PEER_LOST,   /* the peer fell silent; the result is unknown */
    ERROR_PEER,        /* the peer ended the transfer and gave this reason */
    ERROR_INTERRUPTED, /* a signal asked us to stop */
    ERROR_SSH,         /* ssh ended with an error of its own */
    ERROR_NO_REMOTE,   /* petrel is not installed at the far end */
    ERROR_MEMORY,
    ERROR_LIMIT, /* more would be deleted than --max-delete allows */
    ERROR_KIND_COUNT
};

struct error {
    enum error_kind kind;
    int os_errno; /* 0 when no system call is to blame */
    char text[480];
};

/* Fills `error` (may be NULL) unless it is already set: the first cause wins. Returns false, so
 * that a failing function can end in `return error_set(...)`. */
bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* As error_set, for a failed system call: `kind` follows from `os_errno` (ENOENT, EACCES, ENOSPC
 * and so on, ERROR_IO otherwise) and the system's text is appended after ": ". */
bool error_set_errno(struct error *error, int os_errno, const char *format, ...) PRINTF_LIKE(3, 4);

void error_clear(struct error *error);

/* A stable lower-case name ("no-space"), for JSON. */
const char *error_kind_name(enum error_kind kind);

#endif
