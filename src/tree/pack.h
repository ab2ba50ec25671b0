/* Packed blocks: entries of small files with their bytes, directories, links and large files
 * (docs/protocol.md, "Blocks").
 *
 * Pure. The writer puts entries into a block until one does not fit; the reader takes a peer's
 * block apart through a bounded cursor and refuses whatever the format does not allow. Neither
 * knows what the entries mean for a file system.
 */
#ifndef PETREL_TREE_PACK_H
#define PETREL_TREE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/error.h"
#include "tree/attributes.h"

#define PACK_PATH_MAX 4096u          /* bytes of a path or of a link's target */
#define PACK_FILE_MAX (512u * 1024u) /* larger files travel in content blocks */
#define PACK_HASH_SIZE 32u

/* A squeezed packed block: this byte, then a frame that holds one of the other forms. */
#define PACK_SQUEEZED 3u

enum pack_form { PACK_OFFER = 1, PACK_DELIVERY = 2 };

enum entry_kind {
    ENTRY_DIRECTORY = 1,
    ENTRY_FILE = 2,
    ENTRY_LINK = 3,
    ENTRY_LARGE = 4,
    ENTRY_SAME = 5,      /* deliveries only: a small file that the receiver has, by its hash */
    ENTRY_SPECIAL = 6,   /* a device, named pipe or socket */
    ENTRY_HARD_LINK = 7, /* deliveries only: another name of a file of this transfer */
    ENTRY_KIND_COUNT
};

enum special_kind {
    SPECIAL_PIPE = 1,
    SPECIAL_SOCKET = 2,
    SPECIAL_CHARACTER = 3,
    SPECIAL_BLOCK = 4
};

struct entry {
    enum entry_kind kind;
    uint32_t name;    /* index of the top-level name */
    const char *path; /* below that name, "" for the name itself; ended by NUL when read */
    size_t path_size;
    uint32_t mode; /* 12 permission bits */
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint64_t size;        /* FILE, SAME, LARGE; of a LARGE in a delivery 0: not known yet */
    const uint8_t *hash;  /* FILE in a delivery, SAME: PACK_HASH_SIZE bytes */
    const uint8_t *bytes; /* FILE in a delivery: `size` of them */
    const char *target;   /* LINK, HARD_LINK: the file's path; not ended by NUL */
    size_t target_size;
    uint32_t target_name; /* HARD_LINK: the file's top-level name */
    enum special_kind special;
    uint32_t device_major, device_minor; /* SPECIAL: of devices */
    uint64_t id;                         /* LARGE in a delivery */
    uint32_t first_block;
    const uint8_t *extra; /* owner and extended attributes (tree/attributes.h), of any kind */
    size_t extra_size;    /* 0: none */
};

/* Content blocks of a large file of `size` bytes. */
uint64_t pack_block_count(uint64_t size);

/* ---- writing ---- */

struct pack_writer {
    struct writer writer;
    enum pack_form form;
    uint32_t count; /* entries so far */
    char previous[PACK_PATH_MAX];
    size_t previous_size;
    uint8_t *file_start; /* between pack_begin_file and pack_end_file, else NULL */
    uint8_t *file_hash;
};

void pack_start(struct pack_writer *pack, uint8_t *buffer, size_t capacity, enum pack_form form);
size_t pack_size(const struct pack_writer *pack);
/* Adds an entry as a whole; ENTRY_FILE in a delivery with its hash and bytes. False, and nothing
 * written, when it does not fit. */
bool pack_add(struct pack_writer *pack, const struct entry *entry);
/* A file whose bytes are read straight into the block: returns the place for entry->size bytes, or
 * NULL when they do not fit. pack_end_file takes the hash and keeps the entry; pack_cancel_file
 * forgets it. */
uint8_t *pack_begin_file(struct pack_writer *pack, const struct entry *entry);
void pack_end_file(struct pack_writer *pack, const struct entry *entry,
                   const uint8_t hash[PACK_HASH_SIZE]);
void pack_cancel_file(struct pack_writer *pack);

/* ---- reading ---- */

struct pack_reader {
    struct reader reader;
    enum pack_form form;
    uint64_t name_count;
    uint32_t count; /* entries read so far */
    char path[PACK_PATH_MAX + 1];
    size_t path_size;
};

enum pack_result { PACK_ENTRY, PACK_END, PACK_INVALID };

/* `bytes` stays borrowed while entries are read. False: no packed block. */
bool pack_open(struct pack_reader *pack, const uint8_t *bytes, size_t size, uint64_t name_count,
               struct error *error);
/* The next entry; its pointers are valid until the next call (bytes, hash and target as long as
 * the block). PACK_INVALID: error says what (ERROR_PROTOCOL; ERROR_REFUSED for a top-level name
 * that was not agreed on), and the reader is not used again. */
enum pack_result pack_next(struct pack_reader *pack, struct entry *entry, struct error *error);

/* Whether `path` is "" or components joined by "/", none empty, "." or "..", without NUL, at most
 * PACK_PATH_MAX bytes. */
bool pack_path_valid(const char *path, size_t size);

#endif
