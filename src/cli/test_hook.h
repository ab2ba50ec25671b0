/* Hooks for tests of the real program, in the environment. Only the program petrel-hooks listens to
 * them (test_hook.c); petrel itself does not (test_hook_none.c).
 *
 * PETREL_TEST_FLIP=reader|pool|write[:AFTER]: one byte flipped on its way, AFTER blocks from the
 * start, which must end as a verification failure and never under a final name.
 * For measurements and copies: PETREL_TEST_NO_AES=1 a processor without AES instructions,
 * PETREL_TEST_BUFFER= BYTES all that the system grants to a socket, PETREL_TEST_NO_OFFLOAD=1 no
 * trains, PETREL_TEST_DISK= RATE a slow disk, PETREL_TEST_IDLE= TIME how long a session may be
 * silent.
 */
#ifndef PETREL_CLI_TEST_HOOK_H
#define PETREL_CLI_TEST_HOOK_H

#include <stdint.h>

#include "transfer/work.h"

/* FLIP_NONE without a hook. Ends the program when the variable is malformed. */
enum flip_place test_hook_flip(uint32_t *after);
/* Plants what is asked for in this process. */
void test_hook_measure(void);
/* Whether other storage takes the place of files: tests/e2e/hostile.c. */
bool test_hook_storage(bool sends, const struct transfer_request *request, struct storage *storage);

#endif
