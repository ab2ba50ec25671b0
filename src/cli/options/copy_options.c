#include "cli/options/copy_options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/options/habit_rows.h"
#include "cli/options/port_range.h"
#include "cli/options/ssh_option_rows.h"
#include "tree/squeeze.h"

/* ---- options with a form of their own ---- */

static bool parse_lanes(void *target, const char *value, struct error *error)
{
    return lanes_parse(value, &((struct copy_options *)target)->lanes, error);
}

static bool parse_ports(void *target, const char *value, struct error *error)
{
    struct copy_options *options = target;
    if (!port_range_parse(value, &options->first_port, &options->last_port))
        return error_set(error, ERROR_USAGE,
                         "--udp-ports takes a port or a range such as 60000-61000, not %s", value);
    return true;
}

static bool parse_retry_for(void *target, const char *value, struct error *error)
{
    uint64_t time_ns = 0;
    if (strcmp(value, "0") != 0 && !parse_time(value, &time_ns, NULL))
        return error_set(error, ERROR_USAGE,
                         "--retry-for takes a time such as 90s, 10m or 24h, or 0, not %s", value);
    ((struct copy_options *)target)->retry_for_ns = time_ns;
    return true;
}

static bool parse_policy(void *target, const char *value, struct error *error)
{
    return send_policy_parse(value, &((struct copy_options *)target)->policy, error);
}

static bool parse_max_delete(void *target, const char *value, struct error *error)
{
    struct copy_options *options = target;
    return parse_unsigned(value, UINT64_MAX - 1, &options->max_delete, NULL) ||
           error_set(error, ERROR_USAGE, "--max-delete takes a number, not %s", value);
}

static bool add_filter(void *target, enum filter_form form, bool is_file, const char *value,
                       struct error *error)
{
    struct copy_options *options = target;
    return filter_words_add(&options->filters, form, is_file, value, error);
}

static bool parse_exclude(void *target, const char *value, struct error *error)
{
    return add_filter(target, FILTER_FORM_EXCLUDE, false, value, error);
}

static bool parse_include(void *target, const char *value, struct error *error)
{
    return add_filter(target, FILTER_FORM_INCLUDE, false, value, error);
}

static bool parse_filter(void *target, const char *value, struct error *error)
{
    return add_filter(target, FILTER_FORM_RULE, false, value, error);
}

static bool parse_exclude_from(void *target, const char *value, struct error *error)
{
    return add_filter(target, FILTER_FORM_EXCLUDE, true, value, error);
}

static bool parse_include_from(void *target, const char *value, struct error *error)
{
    return add_filter(target, FILTER_FORM_INCLUDE, true, value, error);
}

static bool parse_udp(void *target, const char *value, struct error *error)
{
    static const char *const words[] = {
        [UDP_AUTO] = "auto", [UDP_ONLY] = "only", [UDP_NEVER] = "never"};
    struct copy_options *options = target;
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(value, words[i]) != 0)
            continue;
        options->udp = (enum udp_use)i;
        return true;
    }
    return error_set(error, ERROR_USAGE, "--udp takes auto, only or never, not %s", value);
}

static bool parse_verify(void *target, const char *value, struct error *error)
{
    struct copy_options *options = target;
    options->verify_disk = strcmp(value, "disk") == 0;
    return options->verify_disk || strcmp(value, "arrival") == 0 ||
           error_set(error, ERROR_USAGE,
                     "--verify takes arrival, which is always done, or disk, to read back as well");
}

_Static_assert(offsetof(struct copy_options, ssh) == 0, "as SSH_OPTION_ROWS has it");
#define FIELD(name) offsetof(struct copy_options, name)

static const struct option table[] = {
    SSH_OPTION_ROWS,
    LISTENING_OPTION_ROWS,
    {0, "remote-petrel", OPTION_TEXT, FIELD(ssh.remote_petrel), "COMMAND",
     "how to run petrel over there, e.g. 'sudo -n petrel'", NULL},
    {0, "install", OPTION_FLAG, FIELD(install), NULL,
     "send petrel to the host first where it is missing", NULL},
    {'L', "copy-links", OPTION_FLAG, FIELD(follow_links), NULL,
     "follow symbolic links inside trees", NULL},
    {0, "exclude", OPTION_MANY, 0, "PATTERN", "leave out what matches", parse_exclude},
    {0, "include", OPTION_MANY, 0, "PATTERN", "keep what matches; the first match decides",
     parse_include},
    {'f', "filter", OPTION_MANY, 0, "RULE", "a rule in rsync's language, e.g. '- *.o'",
     parse_filter},
    {0, "exclude-from", OPTION_MANY, 0, "FILE", "patterns to leave out, one a line",
     parse_exclude_from},
    {0, "include-from", OPTION_MANY, 0, "FILE", "patterns to keep, one a line", parse_include_from},
    {0, "files-from", OPTION_TEXT, FIELD(files_from), "FILE",
     "copy what the file names, one path a line, in the one source", NULL},
    {'0', "from0", OPTION_FLAG, FIELD(from_nul), NULL, "lists in files are separated by NUL", NULL},
    {'a', "archive", OPTION_FLAG, FIELD(archive), NULL,
     "keep owners and groups, too, where permitted, and devices", NULL},
    {0, "owner", OPTION_FLAG, FIELD(owner), NULL, "keep owners, and tell where it fails", NULL},
    {'g', "group", OPTION_FLAG, FIELD(group), NULL, "keep groups, and tell where it fails", NULL},
    {0, "no-owner", OPTION_FLAG, FIELD(no_owner), NULL, NULL, NULL},
    {0, "no-o", OPTION_FLAG, FIELD(no_owner), NULL, NULL, NULL},
    {0, "no-group", OPTION_FLAG, FIELD(no_group), NULL, NULL, NULL},
    {0, "no-g", OPTION_FLAG, FIELD(no_group), NULL, NULL, NULL},
    {0, "numeric-ids", OPTION_FLAG, FIELD(numeric_ids), NULL,
     "owners by number, whatever their names", NULL},
    {'D', "devices", OPTION_FLAG, FIELD(devices), NULL, "devices, named pipes and sockets, too",
     NULL},
    {0, "specials", OPTION_FLAG, FIELD(devices), NULL, NULL, NULL},
    {0, "no-devices", OPTION_FLAG, FIELD(no_specials), NULL, NULL, NULL},
    {0, "no-D", OPTION_FLAG, FIELD(no_specials), NULL, NULL, NULL},
    {'H', "hard-links", OPTION_FLAG, FIELD(hard_links), NULL,
     "keep hard links among what is copied", NULL},
    {'z', "compress", OPTION_OPTIONAL, FIELD(compress), "auto|never|LEVEL",
     "compress where that saves time, or at level 1 to 19", NULL},
    {0, "sparse", OPTION_FLAG, FIELD(sparse), NULL, "leave holes, and send none", NULL},
    {'X', "xattrs", OPTION_FLAG, FIELD(xattrs), NULL, "keep extended attributes", NULL},
    {'A', "acls", OPTION_FLAG, FIELD(acls), NULL, "keep access control lists", NULL},
    {0, "no-perms", OPTION_FLAG, FIELD(no_perms), NULL, "permissions as the destination has them",
     NULL},
    {0, "no-p", OPTION_FLAG, FIELD(no_perms), NULL, NULL, NULL},
    {0, "no-times", OPTION_FLAG, FIELD(no_times), NULL, "times of the copy, not of the source",
     NULL},
    {0, "no-t", OPTION_FLAG, FIELD(no_times), NULL, NULL, NULL},
    {'u', "update", OPTION_FLAG, FIELD(update), NULL, "leave files alone that are newer there",
     NULL},
    {0, "ignore-existing", OPTION_FLAG, FIELD(ignore_existing), NULL, "leave alone what is there",
     NULL},
    {0, "existing", OPTION_FLAG, FIELD(existing), NULL, "copy only what is there already", NULL},
    {0, "remove-source-files", OPTION_FLAG, FIELD(remove_source), NULL,
     "remove each file here once it is verified there", NULL},
    {0, "delete", OPTION_FLAG, FIELD(delete_others), NULL,
     "delete over there what is not here, once all has arrived", NULL},
    {0, "delete-excluded", OPTION_FLAG, FIELD(delete_excluded), NULL,
     "also what the rules leave out", NULL},
    {0, "max-delete", OPTION_CUSTOM, 0, "N", "delete nothing if it were more than N",
     parse_max_delete},
    {0, "del", OPTION_FLAG, FIELD(delete_others), NULL, NULL, NULL},
    {0, "delete-after", OPTION_FLAG, FIELD(delete_others), NULL, NULL, NULL},
    {0, "mkpath", OPTION_FLAG, FIELD(make_path), NULL, "make the destination's missing folders",
     NULL},
    {'n', "dry-run", OPTION_FLAG, FIELD(dry_run), NULL, "say what would be sent, send nothing",
     NULL},
    {'c', "checksum", OPTION_FLAG, FIELD(checksum), NULL,
     "compare what is there by content, whatever its time says", NULL},
    {0, "inplace", OPTION_FLAG, FIELD(in_place), NULL,
     "write large files and devices where they stand (see the manual)", NULL},
    {0, "verify", OPTION_CUSTOM, 0, "arrival|disk",
     "disk: also read back from the disk what was written", parse_verify},
    {0, "reference", OPTION_TEXT, FIELD(reference), "DIR",
     "take what is the same from files in DIR, on the destination's side", NULL},
    {0, "manifest", OPTION_TEXT, FIELD(manifest), "FILE",
     "write what was delivered, with hashes, to FILE (- for stdout)", NULL},
    {0, "whole", OPTION_FLAG, FIELD(whole), NULL, "send whole files, do not look at what is there",
     NULL},
    {0, "lanes", OPTION_CUSTOM, 0, "auto|N", "parallel UDP lanes, 1 to 16", parse_lanes},
    {0, "udp-ports", OPTION_CUSTOM, 0, "A-B", "UDP ports over there (60000-61000)", parse_ports},
    {0, "udp", OPTION_CUSTOM, 0, "auto|only|never",
     "whether to go through ssh where UDP does not get through", parse_udp},
    {0, "limit", OPTION_RATE, FIELD(limit_bps), "RATE", "send no faster, e.g. 200Mbit or 25MB",
     NULL},
    {0, "policy", OPTION_CUSTOM, 0, "auto|fair|background|fixed:RATE",
     "how to behave towards others on the path", parse_policy},
    {0, "retry-for", OPTION_CUSTOM, 0, "TIME",
     "connect again for so long when the connection is lost (10m)", parse_retry_for},
    {0, "no-memory", OPTION_FLAG, FIELD(no_memory), NULL,
     "neither use nor keep what is remembered of the path", NULL},
    {0, "json", OPTION_OPTIONAL, FIELD(json), "FILE",
     "events as JSON, one a line, to stdout or FILE", NULL},
    {'q', "quiet", OPTION_FLAG, FIELD(quiet), NULL, "only errors", NULL},
    {'v', "verbose", OPTION_COUNT, FIELD(verbose), NULL, "name each file", NULL},
    {'r', "recursive", OPTION_FLAG, FIELD(recursive), NULL, NULL, NULL},
    {'p', "perms", OPTION_IGNORED, 0, NULL, NULL, NULL},
    {0, "preserve", OPTION_IGNORED, 0, NULL, NULL, NULL},
    {'t', "times", OPTION_IGNORED, 0, NULL, NULL, NULL},
    {0, "links", OPTION_IGNORED, 0, NULL, NULL, NULL},
    HABIT_OPTION_ROWS(FIELD(remarks)),
    {0, "version", OPTION_ACTION, FIELD(version), NULL, "print the version", NULL},
    {'h', "help", OPTION_ACTION, FIELD(help), NULL, "print this help", NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

/* What the options with a form of their own have where nothing was said. */
static const struct {
    const char *name, *value;
} defaults[] = {
    {"lanes", "auto"},  {"udp-ports", "60000-61000"}, {"udp", "auto"},
    {"policy", "auto"}, {"retry-for", "10m"},         {"verify", "arrival"},
};

const struct option *copy_options_table(void)
{
    return table;
}

const char *copy_options_default(const struct option *option)
{
    if (option->kind == OPTION_FLAG || option->kind == OPTION_COUNT ||
        option->kind == OPTION_OPTIONAL)
        return "no";
    for (size_t i = 0; option->long_name != NULL && i < sizeof(defaults) / sizeof(*defaults); i++) {
        if (strcmp(option->long_name, defaults[i].name) == 0)
            return defaults[i].value;
    }
    return NULL;
}

static bool set_defaults(struct copy_options *options, struct error *error)
{
    *options = (struct copy_options){.max_delete = UINT64_MAX};
    bool good = true;
    for (const struct option *option = table; option->short_name || option->long_name; option++) {
        const char *value = copy_options_default(option);
        if (value != NULL && option->long_name != NULL)
            good = good && options_set(option, options, value, error);
    }
    return good;
}

void copy_options_print_help(void)
{
    options_print_help(table);
}

void copy_options_release(struct copy_options *options)
{
    for (size_t i = 0; i < options->source_count; i++)
        operand_release(&options->sources[i]);
    free(options->sources);
    operand_release(&options->destination);
    ssh_options_release(&options->ssh);
    filter_words_release(&options->filters);
    option_list_release(&options->remarks);
    option_uses_release(&options->uses);
    settings_release(&options->settings);
    *options = (struct copy_options){0};
}

/* ---- operands ---- */

static bool same_text(const char *a, const char *b)
{
    return (a == NULL && b == NULL) || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool check_sides(struct copy_options *options, struct error *error)
{
    size_t remote = 0;
    const struct operand *first = &options->sources[0];
    for (size_t i = 0; i < options->source_count; i++)
        remote += options->sources[i].remote;
    options->push = options->destination.remote;
    if (options->push && remote > 0)
        return error_set(error, ERROR_USAGE,
                         "both sides are remote; run petrel on one of the two hosts, e.g. ssh %s "
                         "petrel ...",
                         first->remote ? first->host : options->destination.host);
    if (!options->push && remote == 0)
        return error_set(error, ERROR_USAGE,
                         "neither side is remote; write one as host:path (for local copies use cp; "
                         "a local name with a colon is written ./a:b)");
    if (!options->push && remote < options->source_count)
        return error_set(error, ERROR_USAGE,
                         "some sources are local and some remote; copy them in "
                         "two runs");
    for (size_t i = 1; !options->push && i < options->source_count; i++) {
        if (options->sources[i].listens != first->listens ||
            !same_text(options->sources[i].host, first->host) ||
            !same_text(options->sources[i].port, first->port))
            return error_set(error, ERROR_USAGE,
                             "the sources are on different hosts (%s, %s); copy them in two runs",
                             first->host, options->sources[i].host);
    }
    const struct operand *far = options->push ? &options->destination : first;
    options->host = far->host;
    if (far->listens)
        return ssh_option_listening(&options->ssh, far->host, far->port, error);
    if (far->port != NULL)
        options->ssh.port = far->port;
    return true;
}

static bool take_operands(struct copy_options *options, const char **words, size_t count,
                          struct error *error)
{
    if (count < 2)
        return error_set(error, ERROR_USAGE,
                         "petrel copy needs a source and a destination: petrel "
                         "copy FILE... [user@]host:DIR");
    options->sources = calloc(count - 1, sizeof(*options->sources));
    if (options->sources == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for operands");
    for (size_t i = 0; i + 1 < count; i++) {
        if (!operand_parse(&options->sources[i], words[i], error))
            return false;
        options->source_count++;
    }
    return operand_parse(&options->destination, words[count - 1], error) &&
           check_sides(options, error);
}

static bool check_compress(struct copy_options *options, struct error *error)
{
    const char *text = options->compress;
    uint64_t level = 0;
    options->squeeze_level = -1;
    if (text == NULL || strcmp(text, "never") == 0)
        return true;
    bool automatic = text[0] == '\0' || strcmp(text, "auto") == 0;
    if (!automatic && (!parse_unsigned(text, SQUEEZE_LEVEL_MAX, &level, NULL) || level == 0))
        return error_set(error, ERROR_USAGE, "-z takes auto, never or a level from 1 to %u, not %s",
                         SQUEEZE_LEVEL_MAX, text);
    options->squeeze_level = (int)level;
    const char *why = !squeeze_is_possible()
                          ? "-z: nothing is compressed, for this petrel was built "
                            "without zstd"
                      : options->stream ? "-z: standard input and output are not compressed"
                                        : NULL;
    return why == NULL || option_list_add(&options->remarks, why, error);
}

/* "-" is standard input as the only source, standard output as the destination. */
static bool check_stream(struct copy_options *options, struct error *error)
{
    const struct operand *near = options->push ? &options->sources[0] : &options->destination;
    const char *path = options->destination.path;
    size_t length = strlen(path);
    for (size_t i = 0; options->push && i < options->source_count; i++)
        options->stream = options->stream || strcmp(options->sources[i].path, "-") == 0;
    options->stream = options->stream || (!near->remote && strcmp(near->path, "-") == 0);
    if (!options->stream)
        return true;
    if (options->source_count != 1)
        return error_set(error, ERROR_USAGE, "standard input or output goes with one file only");
    if (options->push && (length == 0 || path[length - 1] == '/' || strcmp(path, "~") == 0))
        return error_set(error, ERROR_USAGE, "name the file that standard input becomes: %s:NAME",
                         options->host);
    if (!options->push && options->json != NULL && options->json[0] == '\0')
        return error_set(error, ERROR_USAGE,
                         "standard output takes the file; name one for the events: --json=FILE");
    if (options->dry_run || options->files_from != NULL || options->delete_others ||
        options->delete_excluded || options->remove_source)
        return error_set(error, ERROR_USAGE,
                         "-n, --files-from, --delete and --remove-source-files "
                         "make no sense with standard input or output");
    if (options->in_place || options->reference != NULL || options->manifest != NULL)
        return error_set(error, ERROR_USAGE,
                         "--inplace, --reference and --manifest make no sense with standard input "
                         "or output");
    return true;
}

static bool check_outputs(const struct copy_options *options, struct error *error)
{
    bool events = options->json != NULL && options->json[0] == '\0';
    bool manifest = options->manifest != NULL && strcmp(options->manifest, "-") == 0;
    return !events || !manifest ||
           error_set(error, ERROR_USAGE,
                     "standard output takes the manifest or the events; name a file for one of "
                     "them: --json=FILE");
}

/* The rate never falls below this: what could not be kept is not promised. */
static bool check_limit(const struct copy_options *options, struct error *error)
{
    return options->limit_bps == 0 || options->limit_bps >= SEND_RATE_LEAST_BPS ||
           error_set(error, ERROR_USAGE, "--limit is 64kbit (8kB a second) at the least");
}

bool copy_options_check(const struct option *option, const char *value, struct error *error)
{
    struct copy_options alone = {0};
    bool good = options_set(option, &alone, value, error) && check_limit(&alone, error);
    copy_options_release(&alone);
    return good;
}

bool copy_options_lend(struct settings *settings, const struct option *own, struct ssh_options *ssh,
                       const char *host, struct option_uses *uses, struct error *error)
{
    struct settings_wanted wanted = {.known = table,
                                     .check = copy_options_check,
                                     .table = own,
                                     .target = ssh,
                                     .host = host,
                                     .config = ssh->config};
    return settings_take(settings, &wanted, uses, error);
}

static bool take_settings(struct copy_options *options, const char *host, struct error *error)
{
    return copy_options_lend(&options->settings, table, &options->ssh, host, &options->uses, error);
}

bool copy_options_settle(struct copy_options *options, const char *host, const char *config,
                         struct error *error)
{
    bool good = set_defaults(options, error);
    options->ssh.config = config;
    good = good && take_settings(options, host, error);
    if (!good)
        copy_options_release(options);
    return good;
}

bool copy_options_parse(struct copy_options *options, int argc, char **argv, struct error *error)
{
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    if (words == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for operands");
    size_t count;
    bool good =
        set_defaults(options, error) &&
        options_parse_uses(table, argc, argv, options, words, &count, &options->uses, error);
    if (good && !options->help && !options->version)
        good = take_operands(options, words, count, error) &&
               take_settings(options, options->host, error) && check_limit(options, error) &&
               check_stream(options, error) && check_outputs(options, error) &&
               check_compress(options, error) && ssh_options_finish(&options->ssh, error);
    free(words);
    if (!good)
        copy_options_release(options);
    return good;
}
