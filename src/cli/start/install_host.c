#include "cli/start/install_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/start/install_answer.h"
#include "cli/start/shell_words.h"
#include "cli/start/ssh_reuse.h"
#include "net/driver.h"
#include "tree/display.h"

#define END_NS (5 * NS_PER_S)
#define STUCK_NS (5 * NS_PER_S)
#define PIECE (64 * 1024)

/* ---- what runs over there ---- */

/* In sh, whatever the login shell is. No single quote, exclamation mark, backslash or newline
 * inside, for csh's and fish's sake. d: folder, f: file, p: the file as people write it. */
#define SCRIPT_START                                                                               \
    "exec sh -c 'LC_ALL=C; export LC_ALL; umask 077; "                                             \
    "say() { echo \"PETREL-INSTALL $*\" 2>/dev/null; }; fail() { say error \"$*\"; exit 1; }; "    \
    "d=${XDG_CACHE_HOME:-$HOME/.cache}/petrel; f=$d/petrel; "                                      \
    "p=${f#\"$HOME\"}; [ \"$p\" = \"$f\" ] || p=\"~$p\"; "

/* $1: size, $2: hash. The client answers "ready" with a line "go" and the file, or hangs up. The
 * name is new to the folder, so what is running goes on. */
#define SCRIPT_SEND                                                                                \
    SCRIPT_START                                                                                   \
    "sum() { if command -v sha256sum >/dev/null 2>&1; then sha256sum <\"$1\"; "                    \
    "else \"$1\" checksum \"$1\"; fi; }; "                                                         \
    "h=; if [ -f \"$f\" ] && [ -x \"$f\" ]; then h=$(sum \"$f\" 2>/dev/null); fi; h=${h%% *}; "    \
    "say ready $(uname -sm) ${h:-none} \"$p\"; "                                                   \
    "read -r go && [ \"$go\" = go ] || exit 0; "                                                   \
    "t=$d/.petrel-install-$$; gone() { rm -f \"$t\"; rmdir \"$d\" 2>/dev/null; }; "                \
    "trap gone 0; trap \"exit 1\" 1 2 3 13 15; "                                                   \
    "m=$(mkdir -p \"$d\" 2>&1) || fail \"$m\"; "                                                   \
    "if [ -d \"$f\" ]; then fail \"$p is a folder\"; fi; "                                         \
    "m=$({ cat >\"$t\"; } 2>&1) || fail \"$m\"; "                                                  \
    "n=$(wc -c <\"$t\"); [ \"$n\" -eq \"$1\" ] || fail \"only $n of $1 bytes came\"; "             \
    "m=$(chmod 755 \"$t\" 2>&1) || fail \"$m\"; "                                                  \
    "h=$(sum \"$t\" 2>&1) || fail \"cannot be checked: $h\"; "                                     \
    "[ \"${h%% *}\" = \"$2\" ] || fail \"other bytes came than were sent\"; "                      \
    "m=$(\"$t\" version 2>&1) || fail \"it does not run in $d: $m\"; "                             \
    "m=$(mv -f \"$t\" \"$f\" 2>&1) || fail \"$m\"; "                                               \
    "trap - 0; say done \"$p\"' petrel-install"

#define SCRIPT_REMOVE                                                                              \
    SCRIPT_START                                                                                   \
    "w=none; if [ -f \"$f\" ]; then w=done; fi; "                                                  \
    "m=$(rm -f \"$f\" \"$d\"/.petrel-install-* 2>&1) || fail \"$m\"; "                             \
    "rmdir \"$d\" 2>/dev/null; say $w \"$p\"' petrel-install"

/* ---- the conversation ---- */

struct conversation {
    const struct ssh_options *options;
    const char *host;
    const struct install_program *program; /* NULL: none to send */
    struct ssh_channel channel;
    struct ssh_facts facts;
    struct install_answer answer;
    struct install_result *result;
    struct ssh_reuse reuse;
    uint64_t start_ns;
    size_t bytes;  /* that came */
    bool over;     /* all is said, for good or bad */
    bool sending;  /* "go" and the program are under way */
    size_t go_put; /* of "go\n" */
    size_t put;    /* of the program */
};

static void hang_up(struct conversation *talk)
{
    if (talk->channel.to_remote >= 0)
        close(talk->channel.to_remote);
    talk->channel.to_remote = -1;
    talk->sending = false;
}

static bool check_machine(const struct conversation *talk, struct error *error)
{
    struct utsname own;
    const struct install_answer *there = &talk->answer;
    if (uname(&own) == 0 && strcmp(own.sysname, there->system) == 0 &&
        strcmp(own.machine, there->machine) == 0)
        return true;
    char system[64], machine[64];
    return error_set(error, ERROR_NO_REMOTE,
                     "%s is a %s %s machine, and this petrel can send only itself, built for %s "
                     "%s; build petrel over there",
                     talk->host, display_name(system, sizeof(system), there->system),
                     display_name(machine, sizeof(machine), there->machine), own.sysname,
                     own.machine);
}

static bool hear_ready(struct conversation *talk, struct error *error)
{
    if (talk->program == NULL)
        return true;
    if (!check_machine(talk, error))
        return false;
    talk->over = strcmp(talk->answer.hash, talk->program->hash) == 0;
    talk->sending = !talk->over;
    return true;
}

static bool hear(struct conversation *talk, struct error *error)
{
    snprintf(talk->result->path, sizeof(talk->result->path), "%s", talk->answer.text);
    switch (talk->answer.word) {
    case INSTALL_READY:
        return hear_ready(talk, error);
    case INSTALL_DONE:
        talk->result->changed = true;
        talk->over = true;
        return true;
    case INSTALL_NONE:
        talk->over = true;
        return true;
    case INSTALL_ERROR:
        return error_set(error, install_error_kind(talk->answer.text), "%s: %s", talk->host,
                         talk->answer.text);
    }
    return true;
}

/* False at the end of the far end's output, or when it said what ends the conversation. */
static bool listen_once(struct conversation *talk, struct error *error)
{
    char bytes[512];
    ssize_t got = read(talk->channel.from_remote, bytes, sizeof(bytes));
    if (got < 0)
        return errno == EINTR;
    bool good = got > 0;
    talk->bytes += good ? (size_t)got : 0;
    for (ssize_t i = 0; i < got && good && !talk->over; i++) {
        if (install_answer_take(&talk->answer, bytes[i]))
            good = hear(talk, error);
    }
    return good && !talk->over;
}

/* A far end that takes no more has said why, or will. */
static void send_some(struct conversation *talk)
{
    static const char go[] = "go\n";
    const char *bytes = go + talk->go_put;
    size_t size = sizeof(go) - 1 - talk->go_put;
    size_t *counter = &talk->go_put;
    if (size == 0) {
        bytes = (const char *)talk->program->bytes + talk->put;
        size = talk->program->size - talk->put;
        counter = &talk->put;
    }
    ssize_t put = write(talk->channel.to_remote, bytes, size < PIECE ? size : PIECE);
    if (put > 0)
        *counter += (size_t)put;
    if ((put < 0 && errno != EINTR && errno != EAGAIN) || talk->put == talk->program->size)
        hang_up(talk);
}

/* A master that was there before and gives nothing: its path may be gone. */
static bool is_stuck(const struct conversation *talk)
{
    return talk->reuse.was_up && talk->bytes == 0 && driver_now() > talk->start_ns + STUCK_NS;
}

static void converse(struct conversation *talk, struct error *error)
{
    const volatile int *stop = talk->options->stop;
    bool good = true;
    talk->start_ns = driver_now();
    while (good && !is_stuck(talk) && (stop == NULL || *stop == 0)) {
        struct pollfd waits[] = {
            {.fd = talk->channel.from_remote, .events = POLLIN},
            {.fd = talk->sending ? talk->channel.to_remote : -1, .events = POLLOUT}};
        /* A signal may come just before the wait: so none is long. */
        if (poll(waits, 2, 100) <= 0)
            continue;
        if (waits[0].revents != 0)
            good = listen_once(talk, error);
        if (good && talk->sending && waits[1].revents != 0)
            send_some(talk);
    }
    if (stop != NULL && *stop > 0)
        error_set(error, ERROR_INTERRUPTED, "interrupted");
}

static bool explain_end(const struct conversation *talk, int status, struct error *error)
{
    const char *host = talk->host, *last = talk->channel.last_words;
    char command[200];
    ssh_command_text(command, sizeof(command), talk->options, host, "true");
    if (talk->answer.noise[0] != '\0')
        return error_set(error, ERROR_SSH,
                         "%s cannot run what installs petrel, and said instead: %s; try: %s", host,
                         talk->answer.noise, command);
    if (talk->result->path[0] != '\0')
        return error_set(
            error, ERROR_SSH,
            "the SSH session with %s ended before petrel was there; run the same again", host);
    if (status == 255)
        return error_set(error, ERROR_SSH, "ssh could not start a session on %s%s%s%s; try: %s",
                         host, last[0] != '\0' ? " (" : "", last, last[0] != '\0' ? ")" : "",
                         command);
    return error_set(error, ERROR_SSH, "nothing came from %s (exit status %d)%s%s; try: %s", host,
                     status, last[0] != '\0' ? ": " : "", last, command);
}

/* A master connection that is there is used, but none is made: a program shrinks to a third, and a
 * master would go on compressing. What -e names may know no such option. */
static bool start(struct conversation *talk, const char *command, struct error *error)
{
    struct ssh_words words;
    struct ssh_channel *channel = &talk->channel;
    const char *first[2 + SSH_UNDO_MAX + 1] = {NULL};
    size_t count = 0;
    if (talk->options->command == NULL)
        first[count++] = "-C";
    if (talk->reuse.words[0] != NULL)
        first[count++] = talk->reuse.words[0];
    ssh_facts_undo(&talk->facts, first + count);
    *channel = (struct ssh_channel){.to_remote = -1, .from_remote = -1};
    if (!ssh_words_build(&words, talk->options, talk->host, first, error))
        return false;
    bool good =
        ssh_words_add(&words, command) || error_set(error, ERROR_USAGE, "too many options for ssh");
    good = good && ssh_channel_spawn(channel, &words, talk->reuse.on, error);
    ssh_words_release(&words);
    /* The far end may have something to say while it takes nothing. */
    if (good)
        fcntl(channel->to_remote, F_SETFL, fcntl(channel->to_remote, F_GETFL) | O_NONBLOCK);
    return good;
}

static bool run(struct conversation *talk, const char *command, struct error *error)
{
    struct error cause = {0};
    *talk->result = (struct install_result){0};
    ssh_facts(&talk->facts, talk->options, talk->host);
    ssh_reuse_plan(&talk->reuse, talk->options, &talk->facts, false);
    int status = -1;
    for (bool again = true; again;) {
        if (!start(talk, command, error))
            return false;
        converse(talk, &cause);
        hang_up(talk);
        again = is_stuck(talk);
        status = ssh_close(&talk->channel, again || cause.kind == ERROR_INTERRUPTED ? 0 : END_NS);
        if (again || (talk->reuse.was_up && talk->bytes == 0 && status == 255)) {
            ssh_reuse_forget(&talk->reuse);
            talk->reuse = (struct ssh_reuse){.on = false};
            again = cause.kind == ERROR_NONE;
        }
    }
    if (cause.kind != ERROR_NONE)
        return error_set(error, cause.kind, "%s", cause.text);
    install_answer_end(&talk->answer);
    return talk->over || explain_end(talk, status, error);
}

bool install_send(const struct ssh_options *options, const char *host,
                  const struct install_program *program, struct install_result *result,
                  struct error *error)
{
    struct conversation talk = {
        .options = options, .host = host, .program = program, .result = result};
    char command[sizeof(SCRIPT_SEND) + SHA256_HEX_SIZE + 32];
    snprintf(command, sizeof(command), "%s %zu %s", SCRIPT_SEND, program->size, program->hash);
    return run(&talk, command, error);
}

bool install_remove(const struct ssh_options *options, const char *host,
                    struct install_result *result, struct error *error)
{
    struct conversation talk = {.options = options, .host = host, .result = result};
    return run(&talk, SCRIPT_REMOVE, error);
}
