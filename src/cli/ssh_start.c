#include "cli/ssh_start.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/answer_search.h"
#include "cli/ssh_command.h"
#include "net/driver.h"
#include "transport/limits.h"

#define NAP_NS (5 * NS_PER_MS)
#define END_NS NS_PER_S /* for ssh to end once its output has, or it was asked to */

/* First what petrel install put there, which is how another version in the PATH is got around; then
 * also where the PATH of a shell without terminal does not lead. In sh, because the login shell may
 * be anything; no single quote, exclamation mark or newline inside, for csh's and fish's sake. */
#define REMOTE_SEARCH                                                                              \
    "exec sh -c 'PATH=\"${XDG_CACHE_HOME:-$HOME/.cache}/petrel:$PATH"                              \
    ":$HOME/.local/bin:$HOME/bin:/usr/local/bin:/opt/petrel/bin\"; export PATH; "                  \
    "command -v petrel >/dev/null 2>&1 || { echo PETREL-ERROR no-remote petrel is not installed "  \
    "there; exit 127; }; exec petrel remote'"

/* ---- the answer ---- */

/* ssh itself fails with 255, a shell that finds no such command with 127 or 126. */
static bool explain_end(int status, const struct ssh_options *options, const char *host,
                        const struct answer_search *search, struct error *error)
{
    if (status == 255 && search->noise[0] == '\0')
        return error_set(error, ERROR_SSH,
                         "ssh could not start a session on %s (its own message stands above); try: "
                         "ssh %s true",
                         host, host);
    if ((status == 127 || status == 126) && options->remote_petrel != NULL)
        return error_set(error, ERROR_NO_REMOTE,
                         "'%s' cannot be run on %s; look at --remote-petrel there",
                         options->remote_petrel, host);
    if (search->noise[0] != '\0')
        return error_set(error, ERROR_NO_REMOTE,
                         "petrel did not start on %s, which said instead: %s; try: ssh %s petrel "
                         "version",
                         host, search->noise, host);
    return error_set(error, ERROR_NO_REMOTE,
                     "petrel did not start on %s (exit status %d); try: ssh %s petrel version",
                     host, status, host);
}

static int status_of(int raw)
{
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

static bool check_version(const struct bootstrap_answer *answer, const char *host,
                          struct error *error)
{
    const struct version_range own = {PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX};
    if (version_ranges_meet(own, answer->protocol))
        return true;
    return error_set(
        error, ERROR_VERSION,
        "petrel %s on %s speaks protocol %u to %u, this petrel %u to %u; send this one there: "
        "petrel install %s (or copy with --install)",
        answer->version, host, answer->protocol.lowest, answer->protocol.highest, own.lowest,
        own.highest, host);
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
    const struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t waited_ns = 0;
    while (channel->pid > 0) {
        int raw;
        pid_t ended = waitpid(channel->pid, &raw, WNOHANG);
        if (ended == channel->pid || (ended < 0 && errno != EINTR)) {
            status = ended > 0 && waited_ns <= wait_ns ? status_of(raw) : -1;
            channel->pid = 0;
            break;
        }
        if (waited_ns == wait_ns / NAP_NS * NAP_NS)
            kill(channel->pid, SIGTERM);
        else if (waited_ns == wait_ns / NAP_NS * NAP_NS + END_NS)
            kill(channel->pid, SIGKILL);
        nanosleep(&nap, NULL);
        waited_ns += NAP_NS;
    }
    close_end(&channel->from_remote);
    return status;
}

static bool is_stopped(const struct ssh_options *options)
{
    return options->stop != NULL && *options->stop > 0;
}

/* How long a far end may say nothing at all (its user may be typing a password, which sshd itself
 * allows two minutes), how long it may go on about other things, and how much of them. */
#define SILENT_NS (150 * NS_PER_S)
#define CHATTER_NS (20 * NS_PER_S)
#define CHATTER_BYTES (8u * 1024 * 1024)

/* One byte of the far end's output: 1, or 0 at its end, at `until_ns` or when we are to stop. */
static int read_byte(const struct ssh_channel *channel, const struct ssh_options *options,
                     uint64_t until_ns, char *byte)
{
    struct pollfd waits = {.fd = channel->from_remote, .events = POLLIN};
    while (!is_stopped(options) && driver_now() < until_ns) {
        /* A signal may come just before the wait: so none is long. */
        if (poll(&waits, 1, 100) <= 0)
            continue;
        ssize_t got = read(channel->from_remote, byte, 1);
        if (got >= 0 || errno != EINTR)
            return got == 1;
    }
    return 0;
}

/* Reads byte by byte: what follows the answer belongs to somebody else. */
static bool read_answer(struct ssh_channel *channel, const struct ssh_options *options,
                        const char *host, struct error *error)
{
    struct answer_search search = {.length = 0};
    char byte;
    size_t taken = 0;
    uint64_t until_ns = driver_now() + SILENT_NS;
    while (taken < CHATTER_BYTES && read_byte(channel, options, until_ns, &byte)) {
        if (taken++ == 0)
            until_ns = driver_now() + CHATTER_NS;
        if (!answer_search_take(&search, byte))
            continue;
        struct error said = {0};
        if (bootstrap_read_answer(&channel->answer, search.line, &said))
            return check_version(&channel->answer, host, error);
        channel->missing = said.kind == ERROR_NO_REMOTE;
        return error_set(error, said.kind, "%s: %s", host, said.text);
    }
    answer_search_end(&search);
    if (taken >= CHATTER_BYTES || driver_now() >= until_ns) {
        ssh_close(channel, 0);
        if (taken == 0)
            return error_set(
                error, ERROR_NO_REMOTE,
                "%s said nothing for %u s: no petrel answered there; try: ssh %s petrel "
                "version",
                host, (unsigned)(SILENT_NS / NS_PER_S), host);
        return error_set(error, ERROR_NO_REMOTE,
                         "%s does not start petrel but goes on saying other things: %s", host,
                         search.noise);
    }
    int status = ssh_close(channel, is_stopped(options) ? 0 : END_NS);
    if (is_stopped(options))
        return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return explain_end(status, options, host, &search, error);
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

static void collect_addresses(struct ssh_channel *channel, const struct ssh_options *options,
                              const struct ssh_facts *facts)
{
    channel->jumped = facts->jumped;
    channel->addresses =
        (struct far_addresses){.port = channel->answer.port,
                               .family = options->family != 0 ? options->family : facts->family,
                               .public_only = facts->jumped};
    far_addresses_add(&channel->addresses, channel->answer.address, true);
    /* A name that only the jump host can resolve may be somebody else's here. */
    if (!facts->jumped || channel->addresses.count == 0)
        far_addresses_add(&channel->addresses, facts->hostname, false);
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
    good = good && ssh_spawn(&words, -1, false, &channel->pid, &channel->to_remote,
                             &channel->from_remote, error);
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
        good = read_answer(channel, options, host, error);
        if (good)
            collect_addresses(channel, options, &facts);
    }
    wipe(line, sizeof(line));
    if (!good)
        ssh_close(channel, NS_PER_S);
    return good;
}
