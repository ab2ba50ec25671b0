/* Network namespaces that live as long as somebody holds them: made without names or mounts, so
 * that they vanish with the last process or descriptor. Root makes them directly, others inside a
 * user namespace of their own.
 */
#ifndef PETREL_LAB_LINK_SPACE_H
#define PETREL_LAB_LINK_SPACE_H

#include <stdbool.h>

#include "base/error.h"

/* Makes sure that this process may make network namespaces: without root it moves into a new user
 * namespace, where it is root. Single-threaded processes only. */
bool link_space_prepare(struct error *error);
/* Moves into a new network namespace and returns a descriptor that holds it, or -1. */
int link_space_new(struct error *error);
/* Moves into the network namespace that `path` names (and the user namespace that owns it). */
bool link_space_enter(const char *path, struct error *error);

#endif
