/* The static program that petrel install sends, and the hash that it is checked by. */
#ifndef PETREL_CLI_INSTALL_PROGRAM_H
#define PETREL_CLI_INSTALL_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "crypto/primitives.h"

#define SHA256_HEX_SIZE (2 * SHA256_SIZE + 1)

struct install_program {
    const uint8_t *bytes; /* the file, mapped */
    size_t size;
    char hash[SHA256_HEX_SIZE]; /* SHA-256, lower-case hex: what sha256sum prints */
};

/* Finds it: petrel-static beside the running program (the build tree), else
 * ../libexec/petrel/petrel-static from there, else the running program itself when it is static.
 * ERROR_NOT_FOUND when there is none. */
bool install_program_open(struct install_program *program, struct error *error);
/* Maps one file. ERROR_NOT_FOUND also when it is no static program. */
bool install_program_open_file(struct install_program *program, const char *path,
                               struct error *error);
void install_program_close(struct install_program *program);

/* True for an ELF program that asks for no interpreter, which is the loader of shared libraries.
 * Takes any bytes. Source: the System V ABI, "Program Header". */
bool program_is_static(const uint8_t *bytes, size_t size);

bool file_sha256(const char *path, char hash[SHA256_HEX_SIZE], struct error *error);

#endif
