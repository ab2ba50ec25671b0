#include "cli/complete/complete_hosts.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define BLANKS " \t\r\n"
#define INCLUDE_DEPTH 4
#define PATH_SIZE 1024

static bool is_plain(const char *host)
{
    return host[0] != '\0' && host[0] != '-' && host[strcspn(host, "*?!|@[]\"' \t")] == '\0';
}

static void tell(const char *host, complete_host found, void *context)
{
    if (is_plain(host))
        found(context, host);
}

/* ---- ssh_config ---- */

/* The word behind `key`, NULL if the line has another key. */
static char *after_key(char *line, const char *key)
{
    size_t length = strlen(key);
    line += strspn(line, BLANKS);
    bool has_key = strncasecmp(line, key, length) == 0 && line[length] != '\0' &&
                   strchr(BLANKS "=", line[length]) != NULL;
    return has_key ? line + length + strspn(line + length, BLANKS "=") : NULL;
}

void complete_config_line(char *line, complete_host found, void *context)
{
    char *rest = after_key(line, "Host"), *word;
    while (rest != NULL && (word = strsep(&rest, BLANKS)) != NULL)
        tell(word, found, context);
}

/* In ssh's own folder, unless it says otherwise. */
static bool place_of(char path[PATH_SIZE], const char *word)
{
    const char *home = getenv("HOME");
    int length;
    if (word[0] == '/')
        length = snprintf(path, PATH_SIZE, "%s", word);
    else if (home == NULL)
        return false;
    else if (strncmp(word, "~/", 2) == 0)
        length = snprintf(path, PATH_SIZE, "%s%s", home, word + 1);
    else
        length = snprintf(path, PATH_SIZE, "%s/.ssh/%s", home, word);
    return length < PATH_SIZE;
}

/* Nothing that could block, and only so much of it. */
static FILE *open_text(const char *path)
{
    struct stat status;
    bool serves =
        stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < (off_t)(8 << 20);
    return serves ? fopen(path, "re") : NULL;
}

/* Includes are followed when the file that has them has been read, a few deep. */
static void take_config(const char *path, unsigned depth, glob_t *includes, complete_host found,
                        void *context)
{
    FILE *file = open_text(path);
    char *line = NULL;
    size_t capacity = 0;
    while (file != NULL && getline(&line, &capacity, file) > 0) {
        char *rest = after_key(line, "Include"), *word, place[PATH_SIZE];
        while (rest != NULL && depth < INCLUDE_DEPTH && (word = strsep(&rest, BLANKS)) != NULL) {
            bool serves = word[0] != '\0' && word[0] != '#' && place_of(place, word);
            if (serves)
                glob(place, includes->gl_pathc > 0 ? GLOB_APPEND : 0, NULL, includes);
        }
        complete_config_line(line, found, context);
    }
    free(line);
    if (file != NULL)
        fclose(file);
}

static void take_configs(const char *path, complete_host found, void *context)
{
    glob_t levels[INCLUDE_DEPTH + 1];
    memset(levels, 0, sizeof(levels));
    take_config(path, 0, &levels[0], found, context);
    for (unsigned depth = 1; depth <= INCLUDE_DEPTH; depth++) {
        for (size_t i = 0; i < levels[depth - 1].gl_pathc && i < 256; i++)
            take_config(levels[depth - 1].gl_pathv[i], depth, &levels[depth], found, context);
    }
    for (unsigned depth = 0; depth <= INCLUDE_DEPTH; depth++) {
        if (levels[depth].gl_pathc > 0)
            globfree(&levels[depth]);
    }
}

/* ---- known_hosts ---- */

/* "[host]:22,1.2.3.4 ssh-ed25519 ..."; a line may begin with "@cert-authority" or its like. */
void complete_known_line(char *line, complete_host found, void *context)
{
    char *rest = line + strspn(line, BLANKS);
    char *names = strsep(&rest, BLANKS);
    if (names[0] == '#' || names[0] == '@' || names[0] == '|')
        return;
    char *name;
    while ((name = strsep(&names, ",")) != NULL) {
        char *end = name[0] == '[' ? strchr(name, ']') : NULL;
        if (end != NULL) {
            *end = '\0';
            name++;
        }
        if (strchr(name, ':') == NULL) /* an operand has IPv6 addresses otherwise */
            tell(name, found, context);
    }
}

static void take_known(const char *path, complete_host found, void *context)
{
    FILE *file = open_text(path);
    char *line = NULL;
    size_t capacity = 0;
    while (file != NULL && getline(&line, &capacity, file) > 0)
        complete_known_line(line, found, context);
    free(line);
    if (file != NULL)
        fclose(file);
}

void complete_hosts(const char *config, complete_host found, void *context)
{
    char path[PATH_SIZE];
    if (config != NULL) {
        take_configs(config, found, context);
    } else {
        if (place_of(path, "config"))
            take_configs(path, found, context);
        take_configs("/etc/ssh/ssh_config", found, context);
    }
    if (place_of(path, "known_hosts"))
        take_known(path, found, context);
    take_known("/etc/ssh/ssh_known_hosts", found, context);
}
