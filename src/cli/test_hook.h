/* A hook for tests of the real program: one byte flipped on its way, which must end as a
 * verification failure and never under a final name.
 *
 * PETREL_TEST_FLIP=reader|pool|write[:AFTER] in the environment, AFTER blocks from the start. Only
 * the program petrel-hooks listens to it (test_hook.c); petrel itself does not (test_hook_none.c).
 */
#ifndef PETREL_CLI_TEST_HOOK_H
#define PETREL_CLI_TEST_HOOK_H

#include <stdint.h>

#include "transfer/work.h"

/* FLIP_NONE without a hook. Ends the program when the variable is malformed. */
enum flip_place test_hook_flip(uint32_t *after);

#endif
