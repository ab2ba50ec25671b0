#include "cli/report/exit_code.h"

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
        [ERROR_LIMIT] = EXIT_MAX_DELETE,
    };
    return kind < ERROR_KIND_COUNT ? codes[kind] : EXIT_PROTOCOL;
}

void failures_add(struct failures *failures, enum error_kind kind)
{
    if (failures->count++ == 0)
        failures->kind = kind;
    failures->mixed = failures->mixed || failures->kind != kind;
    failures->verify = failures->verify || kind == ERROR_VERIFY;
}

int exit_code_of_failures(const struct failures *failures, uint64_t others)
{
    if (failures->verify)
        return EXIT_VERIFY;
    if (failures->count == 0 || failures->mixed)
        return EXIT_PARTIAL;
    if (failures->kind == ERROR_CHANGED)
        return EXIT_VANISHED;
    if (failures->kind == ERROR_LIMIT)
        return EXIT_MAX_DELETE;
    return others == 0 ? exit_code_of(failures->kind) : EXIT_PARTIAL;
}
