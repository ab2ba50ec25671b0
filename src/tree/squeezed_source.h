/* A source around another one that makes its blocks smaller where that saves time (-z).
 *
 * It decides block by block: a sample first; what did not shrink lets the next blocks through
 * unsqueezed, more of them each time; by itself ("auto") only while the path is slower than
 * squeezing. Nothing is squeezed before the other end has said that it can read such blocks; when
 * either end was built without libzstd, a note at the end says so.
 */
#ifndef PETREL_TREE_SQUEEZED_SOURCE_H
#define PETREL_TREE_SQUEEZED_SOURCE_H

#include "tree/storage.h"

struct squeezed_source;

/* Owns `source` from then on. `level` 0 is "auto". NULL, and `source` is not taken, without memory.
 */
struct squeezed_source *squeezed_source_new(void *source, const struct source_ops *ops,
                                            unsigned level);
extern const struct source_ops squeezed_source_ops;

#endif
