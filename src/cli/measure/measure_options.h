/* The options that petrel doctor and petrel bench share, as the beginning of each one's own struct
 * and table. */
#ifndef PETREL_CLI_MEASURE_OPTIONS_H
#define PETREL_CLI_MEASURE_OPTIONS_H

#include <stdio.h>

#include "cli/options/operand.h"
#include "cli/options/settings.h"
#include "cli/options/ssh_option_rows.h"

struct measure_options {
    struct ssh_options ssh;
    struct operand host;
    uint16_t first_port, last_port;
    uint64_t time_ns; /* 0: the command's own */
    const char *json; /* NULL: none; "": stdout; else a file */
    FILE *json_out;   /* open from measure_options_parse on, for json_report_write_to; or NULL */
    bool help;
    struct option_uses uses;
    struct settings settings; /* those of copy's that are options here */
};

#define MEASURE_FIELD(name) offsetof(struct measure_options, name)

#define MEASURE_OPTION_ROWS(time_help)                                                             \
    SSH_OPTION_ROWS, {0,           "remote-petrel",                                                \
                      OPTION_TEXT, MEASURE_FIELD(ssh.remote_petrel),                               \
                      "COMMAND",   "how to run petrel over there",                                 \
                      NULL},                                                                       \
        {0,                                                                                        \
         "udp-ports",                                                                              \
         OPTION_CUSTOM,                                                                            \
         0,                                                                                        \
         "A-B",                                                                                    \
         "UDP ports over there (60000-61000)",                                                     \
         measure_option_ports},                                                                    \
        {0, "time", OPTION_CUSTOM, 0, "TIME", time_help, measure_option_time},                     \
        {0,                                                                                        \
         "json",                                                                                   \
         OPTION_OPTIONAL,                                                                          \
         MEASURE_FIELD(json),                                                                      \
         "FILE",                                                                                   \
         "one JSON object, to stdout or FILE",                                                     \
         NULL},                                                                                    \
    {                                                                                              \
        'h', "help", OPTION_ACTION, MEASURE_FIELD(help), NULL, "print this help", NULL             \
    }

bool measure_option_ports(void *target, const char *value, struct error *error);
bool measure_option_time(void *target, const char *value, struct error *error);

/* Parses a command's line into its options, which begin with a struct measure_options: sets the
 * defaults of these, takes the one operand, the host, and opens what --json names. Prints the error
 * or the help; false when the command is to end now, with *code. */
bool measure_options_parse(struct measure_options *options, const struct option *table, int argc,
                           char **argv, int *code);
void measure_options_release(struct measure_options *options);

#endif
