#include "unit.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/start/install_program.h"

/* A program of two segments, as far as anyone looks at it here. */
struct program {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
};

static struct program make_program(uint32_t second)
{
    struct program program = {.header = {.e_type = ET_EXEC,
                                         .e_phoff = offsetof(struct program, segments),
                                         .e_phentsize = sizeof(Elf64_Phdr),
                                         .e_phnum = 2},
                              .segments = {{.p_type = PT_LOAD}, {.p_type = second}}};
    memcpy(program.header.e_ident, ELFMAG, SELFMAG);
    program.header.e_ident[EI_CLASS] = ELFCLASS64;
    return program;
}

static bool is_static(const struct program *program, size_t size)
{
    return program_is_static((const uint8_t *)program, size);
}

static void test_static_programs(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        skip();
    struct program program = make_program(PT_NOTE);
    for (size_t size = 0; size <= sizeof(program); size++)
        assert_int_equal(is_static(&program, size), size == sizeof(program));
    program.header.e_type = ET_DYN; /* one that may lie anywhere */
    assert_true(is_static(&program, sizeof(program)));
    program.header.e_type = ET_REL;
    assert_false(is_static(&program, sizeof(program)));
    program = make_program(PT_INTERP);
    assert_false(is_static(&program, sizeof(program)));
    program = make_program(PT_NOTE);
    program.segments[0].p_type = PT_NOTE;
    assert_false(is_static(&program, sizeof(program)));
}

static void test_headers_that_lie(void **state)
{
    (void)state;
    struct program program = make_program(PT_NOTE);
    static const uint64_t offsets[] = {1, sizeof(program), UINT64_MAX, UINT64_MAX - 56};
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        program.header.e_phoff = offsets[i];
        is_static(&program, sizeof(program));
    }
    program = make_program(PT_NOTE);
    program.header.e_phnum = UINT16_MAX;
    assert_false(is_static(&program, sizeof(program)));
    program = make_program(PT_NOTE);
    program.header.e_phentsize = 1;
    assert_false(is_static(&program, sizeof(program)));
    assert_false(program_is_static((const uint8_t *)"#!/bin/sh\n", 10));
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "install_program.XXXXXX";
    char hash[SHA256_HEX_SIZE];
    struct error error = {0};
    struct install_program program = {.size = 0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    /* Of no bytes and of "abc": FIPS 180-2, appendix B.1. */
    assert_true(file_sha256(path, hash, &error));
    assert_string_equal(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(write(fd, "abc", 3), 3);
    assert_true(file_sha256(path, hash, &error));
    assert_string_equal(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_false(install_program_open_file(&program, path, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    error_clear(&error);
    unlink(path);
    close(fd);
    assert_false(file_sha256(path, hash, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    error_clear(&error);
    assert_false(file_sha256(".", hash, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    install_program_close(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static_programs),
        cmocka_unit_test(test_headers_that_lie),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
