/* What -z means for the storage of either end: a source is wrapped, a sink says that it can read
 * squeezed blocks. For copy.c and remote.c.
 */
#ifndef PETREL_CLI_SQUEEZED_STORAGE_H
#define PETREL_CLI_SQUEEZED_STORAGE_H

#include "transfer/work.h"

/* Nothing without TRANSFER_SQUEEZE. Without libzstd blocks go as they are, and a source says so. */
void squeezed_storage(const struct transfer_request *request, struct storage *storage);

#endif
