#include "cli/complete/complete_paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/files/file_job.h"
#include "cli/interrupt.h"
#include "cli/start/ssh_reuse.h"
#include "keys/identity.h"
#include "net/driver.h"

#define LIST_MAX (512 * 1024)
#define PATIENCE_NS (10 * UINT64_C(1000000000))
/* What a login prints before is no name. */
#define MARK "petrel-names"

/* ---- here ---- */

void complete_local(const char *directory, complete_name found, void *context)
{
    char place[4096];
    const char *home = getenv("HOME");
    int length = strncmp(directory, "~/", 2) == 0 && home != NULL
                     ? snprintf(place, sizeof(place), "%s%s", home, directory + 1)
                     : snprintf(place, sizeof(place), "%s", directory[0] != '\0' ? directory : ".");
    DIR *open = length < (int)sizeof(place) ? opendir(place) : NULL;
    const struct dirent *entry;
    while (open != NULL && (entry = readdir(open)) != NULL) {
        char name[sizeof(entry->d_name) + 2];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        bool is_directory =
            fstatat(dirfd(open), entry->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
        snprintf(name, sizeof(name), "%s%s", entry->d_name, is_directory ? "/" : "");
        found(context, name);
    }
    if (open != NULL)
        closedir(open);
}

/* ---- there ---- */

/* For any login shell: they all take single quotes, and have echo and ";". False if it does not
 * fit, or holds what they quote differently. */
static bool make_command(char *command, size_t capacity, const char *directory)
{
    if (directory[strcspn(directory, "'!\\\n")] != '\0')
        return false;
    if (strncmp(directory, "~/", 2) == 0)
        directory += 2;
    return (size_t)snprintf(command, capacity, "echo " MARK "; ls -1apL -- '%s'",
                            directory[0] != '\0' ? directory : ".") < capacity;
}

/* Reads until the end or until patience does; what came, ended by NUL. */
static size_t read_names(int from, char *text)
{
    size_t size = 0;
    uint64_t end_ns = driver_now() + PATIENCE_NS;
    while (size < LIST_MAX) {
        uint64_t now_ns = driver_now();
        struct pollfd wait = {.fd = from, .events = POLLIN};
        if (now_ns >= end_ns || poll(&wait, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
            break;
        ssize_t got = read(from, text + size, LIST_MAX - size);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    text[size] = '\0';
    return size;
}

static void tell_names(char *text, complete_name found, void *context)
{
    char *rest = text, *line;
    bool marked = false;
    while ((line = strsep(&rest, "\n")) != NULL) {
        size_t length = strlen(line);
        if (rest == NULL) /* cut off, or nothing */
            return;
        if (length > 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (!marked)
            marked = strcmp(line, MARK) == 0;
        else if (line[0] != '\0' && strcmp(line, "./") != 0 && strcmp(line, "../") != 0)
            found(context, line);
    }
}

static void list(const struct ssh_words *words, complete_name found, void *context)
{
    char *text = malloc(LIST_MAX + 1);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), to, from;
    pid_t pid;
    if (text != NULL && nothing >= 0 && ssh_spawn(words, nothing, -1, &pid, &to, &from, NULL)) {
        read_names(from, text);
        close(from);
        kill(pid, SIGTERM); /* it has ended, or will not in time */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        tell_names(text, found, context);
    }
    if (nothing >= 0)
        close(nothing);
    free(text);
}

void complete_remote(const struct ssh_options *options, const char *host, const char *directory,
                     complete_name found, void *context)
{
    char command[4096];
    if (options->command != NULL || !make_command(command, sizeof(command), directory))
        return;
    struct ssh_facts facts;
    struct ssh_reuse reuse;
    ssh_facts(&facts, options, host);
    ssh_reuse_plan(&reuse, options, &facts, true);
    const char *first[SSH_WORDS_MAX] = {"-oConnectTimeout=5"};
    ssh_reuse_words(&reuse, &facts, first + 1);
    struct ssh_words words;
    if (!ssh_words_build(&words, options, host, first, NULL))
        return;
    if (ssh_words_add(&words, command))
        list(&words, found, context);
    ssh_words_release(&words);
}

/* ---- at a listening petrel ---- */

struct names {
    complete_name found;
    void *context;
    char *text;
    size_t size;
};

static bool keep_names(void *context, const char *bytes, size_t size)
{
    struct names *names = context;
    if (size > LIST_MAX - names->size)
        return false;
    memcpy(names->text + names->size, bytes, size);
    names->size += size;
    return true;
}

static void say_nothing(void *context, const char *line, bool is_error)
{
    (void)context;
    (void)line;
    (void)is_error;
}

/* What is printed with a backslash is not what the name is. */
static void tell_lines(const struct names *names)
{
    char *rest = names->text, *line;
    names->text[names->size] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        if (line[0] != '\0' && strchr(line, '\\') == NULL)
            names->found(names->context, line);
    }
}

static bool have_key(const struct ssh_options *options)
{
    struct error ignored = {0};
    char *own = options->identity == NULL ? identity_default_path(&ignored) : NULL;
    const char *path = own != NULL ? own : options->identity;
    bool have = path != NULL && access(path, R_OK) == 0;
    free(own);
    return have;
}

void complete_listening(const struct ssh_options *options, const char *host, const char *directory,
                        complete_name found, void *context)
{
    struct ssh_options asked = *options;
    struct file_job job = {.kind = FILE_JOB_LIST};
    struct names names = {.found = found, .context = context, .text = malloc(LIST_MAX + 1)};
    const struct file_job_output output = {
        .out = keep_names, .remark = say_nothing, .context = &names, .stop = interrupt_watch()};
    asked.stop = output.stop;
    asked.accept_new = false;
    alarm(PATIENCE_NS / UINT64_C(1000000000)); /* nobody waits longer: it ends the process */
    if (names.text != NULL && have_key(options) && file_job_add_path(&job, directory)) {
        file_job_send(&job, NULL, &asked, host, &output);
        tell_lines(&names);
    }
    file_job_release(&job);
    free(names.text);
}
