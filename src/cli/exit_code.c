#include "cli/exit_code.h"

int exit_code_of(enum error_kind kind)
{
    static const int codes[ERROR_KIND_COUNT] = {
        [ERROR_NONE] = EXIT_OK,
        [ERROR_USAGE] = EXIT_USAGE,
        [ERROR_PROTOCOL] = EXIT_PROTOCOL,
        [ERROR_VERSION] = EXIT_NO_REMOTE,
        [ERROR_CRYPTO] = EXIT_CRYPTO,
        [ERROR_VERIFY] = EXIT_VERIFY,
        [ERROR_IO] = EXIT_FILE_IO,
        [ERROR_NOT_FOUND] = EXIT_NOT_FOUND,
        [ERROR_PERMISSION] = EXIT_PERMISSION,
        [ERROR_NO_SPACE] = EXIT_NO_SPACE,
        [ERROR_EXISTS] = EXIT_EXISTS,
        [ERROR_CHANGED] = EXIT_VANISHED,
        [ERROR_REFUSED] = EXIT_REFUSED,
        [ERROR_UNREACHABLE] = EXIT_UNREACHABLE,
        [ERROR_PEER_LOST] = EXIT_TIMEOUT,
        [ERROR_PEER] = EXIT_PROTOCOL,
        [ERROR_INTERRUPTED] = EXIT_INTERRUPTED,
        [ERROR_SSH] = EXIT_SSH,
        [ERROR_NO_REMOTE] = EXIT_NO_REMOTE,
        [ERROR_MEMORY] = EXIT_MEMORY,
    };
    return kind < ERROR_KIND_COUNT ? codes[kind] : EXIT_PROTOCOL;
}
