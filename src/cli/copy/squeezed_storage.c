#include "cli/copy/squeezed_storage.h"

#include "tree/squeeze.h"
#include "tree/squeezed_source.h"

void squeezed_storage(const struct transfer_request *request, struct storage *storage)
{
    if ((request->flags & TRANSFER_SQUEEZE) == 0)
        return;
    storage->reads_squeezed = storage->sink != NULL && squeeze_is_possible();
    if (storage->source == NULL)
        return;
    struct squeezed_source *squeezed =
        squeezed_source_new(storage->source, storage->source_ops, request->squeeze_level);
    if (squeezed == NULL)
        return;
    storage->source = squeezed;
    storage->source_ops = &squeezed_source_ops;
}
