/* What an entry may carry besides mode and time: its owner and extended attributes (which access
 * control lists are, too), as bytes of a packed block (docs/protocol.md, "Blocks").
 *
 * A sequence of items, each a varint tag and a sized body; tags that are not known are skipped.
 * Pure. What is read borrows from the bytes.
 */
#ifndef PETREL_TREE_ATTRIBUTES_H
#define PETREL_TREE_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"

#define ATTRIBUTES_MAX 65536u    /* bytes for one entry */
#define ATTRIBUTES_NAME_MAX 255u /* of a user, a group or an extended attribute */

enum attribute_kind { ATTRIBUTE_OWNER = 1, ATTRIBUTE_EXTENDED = 2 };

struct attribute {
    enum attribute_kind kind;
    uint32_t uid, gid;        /* OWNER; 2^32 - 1 means no id */
    const char *user, *group; /* OWNER: names at the sender, "" where it has none; no NUL behind */
    size_t user_size, group_size;
    const char *name; /* EXTENDED */
    size_t name_size;
    const uint8_t *value;
    size_t value_size;
};

/* The writer fails when there is no room, and nothing is checked: names as above, without NUL. */
void attributes_write(struct writer *writer, const struct attribute *attribute);

enum attributes_result { ATTRIBUTES_ITEM, ATTRIBUTES_END, ATTRIBUTES_INVALID };

/* The next item that is known. */
enum attributes_result attributes_next(struct reader *reader, struct attribute *attribute);
/* Whether the bytes are such a sequence, with at most one owner. */
bool attributes_valid(const uint8_t *bytes, size_t size);

#endif
