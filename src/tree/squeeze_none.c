#include "tree/squeeze.h"

bool squeeze_is_possible(void)
{
    return false;
}

struct squeezer *squeezer_new(void)
{
    return NULL;
}

void squeezer_free(struct squeezer *squeezer)
{
    (void)squeezer;
}

size_t squeezer_pack(struct squeezer *squeezer, unsigned level, const uint8_t *bytes, size_t size,
                     uint8_t *out, size_t capacity)
{
    (void)squeezer, (void)level, (void)bytes, (void)size, (void)out, (void)capacity;
    return 0;
}

bool squeezer_unpack(struct squeezer *squeezer, const uint8_t *bytes, size_t size, uint8_t *out,
                     size_t capacity, size_t *got)
{
    (void)squeezer, (void)bytes, (void)size, (void)out, (void)capacity, (void)got;
    return false;
}
