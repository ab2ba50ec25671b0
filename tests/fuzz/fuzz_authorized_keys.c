/* authorized_keys as administrators write it: what is taken keeps its promises, and errors name a
 * line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "keys/authorized_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool is_good(void *context, const char *root)
{
    (void)context;
    return root_name_is_good(root, strlen(root));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = {0};
    char name[ROOT_NAME_MAX + 1];
    struct authorized_keys *keys = authorized_keys_parse((const char *)data, size, "F", &error);
    if (keys == NULL) {
        require(error.kind == ERROR_USAGE && strncmp(error.text, "F:", 2) == 0);
        return 0;
    }
    require(error.kind == ERROR_NONE);
    for (size_t i = 0; i < authorized_keys_count(keys); i++) {
        const struct authorized_key *key = authorized_keys_at(keys, i);
        require(authorized_keys_find(keys, key->key) == key);
        require(key->may_fetch || key->may_send);
        require(!authorized_key_unknown_root(key, is_good, NULL, name));
        require(key->line > 0 && strlen(key->comment) < KEY_COMMENT_MAX);
        require(key->roots == NULL || !authorized_key_admits_root(key, ""));
    }
    authorized_keys_free(keys);
    return 0;
}
