#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/copy_options.h"
#include "cli/report/exit_code.h"
#include "cli/report/report.h"

/* A word that is nearly a command, and neither a file here nor a remote name, is a mistyped
 * command; else it is a source, for the word copy may be left out. */
static const char *mistyped(const char *word)
{
    const char *names[64];
    size_t count = 0;
    for (const struct command *command = commands; command->name != NULL && count < 63; command++) {
        if (command->help != NULL)
            names[count++] = command->name;
    }
    names[count] = NULL;
    if (strpbrk(word, ":/") != NULL || word[0] == '-' || access(word, F_OK) == 0)
        return NULL;
    return nearest_name(word, names);
}

/* Looks at the first word that is neither an option nor the value of one. */
static bool check_command(int argc, char **argv, struct error *error)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0)
        i += options_await_value(copy_options_table(), argv[i]) ? 2 : 1;
    const char *near = i < argc ? mistyped(argv[i]) : NULL;
    if (near == NULL)
        return true;
    if (strcmp(near, argv[i]) == 0)
        return error_set(error, ERROR_USAGE, "the command comes first: petrel %s ...", near);
    return error_set(error, ERROR_USAGE,
                     "there is no command %s, nor a file of that name; did you mean petrel %s?",
                     argv[i], near);
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
    const struct command *command = command_find(argv[1]);
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
