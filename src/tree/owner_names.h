/* Names of users and groups for their numbers, and back, as this machine knows them; what was asked
 * for lately is remembered, in memory that does not grow. */
#ifndef PETREL_TREE_OWNER_NAMES_H
#define PETREL_TREE_OWNER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tree/attributes.h"

struct owner_names;

/* NULL without memory. */
struct owner_names *owner_names_new(void);
void owner_names_free(struct owner_names *names);
/* The name, "" when there is none; valid until the next call for a user (or for a group). */
const char *owner_name(struct owner_names *names, bool group, uint32_t id);
/* The number that `name` has here; `id`, the number it had elsewhere, when it has none here or is
 * empty. Number 0 stays 0: root is root everywhere. */
uint32_t owner_id(struct owner_names *names, bool group, uint32_t id, const char *name,
                  size_t size);

#endif
