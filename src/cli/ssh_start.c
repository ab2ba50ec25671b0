#include "cli/ssh_start.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/answer_search.h"
#include "cli/ssh_command.h"
#include "transport/limits.h"

/* Runs where the non-interactive PATH lacks petrel: sh, because the login shell may be anything.
 * No single quote, exclamation mark or newline inside, for csh's and fish's sake. */
#define REMOTE_SEARCH                                                                              \
    "exec sh -c 'PATH=\"$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin:/opt/petrel/bin"           \
    ":${XDG_CACHE_HOME:-$HOME/.cache}/petrel\"; export PATH; "                                     \
    "command -v petrel >/dev/null 2>&1 || { echo PETREL-ERROR no-remote petrel is not installed "  \
    "there; exit 127; }; exec petrel remote'"

/* ---- the answer ---- */

static bool explain_end(int status, const char *host, const struct answer_search *search,
                        struct error *error)
{
    if (status == 255)
        return error_set(error, ERROR_SSH,
                         "ssh could not start a session on %s (its own message "
                         "stands above); try: ssh %s true",
                         host, host);
    if (status == 127 || status == 126)
        return error_set(error, ERROR_NO_REMOTE, "petrel could not be run on %s", host);
    if (search->noise[0] != '\0')
        return error_set(error, ERROR_NO_REMOTE, "%s did not start petrel; it said instead: %s",
                         host, search->noise);
    return error_set(error, ERROR_NO_REMOTE,
                     "%s closed the connection before petrel answered "
                     "(exit status %d)",
                     host, status);
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool check_version(const struct bootstrap_answer *answer, const char *host,
                          struct error *error)
{
    const struct version_range own = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX};
    if (version_ranges_meet(own, answer->protocol))
        return true;
    return error_set(
        error, ERROR_VERSION,
        "petrel %s on %s speaks protocol %u to %u, this petrel %u to %u; bring both to "
        "one version, e.g. by petrel install %s",
        answer->version, host, answer->protocol.lowest, answer->protocol.highest, own.lowest,
        own.highest, host);
}

/* Reads byte by byte: what follows the answer belongs to somebody else. */
static bool read_answer(struct ssh_channel *channel, const char *host, struct error *error)
{
    struct answer_search search = {.length = 0};
    char byte;
    for (;;) {
        ssize_t got = read(channel->from_remote, &byte, 1);
        if (got == 1 && answer_search_take(&search, byte))
            break;
        if (got == 1 || (got < 0 && errno == EINTR))
            continue;
        answer_search_end(&search);
        int status = wait_for(channel->pid);
        channel->pid = 0;
        return explain_end(status, host, &search, error);
    }
    struct error said = {0};
    if (!bootstrap_read_answer(&channel->answer, search.line, &said))
        return error_set(error, said.kind, "%s: %s", host, said.text);
    return check_version(&channel->answer, host, error);
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        }
    }
    return true;
}

/* ---- where the far end may be ---- */

static bool is_public(const struct address *address)
{
    const uint8_t *b = address->bytes;
    if (address->family == 4)
        return b[0] != 10 && b[0] != 127 && b[0] != 0 && !(b[0] == 172 && (b[1] & 0xf0) == 16) &&
               !(b[0] == 192 && b[1] == 168) && !(b[0] == 169 && b[1] == 254) &&
               !(b[0] == 100 && (b[1] & 0xc0) == 64);
    return (b[0] & 0xe0) == 0x20;
}

static void add_address(struct ssh_channel *channel, const struct address *address)
{
    if (channel->address_count == 16 || (channel->jumped && !is_public(address)))
        return;
    for (unsigned i = 0; i < channel->address_count; i++) {
        if (address_equal(&channel->addresses[i], address))
            return;
    }
    channel->addresses[channel->address_count++] = *address;
}

static void add_sockaddr(struct ssh_channel *channel, const struct sockaddr *from, uint16_t port)
{
    struct address address = {.port = port};
    if (from->sa_family == AF_INET) {
        address.family = 4;
        memcpy(address.bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)from;
        address.family = 6;
        memcpy(address.bytes, &six->sin6_addr, 16);
        address.scope = six->sin6_scope_id;
    } else {
        return;
    }
    add_address(channel, &address);
}

static void resolve(struct ssh_channel *channel, const char *name, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = flags}, *found = NULL;
    if (name[0] == '\0' || getaddrinfo(name, NULL, &hints, &found) != 0)
        return;
    for (struct addrinfo *at = found; at != NULL; at = at->ai_next)
        add_sockaddr(channel, at->ai_addr, channel->answer.port);
    freeaddrinfo(found);
}

static void collect_addresses(struct ssh_channel *channel, const struct ssh_facts *facts)
{
    channel->jumped = facts->jumped;
    resolve(channel, channel->answer.address, AI_NUMERICHOST);
    if (!facts->jumped || channel->address_count == 0)
        resolve(channel, facts->hostname, 0);
}

/* ---- start and end ---- */

static bool spawn_remote(struct ssh_channel *channel, const struct ssh_options *options,
                         const char *host, struct error *error)
{
    struct ssh_words words;
    if (!ssh_words_build(&words, options, host, NULL, error))
        return false;
    char command[512];
    const char *remote = REMOTE_SEARCH;
    if (options->remote_petrel != NULL) {
        if ((size_t)snprintf(command, sizeof(command), "%s remote", options->remote_petrel) >=
            sizeof(command))
            return error_set(error, ERROR_USAGE, "--remote-petrel is too long");
        remote = command;
    }
    bool good =
        ssh_words_add(&words, remote) || error_set(error, ERROR_USAGE, "too many options for ssh");
    good = good &&
           ssh_spawn(&words, -1, &channel->pid, &channel->to_remote, &channel->from_remote, error);
    ssh_words_release(&words);
    return good;
}

bool ssh_start(struct ssh_channel *channel, const struct ssh_options *options, const char *host,
               const struct bootstrap_start *start, struct error *error)
{
    *channel = (struct ssh_channel){.to_remote = -1, .from_remote = -1};
    char line[BOOTSTRAP_LINE_MAX];
    size_t length = bootstrap_write_start(start, line, sizeof(line));
    if (length == 0)
        return error_set(error, ERROR_USAGE, "the start line is too long");
    bool good = spawn_remote(channel, options, host, error);
    if (good) {
        struct ssh_facts facts;
        write_all(channel->to_remote, line, length); /* a failure shows in the answer */
        ssh_facts(&facts, options, host);
        good = read_answer(channel, host, error);
        if (good)
            collect_addresses(channel, &facts);
    }
    wipe(line, sizeof(line));
    if (!good)
        ssh_close(channel, NS_PER_S);
    return good;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

int ssh_close(struct ssh_channel *channel, uint64_t wait_ns)
{
    close_end(&channel->to_remote);
    int status = -1;
    const struct timespec nap = {.tv_nsec = 5 * 1000 * 1000};
    for (uint64_t waited = 0; channel->pid > 0; waited += 5 * NS_PER_MS) {
        int raw;
        pid_t ended = waitpid(channel->pid, &raw, WNOHANG);
        if (ended == channel->pid) {
            status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
            channel->pid = 0;
        } else if (waited >= wait_ns) {
            kill(channel->pid, SIGTERM);
            wait_for(channel->pid);
            channel->pid = 0;
        } else {
            nanosleep(&nap, NULL);
        }
    }
    close_end(&channel->from_remote);
    return status;
}

int ssh_run(const struct ssh_options *options, const char *host, const char *command, int input,
            char *output, size_t capacity, struct error *error)
{
    struct ssh_words words;
    pid_t pid;
    int to = -1, from = -1;
    if (!ssh_words_build(&words, options, host, NULL, error))
        return -1;
    bool good = ssh_words_add(&words, command) && ssh_spawn(&words, input, &pid, &to, &from, error);
    ssh_words_release(&words);
    if (!good)
        return -1;
    if (to >= 0)
        close(to);
    size_t length = 0;
    char spare[256];
    for (;;) {
        bool full = length + 1 >= capacity;
        ssize_t got = full ? read(from, spare, sizeof(spare))
                           : read(from, output + length, capacity - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (!full)
            length += (size_t)got;
    }
    output[length] = '\0';
    close(from);
    return wait_for(pid);
}
