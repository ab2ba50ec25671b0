#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tree/jail.h"
#include "tree/source_internal.h"

#define COUNT_STEP 16 /* entries between looks at the clock */

void walk_close(struct walk *walk)
{
    scan_free(walk->scan);
    walk->scan = NULL;
    list_walk_close(walk);
}

int source_open_operand(const struct file_source *source, size_t operand)
{
    return jail_openat(AT_FDCWD, source->operands.paths[operand], O_RDONLY | O_DIRECTORY);
}

bool source_is_excluded(const struct file_source *source, size_t operand)
{
    const struct transfer_request *names = &source->operands.names;
    return filter_excludes(&source->filter, FILTER_SENDER, names->names[operand],
                           strlen(names->names[operand]), names->name_is_directory[operand] != 0);
}

static bool concerns(const struct file_source *source, const struct walk *walk)
{
    if (source_is_excluded(source, walk->operand))
        return false;
    if (walk->names == WALK_ALL)
        return true;
    return (source->exists[walk->operand] != 0) == (walk->names == WALK_EXISTING);
}

static void report_operand(struct file_source *source, const struct walk *walk, int os_errno,
                           const char *what)
{
    if (walk == &source->counting)
        return;
    struct error error = {0};
    scan_set_error(&error, os_errno, what); /* it was there when the operands were looked at */
    source_problem_path(source, source->operands.paths[walk->operand], &error);
}

/* A plain file that the user named, links followed. True when walk->item is it. */
static bool take_file(struct file_source *source, struct walk *walk)
{
    const char *path = source->operands.paths[walk->operand];
    struct item *item = &walk->item;
    *item = (struct item){.name = (uint32_t)walk->operand,
                          .path = "",
                          .directory = AT_FDCWD,
                          .leaf = path,
                          .follow = true};
    bool found = jail_fstatat(AT_FDCWD, path, &item->status, 0) == 0;
    if (!found)
        report_operand(source, walk, errno, "vanished");
    else if (!S_ISREG(item->status.st_mode))
        report_operand(source, walk, ENOTDIR, "is no plain file any more");
    walk->operand++;
    return found && S_ISREG(item->status.st_mode);
}

static void open_directory(struct file_source *source, struct walk *walk)
{
    int root = source_open_operand(source, walk->operand);
    int failure = root < 0 ? errno : ENOMEM;
    if (root >= 0)
        walk->scan = scan_new(root, source->follow_links);
    if (root >= 0 && walk->scan == NULL)
        close(root);
    if (walk->scan != NULL && walk == &source->deliveries)
        scan_set_read_ahead(walk->scan, source->ahead);
    if (walk->scan != NULL && (source->flags & TRANSFER_SPECIALS) != 0)
        scan_set_specials(walk->scan);
    if (walk->scan != NULL && scan_set_filter(walk->scan, &source->filter, FILTER_SENDER,
                                              source->operands.names.names[walk->operand]))
        return;
    walk_close(walk);
    report_operand(source, walk, failure, "cannot be opened");
    walk->operand++;
}

/* The next entry of the tree being walked. False when it has ended or has a problem. */
static bool take_entry(struct file_source *source, struct walk *walk)
{
    struct scan_entry found;
    struct error error = {0};
    enum scan_result result = scan_next(walk->scan, &found, &error);
    if (result == SCAN_END) {
        if (walk != &source->counting)
            source->own_names += scan_own_names(walk->scan);
        walk_close(walk);
        walk->operand++;
        return false;
    }
    struct item *item = &walk->item;
    *item = (struct item){.name = (uint32_t)walk->operand,
                          .path = found.path,
                          .path_size = found.path_size,
                          .directory = found.directory,
                          .leaf = found.leaf,
                          .follow = source->follow_links};
    if (result == SCAN_PROBLEM) {
        if (walk != &source->counting)
            source_problem(source, item, &error);
        return false;
    }
    item->status = found.status;
    return true;
}

bool walk_next(struct file_source *source, struct walk *walk)
{
    if (walk->held) {
        walk->held = false;
        return true;
    }
    while (!source_problems_full(source)) {
        if (walk->operand >= source->operands.names.name_count) {
            walk->ended = true;
            return false;
        }
        bool found = false;
        if (source->list != NULL && (walk->list != NULL || concerns(source, walk)))
            found = list_walk_next(source, walk);
        else if (walk->scan != NULL)
            found = take_entry(source, walk);
        else if (!concerns(source, walk))
            walk->operand++;
        else if (source->operands.names.name_is_directory[walk->operand])
            open_directory(source, walk);
        else
            found = take_file(source, walk);
        if (found && links_concern(source, &walk->item.status)) {
            if (walk != &source->counting)
                links_add(source, &walk->item);
            found = false;
        }
        if (!found)
            continue;
        if (S_ISREG(walk->item.status.st_mode)) {
            walk->files++;
            walk->bytes += (uint64_t)walk->item.status.st_size;
            if (!source->exists[walk->item.name])
                walk->new_bytes += (uint64_t)walk->item.status.st_size;
        }
        return true;
    }
    return false;
}

/* A second walk that only counts runs ahead in short slices, so that the totals become final early
 * however long the content takes; what it reads, the other walk finds in memory. */
void source_count_ahead(struct file_source *source, uint64_t slice_ns)
{
    if (source->totals_final)
        return;
    struct walk *counting = &source->counting;
    uint64_t until = source_clock_ns() + slice_ns;
    while (!counting->ended && source_clock_ns() < until) {
        for (int i = 0; i < COUNT_STEP && walk_next(source, counting); i++)
            ;
        if (source_problems_full(source))
            break;
    }
    uint64_t files = source->deliveries.files + source->offers.files;
    uint64_t bytes = source->deliveries.bytes + source->offers.bytes;
    source->total_files = files > counting->files ? files : counting->files;
    source->total_bytes = bytes > counting->bytes ? bytes : counting->bytes;
    source->new_bytes = source->deliveries.new_bytes > counting->new_bytes
                            ? source->deliveries.new_bytes
                            : counting->new_bytes;
    if ((counting->ended || (source->deliveries.ended && source->offers.ended)) &&
        !links_remain(source)) {
        source->totals_final = true;
        walk_close(counting);
    }
}
