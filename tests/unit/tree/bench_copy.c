/* How fast source and sink are alone, one thread for both: bench_copy FOLDER [GiB] [small files].
 *
 * Prints one line each for a large file and for a tree of small ones: rate, and processor time a GB
 * or a file. Run by `meson test --benchmark` with small sizes, by hand with telling ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/block.h"
#include "tree/sink.h"
#include "tree/source.h"

struct totals {
    uint64_t bytes, files, failures;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void on_report(void *context, const struct sink_report *report)
{
    struct totals *totals = context;
    if (report->kind == SINK_FILE_DONE) {
        totals->bytes += report->size;
        totals->files++;
    }
    if (report->kind == SINK_FAILED || report->kind == SINK_FILE_FAILED) {
        fprintf(stderr, "%s: %s\n", report->path != NULL ? report->path : "", report->error.text);
        totals->failures++;
    }
}

static void move(struct file_source *source, struct file_sink *sink, struct totals *totals)
{
    uint8_t *buffer = aligned_new(BLOCK_SIZE, 4096);
    for (bool more = true; more && buffer != NULL;) {
        struct source_item item;
        struct sink_job job = {.kind = SINK_BLOCK};
        switch (file_source_ops.next(source, buffer, &item)) {
        case SOURCE_BLOCK:
            job.bytes = buffer;
            break;
        case SOURCE_COMPLETE:
            job.kind = SINK_COMPLETE;
            break;
        case SOURCE_END:
            job.kind = SINK_END;
            more = false;
            break;
        default:
            fprintf(stderr, "source: %s\n", item.error.text);
            continue;
        }
        job.block = item.block;
        job.packed = item.packed;
        job.length = item.length;
        job.file_id = item.file_id;
        job.size = item.size;
        job.blocks = item.blocks;
        job.files = item.files;
        memcpy(job.hash, item.hash, sizeof job.hash);
        file_sink_ops.accept(sink, &job, on_report, totals);
    }
    aligned_free(buffer);
}

static bool measure(const char *what, const char *from, const char *to)
{
    struct transfer_request request = {0};
    struct error error = {0};
    struct totals totals = {0};
    uint8_t bitmap[8];
    const char *paths[1] = {from};
    struct file_source *source = file_source_new_push(paths, 1, &request, &error);
    struct file_sink *sink = file_sink_new();
    request.destination = strdup(to);
    double start = seconds_now(), processor = processor_seconds();
    if (source == NULL || !file_sink_ops.open(sink, &request, bitmap, 8, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    move(source, sink, &totals);
    file_source_ops.close(source);
    file_sink_ops.close(sink);
    double spent = seconds_now() - start;
    processor = processor_seconds() - processor;
    double gigabytes = (double)totals.bytes / 1e9;
    printf("%s: %.2f GB, %llu files in %.2f s: %.0f MB/s, %.3f processor s/GB, %.0f files/s, "
           "%.1f processor us/file\n",
           what, gigabytes, (unsigned long long)totals.files, spent, gigabytes * 1e3 / spent,
           processor / gigabytes, (double)totals.files / spent,
           processor * 1e6 / (double)totals.files);
    transfer_request_release(&request);
    return totals.failures == 0;
}

static void write_file(const char *path, size_t size, const uint8_t *bytes)
{
    FILE *file = fopen(path, "w");
    for (size_t left = size; file != NULL && left > 0;) {
        size_t piece = left < BLOCK_SIZE ? left : BLOCK_SIZE;
        left -= fwrite(bytes, 1, piece, file) == piece ? piece : left;
    }
    if (file != NULL)
        fclose(file);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    size_t size = (size_t)((argc > 2 ? atof(argv[2]) : 0.1) * 1073741824.0);
    unsigned files = argc > 3 ? (unsigned)atoi(argv[3]) : 1000;
    char base[512], from[600], to[600], name[700];
    snprintf(base, sizeof base, "%s/petrel-bench-XXXXXX", argv[1]);
    uint8_t *bytes = malloc(BLOCK_SIZE);
    if (mkdtemp(base) == NULL || bytes == NULL)
        return 1;
    memset(bytes, 'x', BLOCK_SIZE);
    snprintf(from, sizeof from, "%s/large", base);
    snprintf(to, sizeof to, "%s/copy", base);
    write_file(from, size, bytes);
    bool done = measure("large", from, to);
    unlink(to);
    unlink(from);
    snprintf(from, sizeof from, "%s/small", base);
    mkdir(from, 0755);
    for (unsigned i = 0; i < files; i++) {
        if (i % 100 == 0) {
            snprintf(name, sizeof name, "%s/d%u", from, i / 100);
            mkdir(name, 0755);
        }
        snprintf(name, sizeof name, "%s/d%u/f%u", from, i / 100, i);
        write_file(name, 4096, bytes);
    }
    done = measure("small", from, to) && done;
    free(bytes);
    snprintf(name, sizeof name, "rm -rf '%s'", base);
    return system(name) == 0 && done ? 0 : 1;
}
