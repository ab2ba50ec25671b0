#include "cli/test_hook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/report/exit_code.h"
#include "measure/disk_speed.h"
#include "measure/machine.h"
#include "net/driver.h"
#include "net/udp.h"

enum flip_place test_hook_flip(uint32_t *after)
{
    static const struct {
        const char *name;
        enum flip_place place;
    } places[] = {{"reader", FLIP_READER}, {"pool", FLIP_POOL}, {"write", FLIP_WRITE}};
    const char *text = getenv("PETREL_TEST_FLIP");
    *after = 0;
    if (text == NULL)
        return FLIP_NONE;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        size_t length = strlen(places[i].name);
        uint64_t blocks = 0;
        if (strncmp(text, places[i].name, length) == 0 &&
            (text[length] == '\0' ||
             (text[length] == ':' &&
              parse_unsigned(text + length + 1, UINT32_MAX, &blocks, NULL)))) {
            *after = (uint32_t)blocks;
            return places[i].place;
        }
    }
    fprintf(stderr, "petrel: PETREL_TEST_FLIP is reader, pool or write, and :BLOCKS\n");
    exit(EXIT_USAGE);
}

void test_hook_measure(void)
{
    uint64_t number;
    const char *idle = getenv("PETREL_TEST_IDLE");
    const char *buffer = getenv("PETREL_TEST_BUFFER"), *disk = getenv("PETREL_TEST_DISK");
    if (getenv("PETREL_TEST_NO_AES") != NULL)
        machine_test_without_aes();
    if (getenv("PETREL_TEST_NO_OFFLOAD") != NULL)
        udp_test_break_segmentation(EIO, 1);
    if (buffer != NULL && parse_unsigned(buffer, UINT32_MAX, &number, NULL))
        udp_test_buffer_bytes((unsigned)number);
    if (idle != NULL && parse_time(idle, &number, NULL))
        driver_test_idle(number);
    if (disk != NULL && parse_rate(disk, &number, NULL))
        disk_test_slow(number);
}

bool test_hook_storage(bool sends, const struct transfer_request *request, struct storage *storage)
{
    (void)sends;
    (void)request;
    (void)storage;
    return false;
}
