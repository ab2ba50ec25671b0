#include "tree/beneath.h"
#include "tree/read_ahead.h"
#include "tree/sink_internal.h"

/* Whether every small file that is there will be read (--checksum). Where size and time decide few
 * are, and which is known when their turn comes. */
static bool all_are_read(const struct file_sink *sink)
{
    const uint64_t not_read = TRANSFER_QUICK_CHECK | TRANSFER_WHOLE | TRANSFER_IGNORE_EXISTING;
    return (sink->flags & not_read) == 0;
}

/* Nothing of the entry was checked but its form: only the name itself is looked at, in a directory
 * that is found as every other one. A file of ours (a journal's lock ends when anybody here closes
 * it) is none that a sender may name. */
static void hint(struct file_sink *sink, const struct entry *entry)
{
    char path[SINK_PATH_MAX + 2];
    sink_entry_path(sink, entry, path);
    if (sink_has_own_name(path))
        return;
    int parent = sink_parent(sink, path, false);
    if (parent >= 0)
        read_ahead_hint(sink->ahead.helpers, parent, beneath_leaf(path));
}

void ahead_look(struct file_sink *sink, const struct asked *asked)
{
    struct ahead *ahead = &sink->ahead;
    struct entry entry;
    struct error error = {0};
    uint32_t now = asked->reader.count;
    if (!all_are_read(sink))
        return;
    if (ahead->helpers == NULL)
        ahead->helpers = read_ahead_new(false);
    if (!read_ahead_is_useful(ahead->helpers))
        return;
    if (ahead->asked != asked || (ahead->reader.count < now && !ahead->over)) {
        ahead->reader = asked->reader;
        ahead->over = false;
    }
    ahead->asked = asked;
    while (!ahead->over && ahead->reader.count < now + READ_AHEAD_FILES &&
           read_ahead_has_room(ahead->helpers)) {
        ahead->over = pack_next(&ahead->reader, &entry, &error) != PACK_ENTRY;
        if (!ahead->over && entry.kind == ENTRY_FILE)
            hint(sink, &entry);
    }
}

void ahead_forget(struct file_sink *sink, const struct asked *asked)
{
    if (sink->ahead.asked == asked)
        sink->ahead.asked = NULL;
}

void ahead_close(struct file_sink *sink)
{
    read_ahead_free(sink->ahead.helpers);
}
