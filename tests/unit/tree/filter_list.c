/* Prints what of a folder a list of filter rules lets pass: filter_list DIR PREFIX RULE...
 *
 * A RULE is "e" or "i" and a pattern as for --exclude and --include, or "f" and a rule as for
 * --filter. Paths are ended by NUL; directories end in "/". For filter_rsync.py. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/filter.h"
#include "tree/scan.h"

static bool parse(struct filter *filter, int count, char **rules)
{
    for (int i = 0; i < count; i++) {
        struct error error = {0};
        struct filter_merge merge;
        enum filter_form form = rules[i][0] == 'e'   ? FILTER_FORM_EXCLUDE
                                : rules[i][0] == 'i' ? FILTER_FORM_INCLUDE
                                                     : FILTER_FORM_RULE;
        if (!filter_parse(filter, form, rules[i] + 1, &merge, &error) || merge.file != NULL) {
            fprintf(stderr, "filter_list: %s\n", error.text);
            return false;
        }
    }
    return true;
}

static void print(const char *prefix, const struct scan_entry *entry)
{
    if (prefix[0] != '\0')
        printf("%s%s", prefix, entry->path_size > 0 ? "/" : "");
    fputs(entry->path, stdout);
    if (S_ISDIR(entry->status.st_mode))
        putchar('/');
    putchar('\0');
}

int main(int argc, char **argv)
{
    struct filter filter = {0};
    if (argc < 3 || !parse(&filter, argc - 3, argv + 3))
        return 2;
    int root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct scan *scan = root >= 0 ? scan_new(root, false) : NULL;
    if (scan == NULL || !scan_set_filter(scan, &filter, FILTER_SENDER, argv[2]))
        return 2;
    struct scan_entry entry;
    struct error error = {0};
    bool all = argv[2][0] == '\0' ||
               !filter_excludes(&filter, FILTER_SENDER, argv[2], strlen(argv[2]), true);
    enum scan_result result;
    while (all && (result = scan_next(scan, &entry, &error)) != SCAN_END) {
        if (result == SCAN_PROBLEM)
            return 3;
        print(argv[2], &entry);
    }
    scan_free(scan);
    filter_release(&filter);
    return 0;
}
