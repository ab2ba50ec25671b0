/* What petrel doctor prints: findings for people, or all of it as one JSON object. */
#ifndef PETREL_CLI_DOCTOR_PRINT_H
#define PETREL_CLI_DOCTOR_PRINT_H

#include <stdio.h>

#include "cli/measure/doctor_judge.h"

void doctor_print(const struct findings *findings);
/* To `out`, which json_report_open gave for `file`, and which is closed. False with the error when
 * it could not be written. */
bool doctor_print_json(const struct doctor_facts *facts, const struct findings *findings,
                       int exit_code, FILE *out, const char *file, struct error *error);

#endif
