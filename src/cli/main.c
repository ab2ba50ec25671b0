#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/copy_options.h"
#include "cli/exit_code.h"
#include "cli/report.h"
#include "cli/version.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* NULL: not shown */
};

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const struct command commands[] = {
    {"copy", command_copy, "copy files and trees to or from a host (the word may be left out)"},
    {"install", command_install, "send petrel to a host that has none: petrel install [user@]host"},
    {"uninstall", command_uninstall, "remove it from there"},
    {"doctor", command_doctor, "look at the path to a host and say what holds it up"},
    {"bench", command_bench, "measure petrel and TCP on the path to a host, memory to memory"},
    {"paths", command_paths, "what is remembered of paths; --clear [HOST] forgets it"},
    {"config", command_config, "what a copy to a host has, and where each of it was set"},
    {"manifest", command_manifest,
     "list what trees hold, with hashes: petrel manifest [host:]PATH..."},
    {"verify", command_verify,
     "compare a directory with a manifest: petrel verify FILE [host:]DIR"},
    {"clean", command_clean, "remove what interrupted copies left: petrel clean [host:]DIR"},
    {"help", command_help, "this text"},
    {"version", command_version, "print the version"},
    {"remote", command_remote, NULL},
    {"checksum", command_checksum, NULL},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int command_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("petrel %s\n", PETREL_VERSION);
    return EXIT_OK;
}

static int command_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("petrel copies files over long, lossy or fast networks, verified end to end.\n\n"
           "  petrel FILE... [user@]host:PATH      send\n"
           "  petrel [user@]host:FILE... PATH      fetch\n\nCommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (commands[i].help != NULL)
            printf("  %-10s %s\n", commands[i].name, commands[i].help);
    }
    printf("\nOptions of copy:\n");
    copy_options_print_help();
    return EXIT_OK;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* A word that is nearly a command, and neither a file here nor a remote name, is a mistyped
 * command; else it is a source, for the word copy may be left out. */
static const char *mistyped(const char *word)
{
    const char *names[COMMAND_COUNT + 1];
    size_t count = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (commands[i].help != NULL)
            names[count++] = commands[i].name;
    }
    names[count] = NULL;
    if (strpbrk(word, ":/") != NULL || word[0] == '-' || access(word, F_OK) == 0)
        return NULL;
    return nearest_name(word, names);
}

/* Looks at the first word that is no option, and at words before it that may be an option's value.
 */
static bool check_command(int argc, char **argv, struct error *error)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool after_option = i > 1 && argv[i - 1][0] == '-';
        if (argv[i][0] == '-')
            continue;
        const char *near = mistyped(argv[i]);
        if (near != NULL && strcmp(near, argv[i]) == 0)
            return error_set(error, ERROR_USAGE, "the command comes first: petrel %s ...", near);
        if (near != NULL)
            return error_set(error, ERROR_USAGE,
                             "there is no command %s, nor a file of that name; did you mean "
                             "petrel %s?",
                             argv[i], near);
        if (!after_option)
            break;
    }
    return true;
}

/* A file opened in the place of a closed stdin, stdout or stderr would be read or written by
 * mistake. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    if (argc < 2) {
        command_help(argc, argv);
        return EXIT_USAGE;
    }
    const struct command *command = find_command(argv[1]);
    if (command != NULL)
        return command->run(argc - 1, argv + 1);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return command_version(argc, argv);
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return command_help(argc, argv);
    struct error error = {0};
    if (!check_command(argc, argv, &error))
        return report_usage(argc, argv, &error);
    return command_copy(argc, argv);
}
