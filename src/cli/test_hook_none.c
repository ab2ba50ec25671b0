#include "cli/test_hook.h"

enum flip_place test_hook_flip(uint32_t *after)
{
    *after = 0;
    return FLIP_NONE;
}

void test_hook_measure(void)
{
}

bool test_hook_storage(bool sends, const struct transfer_request *request, struct storage *storage)
{
    (void)sends;
    (void)request;
    (void)storage;
    return false;
}
