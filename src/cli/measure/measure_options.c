#include "cli/measure/measure_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "cli/options/host_command.h"
#include "cli/options/port_range.h"
#include "cli/report/exit_code.h"
#include "cli/report/json_report.h"

#define TIME_LEAST_NS (100 * NS_PER_MS)
#define TIME_MOST_NS (600 * NS_PER_S)

_Static_assert(offsetof(struct measure_options, ssh) == 0, "as SSH_OPTION_ROWS has it");

bool measure_option_ports(void *target, const char *value, struct error *error)
{
    struct measure_options *options = target;
    return port_range_parse(value, &options->first_port, &options->last_port) ||
           error_set(error, ERROR_USAGE,
                     "--udp-ports takes a port or a range such as 60000-61000, not %s", value);
}

bool measure_option_time(void *target, const char *value, struct error *error)
{
    struct measure_options *options = target;
    return (parse_time(value, &options->time_ns, NULL) && options->time_ns >= TIME_LEAST_NS &&
            options->time_ns <= TIME_MOST_NS) ||
           error_set(error, ERROR_USAGE, "--time is 100ms to 10m, such as 5s, not %s", value);
}

bool measure_options_parse(struct measure_options *options, const struct option *table, int argc,
                           char **argv, int *code)
{
    const struct host_command command = {.table = table,
                                         .ssh = &options->ssh,
                                         .host = &options->host,
                                         .uses = &options->uses,
                                         .settings = &options->settings,
                                         .help = &options->help};
    struct error error = {0};
    options->first_port = PORTS_FIRST;
    options->last_port = PORTS_LAST;
    *code = EXIT_OK;
    if (!host_command_parse(&command, argc, argv, &error)) {
        fprintf(stderr, "petrel: %s\n", error.text);
        *code = EXIT_USAGE;
        return false;
    }
    if (!options->help) {
        if (options->json == NULL ||
            (options->json_out = json_report_open(options->json, &error)) != NULL)
            return true;
        fprintf(stderr, "petrel: %s\n", error.text);
        *code = exit_code_of(error.kind);
        return false;
    }
    printf("petrel %s [OPTION...] [user@]host\n\nOptions:\n", argv[0]);
    options_print_help(table);
    return false;
}

void measure_options_release(struct measure_options *options)
{
    operand_release(&options->host);
    ssh_options_release(&options->ssh);
    option_uses_release(&options->uses);
    settings_release(&options->settings);
}
