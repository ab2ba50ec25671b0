/* What a client asks of the far end, as a value that travels in the protocol and never in a
 * command line. Pure: parsing, printing and limits only. */
#ifndef PETREL_TREE_REQUEST_H
#define PETREL_TREE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/error.h"
#include "tree/filter.h"

#define REQUEST_PATHS_MAX 4096
#define REQUEST_PATH_LIMIT 4096

enum transfer_flag {
    TRANSFER_MAKE_PATH = 1u << 0,                /* --mkpath */
    TRANSFER_FOLLOW_LINKS = 1u << 1,             /* -L */
    TRANSFER_DRY_RUN = 1u << 2,                  /* -n */
    TRANSFER_QUICK_CHECK = 1u << 3,              /* same size and mtime: skip */
    TRANSFER_DESTINATION_IS_DIRECTORY = 1u << 4, /* several sources, or it ended in '/' */
    TRANSFER_WILDCARDS = 1u << 5,                /* sources may hold * ? [...] */
    TRANSFER_NAME_FILES = 1u << 6,               /* push: every file by its name */
    TRANSFER_WHOLE = 1u << 7,                    /* --whole: what is there is not compared */
    TRANSFER_REFERENCE = 1u << 8,                /* --reference: a path follows */
    TRANSFER_IN_PLACE = 1u << 9,                 /* --inplace: large files where they stand */
    TRANSFER_VERIFY_DISK = 1u << 10,             /* --verify=disk: read back what was written */
    TRANSFER_FILTERS = 1u << 16,                 /* filter rules follow */
    TRANSFER_DELETE = 1u << 17,                  /* --delete: what did not come, at the end */
    TRANSFER_MAX_DELETE = 1u << 18,              /* --max-delete: a number follows */
    TRANSFER_FILES_FROM = 1u << 19,              /* a list of paths in the one source will come */
    TRANSFER_LIST_TREES = 1u << 20,              /* listed directories mean all below them */
    TRANSFER_UPDATE = 1u << 21,                  /* -u: what is newer there stays */
    TRANSFER_IGNORE_EXISTING = 1u << 22,         /* what is there stays */
    TRANSFER_EXISTING = 1u << 23,                /* what is not there does not come */
    TRANSFER_NO_PERMS = 1u << 24,
    TRANSFER_NO_TIMES = 1u << 25,
    TRANSFER_OWNER = 1u << 26,
    TRANSFER_GROUP = 1u << 27,
    TRANSFER_NUMERIC_IDS = 1u << 28,  /* owners by number, whatever their names */
    TRANSFER_OWNERS_ASKED = 1u << 29, /* by themselves: what cannot be kept is told */
    TRANSFER_SPECIALS = 1u << 30,     /* -D: devices, pipes, sockets */
    TRANSFER_HARD_LINKS = UINT64_C(1) << 31,
    TRANSFER_XATTRS = UINT64_C(1) << 32,
    TRANSFER_ACLS = UINT64_C(1) << 33,
    TRANSFER_SPARSE = UINT64_C(1) << 34,
    TRANSFER_REMOVE_SOURCE = UINT64_C(1) << 35,
    TRANSFER_STREAM = UINT64_C(1) << 36, /* push: one file, whose size comes at its end */
    TRANSFER_SQUEEZE = UINT64_C(1) << 37 /* -z: blocks may be squeezed; a level follows */
};

struct transfer_request {
    uint64_t flags;
    /* Push: the top-level names that will come, in order, and the destination. A name is one path
     * component, or "" for "the contents of a directory go into the destination itself".
     * Pull: the source paths as the user wrote them (relative to the remote home); destination is
     * then local and not sent. */
    char **names;
    uint8_t *name_is_directory; /* push: what the source is; pull: 0 */
    size_t name_count;
    char
        *destination; /* push: as the user wrote it, "" for home, "~/x" allowed. Pull: local path */
    struct filter filter;   /* without rules unless TRANSFER_FILTERS */
    uint64_t max_delete;    /* with TRANSFER_MAX_DELETE */
    unsigned squeeze_level; /* with TRANSFER_SQUEEZE: 0 auto, 1 to SQUEEZE_LEVEL_MAX */
    char *reference;        /* with TRANSFER_REFERENCE: a directory on the destination's side */
};

void transfer_request_release(struct transfer_request *request);
bool transfer_request_add(struct transfer_request *request, const char *name, bool is_directory);
/* The body of REQUEST. A destination of NULL travels as "": a pull encodes a copy of the struct
 * with the destination set to NULL. */
void transfer_request_encode(const struct transfer_request *request, struct writer *writer);
/* Takes all that `reader` holds. Refuses more than REQUEST_PATHS_MAX names, longer paths, unknown
 * flags, bytes that follow, and NUL bytes inside. On success the caller releases `request`; on
 * failure it is left empty. */
bool transfer_request_decode(struct transfer_request *request, struct reader *reader,
                             struct error *error);

/* Sets TRANSFER_FILTERS when there are rules, which become the request's. */
void transfer_request_take_filter(struct transfer_request *request, struct filter *filter);

/* Whether every name is a top-level name (one component that is not "." or "..", or "" for a
 * directory's contents): what a push's receiver demands of the request. */
bool transfer_request_names_valid(const struct transfer_request *names, struct error *error);
/* Whether a pull that asked for `request` may be answered with `names`: each name must follow from
 * a source asked for, by its last component, or by its pattern with TRANSFER_WILDCARDS; "" only
 * from a source that means a directory's contents ("dir/", ".", "..", ""). ERROR_REFUSED else. */
bool transfer_request_admits(const struct transfer_request *request,
                             const struct transfer_request *names, struct error *error);

/* The last component of a source as the user wrote it, by the rule "dir is DST/dir, dir/ its
 * contents": *size 0 for "dir/", ".", "x/..", "~" and "". Borrowed from `path`. */
const char *transfer_source_name(const char *path, size_t *size);

#endif
