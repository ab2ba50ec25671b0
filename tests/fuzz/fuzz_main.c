/* Runs one fuzz target as a plain, repeatable test, without any fuzzer: every file of a corpus
 * folder, each of its beginnings, each of its bytes changed in a few telling ways, and a fixed
 * number of random mutations. Usage: fuzz_NAME FOLDER [SEED]
 *
 * The input lies at the end of a block of exactly its size, so that the sanitizers see every read
 * beyond it. A target that finds a contradiction aborts; the input is then left in a file whose
 * name is printed, to be added to the corpus with the fix.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

#define INPUT_LIMIT (1u << 20)
#define CHANGED_LIMIT 2048u /* of longer files, only the first bytes are cut and changed */
#define MUTATIONS 300u      /* a file */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *current;
static size_t current_size;

/* On the way down: only calls that a signal handler may make. */
static void keep_input(void)
{
    static const char text[] = "fuzz: the input is in ./fuzz-crash.bin\n";
    int file = open("fuzz-crash.bin", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    ssize_t written = write(file, current, current_size);
    close(file);
    if (written >= 0)
        written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
}

static void on_signal(int signal_number)
{
    signal(signal_number, SIG_DFL);
    keep_input();
    raise(signal_number);
}

static void run(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL)
        abort();
    if (size > 0)
        memcpy(exact, bytes, size);
    current = exact;
    current_size = size;
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_changed(uint8_t *bytes, size_t size)
{
    size_t changed = size < CHANGED_LIMIT ? size : CHANGED_LIMIT;
    for (size_t cut = 0; cut < changed; cut++)
        run(bytes, cut);
    for (size_t at = 0; at < changed; at++) {
        uint8_t old = bytes[at];
        const uint8_t others[] = {0,
                                  0xff,
                                  0x7f,
                                  0x80,
                                  (uint8_t)(old + 1),
                                  (uint8_t)(old - 1),
                                  (uint8_t)(old ^ 0x80),
                                  (uint8_t)(old ^ 0x01)};
        for (size_t i = 0; i < sizeof others; i++) {
            bytes[at] = others[i];
            run(bytes, size);
        }
        bytes[at] = old;
    }
}

/* One to eight small edits: a byte set, a bit turned, a stretch removed, doubled or moved. */
static size_t mutate(struct random *random, uint8_t *bytes, size_t size, size_t capacity)
{
    for (uint64_t edits = 1 + random_below(random, 8); edits > 0 && size > 0; edits--) {
        size_t at = (size_t)random_below(random, size);
        size_t length = 1 + (size_t)random_below(random, size - at < 16 ? size - at : 16);
        switch (random_below(random, 5)) {
        case 0:
            bytes[at] = (uint8_t)random_next(random);
            break;
        case 1:
            bytes[at] ^= (uint8_t)(1u << random_below(random, 8));
            break;
        case 2:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        case 3:
            if (size + length <= capacity) {
                memmove(bytes + at + length, bytes + at, size - at);
                size += length;
            }
            break;
        default:
            memmove(bytes + random_below(random, size - length + 1), bytes + at, length);
            break;
        }
    }
    return size;
}

static void run_mutations(struct random *random, const uint8_t *bytes, size_t size)
{
    size_t capacity = size + 128;
    uint8_t *copy = malloc(capacity);
    if (copy == NULL)
        abort();
    for (unsigned i = 0; i < MUTATIONS; i++) {
        memcpy(copy, bytes, size);
        run(copy, mutate(random, copy, size, capacity));
    }
    free(copy);
}

static size_t run_folder(const char *folder, struct random *random, uint8_t *buffer)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort); /* one order on every machine */
    if (count < 0)
        return 0;
    size_t files = 0;
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        FILE *file = entries[i]->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (file != NULL) {
            size_t size = fread(buffer, 1, INPUT_LIMIT, file);
            fclose(file);
            run(buffer, size);
            run_changed(buffer, size);
            run_mutations(random, buffer, size);
            files++;
        }
        free(entries[i]);
    }
    free(entries);
    return files;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s FOLDER [SEED]\n", arguments[0]);
        return 2;
    }
    signal(SIGABRT, on_signal);
    signal(SIGSEGV, on_signal);
    struct random random;
    random_seed(&random, count > 2 ? strtoull(arguments[2], NULL, 0) : 1);
    uint8_t *buffer = malloc(INPUT_LIMIT);
    if (buffer == NULL)
        return 2;
    run(buffer, 0);
    size_t files = run_folder(arguments[1], &random, buffer);
    free(buffer);
    if (files == 0) {
        fprintf(stderr, "fuzz: no corpus in %s\n", arguments[1]);
        return 1;
    }
    printf("%zu corpus files, each cut, changed and mutated\n", files);
    return 0;
}
