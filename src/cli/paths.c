/* petrel paths: shows what is remembered of the paths to hosts, or forgets it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/copy/path_memory.h"
#include "cli/options/options.h"
#include "cli/report/json_report.h"
#include "tree/display.h"

struct paths_options {
    bool clear, help;
    const char *json;
};

static const struct option table[] = {
    {0, "clear", OPTION_FLAG, offsetof(struct paths_options, clear), NULL,
     "forget the path to each HOST named, or all of them", NULL},
    {0, "json", OPTION_OPTIONAL, offsetof(struct paths_options, json), "FILE",
     "one JSON object, to stdout or FILE", NULL},
    {'h', "help", OPTION_ACTION, offsetof(struct paths_options, help), NULL, "print this help",
     NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *paths_options_table(void)
{
    return table;
}

static uint64_t age_of(const struct path_record *record)
{
    uint64_t now_s = (uint64_t)time(NULL);
    return now_s > record->when_s ? now_s - record->when_s : 0;
}

static void print_record(void *context, const struct path_record *record)
{
    unsigned *count = context;
    char host[4 * PATH_HOST_MAX], rate[24], rtt[24], age[24];
    if ((*count)++ == 0)
        printf("%-30s %-5s %12s %10s %8s %10s\n", "HOST", "WAY", "RATE", "RTT", "LOSS", "AGE");
    printf("%-30s %-5s %12s %10s %6.2f %% %10s%s\n", display_name(host, sizeof(host), record->host),
           record->to ? "to" : "from", format_byte_rate(rate, sizeof(rate), record->path.rate_bps),
           format_time(rtt, sizeof(rtt), record->path.rtt_ns), record->path.loss_millionths / 1e4,
           format_clock(age, sizeof(age), age_of(record) * NS_PER_S),
           age_of(record) >= PATH_MEMORY_LIFE_S ? "  too old to be used" : "");
}

static void add_record(void *context, const struct path_record *record)
{
    json_t *one = json_object();
    json_report_text(one, "host", record->host);
    json_report_text(one, "direction", record->to ? "to" : "from");
    json_report_number(one, "rate_bps", record->path.rate_bps);
    json_object_set_new(one, "rtt_seconds", json_real((double)record->path.rtt_ns / 1e9));
    json_object_set_new(one, "loss", json_real(record->path.loss_millionths / 1e6));
    json_report_number(one, "age_seconds", age_of(record));
    json_object_set_new(one, "used", json_boolean(age_of(record) < PATH_MEMORY_LIFE_S));
    json_array_append_new(context, one);
}

static bool show(const struct paths_options *options, struct error *error)
{
    unsigned count = 0;
    if (options->json == NULL) {
        bool good = path_memory_list(print_record, &count, error);
        if (good && count == 0)
            fprintf(stderr, "petrel: nothing is remembered\n");
        return good;
    }
    json_t *list = json_array();
    bool good = path_memory_list(add_record, list, error);
    json_t *object = json_pack("{s:i, s:o}", "schema", 1, "paths", list);
    if (good)
        return json_report_write(object, options->json, error);
    json_decref(object);
    return false;
}

static bool forget(const char **hosts, size_t host_count, struct error *error)
{
    unsigned count = 0, sum = 0;
    bool good = true;
    for (size_t i = 0; good && i < host_count; i++) {
        good = path_memory_clear(hosts[i], &count, error);
        if (good && count == 0)
            fprintf(stderr, "petrel: nothing is remembered of %s\n", hosts[i]);
        sum += count;
    }
    if (host_count == 0)
        good = path_memory_clear(NULL, &sum, error);
    if (good && sum > 0)
        fprintf(stderr, "petrel: %u record%s forgotten\n", sum, sum == 1 ? "" : "s");
    return good;
}

static bool run(int argc, char **argv, const char **words, struct error *error)
{
    struct paths_options options = {0};
    size_t count;
    if (!options_parse(table, argc, argv, &options, words, &count, error))
        return false;
    if (options.help) {
        printf("petrel paths                      show what is remembered of paths\n"
               "petrel paths --clear [HOST...]    forget it\n\nOptions:\n");
        options_print_help(table);
        return true;
    }
    if (options.clear)
        return forget(words, count, error);
    if (count > 0)
        return error_set(error, ERROR_USAGE,
                         "petrel paths shows all; to forget one: petrel paths "
                         "--clear %s",
                         words[0]);
    return show(&options, error);
}

int command_paths(int argc, char **argv)
{
    return command_run(argc, argv, run);
}
