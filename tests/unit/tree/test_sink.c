/* The sink alone: what a hostile or broken sender may try, and what stands at the destination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/block.h"
#include "copy.h"
#include "crypto/tree_hash.h"
#include "tree/pack.h"

static char base[256], target[300];

/* What was reported since the sink was opened. */
static struct {
    size_t freed, done, file_failures, finished;
    struct error failed, file_error;
} seen;

static struct file_sink *sink;
static struct pack_writer writer;
static uint8_t block[BLOCK_SIZE];
static uint64_t blocks_given;

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    snprintf(target, sizeof target, "%s/target", base);
    make_directory(target, 0755);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (sink != NULL)
        file_sink_ops.close(sink);
    sink = NULL;
    assert_no_litter(target);
    remove_tree(base);
    return 0;
}

static void on_report(void *context, const struct sink_report *report)
{
    (void)context;
    switch (report->kind) {
    case SINK_BUFFER_FREE:
        aligned_free(report->bytes);
        seen.freed++;
        break;
    case SINK_FILE_DONE:
        seen.done++;
        break;
    case SINK_FILE_FAILED:
        seen.file_failures++;
        seen.file_error = report->error;
        break;
    case SINK_FAILED:
        assert_int_equal(seen.failed.kind, ERROR_NONE);
        seen.failed = report->error;
        break;
    case SINK_FINISHED:
        seen.finished++;
        break;
    default:
        break;
    }
}

/* Opens a sink for the directory "d" (name 0) and the file "f" (name 1), below target. */
static bool open_sink(uint32_t flags)
{
    struct transfer_request request = {.flags = flags, .destination = strdup(target)};
    struct error error = {0};
    uint8_t bitmap[1];
    memset(&seen, 0, sizeof seen);
    blocks_given = 0;
    transfer_request_add(&request, "d", true);
    transfer_request_add(&request, "f", false);
    sink = file_sink_new();
    bool opened = file_sink_ops.open(sink, &request, bitmap, 1, &error);
    transfer_request_release(&request);
    pack_start(&writer, block, sizeof block, PACK_DELIVERY);
    return opened;
}

static void close_sink(void)
{
    file_sink_ops.close(sink);
    sink = NULL;
}

static struct entry entry_of(enum entry_kind kind, uint32_t name, const char *path)
{
    static uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole("bytes", 5, hash);
    struct entry entry = {.kind = kind,
                          .name = name,
                          .path = path,
                          .path_size = strlen(path),
                          .mode = kind == ENTRY_DIRECTORY ? 0755 : 0644,
                          .mtime_s = 1000};
    if (kind == ENTRY_FILE) {
        entry.size = 5;
        entry.bytes = (const uint8_t *)"bytes";
        entry.hash = hash;
    }
    if (kind == ENTRY_LINK) {
        entry.target = "elsewhere";
        entry.target_size = 9;
    }
    return entry;
}

static void add(enum entry_kind kind, uint32_t name, const char *path)
{
    struct entry entry = entry_of(kind, name, path);
    assert_true(pack_add(&writer, &entry));
}

static void add_large(uint32_t name, const char *path, uint64_t id, uint64_t size, uint32_t first)
{
    struct entry entry = entry_of(ENTRY_LARGE, name, path);
    entry.id = id;
    entry.size = size;
    entry.first_block = first;
    assert_true(pack_add(&writer, &entry));
}

static void accept(struct sink_job *job)
{
    file_sink_ops.accept(sink, job, on_report, NULL);
}

static void give(uint32_t number, bool packed, const uint8_t *bytes, size_t length)
{
    struct sink_job job = {
        .kind = SINK_BLOCK, .block = number, .packed = packed, .length = (uint32_t)length};
    job.bytes = aligned_new(BLOCK_SIZE, 4096);
    memcpy(job.bytes, bytes, length);
    blocks_given++;
    accept(&job);
}

static void give_packed(uint32_t number)
{
    give(number, true, block, pack_size(&writer));
    while (file_sink_ops.work(sink, NULL, on_report, NULL))
        ;
    pack_start(&writer, block, sizeof block, PACK_DELIVERY);
}

static void give_content(uint32_t number, size_t length, uint8_t value)
{
    uint8_t *bytes = malloc(length);
    memset(bytes, value, length);
    give(number, false, bytes, length);
    free(bytes);
}

static void complete(uint64_t id, uint64_t size, uint8_t value)
{
    struct sink_job job = {.kind = SINK_COMPLETE, .file_id = id, .size = size};
    uint8_t *bytes = malloc(size);
    memset(bytes, value, size);
    tree_hash_whole(bytes, size, job.hash);
    free(bytes);
    accept(&job);
}

static void withdraw(uint64_t id)
{
    struct sink_job job = {.kind = SINK_WITHDRAW, .file_id = id};
    error_set(&job.error, ERROR_CHANGED, "shrank");
    accept(&job);
}

static void end(uint64_t files)
{
    struct sink_job job = {.kind = SINK_END, .blocks = blocks_given, .files = files};
    accept(&job);
}

static void assert_failed(enum error_kind kind)
{
    assert_int_equal(seen.failed.kind, kind);
    assert_int_equal(seen.freed, blocks_given);
    end(0);
    assert_int_equal(seen.finished, 0);
}

static void test_plain(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    add(ENTRY_DIRECTORY, 0, "");
    add(ENTRY_FILE, 0, "a/b/c"); /* its parents come later */
    add(ENTRY_LINK, 0, "l");
    add(ENTRY_FILE, 1, "");
    give_packed(0);
    assert_true(exists(at(target, "d/a/b")));
    assert_false(exists(at(target, "f")));
    add(ENTRY_DIRECTORY, 0, "a");
    add(ENTRY_DIRECTORY, 0, "a/b");
    give_packed(1);
    end(2);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 2);
    assert_text(at(target, "d/a/b/c"), "bytes");
    assert_text(at(target, "f"), "bytes");
    struct stat status;
    assert_int_equal(lstat(at(target, "d/a/b"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0755);
    assert_int_equal(status.st_mtim.tv_sec, 1000);
}

static void test_not_asked_for(void **state)
{
    (void)state;
    static const struct {
        enum entry_kind kind;
        uint32_t name;
        const char *path;
    } refused[] = {{ENTRY_FILE, 2, ""},      {ENTRY_FILE, 0, ""}, {ENTRY_LINK, 0, ""},
                   {ENTRY_DIRECTORY, 1, ""}, {ENTRY_LINK, 1, ""}, {ENTRY_FILE, 1, "x"},
                   {ENTRY_DIRECTORY, 1, "x"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_true(open_sink(0));
        add(refused[i].kind, refused[i].name, refused[i].path);
        give_packed(0);
        assert_failed(ERROR_REFUSED);
        close_sink();
        assert_int_equal(assert_no_litter(target), 0);
    }
}

static void test_contradictions(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_true(open_sink(0));
        add(ENTRY_DIRECTORY, 0, "");
        add_large(0, "x", 7, 3 * BLOCK_SIZE, 10);
        if (i == 0)
            add_large(0, "y", 7, BLOCK_SIZE, 20); /* the same id */
        else if (i == 1)
            add_large(0, "y", 8, BLOCK_SIZE, 12); /* its last block */
        else if (i == 2)
            add_large(0, "y", 8, 2 * BLOCK_SIZE, 9); /* its first block */
        else if (i == 3)
            add_large(0, "y", 8, 20 * BLOCK_SIZE, 5); /* all around it */
        give_packed(1);
        if (i == 4)
            give_content(10, BLOCK_SIZE - 1, 1); /* short */
        else if (i == 5)
            complete(7, 1000, 1); /* another size */
        else if (i == 6)
            end(1); /* unfinished */
        else if (i == 7)
            give_content(99, 10, 1); /* belongs to nothing */
        else if (i == 8)
            give(3, true, (const uint8_t *)"\x02\x09", 2);
        if (i == 7 || i == 9) {
            for (uint32_t k = 0; k < 3; k++)
                give_content(10 + k, BLOCK_SIZE, 1);
            complete(7, 3 * BLOCK_SIZE, 1);
            end(i == 9 ? 2 : 1); /* 9: the files' count is wrong */
        }
        assert_failed(ERROR_PROTOCOL);
        close_sink();
        assert_int_equal(exists(at(target, "d/x")), i == 9);
        remove_tree(at(target, "d"));
    }
}

static void test_wrong_hash(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    struct entry entry = entry_of(ENTRY_FILE, 1, "");
    entry.bytes = (const uint8_t *)"bytez";
    assert_true(pack_add(&writer, &entry));
    add_large(0, "x", 1, 2 * BLOCK_SIZE, 10);
    add_large(0, "one", 2, 600000, 20);
    add_large(0, "good", 3, 600000, 30);
    give_packed(0);
    assert_int_equal(seen.file_error.kind, ERROR_VERIFY);
    give_content(11, BLOCK_SIZE, 1);
    give_content(10, BLOCK_SIZE, 1);
    complete(1, 2 * BLOCK_SIZE, 2);
    give_content(20, 600000, 1);
    complete(2, 600000, 2);
    assert_int_equal(seen.file_failures, 3);
    assert_int_equal(seen.file_error.kind, ERROR_VERIFY);
    give_content(30, 600000, 1);
    complete(3, 600000, 1);
    end(4);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 1);
    assert_int_equal(assert_no_litter(target), 2); /* d, d/good */
}

/* Content before its entry, withdrawal with blocks still on the way. */
static void test_orders(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    give_content(12, 100, 5);
    give_content(10, BLOCK_SIZE, 5);
    give_content(21, BLOCK_SIZE, 5);
    assert_int_equal(seen.freed, 0); /* kept for their entry */
    add_large(0, "x", 1, 2 * BLOCK_SIZE + 100, 10);
    add_large(0, "gone", 2, 3 * BLOCK_SIZE, 20);
    give_packed(0);
    assert_int_equal(seen.freed, 4);
    complete(1, 2 * BLOCK_SIZE + 100, 5);
    withdraw(2);
    assert_int_equal(seen.file_failures, 1);
    assert_int_equal(seen.file_error.kind, ERROR_CHANGED);
    give_content(20, BLOCK_SIZE, 5); /* was on the way */
    give_content(11, BLOCK_SIZE, 5);
    assert_int_equal(seen.freed, blocks_given);
    end(2);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 1);
    assert_int_equal(assert_no_litter(target), 2);
}

static void test_close_removes(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    add_large(0, "x", 1, 6 * BLOCK_SIZE, 10);
    add(ENTRY_FILE, 1, "");
    add(ENTRY_LINK, 0, "l");
    give_packed(0);
    give_content(10, BLOCK_SIZE, 1);
    close_sink();
    assert_int_equal(assert_no_litter(target), 1); /* the directory d */
}

static void test_planted_links(void **state)
{
    (void)state;
    make_directory(at(base, "outside"), 0755);
    make_text(at(base, "outside/keep"), "keep");
    make_directory(at(target, "d"), 0755);
    make_link("../../outside", at(target, "d/s"));
    make_link("../../outside/keep", at(target, "d/f"));
    make_link("../../outside/new", at(target, "d/dangling"));
    assert_true(open_sink(0));
    add(ENTRY_DIRECTORY, 0, "");
    add(ENTRY_DIRECTORY, 0, "s");
    add(ENTRY_FILE, 0, "s/x");
    add(ENTRY_LINK, 0, "s/l");
    add_large(0, "s/large", 1, 600000, 10);
    add(ENTRY_FILE, 0, "s/deep/x");
    add(ENTRY_FILE, 0, "f");
    add(ENTRY_FILE, 0, "dangling");
    give_packed(0);
    assert_int_equal(seen.file_failures, 5);
    give_content(10, 600000, 1);
    end(5);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 2);
    assert_int_equal(assert_no_litter(at(base, "outside")), 1);
    assert_text(at(base, "outside/keep"), "keep");
    assert_text(at(target, "d/f"), "bytes");
    assert_text(at(target, "d/dangling"), "bytes");
}

static void test_in_the_way(void **state)
{
    (void)state;
    make_directory(at(target, "d"), 0755);
    make_directory(at(target, "d/x"), 0755);
    make_text(at(target, "d/x/keep"), "keep");
    make_directory(at(target, "d/link"), 0755);
    make_directory(at(target, "d/large"), 0755);
    make_text(at(target, "d/sub"), "keep");
    mkfifo(at(target, "d/fifo"), 0600);
    assert_true(open_sink(0));
    add(ENTRY_DIRECTORY, 0, "");
    add(ENTRY_FILE, 0, "x");
    add(ENTRY_LINK, 0, "link");
    add_large(0, "large", 1, 600000, 10);
    add(ENTRY_DIRECTORY, 0, "sub");
    add(ENTRY_FILE, 0, "sub/y");
    add(ENTRY_FILE, 0, "fifo");
    add(ENTRY_FILE, 0, "fine");
    give_packed(0);
    give_content(10, 600000, 1);
    end(5);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 1);
    assert_int_equal(seen.file_failures, 6);
    assert_int_equal(seen.file_error.kind, ERROR_EXISTS);
    assert_text(at(target, "d/x/keep"), "keep");
    assert_text(at(target, "d/sub"), "keep");
    assert_text(at(target, "d/fine"), "bytes");
}

/* Remains of a run that was killed, and what somebody put under a temporary name. */
static void test_stale_temporary(void **state)
{
    (void)state;
    uint8_t hash[TREE_HASH_SIZE];
    char name[64];
    make_text(at(base, "outside"), "keep");
    tree_hash_whole("f", 1, hash);
    sprintf(name, ".petrel-%02x%02x%02x%02x%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3],
            hash[4], hash[5], hash[6], hash[7]);
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            make_text(at(target, name), "half a fi");
        else
            make_link("../outside", at(target, name));
        assert_true(open_sink(0));
        add(ENTRY_FILE, 1, "");
        give_packed(0);
        end(1);
        assert_int_equal(seen.done, 1);
        assert_text(at(target, "f"), "bytes");
        assert_text(at(base, "outside"), "keep");
        assert_no_litter(target);
        close_sink();
    }
}

static void test_same_path_twice(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    add_large(0, "x", 1, 600000, 10);
    add_large(0, "x", 2, 600000, 11);
    add(ENTRY_FILE, 0, "x");
    add(ENTRY_FILE, 0, "y");
    add(ENTRY_FILE, 0, "y");
    give_packed(0);
    assert_int_equal(seen.file_failures, 2);
    give_content(10, 600000, 3);
    complete(1, 600000, 3);
    give_content(11, 600000, 3);
    end(5);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 3);
    assert_text(at(target, "d/y"), "bytes");
}

/* Two petrels that write to one place never touch each other's temporary files. */
static void test_two_at_once(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    add(ENTRY_FILE, 1, "");
    add_large(0, "x", 1, 600000, 10);
    give_packed(0);
    struct file_sink *first = sink;
    assert_true(open_sink(0));
    add(ENTRY_FILE, 1, "");
    add_large(0, "x", 1, 600000, 10);
    give_packed(0);
    give_content(10, 600000, 2);
    complete(1, 600000, 2);
    end(2);
    assert_int_equal(seen.finished, 1);
    close_sink();
    sink = first;
    memset(&seen, 0, sizeof seen);
    blocks_given = 1;
    give_content(10, 600000, 1);
    complete(1, 600000, 1);
    end(2);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 2);
}

/* What was not there at the start is not replaced when it is another's. */
static void test_taken_meanwhile(void **state)
{
    (void)state;
    assert_true(open_sink(0));
    add(ENTRY_FILE, 0, "x");
    add(ENTRY_FILE, 0, "y");
    give_packed(0);
    make_text(at(target, "d/x"), "somebody's");
    end(2);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 1);
    assert_int_equal(seen.file_error.kind, ERROR_EXISTS);
    assert_text(at(target, "d/x"), "somebody's");
}

/* More large files than are kept open. */
static void test_many_large(void **state)
{
    (void)state;
    enum { FILES = 200 };
    assert_true(open_sink(0));
    char name[32];
    for (uint32_t i = 0; i < FILES; i++) {
        sprintf(name, "f%u", i);
        add_large(0, name, i, BLOCK_SIZE + 1, 2 * i);
    }
    give_packed(1000);
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < FILES; i++)
            give_content(2 * i + 1 - half, half == 0 ? 1 : BLOCK_SIZE, (uint8_t)i);
    }
    for (uint32_t i = 0; i < FILES; i++)
        complete(i, BLOCK_SIZE + 1, (uint8_t)i);
    end(FILES);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, FILES);
    assert_int_equal(assert_no_litter(target), FILES + 1);
}

static void test_dry_run(void **state)
{
    (void)state;
    make_directory(at(target, "d"), 0755);
    assert_true(open_sink(TRANSFER_DRY_RUN));
    add(ENTRY_DIRECTORY, 0, "");
    for (uint32_t name = 0; name < 2; name++) {
        static const uint8_t would_come[TREE_HASH_SIZE];
        struct entry entry = entry_of(ENTRY_FILE, name, name == 0 ? "x" : "");
        entry.kind = ENTRY_SAME;
        entry.hash = would_come;
        assert_true(pack_add(&writer, &entry));
    }
    add_large(0, "large", 1, 3 * BLOCK_SIZE, 7);
    give_packed(0);
    complete(1, 3 * BLOCK_SIZE, 0);
    end(3);
    assert_int_equal(seen.finished, 1);
    assert_int_equal(seen.done, 3);
    assert_int_equal(assert_no_litter(target), 1);
    close_sink();
    assert_true(open_sink(TRANSFER_DRY_RUN));
    add(ENTRY_FILE, 1, "");
    give_packed(0);
    assert_failed(ERROR_PROTOCOL);
    close_sink();
    assert_true(open_sink(TRANSFER_DRY_RUN));
    add_large(0, "large", 1, BLOCK_SIZE + 1, 7);
    give_packed(0);
    give_content(7, BLOCK_SIZE, 1);
    assert_failed(ERROR_PROTOCOL);
    assert_int_equal(assert_no_litter(target), 1);
}

int main(void)
{
    umask(022);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_plain),           CASE(test_not_asked_for), CASE(test_contradictions),
        CASE(test_wrong_hash),      CASE(test_orders),        CASE(test_close_removes),
        CASE(test_planted_links),   CASE(test_in_the_way),    CASE(test_stale_temporary),
        CASE(test_same_path_twice), CASE(test_two_at_once),   CASE(test_taken_meanwhile),
        CASE(test_many_large),      CASE(test_dry_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
