#include "cli/test_hook.h"

enum flip_place test_hook_flip(uint32_t *after)
{
    *after = 0;
    return FLIP_NONE;
}

void test_hook_measure(void)
{
}
