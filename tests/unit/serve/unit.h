/* What every unit test of the server includes: cmocka and what it needs first. */
#ifndef PETREL_TESTS_SERVE_UNIT_H
#define PETREL_TESTS_SERVE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#endif
