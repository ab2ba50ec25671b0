#include "cli/start/ssh_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/start/ssh_errors.h"

extern char **environ;

bool ssh_words_add(struct ssh_words *words, const char *word)
{
    if (words->count == SSH_WORDS_MAX)
        return false;
    words->words[words->count++] = word;
    words->words[words->count] = NULL;
    return true;
}

void ssh_words_release(struct ssh_words *words)
{
    free(words->split);
    words->split = NULL;
}

static bool add_split(struct ssh_words *words, const char *command)
{
    words->split = strdup(command);
    if (words->split == NULL)
        return false;
    char *rest = words->split, *word;
    bool good = true;
    while ((word = strsep(&rest, " \t")) != NULL) {
        if (*word != '\0')
            good = good && ssh_words_add(words, word);
    }
    return good;
}

bool ssh_words_build(struct ssh_words *words, const struct ssh_options *options, const char *host,
                     const char *const *first, struct error *error)
{
    memset(words, 0, sizeof(*words));
    bool good = true;
    if (options->command != NULL)
        good = add_split(words, options->command);
    else
        good = ssh_words_add(words, options->program != NULL ? options->program : "ssh");
    if (good && words->count == 0)
        return error_set(error, ERROR_USAGE, "-e needs a command, such as -e ssh");
    for (; first != NULL && *first != NULL; first++)
        good = good && ssh_words_add(words, *first);
    if (options->port != NULL)
        good = good && ssh_words_add(words, "-p") && ssh_words_add(words, options->port);
    for (size_t i = 0; i < options->passed.count; i++)
        good = good && ssh_words_add(words, options->passed.values[i]);
    static const char *const quiet[] = {"-T", "-x", "-oPermitLocalCommand=no",
                                        "-oClearAllForwardings=yes", "-oRemoteCommand=none"};
    for (size_t i = 0; options->command == NULL && i < sizeof(quiet) / sizeof(quiet[0]); i++)
        good = good && ssh_words_add(words, quiet[i]);
    good = good && ssh_words_add(words, host);
    if (!good) {
        ssh_words_release(words);
        return error_set(error, ERROR_USAGE, "too many options for ssh");
    }
    return true;
}

static bool make_pipe(int ends[2], struct error *error)
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(error, errno, "cannot make a pipe to ssh");
    return true;
}

/* What we say to ssh goes through a socket: it tells of room when three quarters are free, a pipe
 * already when a page is, and then we and ssh take turns at every few KiB of a copy. */
static bool make_feed(int ends[2], struct error *error)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set_errno(error, errno, "cannot make a channel to ssh");
    return true;
}

/* Our own ignored SIGPIPE is no business of ssh's. */
static int spawn(const struct ssh_words *words, posix_spawn_file_actions_t *actions, pid_t *pid)
{
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawnp(pid, words->words[0], actions, &attributes,
                              (char *const *)words->words, environ);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

bool ssh_spawn(const struct ssh_words *words, int input, int errors, pid_t *pid, int *to, int *from,
               struct error *error)
{
    int in[2] = {-1, -1}, out[2];
    if (input < 0 && !make_feed(in, error))
        return false;
    if (!make_pipe(out, error)) {
        close(in[0]);
        close(in[1]);
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input >= 0 ? input : in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (errors >= 0)
        posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = spawn(words, &actions, pid);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (in[0] >= 0)
        close(in[0]);
    if (failed != 0) {
        close(out[0]);
        if (in[1] >= 0)
            close(in[1]);
        error_set(error, ERROR_SSH, "cannot run %s: %s", words->words[0], strerror(failed));
        return false;
    }
    *to = in[1];
    *from = out[0];
    return true;
}

bool ssh_channel_spawn(struct ssh_channel *channel, const struct ssh_words *words, bool reuses,
                       struct error *error)
{
    int to_errors;
    channel->errors = ssh_errors_new(reuses, &to_errors, error);
    if (channel->errors == NULL)
        return false;
    bool good = ssh_spawn(words, -1, to_errors, &channel->pid, &channel->to_remote,
                          &channel->from_remote, error);
    close(to_errors);
    return good;
}

/* ---- ssh -G ---- */

#define FACTS_MAX (64 * 1024)

/* The list of OpenSSH 7 to 9, and of 10. */
static bool is_default_ciphers(const char *list)
{
    return strcmp(list, "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,"
                        "aes128-gcm@openssh.com,aes256-gcm@openssh.com") == 0 ||
           strcmp(list, "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,"
                        "aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr") == 0;
}

static void take_fact(struct ssh_facts *facts, char *line)
{
    char *value = strchr(line, ' ');
    if (value == NULL)
        return;
    *value++ = '\0';
    if (strcmp(line, "hostname") == 0)
        snprintf(facts->hostname, sizeof(facts->hostname), "%s", value);
    else if ((strcmp(line, "proxyjump") == 0 || strcmp(line, "proxycommand") == 0) &&
             strcmp(value, "none") != 0)
        facts->jumped = true;
    else if (strcmp(line, "ciphers") == 0)
        facts->plain_ciphers = is_default_ciphers(value);
    else if (strcmp(line, "addressfamily") == 0)
        facts->family = strcmp(value, "inet") == 0 ? 4 : strcmp(value, "inet6") == 0 ? 6 : 0;
    else if (strcmp(line, "controlpath") == 0 ||
             (strcmp(line, "controlmaster") == 0 && strcmp(value, "false") != 0 &&
              strcmp(value, "no") != 0))
        facts->shares = true;
    else if (strcmp(line, "stdinnull") == 0)
        facts->no_input = strcmp(value, "no") != 0;
    else if (strcmp(line, "sessiontype") == 0)
        facts->no_command = strcmp(value, "default") != 0;
    else if (strcmp(line, "forkafterauthentication") == 0)
        facts->forks = strcmp(value, "no") != 0;
}

size_t ssh_facts_undo(const struct ssh_facts *facts, const char **first)
{
    size_t count = 0;
    if (facts->no_input)
        first[count++] = "-oStdinNull=no";
    if (facts->no_command)
        first[count++] = "-oSessionType=default";
    if (facts->forks)
        first[count++] = "-oForkAfterAuthentication=no";
    return count;
}

static size_t read_facts(int from, char *text, size_t capacity)
{
    size_t size = 0;
    ssize_t got;
    while (size < capacity &&
           ((got = read(from, text + size, capacity - size)) > 0 || (got < 0 && errno == EINTR)))
        size += got > 0 ? (size_t)got : 0;
    return size;
}

static bool ask_facts(const struct ssh_options *options, const char *host, char *text, size_t *size)
{
    static const char *const first[] = {"-G", NULL};
    struct ssh_words words;
    if (options->command != NULL || !ssh_words_build(&words, options, host, first, NULL))
        return false;
    ssh_words_add(&words, "true"); /* where ForkAfterAuthentication is set it wants a command */
    pid_t pid;
    int to, from, raw = -1;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool started = nothing >= 0 && ssh_spawn(&words, nothing, -1, &pid, &to, &from, NULL);
    ssh_words_release(&words);
    if (nothing >= 0)
        close(nothing);
    if (!started)
        return false;
    *size = read_facts(from, text, FACTS_MAX);
    close(from);
    while (waitpid(pid, &raw, 0) < 0 && errno == EINTR)
        continue;
    return raw == 0;
}

/* Whether somebody may be asked makes no other connection; Debian's ssh has that decide how often
 * the server is asked for a sign of life, too. */
static void cut_out_batch(char *text)
{
    static const char *const names[] = {"\nbatchmode ", "\nserveraliveinterval "};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *line = strstr(text, names[i]);
        const char *next = line != NULL ? strchr(line + 1, '\n') : NULL;
        if (next != NULL)
            memmove(line, next, strlen(next) + 1);
    }
}

void ssh_facts(struct ssh_facts *facts, const struct ssh_options *options, const char *host)
{
    memset(facts, 0, sizeof(*facts));
    const char *at = strrchr(host, '@');
    snprintf(facts->hostname, sizeof(facts->hostname), "%s", at != NULL ? at + 1 : host);
    char *text = malloc(FACTS_MAX + 1);
    size_t size = 0;
    if (text != NULL && ask_facts(options, host, text, &size)) {
        text[size] = '\0';
        cut_out_batch(text);
        facts->known = sha256(text, strlen(text), facts->hash);
        char *rest = text, *line;
        while ((line = strsep(&rest, "\r\n")) != NULL)
            take_fact(facts, line);
    }
    free(text);
}
