/* The far end (or the near one) as an enemy: petrel with its own session and transfer, but with a
 * source that lies, or a sink that does. What it does is named by PETREL_HOSTILE.
 *
 * Built instead of cli/test_hook.c; tests/e2e/hostile_test.py says what has to come of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "cli/test_hook.h"
#include "crypto/tree_hash.h"
#include "tree/pack.h"

#define MANY_ENTRIES 150000u

struct hostile_case;

struct hostile {
    const struct hostile_case *how;
    struct transfer_request names; /* of a pull, as they are told */
    uint32_t step, blocks;
    uint64_t files, entries;
    struct pack_writer pack;
};

struct hostile_case {
    const char *name;
    /* Fills the one packed block; the writer is a delivery's. */
    void (*entries)(struct hostile *hostile);
    const char *told_name; /* a top-level name that nobody asked for; NULL: those asked for */
    bool endless;          /* block after block of directories */
    uint32_t content;      /* a content block of this length follows, with number 1 */
    uint64_t complete;     /* and is said to be a file of this size; 0: nothing is said */
};

/* ---- entries ---- */

static const uint8_t *hash_of(const char *text)
{
    static uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(text, strlen(text), hash);
    return hash;
}

static void add(struct hostile *hostile, enum entry_kind kind, uint32_t name, const char *path,
                const char *text)
{
    struct entry entry = {.kind = kind,
                          .name = name,
                          .path = path,
                          .path_size = strlen(path),
                          .mode = 07777,
                          .mtime_s = 1700000000};
    if (kind == ENTRY_LINK) {
        entry.target = text;
        entry.target_size = strlen(text);
    }
    if (kind == ENTRY_FILE) {
        entry.bytes = (const uint8_t *)text;
        entry.size = strlen(text);
        entry.hash = hash_of(text);
        hostile->files++;
    }
    if (!pack_add(&hostile->pack, &entry))
        abort();
}

static void add_large(struct hostile *hostile, const char *path, uint64_t id, uint64_t size,
                      uint32_t first)
{
    struct entry entry = {.kind = ENTRY_LARGE,
                          .path = path,
                          .path_size = strlen(path),
                          .mode = 0644,
                          .size = size,
                          .id = id,
                          .first_block = first};
    hostile->files++;
    if (!pack_add(&hostile->pack, &entry))
        abort();
}

static void dots(struct hostile *hostile)
{
    add(hostile, ENTRY_DIRECTORY, 0, "", NULL);
    add(hostile, ENTRY_FILE, 0, "../evil", "evil");
}

static void dots_inside(struct hostile *hostile)
{
    add(hostile, ENTRY_FILE, 0, "a/../../evil", "evil");
}

static void absolute(struct hostile *hostile)
{
    add(hostile, ENTRY_FILE, 0, "/tmp/petrel-evil", "evil");
}

static void through_a_link(struct hostile *hostile)
{
    add(hostile, ENTRY_DIRECTORY, 0, "", NULL);
    add(hostile, ENTRY_LINK, 0, "link", "../../outside");
    add(hostile, ENTRY_FILE, 0, "link/through", "through");
    add(hostile, ENTRY_DIRECTORY, 0, "link/folder", NULL);
    add(hostile, ENTRY_FILE, 0, "good", "good");
}

static void other_name(struct hostile *hostile)
{
    add(hostile, ENTRY_FILE, 1, "authorized_keys", "evil");
}

static void other_kind(struct hostile *hostile)
{
    add(hostile, ENTRY_LINK, 0, "", "/etc/passwd");
}

static void unknown_kind(struct hostile *hostile)
{
    add(hostile, (enum entry_kind)99, 0, "device", NULL);
}

static void twice(struct hostile *hostile)
{
    add(hostile, ENTRY_DIRECTORY, 0, "", NULL);
    add(hostile, ENTRY_FILE, 0, "x", "first");
    add(hostile, ENTRY_FILE, 0, "x", "second");
    add(hostile, ENTRY_DIRECTORY, 0, "x", NULL);
    add(hostile, ENTRY_FILE, 0, "x/evil", "evil");
}

static void large_twice(struct hostile *hostile)
{
    add_large(hostile, "x", 1, 3 * BLOCK_SIZE, 10);
    add_large(hostile, "y", 2, 3 * BLOCK_SIZE, 12);
}

static void long_path(struct hostile *hostile)
{
    struct writer *writer = &hostile->pack.writer;
    uint8_t *path = malloc(65536);
    if (path == NULL)
        abort();
    memset(path, 'a', 65536);
    write_u8(writer, ENTRY_FILE);
    write_varint(writer, 0);
    write_varint(writer, 0);
    write_sized(writer, path, 65536);
    free(path);
}

static void huge(struct hostile *hostile)
{
    add_large(hostile, "huge", 1, UINT64_C(1) << 63, 10);
}

static void no_room(struct hostile *hostile)
{
    add_large(hostile, "room", 1, UINT64_C(1) << 46, 10);
}

static void one_large(struct hostile *hostile)
{
    add_large(hostile, "x", 1, BLOCK_SIZE, 1);
}

static void set_ids(struct hostile *hostile)
{
    add(hostile, ENTRY_DIRECTORY, 0, "", NULL);
    add(hostile, ENTRY_FILE, 0, "suid", "#!/bin/sh");
}

static void wrong_hash(struct hostile *hostile)
{
    add(hostile, ENTRY_FILE, 0, "x", "right");
    hostile->pack.writer.at[-1] ^= 1;
}

static void own_name(struct hostile *hostile)
{
    add(hostile, ENTRY_FILE, 0, ".petrel-0123456789abcdef", "evil");
    add(hostile, ENTRY_LINK, 0, ".petrel-fedcba9876543210", "/etc");
    add(hostile, ENTRY_FILE, 0, "good", "good");
}

static void garbage(struct hostile *hostile)
{
    for (unsigned i = 0; i < 1000; i++)
        write_u8(&hostile->pack.writer, (uint8_t)(i * 7 + 3));
}

static const struct hostile_case cases[] = {
    {.name = "dots", .entries = dots},
    {.name = "dots-inside", .entries = dots_inside},
    {.name = "absolute", .entries = absolute},
    {.name = "through-a-link", .entries = through_a_link},
    {.name = "other-name", .entries = other_name},
    {.name = "told-name", .entries = other_name, .told_name = ".ssh"},
    {.name = "told-dots", .entries = other_name, .told_name = ".."},
    {.name = "told-path", .entries = other_name, .told_name = "d/../../x"},
    {.name = "told-contents", .entries = other_name, .told_name = ""},
    {.name = "other-kind", .entries = other_kind},
    {.name = "unknown-kind", .entries = unknown_kind},
    {.name = "twice", .entries = twice},
    {.name = "large-twice", .entries = large_twice},
    {.name = "long-path", .entries = long_path},
    {.name = "huge", .entries = huge},
    {.name = "no-room", .entries = no_room},
    {.name = "short-block", .entries = one_large, .content = 1000, .complete = BLOCK_SIZE},
    {.name = "other-size", .entries = one_large, .content = BLOCK_SIZE, .complete = 5},
    {.name = "other-hash", .entries = one_large, .content = BLOCK_SIZE, .complete = BLOCK_SIZE},
    {.name = "unfinished", .entries = one_large},
    {.name = "set-ids", .entries = set_ids},
    {.name = "wrong-hash", .entries = wrong_hash},
    {.name = "own-name", .entries = own_name},
    {.name = "garbage", .entries = garbage},
    {.name = "endless", .endless = true},
};

static const struct hostile_case *find_case(const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    }
    return NULL;
}

/* ---- the source ---- */

static enum source_result packed(struct hostile *hostile, struct source_item *item)
{
    item->block = hostile->blocks == 0 ? 0 : 1000 + hostile->blocks;
    item->packed = true;
    item->length = (uint32_t)pack_size(&hostile->pack);
    hostile->blocks++;
    return SOURCE_BLOCK;
}

/* The same few directories again and again: entries are counted in millions. */
static enum source_result endless(struct hostile *hostile, uint8_t *buffer,
                                  struct source_item *item)
{
    static const char *const paths[] = {"", "a", "a/b", "a/b/c"};
    pack_start(&hostile->pack, buffer, BLOCK_SIZE, PACK_DELIVERY);
    while (writer_left(&hostile->pack.writer) > 64)
        add(hostile, ENTRY_DIRECTORY, 0, paths[hostile->entries++ % 4], NULL);
    return packed(hostile, item);
}

static enum source_result end(const struct hostile *hostile, struct source_item *item)
{
    item->blocks = hostile->blocks;
    item->files = hostile->files;
    return SOURCE_END;
}

static enum source_result hostile_next(void *context, uint8_t *buffer, struct source_item *item)
{
    struct hostile *hostile = context;
    const struct hostile_case *how = hostile->how;
    memset(item, 0, sizeof *item);
    if (how->endless)
        return hostile->entries < MANY_ENTRIES ? endless(hostile, buffer, item)
                                               : end(hostile, item);
    switch (hostile->step++) {
    case 0:
        pack_start(&hostile->pack, buffer, BLOCK_SIZE, PACK_DELIVERY);
        how->entries(hostile);
        return packed(hostile, item);
    case 1:
        if (how->content == 0)
            return end(hostile, item);
        memset(buffer, 'c', how->content);
        item->block = 1;
        item->length = how->content;
        hostile->blocks++;
        return SOURCE_BLOCK;
    case 2:
        if (how->complete == 0)
            return end(hostile, item);
        item->file_id = 1;
        item->size = how->complete;
        return SOURCE_COMPLETE; /* with a hash of zeros */
    default:
        return end(hostile, item);
    }
}

static bool hostile_answer(void *context, uint32_t block, const uint8_t *verdicts, size_t count,
                           struct error *error)
{
    (void)context, (void)block, (void)verdicts, (void)count, (void)error;
    return true;
}

static void hostile_existing(void *context, const uint8_t *bitmap, size_t size)
{
    (void)context, (void)bitmap, (void)size;
}

static void hostile_close(void *context)
{
    struct hostile *hostile = context;
    transfer_request_release(&hostile->names);
    free(hostile);
}

static const struct source_ops hostile_source = {.next = hostile_next,
                                                 .answer = hostile_answer,
                                                 .set_existing = hostile_existing,
                                                 .close = hostile_close};

/* ---- the sink ---- */

static bool lying_open(void *context, const struct transfer_request *request,
                       uint8_t *existing_bitmap, size_t bitmap_size, struct error *error)
{
    (void)context, (void)request, (void)error;
    memset(existing_bitmap, 0xff, bitmap_size); /* everything is there: all is offered */
    return true;
}

static void say(sink_emit *emit, void *context, enum sink_report_kind kind, const char *path,
                enum error_kind failure, const char *text)
{
    struct sink_report report = {.kind = kind, .path = path, .error = {.kind = failure}};
    snprintf(report.error.text, sizeof report.error.text, "%s", text);
    emit(context, &report);
}

static void lying_accept(void *context, const struct sink_job *job, sink_emit *emit, void *to)
{
    struct hostile *hostile = context;
    const char *what = getenv("PETREL_HOSTILE");
    uint8_t verdicts[4096];
    memset(verdicts, ANSWER_SEND, sizeof verdicts);
    struct sink_report answer = {
        .kind = SINK_ANSWER, .block = job->block, .bytes = verdicts, .length = 1};
    if (job->kind == SINK_BLOCK) {
        struct sink_report back = {.kind = SINK_BUFFER_FREE, .bytes = job->bytes};
        emit(to, &back);
    }
    if (strcmp(what, "sink-escapes") == 0)
        say(emit, to, SINK_FILE_FAILED, "\x1b]0;evil\x07\n/etc", ERROR_IO,
            "\x1b[2Jgone\npetrel: ok");
    if (strcmp(what, "sink-done") == 0 && hostile->step++ == 0)
        say(emit, to, SINK_FINISHED, NULL, ERROR_NONE, "");
    if (strcmp(what, "sink-nothing") == 0 && job->kind == SINK_BLOCK)
        emit(to, &answer);
    if (strcmp(what, "sink-verdicts") == 0) {
        answer.length = sizeof verdicts;
        emit(to, &answer);
    }
    if (strcmp(what, "sink-odd-verdict") == 0) {
        verdicts[0] = 77;
        emit(to, &answer);
    }
    if (strcmp(what, "sink-blocks") == 0) {
        answer.block = 12345;
        emit(to, &answer);
    }
    if (strcmp(what, "sink-notes") == 0) {
        for (unsigned i = 0; i < 20000; i++)
            say(emit, to, SINK_NOTE, NULL, ERROR_IO, "a note");
        say(emit, to, SINK_FAILED, NULL, ERROR_IO, "enough");
    }
}

static void lying_close(void *context)
{
    free(context);
}

static const struct sink_ops hostile_sink = {
    .open = lying_open, .accept = lying_accept, .close = lying_close};

/* ---- hooks ---- */

bool test_hook_storage(bool sends, const struct transfer_request *request, struct storage *storage)
{
    const char *name = getenv("PETREL_HOSTILE");
    struct hostile *hostile = calloc(1, sizeof *hostile);
    if (name == NULL || hostile == NULL) {
        free(hostile);
        return false;
    }
    if (!sends) {
        storage->sink = hostile;
        storage->sink_ops = &hostile_sink;
        return true;
    }
    hostile->how = find_case(name);
    if (hostile->how == NULL) {
        fprintf(stderr, "there is no case %s\n", name);
        exit(2);
    }
    for (size_t i = 0; i < request->name_count; i++) {
        size_t size;
        const char *last = transfer_source_name(request->names[i], &size);
        const char *told = hostile->how->told_name != NULL ? hostile->how->told_name
                           : size > 0                      ? last
                                                           : "";
        transfer_request_add(&hostile->names, told, true);
    }
    storage->source = hostile;
    storage->source_ops = &hostile_source;
    storage->names = &hostile->names;
    return true;
}

enum flip_place test_hook_flip(uint32_t *after)
{
    *after = 0;
    return FLIP_NONE;
}

void test_hook_measure(void)
{
}
