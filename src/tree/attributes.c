#include "tree/attributes.h"

#include <string.h>

static size_t varint_size(uint64_t value)
{
    size_t size = 1;
    while (value >= 128) {
        value >>= 7;
        size++;
    }
    return size;
}

static size_t sized_size(size_t size)
{
    return varint_size(size) + size;
}

static size_t body_size(const struct attribute *attribute)
{
    if (attribute->kind == ATTRIBUTE_OWNER)
        return varint_size(attribute->uid) + sized_size(attribute->user_size) +
               varint_size(attribute->gid) + sized_size(attribute->group_size);
    return sized_size(attribute->name_size) + sized_size(attribute->value_size);
}

void attributes_write(struct writer *writer, const struct attribute *attribute)
{
    write_varint(writer, attribute->kind);
    write_varint(writer, body_size(attribute));
    if (attribute->kind == ATTRIBUTE_OWNER) {
        write_varint(writer, attribute->uid);
        write_sized(writer, attribute->user, attribute->user_size);
        write_varint(writer, attribute->gid);
        write_sized(writer, attribute->group, attribute->group_size);
    } else {
        write_sized(writer, attribute->name, attribute->name_size);
        write_sized(writer, attribute->value, attribute->value_size);
    }
}

static const char *read_name(struct reader *reader, size_t *size)
{
    const uint8_t *bytes = read_sized(reader, ATTRIBUTES_NAME_MAX, size);
    if (bytes != NULL && *size > 0 && memchr(bytes, 0, *size) != NULL)
        reader->failed = true;
    return bytes != NULL && *size > 0 ? (const char *)bytes : "";
}

static uint32_t read_id(struct reader *reader)
{
    uint64_t id = read_varint(reader);
    if (id > UINT32_MAX)
        reader->failed = true;
    return (uint32_t)id;
}

static void read_body(struct reader *reader, struct attribute *attribute)
{
    if (attribute->kind == ATTRIBUTE_OWNER) {
        attribute->uid = read_id(reader);
        attribute->user = read_name(reader, &attribute->user_size);
        attribute->gid = read_id(reader);
        attribute->group = read_name(reader, &attribute->group_size);
        return;
    }
    attribute->name = read_name(reader, &attribute->name_size);
    attribute->value = read_sized(reader, ATTRIBUTES_MAX, &attribute->value_size);
    if (attribute->name_size == 0)
        reader->failed = true;
}

enum attributes_result attributes_next(struct reader *reader, struct attribute *attribute)
{
    while (reader_left(reader) > 0) {
        uint64_t tag = read_varint(reader);
        size_t size = 0;
        const uint8_t *body = read_sized(reader, ATTRIBUTES_MAX, &size);
        if (body == NULL || reader->failed)
            return ATTRIBUTES_INVALID;
        if (tag != ATTRIBUTE_OWNER && tag != ATTRIBUTE_EXTENDED)
            continue;
        struct reader inner = reader_of(body, size);
        *attribute = (struct attribute){.kind = (enum attribute_kind)tag};
        read_body(&inner, attribute);
        return reader_finished(&inner) ? ATTRIBUTES_ITEM : ATTRIBUTES_INVALID;
    }
    return ATTRIBUTES_END;
}

bool attributes_valid(const uint8_t *bytes, size_t size)
{
    struct reader reader = reader_of(bytes, size);
    struct attribute attribute;
    enum attributes_result result;
    unsigned owners = 0;
    while ((result = attributes_next(&reader, &attribute)) == ATTRIBUTES_ITEM)
        owners += attribute.kind == ATTRIBUTE_OWNER;
    return result == ATTRIBUTES_END && owners <= 1;
}
