/* One JSON object as a command's whole answer (petrel doctor, petrel bench). */
#ifndef PETREL_CLI_JSON_REPORT_H
#define PETREL_CLI_JSON_REPORT_H

#include <stdio.h>

#include "cli/report/json_fields.h"

/* Texts that are no UTF-8 are escaped as for people; NULL is "". */
void json_report_text(json_t *object, const char *name, const char *text);
void json_report_number(json_t *object, const char *name, uint64_t number);
void json_report_object(json_t *object, const char *name, const struct field *table,
                        const void *from);
/* Where the object will go: `file`, emptied, or stdout for "". NULL when it cannot be written: to
 * be found out before anything is measured. */
FILE *json_report_open(const char *file, struct error *error);
/* Writes the object and a newline to what json_report_open gave, closes that unless it is stdout,
 * and releases the object. */
bool json_report_write_to(json_t *object, FILE *out, const char *file, struct error *error);
/* Both at once, for what takes no time. */
bool json_report_write(json_t *object, const char *file, struct error *error);

#endif
