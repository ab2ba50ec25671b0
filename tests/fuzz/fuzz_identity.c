/* Identity files: what is taken is one key whose public half follows from its secret one, and no
 * error quotes the secret. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/ed25519.h"
#include "keys/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct identity identity;
    struct error error = {0};
    uint8_t key[KEY_SIZE];
    if (!identity_parse((const char *)data, size, "F", &identity, &error)) {
        require(error.kind == ERROR_USAGE && error.text[0] == 'F');
        return 0;
    }
    require(ed25519_public_key(identity.seed, key, &error));
    require(memcmp(key, identity.key, KEY_SIZE) == 0);
    require(strlen(identity.comment) < KEY_COMMENT_MAX);
    return 0;
}
