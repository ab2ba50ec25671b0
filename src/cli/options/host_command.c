#include "cli/options/host_command.h"

#include <stdlib.h>

#include "cli/options/copy_options.h"
#include "cli/options/ssh_option_rows.h"

static bool take_host(const struct host_command *command, const char *word, struct error *error)
{
    bool good = operand_parse_host(command->host, word, error) &&
                copy_options_lend(command->settings, command->table, command->ssh,
                                  command->host->host, command->uses, error) &&
                ssh_options_finish(command->ssh, error);
    if (good && command->host->port != NULL)
        command->ssh->port = command->host->port;
    return good;
}

bool host_command_parse(const struct host_command *command, int argc, char **argv,
                        struct error *error)
{
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    size_t count = 0;
    if (words == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for operands");
    bool good = options_parse_uses(command->table, argc, argv, command->ssh, words, &count,
                                   command->uses, error);
    if (good && !*command->help)
        good = count == 1
                   ? take_host(command, words[0], error)
                   : error_set(error, ERROR_USAGE,
                               "petrel %s takes one host: petrel %s [user@]host", argv[0], argv[0]);
    free(words);
    return good;
}
