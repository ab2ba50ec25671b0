#include "cli/start/install_program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8
#define NATIVE_CLASS ELFCLASS64
typedef Elf64_Ehdr elf_header;
typedef Elf64_Phdr elf_segment;
#else
#define NATIVE_CLASS ELFCLASS32
typedef Elf32_Ehdr elf_header;
typedef Elf32_Phdr elf_segment;
#endif

bool program_is_static(const uint8_t *bytes, size_t size)
{
    elf_header header;
    if (size < sizeof(header))
        return false;
    memcpy(&header, bytes, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != NATIVE_CLASS ||
        (header.e_type != ET_EXEC && header.e_type != ET_DYN) ||
        header.e_phentsize != sizeof(elf_segment))
        return false;
    bool loads = false;
    for (size_t i = 0; i < header.e_phnum; i++) {
        elf_segment segment;
        if (header.e_phoff > size || (size - header.e_phoff) / sizeof(segment) <= i)
            return false;
        memcpy(&segment, bytes + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_INTERP)
            return false;
        loads = loads || segment.p_type == PT_LOAD;
    }
    return loads;
}

/* ---- files ---- */

/* An empty file gives size 0 and no bytes. */
static bool map_file(const char *path, const uint8_t **bytes, size_t *size, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(error, errno, "cannot open %s", path);
    struct stat status;
    void *map = NULL;
    bool good = fstat(fd, &status) == 0 || error_set_errno(error, errno, "cannot read %s", path);
    if (good && !S_ISREG(status.st_mode))
        good = error_set(error, ERROR_USAGE, "%s is no regular file", path);
    if (good && status.st_size > 0) {
        map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        good = map != MAP_FAILED || error_set_errno(error, errno, "cannot read %s", path);
    }
    close(fd);
    if (good) {
        *bytes = map;
        *size = (size_t)status.st_size;
    }
    return good;
}

static void unmap_file(const uint8_t *bytes, size_t size)
{
    if (bytes != NULL)
        munmap((void *)(uintptr_t)bytes, size);
}

static bool hash_bytes(const uint8_t *bytes, size_t size, char hex[SHA256_HEX_SIZE],
                       struct error *error)
{
    uint8_t hash[SHA256_SIZE];
    if (!sha256(size > 0 ? (const void *)bytes : "", size, hash))
        return error_set(error, ERROR_CRYPTO, "the library cannot compute a SHA-256");
    for (size_t i = 0; i < SHA256_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    return true;
}

bool file_sha256(const char *path, char hash[SHA256_HEX_SIZE], struct error *error)
{
    const uint8_t *bytes;
    size_t size;
    if (!map_file(path, &bytes, &size, error))
        return false;
    bool good = hash_bytes(bytes, size, hash, error);
    unmap_file(bytes, size);
    return good;
}

/* ---- which program ---- */

bool install_program_open_file(struct install_program *program, const char *path,
                               struct error *error)
{
    struct install_program found = {.bytes = NULL};
    if (!map_file(path, &found.bytes, &found.size, error))
        return false;
    bool good = program_is_static(found.bytes, found.size) ||
                error_set(error, ERROR_NOT_FOUND, "%s is no static program", path);
    good = good && hash_bytes(found.bytes, found.size, found.hash, error);
    if (good)
        *program = found;
    else
        unmap_file(found.bytes, found.size);
    return good;
}

void install_program_close(struct install_program *program)
{
    unmap_file(program->bytes, program->size);
    *program = (struct install_program){0};
}

bool install_program_open(struct install_program *program, struct error *error)
{
    static const char *const places[] = {"petrel-static", "../libexec/petrel/petrel-static"};
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own));
    if (length <= 0 || (size_t)length >= sizeof(own))
        return error_set(error, ERROR_NOT_FOUND, "cannot tell where this program lies (no /proc?)");
    own[length] = '\0';
    int folder = (int)(strrchr(own, '/') - own);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char path[2 * PATH_MAX];
        snprintf(path, sizeof(path), "%.*s/%s", folder, own, places[i]);
        if (install_program_open_file(program, path, NULL))
            return true;
    }
    if (install_program_open_file(program, "/proc/self/exe", NULL))
        return true;
    return error_set(error, ERROR_NOT_FOUND,
                     "this petrel came without petrel-static, the program to send (looked in %.*s "
                     "and its ../libexec/petrel): install petrel over there by other means, or "
                     "build it here with meson's -Dstatic=enabled",
                     folder, own);
}
