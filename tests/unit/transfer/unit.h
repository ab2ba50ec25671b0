/* cmocka and what it needs before it. */
#ifndef PETREL_TESTS_TRANSFER_UNIT_H
#define PETREL_TESTS_TRANSFER_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
