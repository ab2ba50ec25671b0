#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static bool is_open(const struct error *error)
{
    return error != NULL && error->kind == ERROR_NONE;
}

static void fill(struct error *error, enum error_kind kind, int os_errno, const char *format,
                 va_list arguments)
{
    error->kind = kind;
    error->os_errno = os_errno;
    if (vsnprintf(error->text, sizeof error->text, format, arguments) < 0)
        error->text[0] = '\0';
}

bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
{
    if (!is_open(error))
        return false;
    va_list arguments;
    va_start(arguments, format);
    fill(error, kind, 0, format, arguments);
    va_end(arguments);
    return false;
}

static enum error_kind kind_of_errno(int os_errno)
{
    switch (os_errno) {
    case ENOENT:
    case ENOTDIR:
        return ERROR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERROR_PERMISSION;
    case ENOSPC:
#ifdef EDQUOT
    case EDQUOT:
#endif
        return ERROR_NO_SPACE;
    case EEXIST:
    case EISDIR:
    case ENOTEMPTY:
        return ERROR_EXISTS;
    case ENOMEM:
        return ERROR_MEMORY;
    case EINTR:
        return ERROR_INTERRUPTED;
    default:
        return ERROR_IO;
    }
}

bool error_set_errno(struct error *error, int os_errno, const char *format, ...)
{
    if (!is_open(error))
        return false;
    va_list arguments;
    va_start(arguments, format);
    fill(error, kind_of_errno(os_errno), os_errno, format, arguments);
    va_end(arguments);
    size_t length = strlen(error->text);
    snprintf(error->text + length, sizeof error->text - length, ": %s", strerror(os_errno));
    return false;
}

void error_clear(struct error *error)
{
    if (error != NULL)
        *error = (struct error){.kind = ERROR_NONE};
}

const char *error_kind_name(enum error_kind kind)
{
    static const char *const names[ERROR_KIND_COUNT] = {
        [ERROR_NONE] = "none",
        [ERROR_USAGE] = "usage",
        [ERROR_PROTOCOL] = "protocol",
        [ERROR_VERSION] = "version",
        [ERROR_CRYPTO] = "crypto",
        [ERROR_VERIFY] = "verify",
        [ERROR_IO] = "io",
        [ERROR_NOT_FOUND] = "not-found",
        [ERROR_PERMISSION] = "permission",
        [ERROR_NO_SPACE] = "no-space",
        [ERROR_EXISTS] = "exists",
        [ERROR_CHANGED] = "changed",
        [ERROR_REFUSED] = "refused",
        [ERROR_UNREACHABLE] = "unreachable",
        [ERROR_PEER_LOST] = "peer-lost",
        [ERROR_PEER] = "peer",
        [ERROR_INTERRUPTED] = "interrupted",
        [ERROR_SSH] = "ssh",
        [ERROR_NO_REMOTE] = "no-remote",
        [ERROR_MEMORY] = "memory",
        [ERROR_LIMIT] = "limit",
    };
    /* The kind may come from a peer: any number must be safe. */
    unsigned index = (unsigned)kind;
    return index < ERROR_KIND_COUNT && names[index] != NULL ? names[index] : "unknown";
}
