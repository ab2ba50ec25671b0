#include "cli/options/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/config_text.h"
#include "keys/small_file.h"

#define SYSTEM_FILE "/etc/petrel/config"
#define PREFIX "PETREL_"

bool settings_has_key(const struct option *option)
{
    return option->long_name != NULL && option->kind != OPTION_ACTION &&
           option->kind != OPTION_CONFIG && option->kind != OPTION_REMARK &&
           option->kind != OPTION_ELSEWHERE;
}

const char *settings_variable(char name[SETTINGS_VARIABLE_MAX], const struct option *option)
{
    int length = snprintf(name, SETTINGS_VARIABLE_MAX, PREFIX "%s", option->long_name);
    for (int i = 0; i < length && i < SETTINGS_VARIABLE_MAX - 1; i++)
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    return name;
}

/* ---- one setting ---- */

struct taking {
    struct settings *settings;
    const struct settings_wanted *wanted;
    struct option_uses *uses;
    enum option_origin origin;
    const char *place;
};

static bool is_said(const struct taking *taking, const struct option *option)
{
    for (size_t i = 0; option->kind != OPTION_MANY && i < taking->uses->count; i++) {
        if (options_same(taking->wanted->table, taking->uses->uses[i].option, option))
            return true;
    }
    return false;
}

/* No shell has replaced a ~ in the names of files. NULL without memory. */
static const char *expand(struct settings *settings, const struct option *option, const char *value,
                          struct error *error)
{
    const char *home = getenv("HOME");
    bool is_file = option->value_name != NULL && strcmp(option->value_name, "FILE") == 0;
    if (!is_file || value == NULL || strncmp(value, "~/", 2) != 0 || home == NULL)
        return value;
    struct option_list *list = &settings->expanded;
    const char **larger = realloc(list->values, (list->count + 1) * sizeof(*larger));
    char *path = NULL;
    if (larger != NULL)
        list->values = larger;
    if (larger == NULL || asprintf(&path, "%s%s", home, value + 1) < 0) {
        error_set(error, ERROR_MEMORY, "no memory for settings");
        return NULL;
    }
    return list->values[list->count++] = path;
}

/* The command's own row of one of copy's options. What copy writes to a file is not what another
 * command would write there. */
static const struct option *own_row(const struct settings_wanted *wanted,
                                    const struct option *option)
{
    bool negated;
    if (wanted->table == wanted->known)
        return option;
    const struct option *own =
        options_find(wanted->table, option->long_name, strlen(option->long_name), &negated);
    bool serves = own != NULL && !negated && own->kind == option->kind;
    return serves && own->kind != OPTION_OPTIONAL ? own : NULL;
}

static bool take(struct taking *taking, const struct option *option, const char *value,
                 unsigned line, struct error *error)
{
    option = own_row(taking->wanted, option);
    if (option == NULL || is_said(taking, option))
        return true;
    const char *expanded = expand(taking->settings, option, value, error);
    if (value != NULL && expanded == NULL)
        return false;
    struct option_use use = {.option = option,
                             .value = expanded,
                             .origin = taking->origin,
                             .place = taking->place,
                             .line = line};
    return options_set(option, taking->wanted->target, expanded, error) &&
           option_uses_add(taking->uses, &use, error);
}

/* ---- the environment ---- */

static bool take_environment(struct taking *taking, struct error *error)
{
    taking->origin = ORIGIN_ENVIRONMENT;
    const struct option *option = taking->wanted->known;
    for (; option->short_name || option->long_name; option++) {
        char name[SETTINGS_VARIABLE_MAX];
        const char *value;
        if (!settings_has_key(option) ||
            (value = getenv(settings_variable(name, option))) == NULL || value[0] == '\0')
            continue;
        struct error cause = {0};
        taking->place = NULL; /* the name follows from the option */
        if (!taking->wanted->check(option, value, &cause) ||
            !take(taking, option, value, 0, &cause))
            return error_set(error, cause.kind, "%s in the environment: %s", name, cause.text);
    }
    return true;
}

/* ---- files ---- */

static bool unknown_key(const struct option *known, const char *key, struct error *error)
{
    char word[64];
    snprintf(word, sizeof(word), "%s", key + strspn(key, "-"));
    for (char *at = word; *at != '\0'; at++)
        *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
    const struct option *near = options_nearest(known, word);
    if (near != NULL && settings_has_key(near))
        return error_set(error, ERROR_USAGE, "there is no setting %s; did you mean: %s %s", key,
                         near->long_name, near->value_name != NULL ? near->value_name : "yes");
    return error_set(error, ERROR_USAGE,
                     "there is no setting %s; settings are petrel copy's options, such as: policy "
                     "fair (what ssh needs belongs into ~/.ssh/config)",
                     key);
}

/* As it is written, or in small letters. */
static const struct option *find_key(const struct option *known, const char *text, bool *negated)
{
    char key[64];
    size_t length = strlen(text);
    const struct option *option = options_find(known, text, length, negated);
    if (option != NULL || length >= sizeof(key))
        return option;
    for (size_t i = 0; i < length; i++)
        key[i] = (char)tolower((unsigned char)text[i]);
    return options_find(known, key, length, negated);
}

/* "no-checksum" says what "checksum no" says. */
static bool take_line(void *context, const struct config_line *line, struct error *error)
{
    struct taking *taking = context;
    bool negated;
    const struct option *option = find_key(taking->wanted->known, line->key, &negated);
    if (option == NULL)
        return unknown_key(taking->wanted->known, line->key, error);
    if (negated && line->value != NULL)
        return error_set(error, ERROR_USAGE, "%s takes no value; write: %s no", line->key,
                         option->long_name);
    const char *value = negated ? "no" : line->value;
    return taking->wanted->check(option, value, error) &&
           (!line->applies || take(taking, option, value, line->number, error));
}

/* As ssh has it of its own: what others may write could run commands in the user's name. */
static bool check_file(int fd, const char *path, size_t *size, struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set_errno(error, errno, "the configuration %s cannot be read", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, ERROR_USAGE,
                         "the configuration %s is not a file; --config=none reads none", path);
    if (status.st_uid != 0 && status.st_uid != geteuid())
        return error_set(error, ERROR_USAGE,
                         "the configuration %s belongs to user %u, who could run commands in your "
                         "name by it; make it your own: cp it, or chown %u %s",
                         path, (unsigned)status.st_uid, (unsigned)geteuid(), path);
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_set(error, ERROR_USAGE,
                         "others may write the configuration %s, and could run commands in your "
                         "name by it: chmod go-w %s",
                         path, path);
    if (status.st_size > (off_t)CONFIG_TEXT_MAX)
        return error_set(error, ERROR_USAGE, "the configuration %s is larger than %u MiB", path,
                         CONFIG_TEXT_MAX >> 20);
    *size = (size_t)status.st_size;
    return true;
}

/* All of a file. NULL and an error. */
static char *read_file(int fd, const char *path, size_t *size, struct error *error)
{
    char *text = NULL;
    if (check_file(fd, path, size, error) && (text = small_file_read(fd, size)) == NULL)
        error_set_errno(error, errno, "the configuration %s cannot be read", path);
    return text;
}

/* Takes the path over. */
static bool take_file(struct taking *taking, unsigned which, char *path, bool named,
                      struct error *error)
{
    struct settings *settings = taking->settings;
    settings->paths[which] = path;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && !named && (errno == ENOENT || errno == ENOTDIR))
        return true;
    if (fd < 0)
        return error_set_errno(error, errno, "the configuration %s cannot be read", path);
    size_t size = 0;
    char *text = settings->texts[which] = read_file(fd, path, &size, error);
    close(fd);
    if (text == NULL)
        return false;
    taking->origin = ORIGIN_FILE;
    taking->place = path;
    const char *host = taking->wanted->host, *at = strrchr(host, '@');
    unsigned number = 0;
    struct error cause = {0};
    return config_text_read(text, size, at != NULL ? at + 1 : host, take_line, taking, &number,
                            &cause) ||
           error_set(error, cause.kind, "%s:%u: %s", path, number, cause.text);
}

/* NULL where there is no home, or no memory. */
static char *user_file(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = -1;
    if (config != NULL && config[0] == '/')
        length = asprintf(&path, "%s/petrel/config", config);
    else if (home != NULL && home[0] == '/')
        length = asprintf(&path, "%s/.config/petrel/config", home);
    return length < 0 ? NULL : path;
}

static bool take_files(struct taking *taking, struct error *error)
{
    const char *named = taking->wanted->config;
    if (named == NULL)
        named = getenv(PREFIX "CONFIG");
    bool is_named = named != NULL && named[0] != '\0';
    if (is_named && strcmp(named, SETTINGS_NONE) == 0)
        return true;
    char *first = is_named ? strdup(named) : user_file();
    if (first != NULL && !take_file(taking, 0, first, is_named, error))
        return false;
    if (is_named)
        return first != NULL || error_set(error, ERROR_MEMORY, "no memory for settings");
    char *second = strdup(SYSTEM_FILE);
    if (second == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for settings");
    return take_file(taking, 1, second, false, error);
}

bool settings_take(struct settings *settings, const struct settings_wanted *wanted,
                   struct option_uses *uses, struct error *error)
{
    struct taking taking = {.settings = settings, .wanted = wanted, .uses = uses};
    return take_environment(&taking, error) && take_files(&taking, error);
}

void settings_release(struct settings *settings)
{
    for (unsigned i = 0; i < SETTINGS_FILES; i++) {
        free(settings->texts[i]);
        free(settings->paths[i]);
    }
    for (size_t i = 0; i < settings->expanded.count; i++)
        free((char *)(uintptr_t)settings->expanded.values[i]);
    option_list_release(&settings->expanded);
    *settings = (struct settings){0};
}
