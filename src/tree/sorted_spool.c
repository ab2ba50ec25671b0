#include "tree/sorted_spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/spool_file.h"
#include "tree/write_at.h"

#define MEMORY_DEFAULT (8u << 20)
#define MEMORY_MIN (64u << 10)
#define RUNS_MAX 64u                              /* merged at once */
#define WINDOW_SIZE (2 * SORTED_SPOOL_RECORD_MAX) /* of a run that is being read */
#define HEAD_SIZE 4u                              /* a record's size before its bytes */

/* A sorted part of the file, and where it is read. */
struct run {
    uint64_t start, end, at; /* at: behind what is in the window */
    uint8_t *window;
    size_t first, filled; /* of the window; the current record begins at first */
};

struct sorted_spool {
    uint8_t *bytes; /* records with their heads, in the order they came */
    size_t size, capacity, limit;
    uint32_t *order; /* offsets into bytes */
    size_t count, order_capacity, next;
    int fd; /* -1: all is in memory */
    uint64_t file_size;
    struct run runs[RUNS_MAX];
    size_t run_count;
    uint8_t heap[RUNS_MAX]; /* runs with a record, the least first */
    size_t heap_count;
    bool reading, pending; /* pending: the heap's first has to move on before the next is given */
};

struct sorted_spool *sorted_spool_new(size_t memory)
{
    struct sorted_spool *spool = calloc(1, sizeof *spool);
    if (spool == NULL)
        return NULL;
    spool->fd = -1;
    spool->limit = memory == 0 ? MEMORY_DEFAULT : memory < MEMORY_MIN ? MEMORY_MIN : memory;
    return spool;
}

static void free_windows(struct sorted_spool *spool)
{
    for (size_t i = 0; i < spool->run_count; i++) {
        free(spool->runs[i].window);
        spool->runs[i].window = NULL;
    }
}

void sorted_spool_free(struct sorted_spool *spool)
{
    if (spool == NULL)
        return;
    free_windows(spool);
    free(spool->bytes);
    free(spool->order);
    if (spool->fd >= 0)
        close(spool->fd);
    free(spool);
}

static bool no_memory(struct error *error)
{
    return error_set(error, ERROR_MEMORY, "no memory to sort paths");
}

static uint32_t head_of(const uint8_t *record)
{
    uint32_t size;
    memcpy(&size, record, HEAD_SIZE);
    return size;
}

static int compare(const uint8_t *a, const uint8_t *b)
{
    uint32_t a_size = head_of(a), b_size = head_of(b);
    int order = memcmp(a + HEAD_SIZE, b + HEAD_SIZE, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_offsets(const void *a, const void *b, void *bytes)
{
    const uint8_t *base = bytes;
    return compare(base + *(const uint32_t *)a, base + *(const uint32_t *)b);
}

static void sort(struct sorted_spool *spool)
{
    if (spool->count > 1)
        qsort_r(spool->order, spool->count, sizeof *spool->order, compare_offsets, spool->bytes);
}

/* ---- the file ---- */

static bool append(struct sorted_spool *spool, const uint8_t *bytes, size_t size,
                   struct error *error)
{
    if (!write_at(spool->fd, bytes, size, spool->file_size))
        return error_set_errno(error, errno, "cannot write a temporary file in TMPDIR");
    spool->file_size += size;
    return true;
}

/* Gathers small records to writes of a reasonable size. */
struct output {
    struct sorted_spool *spool;
    uint8_t bytes[WINDOW_SIZE];
    size_t size;
};

static bool put(struct output *output, const uint8_t *record, struct error *error)
{
    size_t size = HEAD_SIZE + head_of(record);
    if (output->size + size > sizeof output->bytes) {
        if (!append(output->spool, output->bytes, output->size, error))
            return false;
        output->size = 0;
    }
    memcpy(output->bytes + output->size, record, size);
    output->size += size;
    return true;
}

static bool merge_runs(struct sorted_spool *spool, struct error *error);

/* Sorts what is in memory into a new run. */
static bool write_run(struct sorted_spool *spool, struct error *error)
{
    if (spool->fd < 0)
        spool->fd = spool_file_open(error);
    if (spool->fd < 0 || (spool->run_count == RUNS_MAX && !merge_runs(spool, error)))
        return false;
    sort(spool);
    struct output output;
    output.spool = spool;
    output.size = 0;
    struct run *run = &spool->runs[spool->run_count];
    *run = (struct run){.start = spool->file_size};
    for (size_t i = 0; i < spool->count; i++) {
        if (!put(&output, spool->bytes + spool->order[i], error))
            return false;
    }
    if (!append(spool, output.bytes, output.size, error))
        return false;
    run->end = spool->file_size;
    spool->run_count++;
    spool->size = spool->count = 0;
    return true;
}

/* ---- adding ---- */

static bool make_room(struct sorted_spool *spool, size_t size)
{
    if (spool->size + size > spool->capacity) {
        size_t capacity = spool->capacity * 2 + 4096 + size;
        uint8_t *bytes = realloc(spool->bytes, capacity);
        if (bytes == NULL)
            return false;
        spool->bytes = bytes;
        spool->capacity = capacity;
    }
    if (spool->count == spool->order_capacity) {
        size_t capacity = spool->order_capacity * 2 + 256;
        uint32_t *order = realloc(spool->order, capacity * sizeof *order);
        if (order == NULL)
            return false;
        spool->order = order;
        spool->order_capacity = capacity;
    }
    return true;
}

bool sorted_spool_add(struct sorted_spool *spool, const void *bytes, size_t size,
                      struct error *error)
{
    size_t held = spool->size + spool->count * sizeof *spool->order;
    if (spool->count > 0 && held + size + HEAD_SIZE > spool->limit && !write_run(spool, error))
        return false;
    if (!make_room(spool, HEAD_SIZE + size))
        return no_memory(error);
    uint32_t head = (uint32_t)size;
    spool->order[spool->count++] = (uint32_t)spool->size;
    memcpy(spool->bytes + spool->size, &head, HEAD_SIZE);
    if (size > 0)
        memcpy(spool->bytes + spool->size + HEAD_SIZE, bytes, size);
    spool->size += HEAD_SIZE + size;
    return true;
}

/* ---- reading runs ---- */

/* Makes sure that the run's current record is in its window. *ended: there is none. */
static bool fill(struct sorted_spool *spool, struct run *run, bool *ended, struct error *error)
{
    for (;;) {
        size_t have = run->filled - run->first;
        uint32_t size = have >= HEAD_SIZE ? head_of(run->window + run->first) : 0;
        *ended = have == 0 && run->at == run->end;
        if (*ended || (have >= HEAD_SIZE && have >= HEAD_SIZE + size))
            return true;
        memmove(run->window, run->window + run->first, have);
        run->first = 0;
        run->filled = have;
        uint64_t left = run->end - run->at;
        size_t room = WINDOW_SIZE - have;
        ssize_t n =
            pread(spool->fd, run->window + have, left < room ? (size_t)left : room, (off_t)run->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set_errno(error, n < 0 ? errno : EIO,
                                   "cannot read a temporary file in TMPDIR");
        run->at += (uint64_t)n;
        run->filled += (size_t)n;
    }
}

static const uint8_t *record_of(const struct run *run)
{
    return run->window + run->first;
}

static bool is_less(const struct sorted_spool *spool, uint8_t a, uint8_t b)
{
    return compare(record_of(&spool->runs[a]), record_of(&spool->runs[b])) < 0;
}

static void sink_down(struct sorted_spool *spool, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < spool->heap_count; child++) {
            if (is_less(spool, spool->heap[child], spool->heap[least]))
                least = child;
        }
        if (least == at)
            return;
        uint8_t moved = spool->heap[at];
        spool->heap[at] = spool->heap[least];
        spool->heap[least] = moved;
        at = least;
    }
}

static bool open_runs(struct sorted_spool *spool, struct error *error)
{
    spool->heap_count = 0;
    spool->pending = false;
    for (size_t i = 0; i < spool->run_count; i++) {
        struct run *run = &spool->runs[i];
        if (run->window == NULL)
            run->window = malloc(WINDOW_SIZE);
        if (run->window == NULL)
            return no_memory(error);
        run->at = run->start;
        run->first = run->filled = 0;
        bool ended;
        if (!fill(spool, run, &ended, error))
            return false;
        if (!ended)
            spool->heap[spool->heap_count++] = (uint8_t)i;
    }
    for (size_t at = spool->heap_count; at-- > 0;)
        sink_down(spool, at);
    return true;
}

static enum spool_result next_of_runs(struct sorted_spool *spool, const uint8_t **record,
                                      struct error *error)
{
    if (spool->pending) {
        struct run *run = &spool->runs[spool->heap[0]];
        bool ended;
        spool->pending = false;
        run->first += HEAD_SIZE + head_of(record_of(run));
        if (!fill(spool, run, &ended, error))
            return SPOOL_FAILED;
        if (ended)
            spool->heap[0] = spool->heap[--spool->heap_count];
        sink_down(spool, 0);
    }
    if (spool->heap_count == 0)
        return SPOOL_END;
    spool->pending = true;
    *record = record_of(&spool->runs[spool->heap[0]]);
    return SPOOL_RECORD;
}

/* All runs become one, in a file of its own. */
static bool merge_runs(struct sorted_spool *spool, struct error *error)
{
    if (!open_runs(spool, error))
        return false;
    struct sorted_spool merged = {.fd = spool_file_open(error)};
    struct output output;
    output.spool = &merged;
    output.size = 0;
    const uint8_t *record;
    enum spool_result result = SPOOL_FAILED;
    while (merged.fd >= 0 && (result = next_of_runs(spool, &record, error)) == SPOOL_RECORD) {
        if (!put(&output, record, error)) {
            result = SPOOL_FAILED;
            break;
        }
    }
    free_windows(spool);
    if (result == SPOOL_FAILED || !append(&merged, output.bytes, output.size, error)) {
        if (merged.fd >= 0)
            close(merged.fd);
        return false;
    }
    close(spool->fd);
    spool->fd = merged.fd;
    spool->file_size = merged.file_size;
    spool->runs[0] = (struct run){.end = merged.file_size};
    spool->run_count = 1;
    return true;
}

/* ---- reading ---- */

bool sorted_spool_rewind(struct sorted_spool *spool, struct error *error)
{
    bool first = !spool->reading;
    spool->reading = true;
    spool->next = 0;
    if (spool->fd < 0) {
        if (first)
            sort(spool);
        return true;
    }
    if (spool->count > 0 && !write_run(spool, error))
        return false;
    free(spool->bytes);
    free(spool->order);
    spool->bytes = NULL;
    spool->order = NULL;
    spool->capacity = spool->order_capacity = 0;
    return open_runs(spool, error);
}

enum spool_result sorted_spool_next(struct sorted_spool *spool, const uint8_t **bytes, size_t *size,
                                    struct error *error)
{
    const uint8_t *record = NULL;
    enum spool_result result = SPOOL_END;
    if (spool->fd >= 0) {
        result = next_of_runs(spool, &record, error);
    } else if (spool->next < spool->count) {
        record = spool->bytes + spool->order[spool->next++];
        result = SPOOL_RECORD;
    }
    if (result == SPOOL_RECORD) {
        *bytes = record + HEAD_SIZE;
        *size = head_of(record);
    }
    return result;
}
