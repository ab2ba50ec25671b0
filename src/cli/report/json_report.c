#include "cli/report/json_report.h"

#include <errno.h>
#include <stdio.h>

void json_report_text(json_t *object, const char *name, const char *text)
{
    const struct field fields[] = {{name, FIELD_TEXT, 0, 0, 0}, FIELDS_END};
    fields_write(object, fields, text != NULL ? text : "");
}

void json_report_number(json_t *object, const char *name, uint64_t number)
{
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

void json_report_object(json_t *object, const char *name, const struct field *table,
                        const void *from)
{
    json_t *inner = json_object();
    fields_write(inner, table, from);
    json_object_set_new(object, name, inner);
}

static bool print_all(const json_t *object, FILE *out, const char *file, struct error *error)
{
    bool good =
        json_dumpf(object, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) == 0 &&
        fputc('\n', out) == '\n' && fflush(out) == 0;
    return good || error_set_errno(error, errno, "cannot write the report to %s",
                                   file[0] != '\0' ? file : "stdout");
}

FILE *json_report_open(const char *file, struct error *error)
{
    FILE *out = file[0] != '\0' ? fopen(file, "we") : stdout;
    if (out == NULL)
        error_set_errno(error, errno, "cannot write %s", file);
    return out;
}

bool json_report_write_to(json_t *object, FILE *out, const char *file, struct error *error)
{
    bool good = print_all(object, out, file, error);
    if (out != stdout)
        fclose(out);
    json_decref(object);
    return good;
}

bool json_report_write(json_t *object, const char *file, struct error *error)
{
    FILE *out = json_report_open(file, error);
    if (out != NULL)
        return json_report_write_to(object, out, file, error);
    json_decref(object);
    return false;
}
