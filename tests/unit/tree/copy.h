/* A copy without a network: blocks from a source go to a sink, in another order if asked. Shared by
 * the tests of tree/; every call asserts what the contracts in tree/storage.h promise. */
#ifndef PETREL_TESTS_TREE_COPY_H
#define PETREL_TESTS_TREE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tree/sink.h"
#include "tree/source.h"

#define COPY_LOG 4096

struct copy_line {
    enum sink_report_kind kind;
    enum error_kind error;
    char path[512];
    char text[480];
    uint64_t size;
    uint8_t hash[32];
};

struct copy {
    /* Asked for. */
    uint64_t flags, max_delete;
    uint64_t problems_told;              /* what END says of the sender */
    uint64_t seed;                       /* 0: blocks in the order they were made */
    size_t window;                       /* blocks on the way when shuffled; 0: 24 */
    const char *destination, *reference; /* reference: NULL for none */
    const char *const *paths;
    size_t path_count;
    const char *const *rules;  /* of --filter, ended by NULL; NULL: none */
    bool sender_ignores_rules; /* and the list */
    const char *const *listed; /* --files-from, ended by NULL; NULL: none */
    bool pull;                 /* paths are a request's, read by file_source_new_pull */
    /* Called before every step of the source, with the number of blocks it has given. */
    void (*before_step)(void *context, uint64_t blocks);
    /* Called before a block reaches the sink; may change its bytes. */
    void (*on_block)(void *context, uint8_t *bytes, uint32_t length, bool packed);
    void *context;
    size_t batch_files;   /* of the sink, 0: as many as it likes */
    bool stop_before_end; /* close the sink without END */
    uint64_t stop_at;     /* close both after so many content blocks have reached the sink; 0: no */
    bool on_kill;         /* die by SIGKILL instead of closing */

    /* Found. */
    bool opened, finished, failed; /* failed: SINK_FAILED or SOURCE_FAILED */
    struct error error;            /* of opening or failing */
    struct error problem;          /* the last SOURCE_PROBLEM or SOURCE_WITHDRAW */
    uint64_t done, skipped, deleted, failures, problems, withdrawn;
    uint64_t offers, packed, content; /* blocks */
    uint64_t hashes, kept, forgotten; /* blocks told of, and not sent; FORGETs */
    uint64_t kept_bytes;
    uint64_t verified_bytes, total_files, total_bytes, finished_files;
    bool totals_final;
    uint64_t most_unanswered; /* bytes of offers */
    char note[256];           /* the last SINK_NOTE */
    struct copy_line lines[COPY_LOG];
    size_t line_count;
};

/* Runs the copy, as a push unless `pull` is set. */
void copy_run(struct copy *copy);
/* The last report about `path`, NULL without one. */
const struct copy_line *copy_line_of(const struct copy *copy, const char *path);

/* ---- files for tests ---- */

/* A new directory below TMPDIR; the text lives until the next call. What a killed test left there
 * is removed. */
const char *test_directory(void);
/* "base/name", printed into one of a few buffers in turn. */
const char *at(const char *base, const char *name);
/* Makes a file of `size` bytes that follow from `seed`. */
void make_file(const char *path, size_t size, uint64_t seed);
void make_text(const char *path, const char *text);
void make_directory(const char *path, unsigned mode);
void make_link(const char *target, const char *path);
void set_time(const char *path, int64_t seconds, long nanoseconds);
void remove_tree(const char *path);
/* For root only: a child process goes on as an ordinary user (true there), the parent waits for it
 * and adds its failures to *failures. */
bool again_as_user(int *failures);
bool exists(const char *path);
/* Asserts that two trees (or files) hold the same: names, types, modes, times, bytes, targets. */
void assert_same_tree(const char *a, const char *b);
/* Asserts that the file holds what make_file(path, size, seed) made. */
void assert_file(const char *path, size_t size, uint64_t seed);
void assert_text(const char *path, const char *text);
/* Asserts that `now` holds what `before` or `wanted` hold, or is not there when `before` is not. */
void assert_old_or_new(const char *now, const char *before, const char *wanted, const char *when);
/* Asserts that no name of petrel's own is left in or below `path`; returns all entries below. */
size_t assert_no_litter(const char *path);

#endif
