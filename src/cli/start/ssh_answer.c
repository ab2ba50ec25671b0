#include "cli/start/ssh_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/start/answer_search.h"
#include "cli/start/pipe_peek.h"
#include "cli/start/shell_words.h"
#include "cli/start/ssh_errors.h"
#include "cli/start/ssh_process.h"
#include "net/driver.h"
#include "tree/display.h"

/* How long the login may take: its user may be typing a password, for which sshd itself allows two
 * minutes; with nobody to type, and no way to see when it is over, it counts as the answer's. */
#define LOGIN_NS (150 * NS_PER_S)
#define LOGIN_UNASKED_NS (60 * NS_PER_S)
/* From the login's end to the answer: a shell's start-up files, whatever they print. */
#define ANSWER_NS (20 * NS_PER_S)
#define ANSWER_BYTES (8u * 1024 * 1024)
/* How long a master connection that was there before may take to open a session: its path may be
 * gone, or have a long queue. */
#define STUCK_NS (8 * NS_PER_S)
#define PROMPT_NS (2 * NS_PER_S) /* that nothing follows a prompt which nobody sees */
#define END_NS NS_PER_S          /* for ssh to end once its output has */
#define WAIT_MS 100              /* a signal may come just before a wait: so none is long */

#define BLOCK (64 * 1024)
#define SAID_MAX 260
#define COMMAND_MAX 320
#define DIGITS_HIDDEN 16 /* in a row: part of the secret, or of a hash */

struct wait {
    struct ssh_channel *channel;
    const struct ssh_options *options;
    const char *host;
    const struct ssh_reuse *reuse;
    struct answer_search search;
    struct pipe_peek peek;
    char bytes[BLOCK];
    size_t taken;
    uint64_t start_ns, until_ns, last_ns; /* of the last byte */
    bool logged_in;
};

static bool is_stopped(const struct ssh_options *options)
{
    return options->stop != NULL && *options->stop > 0;
}

/* ---- what it said ---- */

/* A start-up file that repeats its input repeats the secret. A shell that takes the start line for
 * a command names its first word only. */
static const char *without_secret(const char *line)
{
    static const char digits[] = "0123456789abcdef";
    bool found = strstr(line, "secret=") != NULL;
    for (const char *at = line; *at != '\0' && !found; at += strspn(at, digits)) {
        at += strcspn(at, digits);
        found = strspn(at, digits) >= DIGITS_HIDDEN;
    }
    return found ? "it repeats what was sent to it" : line;
}

/* The first line on stdout that was not for us, and the last on stderr. */
static const char *what_it_said(const struct wait *wait, char said[SAID_MAX])
{
    char noise[4 * sizeof(wait->search.noise)];
    const char *first = without_secret(display_name(noise, sizeof(noise) / 3, wait->search.noise));
    const char *last = without_secret(wait->channel->last_words);
    const char *between = first[0] != '\0' && last[0] != '\0' ? " ... " : "";
    snprintf(said, SAID_MAX, "%.100s%s%.150s", first, between, last);
    return said;
}

static bool wants_password(const char *said)
{
    return strstr(said, "sudo") != NULL &&
           (strstr(said, "assword") != NULL || strstr(said, "must have a tty") != NULL);
}

/* ssh fails with 255, and so it ends when a signal ended what it ran: in silence then. After the
 * login it has few things left to say. */
static bool is_ssh_failure(const struct wait *wait, int status, const char *said)
{
    static const char *const words[] = {
        "onnection to ", "onnection closed", "onnection reset", "isconnect",   "Timeout, server",
        "on channel",    "open failed",      "refused by peer", "Broken pipe", "Control master"};
    if (status != 255 || wait->search.noise[0] != '\0')
        return false;
    bool own = !wait->logged_in;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !own; i++)
        own = strstr(said, words[i]) != NULL;
    return own;
}

static bool explain_ssh(const struct wait *wait, const char *said, struct error *error)
{
    char command[COMMAND_MAX];
    const char *hidden =
        wait->reuse->on && wait->reuse->jumped ? "; --no-reuse shows what the jump host says" : "";
    if (said[0] == '\0' && !wait->reuse->on)
        said = "it says nothing; nor would it if a signal ended petrel there";
    return error_set(error, ERROR_SSH, "ssh could not start a session on %s%s%.150s%s; try: %s%s",
                     wait->host, said[0] != '\0' ? " (" : "", said, said[0] != '\0' ? ")" : "",
                     ssh_command_text(command, sizeof(command), wait->options, wait->host, "true"),
                     hidden);
}

/* A shell that finds no such command ends with 127 or 126; after a signal with that and 128. */
static bool explain_end(const struct wait *wait, int status, struct error *error)
{
    const char *host = wait->host, *named = wait->options->remote_petrel;
    char said[SAID_MAX], command[COMMAND_MAX], version[200];
    what_it_said(wait, said);
    if (is_ssh_failure(wait, status, said))
        return explain_ssh(wait, said, error);
    wait->channel->fault = wants_password(said)             ? SSH_FAULT_PASSWORD
                           : status == 127 || status == 126 ? SSH_FAULT_ABSENT
                                                            : SSH_FAULT_HELD;
    if (wants_password(said))
        return error_set(error, ERROR_NO_REMOTE,
                         "%s wants a password that nobody can type there: %s; allow sudo to run "
                         "petrel without one (NOPASSWD in sudoers)",
                         host, said);
    if ((status == 127 || status == 126) && named != NULL)
        return error_set(error, ERROR_NO_REMOTE,
                         "'%.80s' cannot be run on %s%s%.150s%s; look at "
                         "--remote-petrel there",
                         named, host, said[0] != '\0' ? " (" : "", said,
                         said[0] != '\0' ? ")" : "");
    snprintf(version, sizeof(version), "%.180s version", named != NULL ? named : "petrel");
    ssh_command_text(command, sizeof(command), wait->options, host, version);
    if (said[0] != '\0')
        return error_set(error, ERROR_NO_REMOTE,
                         "petrel did not start on %s, which said instead: %.150s; try: %s", host,
                         said, command);
    if (status > 128 && status <= 255)
        return error_set(error, ERROR_NO_REMOTE,
                         "petrel was ended by a signal on %s before it said anything (for want of "
                         "memory, or it is another processor's), or the connection broke; try: %s",
                         host, command);
    return error_set(error, ERROR_NO_REMOTE, "petrel did not start on %s (exit status %d); try: %s",
                     host, status, command);
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

/* ---- how long ---- */

bool ssh_user_is_there(const struct ssh_options *options)
{
    static const char *const windows[] = {"SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY"};
    if (options->batch)
        return false;
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        if (getenv(windows[i]) != NULL)
            return true;
    }
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty >= 0)
        close(tty);
    return tty >= 0;
}

static uint64_t login_time(const struct wait *wait)
{
    if (ssh_user_is_there(wait->options))
        return LOGIN_NS;
    return wait->reuse->on ? LOGIN_UNASKED_NS : ANSWER_NS;
}

static void see_login(struct wait *wait, uint64_t now_ns)
{
    if (wait->logged_in ||
        !(wait->taken > 0 || ssh_reuse_logged_in(wait->reuse, wait->channel->pid)))
        return;
    wait->logged_in = true;
    wait->channel->login_ns = now_ns - wait->start_ns;
    wait->until_ns = now_ns + ANSWER_NS;
}

/* Something that asks for a password over there, and waits. */
static bool has_prompt(struct wait *wait, uint64_t now_ns, char *prompt, size_t capacity)
{
    uint64_t silent_ns = 0;
    if (wait->options->command != NULL) /* it may be what -e runs, and its user may type */
        return false;
    ssh_errors_unfinished(wait->channel->errors, prompt, capacity, &silent_ns);
    if (answer_is_prompt(prompt) && silent_ns > PROMPT_NS)
        return true;
    display_bytes(prompt, capacity, wait->search.line, wait->search.length);
    return answer_is_prompt(prompt) && now_ns > wait->last_ns + PROMPT_NS;
}

static bool is_stuck(const struct wait *wait, uint64_t now_ns)
{
    return wait->reuse->was_up && wait->taken == 0 && now_ns > wait->start_ns + STUCK_NS &&
           !ssh_process_has_session(wait->channel->pid);
}

/* ---- reading ---- */

enum step {
    STEP_BYTES,
    STEP_END,
    STEP_LATE,
    STEP_FULL,
    STEP_STUCK,
    STEP_PROMPT,
    STEP_STOPPED,
    STEP_ANSWER
};

/* What is there now is in wait->bytes then. It stays in the pipe but for *taken bytes: what follows
 * the answer belongs to somebody else. */
static enum step next_bytes(struct wait *wait, size_t *size, size_t *taken, char *prompt,
                            size_t capacity)
{
    int from = wait->channel->from_remote;
    struct pollfd waits = {.fd = from, .events = POLLIN};
    while (!is_stopped(wait->options)) {
        if (poll(&waits, 1, WAIT_MS) > 0) {
            ssize_t got = pipe_peek_look(&wait->peek, from, wait->bytes, BLOCK, taken);
            *size = got > 0 ? (size_t)got : 0;
            if (got >= 0 || errno != EAGAIN)
                return got > 0 ? STEP_BYTES : STEP_END;
        }
        uint64_t now_ns = driver_now();
        if (wait->options->on_wait != NULL)
            wait->options->on_wait(wait->options->wait_context);
        see_login(wait, now_ns);
        if (is_stuck(wait, now_ns))
            return STEP_STUCK;
        if (has_prompt(wait, now_ns, prompt, capacity))
            return STEP_PROMPT;
        if (now_ns >= wait->until_ns)
            return STEP_LATE;
    }
    return STEP_STOPPED;
}

/* Takes what belongs to the search out of the pipe. */
static bool search_bytes(struct wait *wait, size_t size, size_t taken)
{
    bool found = false;
    size_t used = 0;
    while (used < size && !found)
        found = answer_search_take(&wait->search, wait->bytes[used++]);
    pipe_peek_skip(wait->channel->from_remote, used - taken);
    wait->taken += used;
    return found;
}

static enum step search(struct wait *wait, char *prompt, size_t capacity)
{
    enum step step;
    size_t size, taken;
    while ((step = next_bytes(wait, &size, &taken, prompt, capacity)) == STEP_BYTES) {
        wait->last_ns = driver_now();
        bool found = search_bytes(wait, size, taken);
        see_login(wait, wait->last_ns);
        if (found)
            return STEP_ANSWER;
        if (wait->last_ns >= wait->until_ns)
            return STEP_LATE;
        if (wait->taken >= ANSWER_BYTES)
            return STEP_FULL;
    }
    return step;
}

static bool hear(struct wait *wait, struct error *error)
{
    struct error said = {0};
    struct ssh_channel *channel = wait->channel;
    if (bootstrap_read_answer(&channel->answer, wait->search.line, &said))
        return check_version(&channel->answer, wait->host, error);
    channel->missing = said.kind == ERROR_NO_REMOTE;
    channel->fault = channel->missing ? SSH_FAULT_ABSENT : SSH_FAULT_OTHER;
    return error_set(error, said.kind, "%s: %s", wait->host, said.text);
}

/* It says things, but not the one that is waited for. */
static bool explain_noise(const struct wait *wait, enum step step, struct error *error)
{
    char said[SAID_MAX];
    what_it_said(wait, said);
    wait->channel->fault = SSH_FAULT_HELD;
    const char *quoted = said[0] != '\0' ? said : "(unprintable)";
    char amount[40] = "";
    if (step == STEP_FULL)
        snprintf(amount, sizeof(amount), ", more than %u MiB of them", ANSWER_BYTES >> 20);
    return error_set(error, ERROR_NO_REMOTE,
                     "%s does not start petrel but goes on saying other things%s: %s; look at the "
                     "start-up files of the shell there",
                     wait->host, amount, quoted);
}

static bool explain_silence(const struct wait *wait, struct error *error)
{
    char said[SAID_MAX], command[COMMAND_MAX];
    unsigned seconds = (unsigned)((driver_now() - wait->start_ns) / NS_PER_S);
    what_it_said(wait, said);
    bool is_login = wait->reuse->on && !wait->logged_in;
    ssh_command_text(command, sizeof(command), wait->options, wait->host,
                     is_login ? "true" : "petrel version");
    if (is_login)
        return error_set(error, ERROR_SSH,
                         "ssh did not finish its login on %s in %u s%s%.150s%s; try: %s",
                         wait->host, seconds, said[0] != '\0' ? " (" : "", said,
                         said[0] != '\0' ? ")" : "", command);
    wait->channel->fault = SSH_FAULT_HELD;
    return error_set(error, ERROR_NO_REMOTE, "no petrel answered on %s in %u s%s%.150s%s; try: %s",
                     wait->host, seconds, said[0] != '\0' ? " (" : "", said,
                     said[0] != '\0' ? ")" : "", command);
}

static void explain_prompt(const struct wait *wait, const char *prompt, struct error *error)
{
    wait->channel->fault = SSH_FAULT_PASSWORD;
    error_set(error, ERROR_NO_REMOTE,
              "%s wants a password that nobody can type there: %s; allow %s to run without one, "
              "for sudo by NOPASSWD in sudoers",
              wait->host, without_secret(prompt),
              wait->options->remote_petrel != NULL ? wait->options->remote_petrel : "petrel");
}

/* A master that went away, or whose path did, breaks nothing: before anything came, that is. */
static bool may_retry(const struct wait *wait, int status)
{
    return wait->reuse->was_up && wait->taken == 0 && status == 255;
}

static enum ssh_outcome fail(struct wait *wait, enum step step, const char *prompt,
                             struct error *error)
{
    answer_search_end(&wait->search);
    see_login(wait, driver_now());
    int status = ssh_close(wait->channel, step == STEP_END ? END_NS : 0);
    if (step == STEP_STUCK || (step == STEP_END && may_retry(wait, status))) {
        explain_end(wait, status, error);
        return SSH_STUCK;
    }
    /* Only ssh itself ends with 255: anything else came from the other side of a login. */
    if (step == STEP_END && status >= 0 && status != 255 && wait->channel->login_ns == 0)
        wait->channel->login_ns = driver_now() - wait->start_ns;
    if (step == STEP_STOPPED || is_stopped(wait->options))
        error_set(error, ERROR_INTERRUPTED, "interrupted");
    else if (step == STEP_PROMPT)
        explain_prompt(wait, prompt, error);
    else if (step == STEP_END)
        explain_end(wait, status, error);
    else if (wait->taken > 0)
        explain_noise(wait, step, error);
    else
        explain_silence(wait, error);
    return SSH_FAILED;
}

static enum ssh_outcome wait_for(struct wait *wait, struct error *error)
{
    char prompt[128];
    wait->start_ns = driver_now();
    wait->until_ns = wait->start_ns + login_time(wait);
    enum step step = search(wait, prompt, sizeof(prompt));
    if (step != STEP_ANSWER)
        return fail(wait, step, prompt, error);
    if (hear(wait, error))
        return SSH_ANSWERED;
    ssh_close(wait->channel, NS_PER_S);
    return SSH_FAILED;
}

enum ssh_outcome ssh_answer_wait(struct ssh_channel *channel, const struct ssh_options *options,
                                 const char *host, const struct ssh_reuse *reuse,
                                 struct error *error)
{
    struct wait *wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        ssh_close(channel, NS_PER_S);
        error_set(error, ERROR_MEMORY, "no memory for what ssh says");
        return SSH_FAILED;
    }
    wait->channel = channel;
    wait->options = options;
    wait->host = host;
    wait->reuse = reuse;
    pipe_peek_open(&wait->peek);
    enum ssh_outcome outcome = wait_for(wait, error);
    pipe_peek_close(&wait->peek);
    free(wait);
    return outcome;
}
