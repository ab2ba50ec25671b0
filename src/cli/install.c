/* petrel install and petrel uninstall: petrel in a host's cache, and away from it again. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options/host_command.h"
#include "cli/options/ssh_option_rows.h"
#include "cli/report/exit_code.h"
#include "cli/start/install_offer.h"
#include "cli/version.h"

struct install_options {
    struct ssh_options ssh;
    bool quiet, help;
    struct operand host;
    struct option_uses uses;
    struct settings settings; /* those of copy's that are options here */
};

_Static_assert(offsetof(struct install_options, ssh) == 0, "as SSH_OPTION_ROWS has it");

static const struct option table[] = {
    SSH_OPTION_ROWS,
    {'q', "quiet", OPTION_FLAG, offsetof(struct install_options, quiet), NULL, "only errors", NULL},
    {'h', "help", OPTION_ACTION, offsetof(struct install_options, help), NULL, "print this help",
     NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *install_options_table(void)
{
    return table;
}

static int print_help(void)
{
    printf("petrel install [user@]host      put a static petrel into the host's cache, checked\n"
           "                                (%s)\n"
           "petrel uninstall [user@]host    remove it\n\nOptions:\n",
           "$XDG_CACHE_HOME or ~/.cache, petrel/petrel");
    options_print_help(table);
    return EXIT_OK;
}

static bool install(const struct install_options *options, struct error *error)
{
    struct install_program program;
    struct install_result result;
    const char *host = options->host.host;
    if (!install_program_open(&program, error))
        return false;
    bool good = install_send(&options->ssh, host, &program, &result, error);
    char text[1024];
    if (good && !options->quiet)
        printf("%s\n", install_sentence(text, sizeof(text), host, program.size, &result));
    install_program_close(&program);
    return good;
}

static bool uninstall(const struct install_options *options, struct error *error)
{
    struct install_result result;
    const char *host = options->host.host;
    if (!install_remove(&options->ssh, host, &result, error))
        return false;
    if (!options->quiet)
        printf(result.changed ? "petrel is gone from %s (%s)\n" : "no petrel on %s in %s\n", host,
               result.path);
    return true;
}

static int run(int argc, char **argv,
               bool (*act)(const struct install_options *options, struct error *error))
{
    struct install_options options = {.ssh = {.stop = interrupt_watch()}};
    struct error error = {0};
    const struct host_command command = {.table = table,
                                         .ssh = &options.ssh,
                                         .host = &options.host,
                                         .uses = &options.uses,
                                         .settings = &options.settings,
                                         .help = &options.help};
    bool good = host_command_parse(&command, argc, argv, &error);
    if (good && options.help)
        print_help();
    else
        good = good && act(&options, &error);
    if (!good)
        fprintf(stderr, "petrel: %s\n", error.text);
    operand_release(&options.host);
    ssh_options_release(&options.ssh);
    option_uses_release(&options.uses);
    settings_release(&options.settings);
    return good ? EXIT_OK : exit_code_of(error.kind);
}

int command_install(int argc, char **argv)
{
    return run(argc, argv, install);
}

int command_uninstall(int argc, char **argv)
{
    return run(argc, argv, uninstall);
}

/* For hosts without sha256sum: the new program checks itself before it gets its name. */
int command_checksum(int argc, char **argv)
{
    struct error error = {0};
    char hash[SHA256_HEX_SIZE];
    if (argc != 2)
        error_set(&error, ERROR_USAGE, "petrel checksum takes one file");
    else if (file_sha256(argv[1], hash, &error))
        printf("%s  %s\n", hash, argv[1]);
    if (error.kind != ERROR_NONE)
        fprintf(stderr, "petrel: %s\n", error.text);
    return exit_code_of(error.kind);
}
