/* Between C structs and flat JSON objects, by a table: one row a field, no code per struct.
 *
 * What is read comes from a peer: a number above its row's limit, a text too long for its field, or
 * a value of another type is an error; names that the table does not know are skipped, names that
 * are missing leave the field as it was.
 */
#ifndef PETREL_CLI_JSON_FIELDS_H
#define PETREL_CLI_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

enum field_kind {
    FIELD_U16,
    FIELD_U32, /* also unsigned and enums */
    FIELD_U64,
    FIELD_BOOL,
    FIELD_REAL,  /* double, finite */
    FIELD_TEXT,  /* char[size] */
    FIELD_HEX,   /* uint8_t[size]: exactly that many bytes */
    FIELD_PORTS, /* struct port_set: "60000-60007,60010" */
};

struct field {
    const char *name; /* NULL ends a table */
    enum field_kind kind;
    size_t offset, size;
    uint64_t limit; /* of numbers; 0: the type's own, at most 2^53 */
};

#define FIELD(type, member, kind, limit)                                                           \
    {                                                                                              \
#member, kind, offsetof(type, member), sizeof(((type *)0)->member), limit                  \
    }
#define FIELD_AS(name, type, member, kind, limit)                                                  \
    {                                                                                              \
        name, kind, offsetof(type, member), sizeof(((type *)0)->member), limit                     \
    }
#define FIELDS_END                                                                                 \
    {                                                                                              \
        NULL, FIELD_BOOL, 0, 0, 0                                                                  \
    }

/* A string; what is no UTF-8 is escaped as for people. */
json_t *json_text(const char *text);
/* Adds the fields of `from` to an object. Texts that are no UTF-8 are escaped as for people. */
void fields_write(json_t *object, const struct field *table, const void *from);
/* False with ERROR_PROTOCOL, `into` undefined. */
bool fields_read(void *into, const struct field *table, const json_t *object, struct error *error);

/* Reads a text of exactly so many bytes in lower-case hex. */
bool json_read_hex(const json_t *value, uint8_t *bytes, size_t size);

#endif
