/* petrel config: what a copy to or from a host would have, and where each of it was set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options/copy_options.h"
#include "cli/report/json_report.h"
#include "tree/display.h"

extern char **environ;

struct config_options {
    const char *config, *json;
    bool help;
};

static const struct option table[] = {
    {0, "config", OPTION_CONFIG, offsetof(struct config_options, config), "FILE",
     "settings from FILE alone; none: from no file", NULL},
    {0, "json", OPTION_OPTIONAL, offsetof(struct config_options, json), "FILE",
     "one JSON object, to stdout or FILE", NULL},
    {'h', "help", OPTION_ACTION, offsetof(struct config_options, help), NULL, "print this help",
     NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *config_options_table(void)
{
    return table;
}

/* One value of one option; `use` is NULL for what nobody has set. */
typedef void (*show_value)(void *context, const struct option *option,
                           const struct option_use *use);

static void show_option(const struct copy_options *options, const struct option *option,
                        show_value show, void *context)
{
    bool said = false;
    for (size_t i = 0; i < options->uses.count; i++) {
        if (options->uses.uses[i].option != option)
            continue;
        said = true;
        show(context, option, &options->uses.uses[i]);
    }
    if (!said && option->help != NULL)
        show(context, option, NULL);
}

static void show_all(const struct copy_options *options, show_value show, void *context)
{
    const struct option *option = copy_options_table();
    for (; option->short_name || option->long_name; option++) {
        if (settings_has_key(option))
            show_option(options, option, show, context);
    }
}

static const char *value_of(const struct option *option, const struct option_use *use)
{
    if (use == NULL)
        return copy_options_default(option);
    return use->value != NULL ? use->value : "yes";
}

static void print_value(void *context, const struct option *option, const struct option_use *use)
{
    (void)context;
    char shown[1024], place[1024], variable[SETTINGS_VARIABLE_MAX];
    const char *value = value_of(option, use);
    printf("%-16s %-24s ", option->long_name,
           value != NULL ? display_name(shown, sizeof(shown), value) : "-");
    if (use == NULL)
        printf("default\n");
    else if (use->origin == ORIGIN_FILE)
        printf("%s:%u\n", display_name(place, sizeof(place), use->place), use->line);
    else
        printf("%s in the environment\n", settings_variable(variable, option));
}

static void add_value(void *context, const struct option *option, const struct option_use *use)
{
    static const char *const names[] = {[ORIGIN_LINE] = "command-line",
                                        [ORIGIN_ENVIRONMENT] = "environment",
                                        [ORIGIN_FILE] = "file"};
    char variable[SETTINGS_VARIABLE_MAX];
    const char *value = value_of(option, use);
    json_t *one = json_object();
    json_report_text(one, "key", option->long_name);
    if (value != NULL)
        json_report_text(one, "value", value);
    else
        json_object_set_new(one, "value", json_null());
    json_report_text(one, "origin", use == NULL ? "default" : names[use->origin]);
    if (use != NULL && use->origin == ORIGIN_FILE) {
        json_report_text(one, "file", use->place);
        json_report_number(one, "line", use->line);
    } else if (use != NULL) {
        json_report_text(one, "variable", settings_variable(variable, option));
    }
    json_array_append_new(context, one);
}

/* A mistyped variable has no effect; here somebody looks for the cause. */
static void remark_on_environment(void)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        size_t length = strcspn(*entry, "=");
        char word[SETTINGS_VARIABLE_MAX], variable[SETTINGS_VARIABLE_MAX];
        if (strncmp(*entry, "PETREL_", 7) != 0 || length >= sizeof(word))
            continue;
        for (size_t i = 7; i < length; i++) {
            char c = (*entry)[i];
            word[i - 7] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
        word[length - 7] = '\0';
        bool negated;
        const struct option *own = copy_options_table();
        const struct option *near = options_nearest(own, word);
        if (near != NULL && settings_has_key(near) &&
            options_find(own, word, strlen(word), &negated) == NULL)
            fprintf(stderr, "petrel: %.*s in the environment is no setting; did you mean %s?\n",
                    (int)length, *entry, settings_variable(variable, near));
    }
}

static bool show(const struct config_options *options, const char *word, struct error *error)
{
    struct operand host;
    struct copy_options copy;
    if (!operand_parse_host(&host, word, error))
        return false;
    bool good = copy_options_settle(&copy, host.host, options->config, error);
    if (good && options->json == NULL) {
        show_all(&copy, print_value, NULL);
        remark_on_environment();
    } else if (good) {
        json_t *list = json_array();
        show_all(&copy, add_value, list);
        json_t *object = json_pack("{s:i}", "schema", 1);
        json_report_text(object, "host", host.host);
        json_object_set_new(object, "settings", list);
        good = json_report_write(object, options->json, error);
    }
    if (good)
        copy_options_release(&copy);
    operand_release(&host);
    return good;
}

static bool run(int argc, char **argv, const char **words, struct error *error)
{
    struct config_options options = {0};
    size_t count;
    if (!options_parse(table, argc, argv, &options, words, &count, error))
        return false;
    if (options.help) {
        printf("petrel config [user@]host      show what a copy has, and where it was set\n\n"
               "Options:\n");
        options_print_help(table);
        return true;
    }
    if (count != 1)
        return error_set(error, ERROR_USAGE,
                         "petrel config takes one host: petrel config [user@]host");
    return show(&options, words[0], error);
}

int command_config(int argc, char **argv)
{
    return command_run(argc, argv, run);
}
