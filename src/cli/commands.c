#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/copy_options.h"
#include "cli/report/exit_code.h"
#include "cli/version.h"

const struct command commands[] = {
    {"copy", command_copy, "copy files and trees to or from a host (the word may be left out)",
     OPERANDS_FILES, copy_options_table},
    {"install", command_install, "send petrel to a host that has none: petrel install [user@]host",
     OPERANDS_HOST, install_options_table},
    {"uninstall", command_uninstall, "remove it from there", OPERANDS_HOST, install_options_table},
    {"doctor", command_doctor, "look at the path to a host and say what holds it up", OPERANDS_HOST,
     doctor_options_table},
    {"bench", command_bench, "measure petrel and TCP on the path to a host, memory to memory",
     OPERANDS_HOST, bench_options_table},
    {"estimate", command_estimate, "how long a copy would take: --rtt --loss --rate --size",
     OPERANDS_NONE, estimate_options_table},
    {"paths", command_paths, "what is remembered of paths; --clear [HOST] forgets it",
     OPERANDS_HOST, paths_options_table},
    {"config", command_config, "what a copy to a host has, and where each of it was set",
     OPERANDS_HOST, config_options_table},
    {"key", command_key, "print the public key that petrel serve knows you by; makes it first",
     OPERANDS_NONE, key_options_table},
    {"serve", command_serve, "listen for those whose keys are authorised: --root NAME=DIR",
     OPERANDS_NONE, serve_options_table},
    {"ls", command_ls, "list a directory here or there: petrel ls [host:]PATH...", OPERANDS_FILES,
     ls_options_table},
    {"manifest", command_manifest,
     "list what trees hold, with hashes: petrel manifest [host:]PATH...", OPERANDS_FILES,
     manifest_options_table},
    {"verify", command_verify, "compare a directory with a manifest: petrel verify FILE [host:]DIR",
     OPERANDS_FILES, verify_options_table},
    {"clean", command_clean, "remove what interrupted copies left: petrel clean [host:]DIR",
     OPERANDS_FILES, clean_options_table},
    {"status", command_status, "what petrel serve on this machine does", OPERANDS_NONE,
     control_options_table},
    {"limit", command_limit, "the rate of all its clients: petrel limit RATE, or none",
     OPERANDS_NONE, control_options_table},
    {"pause", command_pause, "its copies stand still until petrel resume", OPERANDS_NONE,
     control_options_table},
    {"resume", command_resume, "they go on", OPERANDS_NONE, control_options_table},
    {"help", command_help, "this text", OPERANDS_NONE, NULL},
    {"version", command_version, "print the version", OPERANDS_NONE, NULL},
    {"remote", command_remote, NULL, OPERANDS_NONE, NULL},
    {"checksum", command_checksum, NULL, OPERANDS_NONE, NULL},
    {"--complete", command_complete, NULL, OPERANDS_NONE, NULL},
    {NULL, NULL, NULL, OPERANDS_NONE, NULL},
};

const struct command *command_find(const char *name)
{
    const struct command *command = commands;
    while (command->name != NULL && strcmp(command->name, name) != 0)
        command++;
    return command->name != NULL ? command : NULL;
}

int command_run(int argc, char **argv,
                bool (*run)(int argc, char **argv, const char **words, struct error *error))
{
    struct error error = {0};
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    bool good = words != NULL ? run(argc, argv, words, &error)
                              : error_set(&error, ERROR_MEMORY, "no memory");
    free(words);
    if (good)
        return EXIT_OK;
    fprintf(stderr, "petrel: %s\n", error.text);
    return exit_code_of(error.kind);
}

int command_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("petrel %s\n", PETREL_VERSION);
    return EXIT_OK;
}

int command_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("petrel copies files over long, lossy or fast networks, verified end to end.\n\n"
           "  petrel FILE... [user@]host:PATH      send\n"
           "  petrel [user@]host:FILE... PATH      fetch\n"
           "  petrel://host/NAME/PATH in place of host:PATH: from or to a petrel that listens\n\n"
           "Commands:\n");
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (command->help != NULL)
            printf("  %-10s %s\n", command->name, command->help);
    }
    printf("\nOptions of copy:\n");
    copy_options_print_help();
    return EXIT_OK;
}
