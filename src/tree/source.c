#include "tree/source.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tree/source_internal.h"

#define COUNT_SLICE_NS 50000
#define COUNT_SHARE 8
#define OFFER_TURN 16 /* content blocks between two offers while content is being read */

uint64_t source_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- problems ---- */

/* Content adds reports of its own without asking whether there is room. */
#define PROBLEM_ROOM 4

bool source_problems_full(const struct file_source *source)
{
    return source->problem_count - source->problem_at >= PROBLEM_QUEUE - PROBLEM_ROOM ||
           source->problem_count >= PROBLEM_QUEUE - PROBLEM_ROOM;
}

/* Takes `path`, which may be NULL without memory. */
static void add_problem(struct file_source *source, char *path, const struct error *error)
{
    if (source->problem_count == PROBLEM_QUEUE) {
        free(path);
        error_set(&source->fatal, ERROR_MEMORY, "too many problems at once");
        return;
    }
    source->problems[source->problem_count++] = (struct problem){.path = path, .error = *error};
}

char *source_display_path(const struct file_source *source, uint32_t name, const char *path)
{
    /* As it is named at the destination, which is what is said of files that arrive; a directory
     * whose contents are sent has no name there. */
    const char *operand = source->operands.names.names[name];
    if (operand[0] == '\0' && path[0] == '\0')
        operand = source->operands.paths[name];
    size_t size = strlen(operand);
    bool joined = path[0] != '\0' && size > 0 && operand[size - 1] != '/';
    char *text = malloc(size + strlen(path) + 2);
    if (text == NULL)
        return NULL;
    strcpy(text, operand);
    if (joined)
        strcat(text, "/");
    strcat(text, path);
    return text;
}

void source_problem(struct file_source *source, const struct item *item, const struct error *error)
{
    add_problem(source, source_display_path(source, item->name, item->path), error);
}

void source_problem_path(struct file_source *source, const char *path, const struct error *error)
{
    add_problem(source, strdup(path), error);
}

static bool take_problem(struct file_source *source, struct source_item *out)
{
    struct operands *operands = &source->operands;
    if (source->operand_problem_at < operands->problem_count) {
        const struct operand_problem *problem = &operands->problems[source->operand_problem_at++];
        out->path = problem->path;
        out->error = problem->error;
        return true;
    }
    if (source->problem_at == source->problem_count)
        return false;
    struct problem *problem = &source->problems[source->problem_at++];
    source->said_path = problem->path;
    out->path = problem->path;
    out->error = problem->error;
    if (source->problem_at == source->problem_count)
        source->problem_at = source->problem_count = 0;
    return true;
}

/* ---- the order of work ---- */

/* Packs deliveries: first what was answered, then what the walk finds. False when there is nothing
 * now. */
static bool build_delivery(struct file_source *source, uint8_t *buffer, struct source_item *out)
{
    if (source->next_block >= BLOCK_NUMBER_LIMIT)
        return error_set(&source->fatal, ERROR_USAGE, "a transfer holds at most 2^48 bytes");
    uint32_t block = source->next_block++;
    uint64_t until = source_clock_ns() + WALK_SLICE_NS;
    struct entry link;
    pack_start(&source->pack, buffer, BLOCK_SIZE, PACK_DELIVERY);
    while (source->fatal.kind == ERROR_NONE && source->large_count < LARGE_QUEUE) {
        if (offer_next_item(source)) {
            if (source_put(source, block, &source->answered_item) == PUT_FULL) {
                source->answered_held = true;
                break;
            }
        } else if (walk_next(source, &source->deliveries)) {
            if (source_put(source, block, &source->deliveries.item) == PUT_FULL) {
                source->deliveries.held = true;
                break;
            }
        } else if (links_next_file(source, false)) {
            if (source_put(source, block, &source->link_item) == PUT_FULL)
                break;
            links_taken(source);
        } else if (links_next_link(source, &link)) {
            uint64_t device, inode;
            if (!pack_add(&source->pack, &link))
                break;
            links_identity(source, &device, &inode);
            sent_add_link(source, &link, device, inode);
            links_taken(source);
        } else {
            break;
        }
        if (source_clock_ns() >= until && source->pack.count > 0)
            break;
    }
    if (source->pack.count == 0) {
        source->next_block--;
        return false;
    }
    source->given_blocks++;
    out->block = block;
    out->packed = true;
    out->length = (uint32_t)pack_size(&source->pack);
    return true;
}

static enum source_result fail(struct file_source *source, struct source_item *out)
{
    out->error = source->fatal;
    return SOURCE_FAILED;
}

/* A file of the user's own may have such a name, though few will. */
static bool take_note(struct file_source *source, struct source_item *out)
{
    if (source->own_names == 0)
        return false;
    bool one = source->own_names == 1;
    error_set(&out->error, ERROR_USAGE,
              "%llu file%s not sent, for the name%s, .petrel- and 16 hexadecimal digits, %s "
              "petrel's own for half files",
              (unsigned long long)source->own_names, one ? " was" : "s were", one ? "" : "s",
              one ? "is" : "are");
    source->own_names = 0;
    return true;
}

static bool take_lost(struct file_source *source, struct source_item *out)
{
    if (source->extra_lost == 0)
        return false;
    error_set(&out->error, ERROR_USAGE,
              "%llu lost extended attributes, of which at most 64 KiB are sent for each",
              (unsigned long long)source->extra_lost);
    source->extra_lost = 0;
    return true;
}

static bool take_forgotten(struct file_source *source, struct source_item *out)
{
    if (source->forgotten_count == 0)
        return false;
    const struct forgotten *forgotten = &source->forgotten[--source->forgotten_count];
    out->block = forgotten->offer;
    out->entry = forgotten->entry;
    return true;
}

static enum source_result work(struct file_source *source, uint8_t *buffer, struct source_item *out)
{
    int ready = large_ready(source);
    bool offer_now = ready < 0 || ++source->turn % OFFER_TURN == 0;
    if (take_forgotten(source, out))
        return SOURCE_FORGET;
    if (offer_now && offer_is_possible(source) && offer_build(source, buffer, out))
        return SOURCE_BLOCK;
    if (ready >= 0)
        return large_next(source, (size_t)ready, buffer, out);
    if (build_delivery(source, buffer, out))
        return SOURCE_BLOCK;
    /* Its walk may have been the last to end, which files with several names wait for. */
    if (links_remain(source) && offer_is_possible(source) && offer_build(source, buffer, out))
        return SOURCE_BLOCK;
    if (source->fatal.kind != ERROR_NONE)
        return fail(source, out);
    if (take_problem(source, out))
        return SOURCE_PROBLEM;
    if (take_forgotten(source, out))
        return SOURCE_FORGET;
    if (source->unanswered != NULL || source->large_count > 0)
        return SOURCE_WAIT;
    if (take_note(source, out))
        return SOURCE_NOTE;
    if (take_lost(source, out))
        return SOURCE_LOST;
    out->blocks = source->given_blocks;
    out->files = source->files;
    return SOURCE_END;
}

static enum source_result source_next(void *context, uint8_t *buffer, struct source_item *out)
{
    struct file_source *source = context;
    uint64_t start = source->totals_final ? 0 : source_clock_ns();
    free(source->said_path);
    source->said_path = NULL;
    memset(out, 0, sizeof *out);
    enum source_result result = SOURCE_PROBLEM;
    if (source->fatal.kind != ERROR_NONE)
        result = fail(source, out);
    else if (source->list_pending)
        result = SOURCE_WAIT;
    else if (!take_problem(source, out))
        result = work(source, buffer, out);
    if (!source->totals_final &&
        !source->list_pending) /* counting takes a share of the time, however long a step is */
        source_count_ahead(source, COUNT_SLICE_NS + (source_clock_ns() - start) / COUNT_SHARE);
    out->total_files = source->total_files;
    out->total_bytes = source->total_bytes;
    out->new_bytes = source->new_bytes;
    out->totals_final = source->totals_final;
    return result;
}

static bool source_answer(void *context, uint32_t block, const uint8_t *bytes, size_t size,
                          struct error *error)
{
    return offer_answer(context, block, bytes, size, error);
}

static bool source_hashes(void *context, const struct hash_piece *piece, struct error *error)
{
    return have_take(context, piece, error);
}

static bool source_list(void *context, const uint8_t *bytes, size_t size, struct error *error)
{
    struct file_source *source = context;
    if (!source->list_pending)
        return error_set(error, ERROR_PROTOCOL, "a list of files came that was not announced");
    if (size == 0) {
        source->list_pending = false;
        return true;
    }
    return file_list_append(source->list, bytes, size, error);
}

static void source_failed(void *context, const char *path)
{
    sent_failed(context, path);
}

static bool source_remove(void *context, source_removal *removal, void *removal_context,
                          struct error *error)
{
    return sent_remove(context, removal, removal_context, error);
}

static void source_set_existing(void *context, const uint8_t *bitmap, size_t size)
{
    struct file_source *source = context;
    for (size_t i = 0; i < source->operands.names.name_count; i++) {
        bool exists = i / 8 < size && (bitmap[i / 8] >> (i % 8) & 1) != 0;
        source->exists[i] = exists || source->dry_run;
        if (source->totals_final && !source->exists[i])
            source->new_bytes += source->operands.sizes[i];
    }
}

static const struct transfer_request *source_names(void *context)
{
    return &((struct file_source *)context)->operands.names;
}

static void source_close(void *context)
{
    struct file_source *source = context;
    walk_close(&source->deliveries);
    walk_close(&source->offers);
    walk_close(&source->counting);
    read_ahead_free(source->ahead);
    offer_close(source);
    for (size_t i = 0; i < source->large_count; i++)
        large_close(source, &source->large[i]);
    have_close(source);
    for (size_t i = source->problem_at; i < source->problem_count; i++)
        free(source->problems[i].path);
    free(source->said_path);
    free(source->exists);
    filter_release(&source->filter);
    links_close(source);
    sent_close(source);
    extra_close(source);
    if (source->owns_list)
        file_list_free(source->list);
    operands_release(&source->operands);
    free(source);
}

const struct source_ops file_source_ops = {
    .next = source_next,
    .answer = source_answer,
    .hashes = source_hashes,
    .list = source_list,
    .failed = source_failed,
    .remove = source_remove,
    .set_existing = source_set_existing,
    .names = source_names,
    .close = source_close,
};

/* When all operands are plain files, nothing needs to be counted. */
static void start_totals(struct file_source *source)
{
    const struct transfer_request *names = &source->operands.names;
    source->totals_final = true;
    for (size_t i = 0; i < names->name_count; i++) {
        source->totals_final = source->totals_final && !names->name_is_directory[i];
        if (source_is_excluded(source, i))
            continue;
        source->total_files += !names->name_is_directory[i];
        source->total_bytes += source->operands.sizes[i];
    }
}

/* A list names paths in one directory, whose contents are meant. */
static bool list_is_possible(const struct file_source *source, struct error *error)
{
    const struct transfer_request *names = &source->operands.names;
    bool one = names->name_count == 1 && names->name_is_directory[0] && names->names[0][0] == '\0';
    return one || error_set(error, ERROR_USAGE,
                            "--files-from names paths in one source, which is a directory");
}

/* Takes the operands. */
static struct file_source *source_new(struct operands *operands,
                                      const struct transfer_request *request, struct error *error)
{
    uint64_t flags = request->flags;
    struct file_source *source = calloc(1, sizeof *source);
    if (source != NULL)
        source->exists = calloc(operands->names.name_count, 1);
    if (source == NULL || source->exists == NULL) {
        free(source);
        operands_release(operands);
        error_set(error, ERROR_MEMORY, "no memory for the source");
        return NULL;
    }
    source->operands = *operands;
    source->follow_links = (flags & TRANSFER_FOLLOW_LINKS) != 0;
    source->dry_run = (flags & TRANSFER_DRY_RUN) != 0;
    memset(source->exists, source->dry_run, operands->names.name_count);
    source->deliveries.names = WALK_NEW;
    source->offers.names = WALK_EXISTING;
    source->counting.names = WALK_ALL;
    source->answered_root = -1;
    source->ahead = source->dry_run ? NULL : read_ahead_new(false);
    source->list_trees = (request->flags & TRANSFER_LIST_TREES) != 0;
    source->flags = request->flags;
    if (!extra_open(source, error) || !sent_open(source, error) ||
        !filter_copy(&source->filter, &request->filter, error)) {
        source_close(source);
        return NULL;
    }
    start_totals(source);
    return source;
}

struct file_source *file_source_new_push(const char *const *paths, size_t count,
                                         struct transfer_request *request, struct error *error)
{
    struct operands operands = {0};
    if (!operands_from_local(&operands, paths, count, error))
        return NULL;
    bool added = true;
    for (size_t i = 0; i < operands.names.name_count && added; i++)
        added = transfer_request_add(request, operands.names.names[i],
                                     operands.names.name_is_directory[i]);
    if (!added) {
        operands_release(&operands);
        error_set(error, ERROR_MEMORY, "no memory for the request");
        return NULL;
    }
    return source_new(&operands, request, error);
}

struct file_source *file_source_new_pull(const struct transfer_request *request,
                                         struct error *error)
{
    struct operands operands = {0};
    if (!operands_from_request(&operands, request, error))
        return NULL;
    struct file_source *source = source_new(&operands, request, error);
    if (source == NULL || (request->flags & TRANSFER_FILES_FROM) == 0)
        return source;
    source->list = file_list_new();
    source->list_pending = source->owns_list = true;
    if (source->list != NULL && list_is_possible(source, error))
        return source;
    error_set(error, ERROR_MEMORY, "no memory for the list of files");
    source_close(source);
    return NULL;
}

bool file_source_set_list(struct file_source *source, struct file_list *list, struct error *error)
{
    source->list = list;
    return list_is_possible(source, error);
}
