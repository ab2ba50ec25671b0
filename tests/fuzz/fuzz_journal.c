/* A journal as a disk may give it back: the first byte says how much of the rest is its header,
 * what follows are records. Only what was written for this path is taken for anything. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tree/journal_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_record(const uint8_t *identity, uint64_t index, const uint8_t *record)
{
    uint8_t hash[JOURNAL_HASH_SIZE], again[JOURNAL_RECORD_SIZE];
    if (!journal_record_read(identity, index, record, hash))
        return;
    journal_record_write(identity, index, hash, again);
    require(memcmp(again, record, sizeof again) == 0);
    require(!journal_record_read(identity, index + 1, record, hash));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal_header header = {.identity = "whose"};
    if (size == 0)
        return 0;
    size_t head = data[0] < size - 1 ? data[0] : size - 1;
    uint8_t *exact = malloc(head > 0 ? head : 1);
    require(exact != NULL);
    memcpy(exact, data + 1, head);
    if (journal_header_read(&header, exact, head) == JOURNAL_GOOD) {
        uint8_t again[JOURNAL_HEADER_SIZE];
        journal_header_write(&header, again);
        require(memcmp(again, exact, sizeof again) == 0);
    }
    free(exact);
    for (size_t at = 1 + head, i = 0; at + JOURNAL_RECORD_SIZE <= size;
         at += JOURNAL_RECORD_SIZE, i++)
        check_record(header.identity, i, data + at);
    return 0;
}
