/* petrel's commands: one file each, one row each in the table of commands.c. Each returns an exit
 * code and prints what it has to say. argv[0] is the command's name. */
#ifndef PETREL_CLI_COMMANDS_H
#define PETREL_CLI_COMMANDS_H

#include "cli/options/options.h"

enum command_operands {
    OPERANDS_NONE,
    OPERANDS_HOST,  /* [user@]host */
    OPERANDS_FILES, /* here, and host:path */
};

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* NULL: not shown */
    enum command_operands operands;
    const struct option *(*options)(void); /* NULL: none */
};

extern const struct command commands[]; /* ends with an all-zero row */
/* NULL if there is none. */
const struct command *command_find(const char *name);

/* For a command that needs no more than its words: `run` gets room for the operands. Prints its
 * error; returns the exit code. */
int command_run(int argc, char **argv,
                bool (*run)(int argc, char **argv, const char **words, struct error *error));

const struct option *bench_options_table(void);
const struct option *clean_options_table(void);
const struct option *config_options_table(void);
const struct option *control_options_table(void);
const struct option *doctor_options_table(void);
const struct option *install_options_table(void);
const struct option *key_options_table(void);
const struct option *ls_options_table(void);
const struct option *manifest_options_table(void);
const struct option *paths_options_table(void);
const struct option *estimate_options_table(void);
const struct option *serve_options_table(void);
const struct option *verify_options_table(void);

int command_help(int argc, char **argv);
int command_version(int argc, char **argv);
int command_copy(int argc, char **argv);
int command_install(int argc, char **argv);
int command_uninstall(int argc, char **argv);
int command_checksum(int argc, char **argv); /* for petrel install's script over there */
int command_bench(int argc, char **argv);
int command_clean(int argc, char **argv);
int command_ls(int argc, char **argv);
int command_manifest(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_paths(int argc, char **argv);
int command_estimate(int argc, char **argv);
int command_complete(int argc, char **argv); /* for the shells' completion */
int command_config(int argc, char **argv);
int command_key(int argc, char **argv);
int command_limit(int argc, char **argv);
int command_pause(int argc, char **argv);
int command_resume(int argc, char **argv);
int command_status(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_remote(int argc, char **argv); /* the far end of a copy, started through ssh */

#endif
