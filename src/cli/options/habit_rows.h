/* Options that users of rsync and scp type by habit and that petrel spells otherwise, as rows for
 * the table of copy's options. Each is answered by one line that names petrel's way: what petrel
 * does anyway is remarked on and the copy goes on, the others end it (cli/options/options.h).
 */
#ifndef PETREL_CLI_HABIT_ROWS_H
#define PETREL_CLI_HABIT_ROWS_H

#include "cli/options/options.h"

#define HABIT_ANYWAY(letter, name, offset, text)                                                   \
    {                                                                                              \
        letter, name, OPTION_REMARK, offset, "--" name ": " text, NULL, NULL                       \
    }
#define HABIT_OTHERWISE(letter, name, text)                                                        \
    {                                                                                              \
        letter, name, OPTION_ELSEWHERE, 0, text, NULL, NULL                                        \
    }

/* `remarks`: offset of the option_list for lines to print. */
#define HABIT_OPTION_ROWS(remarks)                                                                 \
    HABIT_ANYWAY(0, "partial", remarks, "what has arrived is kept anyway; run the same again"),    \
        HABIT_ANYWAY(0, "progress", remarks, "progress is shown anyway on a terminal"),            \
        HABIT_ANYWAY(0, "human-readable", remarks, "amounts are printed for people anyway"),       \
        HABIT_ANYWAY(0, "no-whole-file", remarks, "this is so anyway; --whole is the other way"),  \
        HABIT_ANYWAY(0, "stats", remarks, "the summary is printed anyway; --json has more"),       \
        HABIT_ANYWAY('s', "protect-args", remarks, "no remote shell sees the names anyway"),       \
        HABIT_OTHERWISE('l', NULL,                                                                 \
                        "links are copied as links anyway, and scp's -l 8000 is written "          \
                        "--limit=8Mbit"),                                                          \
        HABIT_OTHERWISE(0, "bwlimit",                                                              \
                        "it is written --limit=RATE with a unit, e.g. --limit=25MB"),              \
        HABIT_OTHERWISE('C', NULL,                                                                 \
                        "scp's compression is -z here; rsync's --cvs-exclude does not exist, see " \
                        "--exclude-from"),                                                         \
        HABIT_OTHERWISE(0, "cvs-exclude", "it does not exist; name patterns with --exclude-from"), \
        HABIT_OTHERWISE('I', "ignore-times", "it does not exist; --checksum compares contents"),   \
        HABIT_OTHERWISE(0, "size-only", "it does not exist; files are compared by content"),       \
        HABIT_OTHERWISE(0, "append",                                                               \
                        "not needed: what a file at the destination has is not sent"),             \
        HABIT_OTHERWISE(0, "append-verify",                                                        \
                        "not needed: what a file at the destination has is not sent"),             \
        HABIT_OTHERWISE('y', "fuzzy", "not needed: --reference=DIR finds files by content"),       \
        HABIT_OTHERWISE(0, "link-dest", "it does not exist; --reference=DIR saves the sending"),   \
        HABIT_OTHERWISE(0, "copy-dest", "it is written --reference=DIR"),                          \
        HABIT_OTHERWISE(0, "compare-dest", "it does not exist; see --reference=DIR"),              \
        HABIT_OTHERWISE('R', "relative", "it does not exist; see --files-from=FILE"),              \
        HABIT_OTHERWISE('b', "backup", "it does not exist: petrel keeps no old versions"),         \
        HABIT_OTHERWISE('T', "temp-dir",                                                           \
                        "it does not exist: files arrive under .petrel- names where they belong"), \
        HABIT_OTHERWISE('x', "one-file-system", "it does not exist; leave out with --exclude"),    \
        HABIT_OTHERWISE('m', "prune-empty-dirs", "it does not exist"),                             \
        HABIT_OTHERWISE(0, "max-size", "it does not exist; list the files with --files-from"),     \
        HABIT_OTHERWISE(0, "min-size", "it does not exist; list the files with --files-from"),     \
        HABIT_OTHERWISE(0, "chmod", "it does not exist; see --no-perms"),                          \
        HABIT_OTHERWISE(0, "chown", "it does not exist; see --owner and --group"),                 \
        HABIT_OTHERWISE(0, "itemize-changes", "it does not exist; see -n, -v and --json"),         \
        HABIT_OTHERWISE(0, "out-format", "it does not exist; --json is for programs"),             \
        HABIT_OTHERWISE(0, "log-file", "it is written --json=FILE"),                               \
        HABIT_OTHERWISE(0, "info", "it does not exist; see -v and --json"),                        \
        HABIT_OTHERWISE(0, "rsync-path", "it is written --remote-petrel=COMMAND"),                 \
        HABIT_OTHERWISE(0, "port", "ssh's port is written -P 22, ports for data --udp-ports=A-B"), \
        HABIT_OTHERWISE(0, "compress-level", "it is written -z=LEVEL"),                            \
        HABIT_OTHERWISE(0, "timeout", "it does not exist: a silent end is given up by itself"),    \
        HABIT_OTHERWISE(0, "contimeout", "it does not exist: ssh's is -o ConnectTimeout=SECONDS")

#endif
