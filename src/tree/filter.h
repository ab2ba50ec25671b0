/* Which paths of a tree take part: rules in rsync's pattern language, the first match decides.
 *
 * A rule includes or excludes what its pattern matches; what no rule matches is included. Rules are
 * told by users as text (filter_parse) and travel as values (filter_add). Paths are those of the
 * transfer: a top-level name and what is below it, components joined by "/", without a "/" at
 * either end. Pure: files that hold rules are read by others.
 *
 * Patterns: "*" any bytes but "/", "**" any bytes, "?" one byte but "/", [a-z] [!a-z] [[:alpha:]],
 * "\" takes the next byte literally (only where the pattern has one of * ? [). A "/" at the end
 * matches directories alone, one at the beginning binds the pattern to the top. With a "/"
 * elsewhere or "**" the pattern is matched against the path, and unless bound against its end, else
 * against the last component. "dir/" and three stars match the directory and all below it. Source:
 * rsync(1), "FILTER RULES"; compared with rsync itself by tests/unit/tree/filter_rsync.py.
 */
#ifndef PETREL_TREE_FILTER_H
#define PETREL_TREE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define FILTER_RULES_MAX 65536u
#define FILTER_PATTERN_MAX 4096u /* bytes */

enum filter_flag {
    FILTER_INCLUDE = 1u << 0,   /* else the rule excludes */
    FILTER_SENDER = 1u << 1,    /* decides what is sent */
    FILTER_RECEIVER = 1u << 2,  /* decides what --delete leaves alone */
    FILTER_NEGATE = 1u << 3,    /* applies to what the pattern does not match */
    FILTER_PERISHABLE = 1u << 4 /* does not keep a directory that is being deleted */
};
#define FILTER_FLAGS 31u
#define FILTER_SIDES (FILTER_SENDER | FILTER_RECEIVER)
/* The receiver's side in a directory that is being deleted: perishable rules do not count. */
#define FILTER_BELOW_DELETED (FILTER_RECEIVER | FILTER_PERISHABLE)

struct filter_rule;

struct filter {
    struct filter_rule *rules;
    size_t count, capacity;
};

/* Zeroed memory is a filter without rules. */
void filter_release(struct filter *filter);
/* Appends a rule; the pattern is copied and holds no NUL. False: too many or too long a pattern
 * (ERROR_USAGE), or no memory. */
bool filter_add(struct filter *filter, unsigned flags, const char *pattern, size_t size,
                struct error *error);
/* Appends all of `from`. */
bool filter_copy(struct filter *filter, const struct filter *from, struct error *error);
/* Rule `index` as it was added; the pattern is borrowed and ended by NUL. */
unsigned filter_rule_flags(const struct filter *filter, size_t index);
const char *filter_rule_pattern(const struct filter *filter, size_t index);
/* --delete-excluded: what has been added without a side of its own stops to protect. */
void filter_unprotect(struct filter *filter);

/* Whether a rule of that side (FILTER_SENDER, FILTER_RECEIVER or FILTER_BELOW_DELETED) excludes the
 * path itself; directories above it are not looked at. "" never is. */
bool filter_excludes(const struct filter *filter, unsigned side, const char *path, size_t size,
                     bool is_directory);
/* Whether the path and all directories above it pass on the sender's side. */
bool filter_admits(const struct filter *filter, const char *path, size_t size, bool is_directory);

/* ---- what users write ---- */

enum filter_form {
    FILTER_FORM_RULE,    /* --filter: "- PATTERN", "+ PATTERN", "hide PATTERN", "merge FILE" ... */
    FILTER_FORM_EXCLUDE, /* --exclude: a pattern, or "+ PATTERN", "- PATTERN", "!" */
    FILTER_FORM_INCLUDE  /* --include: likewise */
};

/* Set when the text names a file of rules, which the caller reads line by line. */
struct filter_merge {
    const char *file; /* borrowed from the text; NULL: none */
    enum filter_form form;
};

/* Adds what `text` says; empty text is no rule. "!" empties the filter. ERROR_USAGE for what is no
 * rule or not possible here. */
bool filter_parse(struct filter *filter, enum filter_form form, const char *text,
                  struct filter_merge *merge, struct error *error);

#endif
