/* petrel estimate: how long a copy would take over a path that is only described. */
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/measure/estimate_model.h"
#include "cli/options/options.h"
#include "cli/report/json_report.h"

#define RTT_MAX_NS (10 * NS_PER_S)
#define LOSS_MAX 0.5 /* beyond that nothing was ever measured */

struct estimate_options {
    uint64_t rtt_ns, rate_bps, size_bytes;
    double loss;
    bool help;
    const char *json;
};

static bool parse_rtt(void *target, const char *value, struct error *error)
{
    uint64_t *rtt_ns = &((struct estimate_options *)target)->rtt_ns;
    if (!parse_time(value, rtt_ns, error))
        return false;
    return *rtt_ns <= RTT_MAX_NS ||
           error_set(error, ERROR_USAGE, "--rtt is at most 10s, such as 100ms, not %s", value);
}

static bool parse_loss(void *target, const char *value, struct error *error)
{
    uint32_t parts;
    if (!parse_share(value, &parts, error))
        return false;
    double *loss = &((struct estimate_options *)target)->loss;
    *loss = (double)parts / 4294967296.0;
    return *loss <= LOSS_MAX ||
           error_set(error, ERROR_USAGE, "--loss is at most 50%%, such as 1%%, not %s", value);
}

static bool parse_bytes(void *target, const char *value, struct error *error)
{
    uint64_t *size_bytes = &((struct estimate_options *)target)->size_bytes;
    if (!parse_size(value, size_bytes, error))
        return false;
    return *size_bytes > 0 || error_set(error, ERROR_USAGE, "--size is a size such as 10G, not 0");
}

#define AT(field) offsetof(struct estimate_options, field)
static const struct option table[] = {
    {0, "rtt", OPTION_CUSTOM, AT(rtt_ns), "TIME", "round trip, such as 100ms", parse_rtt},
    {0, "loss", OPTION_CUSTOM, AT(loss), "SHARE", "of packets on the way of the data, such as 1%",
     parse_loss},
    {0, "rate", OPTION_RATE, AT(rate_bps), "RATE",
     "of the line, such as 1gbit; no limit without it", NULL},
    {0, "size", OPTION_CUSTOM, AT(size_bytes), "SIZE", "of the file, such as 10G; default 1 GiB",
     parse_bytes},
    {0, "json", OPTION_OPTIONAL, AT(json), "FILE", "one JSON object, to stdout or FILE", NULL},
    {'h', "help", OPTION_ACTION, AT(help), NULL, "print this help", NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};
#undef AT

const struct option *estimate_options_table(void)
{
    return table;
}

static void print_table(const struct estimate_path *path)
{
    printf("%-26s %12s %14s %10s %8s\n", "", "takes", "then runs at", "petrel is", "off by");
    double petrel_s = estimate_seconds(&estimate_programs[0].constants, path);
    for (const struct estimate_program *one = estimate_programs; one->name != NULL; one++) {
        double seconds = estimate_seconds(&one->constants, path);
        char clock[24], rate[24], ratio[24] = "", error[24] = "?";
        format_byte_rate(rate, sizeof(rate), (uint64_t)(estimate_rate(&one->constants, path) * 8));
        if (seconds < 120)
            snprintf(clock, sizeof(clock), "%.1f s", seconds);
        else
            format_clock(clock, sizeof(clock), (uint64_t)(seconds * 1e9));
        if (one != estimate_programs)
            snprintf(ratio, sizeof(ratio), "x %.1f", seconds / petrel_s);
        if (one->error_percent >= 0)
            snprintf(error, sizeof(error), "%.0f %%", one->error_percent);
        printf("%-26s %12s %14s %10s %8s\n", one->title, clock, rate, ratio, error);
    }
    printf("\n\"off by\": in the median, in cells that the model was not fitted to; %s.\n"
           "Files in memory; a slow disk, or a busy machine, is slower. petrel doctor HOST "
           "measures.\n",
           estimate_fitted_on);
}

static json_t *as_json(const struct estimate_path *path)
{
    json_t *list = json_array();
    for (const struct estimate_program *one = estimate_programs; one->name != NULL; one++) {
        json_t *row = json_pack("{s:s, s:f, s:f}", "program", one->name, "seconds",
                                estimate_seconds(&one->constants, path), "bytes_per_second",
                                estimate_rate(&one->constants, path));
        if (one->error_percent >= 0)
            json_object_set_new(row, "error_percent", json_real(one->error_percent));
        json_array_append_new(list, row);
    }
    return json_pack("{s:i, s:s, s:o}", "schema", 1, "fitted_on", estimate_fitted_on, "programs",
                     list);
}

static bool run(int argc, char **argv, const char **words, struct error *error)
{
    struct estimate_options options = {.size_bytes = UINT64_C(1) << 30};
    size_t count;
    if (!options_parse(table, argc, argv, &options, words, &count, error))
        return false;
    if (options.help) {
        printf("petrel estimate --rtt TIME [--loss SHARE] [--rate RATE] [--size SIZE]\n"
               "How long a copy takes with petrel and with others, by a model.\n\nOptions:\n");
        options_print_help(table);
        return true;
    }
    if (count > 0)
        return error_set(
            error, ERROR_USAGE,
            "petrel estimate takes options only, such as --rtt 100ms; of a real path to %s "
            "tells petrel doctor",
            words[0]);
    struct estimate_path path = {.rtt_s = (double)options.rtt_ns / 1e9,
                                 .loss = options.loss,
                                 .rate_bps = (double)options.rate_bps,
                                 .size_bytes = (double)options.size_bytes};
    if (options.json != NULL)
        return json_report_write(as_json(&path), options.json, error);
    print_table(&path);
    return true;
}

int command_estimate(int argc, char **argv)
{
    return command_run(argc, argv, run);
}
