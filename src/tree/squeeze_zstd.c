#include <stdlib.h>
#include <zstd.h>

#include "tree/squeeze.h"

/* Each is made when it is first needed: a transfer uses one of them. */
struct squeezer {
    ZSTD_CCtx *packer;
    ZSTD_DCtx *unpacker;
};

bool squeeze_is_possible(void)
{
    return true;
}

struct squeezer *squeezer_new(void)
{
    return calloc(1, sizeof(struct squeezer));
}

void squeezer_free(struct squeezer *squeezer)
{
    if (squeezer == NULL)
        return;
    ZSTD_freeCCtx(squeezer->packer);
    ZSTD_freeDCtx(squeezer->unpacker);
    free(squeezer);
}

size_t squeezer_pack(struct squeezer *squeezer, unsigned level, const uint8_t *bytes, size_t size,
                     uint8_t *out, size_t capacity)
{
    if (squeezer->packer == NULL)
        squeezer->packer = ZSTD_createCCtx();
    if (squeezer->packer == NULL)
        return 0;
    size_t made = ZSTD_compressCCtx(squeezer->packer, out, capacity, bytes, size, (int)level);
    return ZSTD_isError(made) ? 0 : made;
}

bool squeezer_unpack(struct squeezer *squeezer, const uint8_t *bytes, size_t size, uint8_t *out,
                     size_t capacity, size_t *got)
{
    if (squeezer->unpacker == NULL)
        squeezer->unpacker = ZSTD_createDCtx();
    if (squeezer->unpacker == NULL)
        return false;
    size_t made = ZSTD_decompressDCtx(squeezer->unpacker, out, capacity, bytes, size);
    if (ZSTD_isError(made))
        return false;
    *got = made;
    return true;
}
