#include "cli/options/ssh_option_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "keys/known_hosts.h"

static bool pass(struct ssh_options *options, const char *name, const char *value,
                 struct error *error)
{
    struct option_list *list = &options->passed;
    const char **values = realloc(list->values, (list->count + 2) * sizeof(*values));
    if (values == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for ssh's options");
    list->values = values;
    values[list->count++] = name;
    if (value != NULL)
        values[list->count++] = value;
    return true;
}

bool ssh_option_identity(void *target, const char *value, struct error *error)
{
    return pass(target, "-i", value, error);
}

bool ssh_option_config(void *target, const char *value, struct error *error)
{
    return pass(target, "-F", value, error);
}

bool ssh_option_jump(void *target, const char *value, struct error *error)
{
    return pass(target, "-J", value, error);
}

bool ssh_option_any(void *target, const char *value, struct error *error)
{
    return pass(target, "-o", value, error);
}

bool ssh_option_port(void *target, const char *value, struct error *error)
{
    struct ssh_options *options = target;
    uint64_t port;
    if (!parse_unsigned(value, UINT16_MAX, &port, NULL) || port == 0)
        return error_set(error, ERROR_USAGE,
                         "-P takes ssh's port, from 1 to 65535, not %s; progress is shown and what "
                         "has arrived is kept without an option",
                         value);
    options->port = value;
    return true;
}

bool ssh_option_listening(struct ssh_options *options, const char *host, const char *port,
                          struct error *error)
{
    uint64_t number = PETREL_PORT;
    if (port != NULL && (!parse_unsigned(port, UINT16_MAX, &number, NULL) || number == 0))
        return error_set(error, ERROR_USAGE, "a port is a number from 1 to 65535, not %s", port);
    options->listening = host;
    options->listening_port = (uint16_t)number;
    return true;
}

bool ssh_options_finish(struct ssh_options *options, struct error *error)
{
    const char *command = options->command;
    if (command != NULL && command[strspn(command, " \t")] == '\0')
        return error_set(error, ERROR_USAGE, "-e needs a command, such as -e ssh");
    if (options->listening != NULL && options->port != NULL)
        return error_set(error, ERROR_USAGE,
                         "-P is ssh's port; that of a listening petrel stands behind its name: "
                         "petrel://%s:%s/name/path",
                         options->listening, options->port);
    if (options->ipv4 && options->ipv6)
        return error_set(error, ERROR_USAGE, "-4 and -6 exclude each other");
    options->family = options->ipv4 ? 4 : options->ipv6 ? 6 : 0;
    return (!options->ipv4 || pass(options, "-4", NULL, error)) &&
           (!options->ipv6 || pass(options, "-6", NULL, error)) &&
           (!options->batch || pass(options, "-oBatchMode=yes", NULL, error));
}

bool ssh_options_retry(struct ssh_options *options, unsigned failures, struct error *error)
{
    static const char timeout[] = "-oConnectTimeout=10", alone[] = "-oControlPath=none";
    struct option_list *list = &options->passed;
    if (options->command != NULL) /* no ssh, perhaps */
        return true;
    if (failures == 0)
        return (list->count > 0 && list->values[list->count - 1] == timeout) ||
               pass(options, timeout, NULL, error);
    if (list->values[0] == alone)
        return true;
    if (!pass(options, alone, NULL, error))
        return false;
    /* The first one that names a thing wins. */
    memmove(list->values + 1, list->values, (list->count - 1) * sizeof(*list->values));
    list->values[0] = alone;
    return true;
}

void ssh_options_release(struct ssh_options *options)
{
    option_list_release(&options->passed);
}
