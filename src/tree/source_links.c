#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/jail.h"
#include "tree/sorted_spool.h"
#include "tree/source_internal.h"

/* Files with several names. While the trees are walked they are only written down, each as device,
 * inode, top-level name and path; sorted, the names of one file stand together. Then the first name
 * of each is sent as a file, or offered, and the others as links to it. So no set of inodes is held
 * in memory, however many there are; such files come last. */

#define KEY_SIZE 16u  /* device and inode */
#define HEAD_SIZE 20u /* and the index of the top-level name */

struct links {
    struct sorted_spool *spool;
    bool reading, ended;
    bool has_record; /* in `record`, not taken yet */
    bool is_first;   /* the record begins a new file */
    uint8_t record[HEAD_SIZE + PACK_PATH_MAX];
    size_t size;
    uint8_t first[HEAD_SIZE + PACK_PATH_MAX]; /* the name that the others are linked to */
    size_t first_size;
    char path[PACK_PATH_MAX + 1], first_path[PACK_PATH_MAX + 1];
};

static void put_number(uint8_t *bytes, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

static uint32_t name_of(const uint8_t *record)
{
    const uint8_t *bytes = record + KEY_SIZE;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

bool links_concern(const struct file_source *source, const struct stat *status)
{
    return (source->flags & TRANSFER_HARD_LINKS) != 0 && !S_ISDIR(status->st_mode) &&
           status->st_nlink > 1;
}

void links_add(struct file_source *source, const struct item *item)
{
    uint8_t record[HEAD_SIZE + PACK_PATH_MAX];
    struct links *links = source->links;
    if (links == NULL) {
        links = source->links = calloc(1, sizeof *links);
        if (links != NULL)
            links->spool = sorted_spool_new(0);
    }
    if (links == NULL || links->spool == NULL) {
        error_set(&source->fatal, ERROR_MEMORY, "no memory for hard links");
        return;
    }
    put_number(record, item->status.st_dev, 8);
    put_number(record + 8, item->status.st_ino, 8);
    put_number(record + KEY_SIZE, item->name, 4);
    memcpy(record + HEAD_SIZE, item->path, item->path_size);
    sorted_spool_add(links->spool, record, HEAD_SIZE + item->path_size, &source->fatal);
}

void links_close(struct file_source *source)
{
    if (source->links != NULL)
        sorted_spool_free(source->links->spool);
    free(source->links);
    source->links = NULL;
}

static bool walks_have_ended(const struct file_source *source)
{
    return source->offers.ended && source->deliveries.ended;
}

bool links_remain(const struct file_source *source)
{
    return (source->flags & TRANSFER_HARD_LINKS) != 0 &&
           (!walks_have_ended(source) || (source->links != NULL && !source->links->ended));
}

/* Makes sure that a record is in hand. False when there is none now, or none any more. */
static bool read_record(struct file_source *source)
{
    struct links *links = source->links;
    if (links == NULL || links->ended || !walks_have_ended(source))
        return false;
    if (links->has_record)
        return true;
    if (!links->reading && !sorted_spool_rewind(links->spool, &source->fatal))
        return false;
    links->reading = true;
    const uint8_t *bytes;
    size_t size;
    enum spool_result result = sorted_spool_next(links->spool, &bytes, &size, &source->fatal);
    links->ended = result == SPOOL_END;
    if (result != SPOOL_RECORD)
        return false;
    memcpy(links->record, bytes, size);
    links->size = size;
    links->is_first = links->first_size == 0 || memcmp(links->first, bytes, KEY_SIZE) != 0;
    links->has_record = true;
    return true;
}

/* The operand's directory, through the descriptor that answered entries use as well. */
static bool look(struct file_source *source, struct item *item, const uint8_t *record, size_t size,
                 char path[PACK_PATH_MAX + 1])
{
    uint32_t name = name_of(record);
    bool is_tree = source->operands.names.name_is_directory[name] != 0;
    memcpy(path, record + HEAD_SIZE, size - HEAD_SIZE);
    path[size - HEAD_SIZE] = '\0';
    *item = (struct item){.name = name,
                          .path = path,
                          .path_size = size - HEAD_SIZE,
                          .directory = AT_FDCWD,
                          .leaf = is_tree ? path : source->operands.paths[name],
                          .follow = source->follow_links || !is_tree};
    if (is_tree && !offer_open_root(source, name))
        return false;
    if (is_tree)
        item->directory = source->answered_root;
    return jail_fstatat(item->directory, item->leaf, &item->status,
                        item->follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
}

static void take(struct links *links)
{
    if (links->is_first) {
        memcpy(links->first, links->record, links->size);
        links->first_size = links->size;
    }
    links->has_record = false;
}

bool links_next_file(struct file_source *source, bool offered)
{
    while (!source_problems_full(source) && read_record(source)) {
        struct links *links = source->links;
        bool exists = source->exists[name_of(links->record)] != 0;
        if (!links->is_first || exists != offered)
            return false;
        struct item *item = &source->link_item;
        if (look(source, item, links->record, links->size, links->path))
            return true;
        struct error error = {0};
        scan_set_error(&error, errno, "vanished before it was sent");
        source_problem(source, item, &error);
        take(links);
    }
    return false;
}

static uint64_t number_of(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

void links_identity(const struct file_source *source, uint64_t *device, uint64_t *inode)
{
    *device = number_of(source->links->record);
    *inode = number_of(source->links->record + 8);
}

void links_taken(struct file_source *source)
{
    take(source->links);
}

bool links_next_link(struct file_source *source, struct entry *entry)
{
    while (read_record(source)) {
        struct links *links = source->links;
        if (links->is_first)
            return false;
        size_t size = links->size - HEAD_SIZE, target_size = links->first_size - HEAD_SIZE;
        memcpy(links->path, links->record + HEAD_SIZE, size);
        memcpy(links->first_path, links->first + HEAD_SIZE, target_size);
        *entry = (struct entry){.kind = ENTRY_HARD_LINK,
                                .name = name_of(links->record),
                                .path = links->path,
                                .path_size = size,
                                .target_name = name_of(links->first),
                                .target = links->first_path,
                                .target_size = target_size};
        return true;
    }
    return false;
}
