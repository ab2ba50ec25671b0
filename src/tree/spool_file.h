/* Temporary files without a name, for what must not take memory. */
#ifndef PETREL_TREE_SPOOL_FILE_H
#define PETREL_TREE_SPOOL_FILE_H

#include "base/error.h"

/* An empty file in TMPDIR (or /tmp) that has no name any more, open for reading and writing; -1 and
 * an error. The caller closes it. */
int spool_file_open(struct error *error);

#endif
