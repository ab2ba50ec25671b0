#include "cli/start/ssh_start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/report/write_all.h"
#include "cli/start/direct.h"
#include "cli/start/ssh_answer.h"
#include "cli/start/ssh_errors.h"
#include "cli/start/tls_relay.h"
#include "transport/limits.h"

#define NAP_NS (5 * NS_PER_MS)
#define END_NS NS_PER_S /* for ssh to end once its output has, or it was asked to */

/* First what petrel install put there, which is how another version in the PATH is got around; then
 * also where the PATH of a shell without terminal does not lead. What does not run as petrel (half
 * a file, another processor's) hides no good one behind it; with no other it is run all the same,
 * for the sake of what it says. In sh, because the login shell may be anything, and by its
 * full name, because so may the PATH; no single quote,
 * exclamation mark, backslash or newline inside, for csh's and fish's sake. */
#define REMOTE_SEARCH                                                                              \
    "exec /bin/sh -c 'PATH=\"${XDG_CACHE_HOME:-$HOME/.cache}/petrel:$PATH"                         \
    ":$HOME/.local/bin:$HOME/bin:/usr/local/bin:/opt/petrel/bin\"; export PATH; f=; IFS=:; "       \
    "for d in $PATH; do p=$d/petrel; [ -f \"$p\" ] && [ -x \"$p\" ] || continue; f=${f:-$p}; "     \
    "case $(\"$p\" version </dev/null 2>/dev/null) in petrel*) exec \"$p\" remote;; esac; done; "  \
    "[ -n \"$f\" ] && exec \"$f\" remote; "                                                        \
    "echo PETREL-ERROR no-remote no petrel for $(id -un 2>/dev/null)"                              \
    " in the PATH, ~/.cache/petrel, ~/.local/bin, ~/bin, /usr/local/bin, /opt/petrel/bin;"         \
    " exit 127'"

static int status_of(int raw)
{
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void ssh_end_output(struct ssh_channel *channel)
{
    if (channel->relay != NULL) /* it is one socket, and is to be read on */
        shutdown(channel->to_remote, SHUT_WR);
    close_end(&channel->to_remote);
}

int ssh_close(struct ssh_channel *channel, uint64_t wait_ns)
{
    close_end(&channel->to_remote);
    if (channel->relay != NULL)
        close_end(&channel->from_remote);
    tls_relay_end(channel->relay);
    channel->relay = NULL;
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
    if (channel->errors != NULL)
        ssh_errors_last(channel->errors, channel->last_words, sizeof(channel->last_words));
    ssh_errors_free(channel->errors);
    channel->errors = NULL;
    return status;
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

/* How ssh is called. */
struct ssh_plan {
    struct ssh_facts facts;
    struct ssh_reuse reuse;
};

static bool spawn_remote(struct ssh_channel *channel, const struct ssh_options *options,
                         const char *host, const struct ssh_plan *plan, struct error *error)
{
    struct ssh_words words;
    const char *first[SSH_WORDS_MAX] = {NULL};
    ssh_reuse_words(&plan->reuse, &plan->facts, first);
    if (!ssh_words_build(&words, options, host, first, error))
        return false;
    char command[512];
    const char *remote = REMOTE_SEARCH;
    bool good = true;
    if (options->remote_petrel != NULL) {
        good = (size_t)snprintf(command, sizeof(command), "%s remote", options->remote_petrel) <
                   sizeof(command) ||
               error_set(error, ERROR_USAGE, "--remote-petrel is too long");
        remote = command;
    }
    good = good && (ssh_words_add(&words, remote) ||
                    error_set(error, ERROR_USAGE, "too many options for ssh"));
    good = good && ssh_channel_spawn(channel, &words, plan->reuse.on, error);
    ssh_words_release(&words);
    return good;
}

/* One connection, one secret: a far end that was given up may still have the last one. */
static enum ssh_outcome try_once(struct ssh_channel *channel, const struct ssh_options *options,
                                 const char *host, const struct ssh_plan *plan,
                                 struct bootstrap_start *start, struct error *error)
{
    *channel = (struct ssh_channel){.to_remote = -1, .from_remote = -1};
    char line[BOOTSTRAP_LINE_MAX];
    if (!random_bytes(start->secret, START_SECRET_SIZE, error) ||
        !random_bytes(start->session_id, SESSION_ID_SIZE, error))
        return SSH_FAILED;
    size_t length = bootstrap_write_start(start, line, sizeof(line));
    bool good = length > 0 || error_set(error, ERROR_USAGE, "the start line is too long");
    good = good && spawn_remote(channel, options, host, plan, error);
    if (good)
        write_all(channel->to_remote, line, length); /* a failure shows in the answer */
    wipe(line, sizeof(line));
    if (good)
        return ssh_answer_wait(channel, options, host, &plan->reuse, error);
    ssh_close(channel, NS_PER_S);
    return SSH_FAILED;
}

bool ssh_start(struct ssh_channel *channel, const struct ssh_options *options, const char *host,
               struct bootstrap_start *start, struct error *error)
{
    struct ssh_plan plan;
    if (options->listening != NULL)
        return direct_start(channel, options, start, error);
    ssh_facts(&plan.facts, options, host);
    ssh_reuse_plan(&plan.reuse, options, &plan.facts, true);
    struct error cause = {0};
    enum ssh_outcome outcome = try_once(channel, options, host, &plan, start, &cause);
    if (outcome == SSH_STUCK) {
        ssh_reuse_forget(&plan.reuse);
        error_clear(&cause);
        outcome = try_once(channel, options, host, &plan, start, &cause);
    }
    if (outcome != SSH_ANSWERED)
        return error_set(error, cause.kind, "%s", cause.text);
    channel->reused = plan.reuse.was_up;
    collect_addresses(channel, options, &plan.facts);
    return true;
}
