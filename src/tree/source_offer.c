#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/jail.h"
#include "tree/source_internal.h"

#define ROOM_MIN (64u * 1024) /* below this much left of OFFER_LIMIT, wait for answers */

bool offer_is_possible(const struct file_source *source)
{
    return (!source->offers.ended || links_remain(source)) &&
           source->unanswered_bytes + ROOM_MIN <= OFFER_LIMIT && !source_problems_full(source);
}

static bool keep_offer(struct file_source *source, uint32_t block, const uint8_t *bytes)
{
    struct offer *offer = calloc(1, sizeof *offer);
    size_t size = pack_size(&source->pack);
    if (offer != NULL)
        offer->bytes = malloc(size);
    if (offer == NULL || offer->bytes == NULL) {
        free(offer);
        return error_set(&source->fatal, ERROR_MEMORY, "no memory for offers");
    }
    memcpy(offer->bytes, bytes, size);
    offer->size = size;
    offer->block = block;
    offer->count = source->pack.count;
    offer->next = source->unanswered;
    source->unanswered = offer;
    source->unanswered_bytes += size;
    return true;
}

bool offer_build(struct file_source *source, uint8_t *buffer, struct source_item *out)
{
    size_t room = OFFER_LIMIT - source->unanswered_bytes;
    size_t capacity = room < BLOCK_SIZE ? room : BLOCK_SIZE;
    struct walk *walk = &source->offers;
    uint64_t until = source_clock_ns() + WALK_SLICE_NS;
    pack_start(&source->pack, buffer, capacity, PACK_OFFER);
    while (source->pack.count < OFFER_ENTRIES && walk_next(source, walk)) {
        if (source_offer(source, &walk->item) == PUT_FULL) {
            walk->held = true;
            break;
        }
        if (source_clock_ns() >= until)
            break;
    }
    while (source->pack.count < OFFER_ENTRIES && links_next_file(source, true) &&
           source_offer(source, &source->link_item) == PUT_DONE)
        links_taken(source);
    if (source->pack.count == 0)
        return false;
    uint32_t block = source->next_block;
    if (block >= BLOCK_NUMBER_LIMIT)
        return error_set(&source->fatal, ERROR_USAGE, "a transfer holds at most 2^48 bytes");
    if (!keep_offer(source, block, buffer))
        return false;
    source->next_block++;
    source->given_blocks++;
    out->block = block;
    out->packed = true;
    out->length = (uint32_t)pack_size(&source->pack);
    return true;
}

static void free_offer(struct offer *offer)
{
    free(offer->bytes);
    free(offer->answer);
    free(offer);
}

/* Counts what the answer settles: files that are skipped. */
static void count_answer(struct file_source *source, const struct offer *offer)
{
    struct pack_reader *reader = malloc(sizeof *reader);
    struct entry entry;
    if (reader == NULL || !pack_open(reader, offer->bytes, offer->size, REQUEST_PATHS_MAX, NULL)) {
        free(reader);
        return;
    }
    for (uint32_t i = 0; pack_next(reader, &entry, NULL) == PACK_ENTRY; i++) {
        bool is_file = entry.kind == ENTRY_FILE || entry.kind == ENTRY_LARGE;
        if (is_file && offer->answer[i] == ANSWER_SKIP)
            source->files++;
        if (offer->answer[i] == ANSWER_SKIP)
            sent_add_skipped(source, &entry);
    }
    free(reader);
}

/* Hashes are told of small files only, pieces of them of large ones only. */
static bool answer_fits(const struct offer *offer, const uint8_t *bytes, size_t size,
                        struct error *error)
{
    struct pack_reader *reader = malloc(sizeof *reader);
    struct entry entry;
    size_t wanted = offer->count;
    bool valid =
        reader != NULL && pack_open(reader, offer->bytes, offer->size, REQUEST_PATHS_MAX, error);
    for (uint32_t i = 0; valid && i < size && pack_next(reader, &entry, error) == PACK_ENTRY; i++) {
        enum answer_verdict verdict = (enum answer_verdict)bytes[i];
        valid = verdict <= ANSWER_SEND || (verdict == ANSWER_HASH && entry.kind == ENTRY_FILE) ||
                (verdict == ANSWER_HASHES && entry.kind == ENTRY_LARGE);
        wanted += verdict == ANSWER_HASH ? TREE_HASH_SIZE : 0;
    }
    free(reader);
    if (reader == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for an answer");
    if (!valid)
        return error_set(error, ERROR_PROTOCOL, "an offer was answered with a wrong verdict");
    return size == wanted ||
           error_set(error, ERROR_PROTOCOL, "an offer of %u entries was answered with %llu bytes",
                     (unsigned)offer->count, (unsigned long long)size);
}

bool offer_answer(struct file_source *source, uint32_t block, const uint8_t *bytes, size_t size,
                  struct error *error)
{
    struct offer **link = &source->unanswered;
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    struct offer *offer = *link;
    if (offer == NULL)
        return error_set(error, ERROR_PROTOCOL, "block %u was answered but is no open offer",
                         (unsigned)block);
    if (!answer_fits(offer, bytes, size, error))
        return false;
    offer->answer = malloc(size);
    if (offer->answer == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for an answer");
    memcpy(offer->answer, bytes, size);
    offer->hash_at = offer->count;
    *link = offer->next;
    offer->next = NULL;
    source->unanswered_bytes -= offer->size;
    count_answer(source, offer);
    struct offer **end = &source->answered;
    while (*end != NULL)
        end = &(*end)->next;
    *end = offer;
    return true;
}

bool offer_is_to_come(const struct file_source *source, uint32_t block, uint32_t entry)
{
    const struct offer *offer = source->answered;
    bool first = true;
    while (offer != NULL && offer->block != block) {
        offer = offer->next;
        first = false;
    }
    if (offer == NULL || entry >= offer->count || offer->answer[entry] != ANSWER_HASHES)
        return false;
    return !first || !source->answered_open || entry >= source->answered_reader.count ||
           (source->answered_held && source->answered_item.has_offer &&
            source->answered_item.entry == entry);
}

bool offer_open_root(struct file_source *source, size_t operand)
{
    if (source->answered_root >= 0 && source->answered_operand == operand)
        return true;
    if (source->answered_root >= 0)
        close(source->answered_root);
    source->answered_root = source_open_operand(source, operand);
    source->answered_operand = operand;
    return source->answered_root >= 0;
}

/* A file is opened and looked at then: what was offered says enough until it is. More has to be
 * known of one whose owner or other names matter, or that is to be removed. */
static bool is_told_enough(const struct file_source *source, const struct entry *entry)
{
    const uint64_t more = TRANSFER_OWNER | TRANSFER_GROUP | TRANSFER_XATTRS | TRANSFER_ACLS |
                          TRANSFER_HARD_LINKS | TRANSFER_REMOVE_SOURCE;
    return entry->kind == ENTRY_FILE && (source->flags & more) == 0;
}

static void take_told(struct item *item, const struct entry *entry)
{
    item->is_told = true;
    item->status = (struct stat){.st_mode = S_IFREG | entry->mode, .st_size = (off_t)entry->size};
    item->status.st_mtim = (struct timespec){.tv_sec = entry->mtime_s, .tv_nsec = entry->mtime_ns};
}

/* Looks at an entry that is to be sent, as it is now. False: a problem, which was reported. */
static bool look_again(struct file_source *source, const struct entry *entry,
                       const struct item *told)
{
    struct item *item = &source->answered_item;
    bool is_tree = source->operands.names.name_is_directory[entry->name] != 0;
    *item = *told;
    item->name = entry->name;
    item->path = entry->path;
    item->path_size = entry->path_size;
    item->follow = source->follow_links || !is_tree;
    bool found = true;
    if (!is_tree) {
        item->directory = AT_FDCWD;
        item->leaf = source->operands.paths[entry->name];
    } else {
        found = offer_open_root(source, entry->name);
        item->directory = source->answered_root;
        item->leaf = entry->path_size == 0 ? "." : entry->path;
    }
    if (found && is_told_enough(source, entry)) {
        take_told(item, entry);
        return true;
    }
    found = found && jail_fstatat(item->directory, item->leaf, &item->status,
                                  item->follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
    struct error error = {0};
    if (!found)
        scan_set_error(&error, errno, "vanished before it was sent");
    else if (S_ISDIR(item->status.st_mode) != (entry->kind == ENTRY_DIRECTORY) ||
             (entry->kind == ENTRY_SPECIAL) != source_is_special(&item->status))
        error_set(&error, ERROR_CHANGED, "became something else before it was sent");
    else
        return true;
    if (item->has_offer)
        have_forget(source, item->offer, item->entry);
    source_problem(source, item, &error);
    return false;
}

/* Entry `index` of the first answered offer, as far as the answer tells of it. False: skipped. */
static bool take_verdict(struct offer *offer, uint32_t index, struct item *told)
{
    enum answer_verdict verdict = (enum answer_verdict)offer->answer[index];
    *told = (struct item){.offer = offer->block, .entry = index};
    told->has_offer = verdict == ANSWER_HASHES;
    if (verdict == ANSWER_HASH) {
        told->hash = offer->answer + offer->hash_at;
        offer->hash_at += TREE_HASH_SIZE;
    }
    return verdict != ANSWER_SKIP;
}

static void drop_first_answered(struct file_source *source)
{
    struct offer *offer = source->answered;
    source->answered = offer->next;
    source->answered_open = source->hinted_open = false;
    free_offer(offer);
}

/* The entries that follow the current one, as far as they are files of the same operand to read. */
static void hint_answered(struct file_source *source, const struct offer *offer)
{
    struct pack_reader *reader = &source->hinted_reader;
    struct entry entry;
    struct error error = {0};
    uint32_t now = source->answered_reader.count;
    if (source->answered_root < 0 || !read_ahead_is_useful(source->ahead))
        return;
    if (!source->hinted_open || reader->count < now)
        *reader = source->answered_reader;
    source->hinted_open = true;
    while (reader->count < now + READ_AHEAD_FILES && read_ahead_has_room(source->ahead)) {
        uint32_t index = reader->count;
        if (pack_next(reader, &entry, &error) != PACK_ENTRY)
            return;
        bool reads = offer->answer[index] == ANSWER_SEND || offer->answer[index] == ANSWER_HASH;
        if (reads && entry.kind == ENTRY_FILE && entry.name == source->answered_operand)
            read_ahead_hint(source->ahead, source->answered_root, entry.path);
    }
}

bool offer_next_item(struct file_source *source)
{
    if (source->answered_held) {
        source->answered_held = false;
        return true;
    }
    while (source->answered != NULL && !source_problems_full(source)) {
        struct offer *offer = source->answered;
        struct pack_reader *reader = &source->answered_reader;
        struct error error = {0};
        if (!source->answered_open)
            source->answered_open = pack_open(reader, offer->bytes, offer->size,
                                              source->operands.names.name_count, &error);
        uint32_t index = reader->count;
        struct entry entry;
        struct item told;
        if (!source->answered_open || pack_next(reader, &entry, &error) != PACK_ENTRY)
            drop_first_answered(source);
        else if (take_verdict(offer, index, &told) && look_again(source, &entry, &told)) {
            hint_answered(source, offer);
            return true;
        }
    }
    return false;
}

void offer_close(struct file_source *source)
{
    while (source->answered != NULL)
        drop_first_answered(source);
    while (source->unanswered != NULL) {
        struct offer *offer = source->unanswered;
        source->unanswered = offer->next;
        free_offer(offer);
    }
    if (source->answered_root >= 0)
        close(source->answered_root);
}
