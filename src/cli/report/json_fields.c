#include "cli/report/json_fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/port_set.h"
#include "tree/display.h"

#define WHOLE_MOST (UINT64_C(1) << 53) /* what every reader of JSON keeps exactly */
#define PORTS_TEXT_MAX 16384u

/* ---- writing ---- */

json_t *json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    char shown[4 * 1024];
    return json_string(display_name(shown, sizeof(shown), text));
}

static json_t *hex_value(const uint8_t *bytes, size_t size)
{
    char text[2 * 64 + 1] = "";
    for (size_t i = 0; i < size && i < 64; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

static json_t *number_value(uint64_t number)
{
    return json_integer((json_int_t)(number < WHOLE_MOST ? number : WHOLE_MOST));
}

static json_t *field_value(const struct field *field, const void *at)
{
    char ports[PORTS_TEXT_MAX];
    switch (field->kind) {
    case FIELD_U16:
        return number_value(*(const uint16_t *)at);
    case FIELD_U32:
        return number_value(*(const uint32_t *)at);
    case FIELD_U64:
        return number_value(*(const uint64_t *)at);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_REAL:
        return json_real(isfinite(*(const double *)at) ? *(const double *)at : 0);
    case FIELD_TEXT:
        return json_text(at);
    case FIELD_HEX:
        return hex_value(at, field->size);
    case FIELD_PORTS:
        return json_string(port_set_format(ports, sizeof(ports), at));
    }
    return NULL;
}

void fields_write(json_t *object, const struct field *table, const void *from)
{
    for (; table->name != NULL; table++)
        json_object_set_new(object, table->name,
                            field_value(table, (const char *)from + table->offset));
}

/* ---- reading ---- */

static bool read_number(const struct field *field, const json_t *value, uint64_t *number)
{
    uint64_t limit = field->kind == FIELD_U16   ? UINT16_MAX
                     : field->kind == FIELD_U32 ? UINT32_MAX
                                                : WHOLE_MOST;
    if (field->limit != 0)
        limit = field->limit;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return *number <= limit;
}

static bool read_text(const struct field *field, const json_t *value, char *text)
{
    const char *said = json_string_value(value);
    if (said == NULL || json_string_length(value) >= field->size ||
        strlen(said) != json_string_length(value))
        return false;
    snprintf(text, field->size, "%s", said);
    return true;
}

static int hex_digit(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit != '\0' ? strchr(digits, digit) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

bool json_read_hex(const json_t *value, uint8_t *bytes, size_t size)
{
    const char *said = json_string_value(value);
    if (said == NULL || json_string_length(value) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(said[2 * i]), low = hex_digit(said[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_field(const struct field *field, const json_t *value, void *at)
{
    uint64_t number = 0;
    switch (field->kind) {
    case FIELD_U16:
        if (!read_number(field, value, &number))
            return false;
        *(uint16_t *)at = (uint16_t)number;
        return true;
    case FIELD_U32:
        if (!read_number(field, value, &number))
            return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    case FIELD_U64:
        return read_number(field, value, at);
    case FIELD_BOOL:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value);
    case FIELD_REAL:
        *(double *)at = json_number_value(value);
        return json_is_number(value) && isfinite(*(double *)at);
    case FIELD_TEXT:
        return read_text(field, value, at);
    case FIELD_HEX:
        return json_read_hex(value, at, field->size);
    case FIELD_PORTS:
        return json_is_string(value) && port_set_parse(at, json_string_value(value));
    }
    return false;
}

bool fields_read(void *into, const struct field *table, const json_t *object, struct error *error)
{
    for (; table->name != NULL; table++) {
        const json_t *value = json_object_get(object, table->name);
        if (value != NULL && !read_field(table, value, (char *)into + table->offset))
            return error_set(error, ERROR_PROTOCOL, "\"%s\" has no value that it can have",
                             table->name);
    }
    return true;
}
