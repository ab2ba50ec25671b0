#include "lab/sim_storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64's output function: eight bytes of content from their place. */
static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void sim_files_content(const struct sim_files *files, uint32_t file, uint64_t offset,
                       uint8_t *bytes, size_t size)
{
    uint64_t base = mix(files->seed ^ mix(file));
    size_t at = 0;
    while (at + 8 <= size && (offset + at) % 8 == 0) {
        uint64_t word = mix(base + (offset + at) / 8);
        for (size_t i = 0; i < 8; i++)
            bytes[at + i] = (uint8_t)(word >> (8 * i));
        at += 8;
    }
    while (at < size) {
        uint64_t place = offset + at;
        uint64_t word = mix(base + place / 8);
        size_t skip = (size_t)(place % 8);
        size_t step = 8 - skip < size - at ? 8 - skip : size - at;
        for (size_t i = 0; i < step; i++)
            bytes[at + i] = (uint8_t)(word >> (8 * (skip + i)));
        at += step;
    }
}

void sim_file_path(uint32_t file, char *path)
{
    snprintf(path, SIM_PATH_SIZE, "d%u/f%u", file / 1000, file);
}

uint32_t sim_file_index(const char *path)
{
    const char *name = strchr(path, '/');
    if (name == NULL || name[1] != 'f')
        return SIM_NO_FILE;
    char *end;
    unsigned long file = strtoul(name + 2, &end, 10);
    char again[SIM_PATH_SIZE];
    sim_file_path((uint32_t)file, again);
    return *end == 0 && strcmp(path, again) == 0 ? (uint32_t)file : SIM_NO_FILE;
}
