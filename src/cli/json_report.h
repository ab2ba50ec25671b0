/* One JSON object as a command's whole answer (petrel doctor, petrel bench). */
#ifndef PETREL_CLI_JSON_REPORT_H
#define PETREL_CLI_JSON_REPORT_H

#include "cli/json_fields.h"

/* Texts that are no UTF-8 are escaped as for people; NULL is "". */
void json_report_text(json_t *object, const char *name, const char *text);
void json_report_number(json_t *object, const char *name, uint64_t number);
void json_report_object(json_t *object, const char *name, const struct field *table,
                        const void *from);
/* Writes the object and a newline to `file`, or to stdout for "", and releases it. */
bool json_report_write(json_t *object, const char *file, struct error *error);

#endif
