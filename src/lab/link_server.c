#include "lab/link_server.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "lab/link_control.h"
#include "lab/link_process.h"

#define SPIN_NS (20 * NS_PER_US) /* shorter sleeps are not worth their price */
#define LATENESS_WEIGHT 8
#define CLIENTS_MAX 4

enum { POLL_NEAR, POLL_FAR, POLL_SIGNAL, POLL_LISTENER, POLL_CLIENTS };
#define POLL_COUNT (POLL_CLIENTS + CLIENTS_MAX)

struct server {
    struct link_emulator *emulator;
    struct pollfd polls[POLL_COUNT];
    pid_t command;
    int exit_status;
    bool stopping;
    uint64_t lateness_ns; /* of the last timed wake-ups, on average */
};

static void taken_signals(sigset_t *set)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(set, numbers[i]);
}

bool link_server_prepare(struct error *error)
{
    sigset_t set;
    taken_signals(&set);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        return true;
    return error_set_errno(error, errno, "cannot block signals");
}

/* An emulator that waits for its turn behind the programs that it serves would show a path that
 * nobody asked for. Without the right to do so it runs like everybody else. */
static void take_priority(void)
{
    struct sched_param parameter = {.sched_priority = 1};
    (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameter) != 0)
        (void)setpriority(PRIO_PROCESS, 0, -10);
}

static json_t *answer_set(struct server *server, size_t count, char *const *words)
{
    struct link_options options = *link_emulator_options(server->emulator);
    struct error error = {0};
    size_t used;
    options.json_path = NULL;
    if (link_options_parse(&options, count, words, &used, &error) && used != count)
        error_set(&error, ERROR_USAGE, "'%s' is no option", words[used]);
    if (error.kind == ERROR_NONE && options.json_path != NULL)
        error_set(&error, ERROR_USAGE, "--json cannot be set in mid-run");
    options.json_path = link_emulator_options(server->emulator)->json_path;
    if (error.kind == ERROR_NONE)
        (void)link_emulator_set(server->emulator, &options, &error);
    return error.kind == ERROR_NONE ? json_object() : json_pack("{s:s}", "error", error.text);
}

static json_t *answer_where(const struct server *server)
{
    char path[LINK_ENDS][64];
    for (unsigned end = 0; end < LINK_ENDS; end++)
        snprintf(path[end], sizeof path[end], "/proc/%d/fd/%d", (int)getpid(),
                 link_emulator_space(server->emulator, end));
    return json_pack("{s:i, s:s, s:s}", "pid", (int)getpid(), "near", path[LINK_NEAR], "far",
                     path[LINK_FAR]);
}

static json_t *answer(struct server *server, size_t count, char *const *words)
{
    const char *verb = count > 0 ? words[0] : "";
    if (strcmp(verb, "stats") == 0)
        return link_emulator_report(server->emulator);
    if (strcmp(verb, "set") == 0)
        return answer_set(server, count - 1, words + 1);
    if (strcmp(verb, "where") == 0)
        return answer_where(server);
    if (strcmp(verb, "reset") == 0) {
        link_emulator_reset_counters(server->emulator);
        return json_object();
    }
    if (strcmp(verb, "down") == 0) {
        server->stopping = true;
        return link_emulator_report(server->emulator);
    }
    return json_pack("{s:s}", "error", "unknown request");
}

static void serve_client(struct server *server, struct pollfd *client)
{
    char request[LINK_REQUEST_MAX + 1];
    char *words[LINK_REQUEST_WORDS];
    size_t count = 0;
    ssize_t size = recv(client->fd, request, LINK_REQUEST_MAX, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size > 0) {
        request[size] = '\0';
        for (char *at = request; at < request + size && count < LINK_REQUEST_WORDS;
             at += strlen(at) + 1)
            words[count++] = at;
        json_t *object = answer(server, count, words);
        char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        if (text != NULL)
            (void)send(client->fd, text, strlen(text), MSG_NOSIGNAL);
        free(text);
        json_decref(object);
    }
    close(client->fd);
    client->fd = -1;
}

static void accept_client(struct server *server)
{
    int fd = accept4(server->polls[POLL_LISTENER].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (unsigned i = POLL_CLIENTS; fd >= 0 && i < POLL_COUNT; i++) {
        if (server->polls[i].fd < 0) {
            server->polls[i].fd = fd;
            return;
        }
    }
    if (fd >= 0)
        close(fd);
}

/* Other children are what the command left behind; they are only cleared away. */
static void reap(struct server *server)
{
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        if (ended == server->command) {
            server->exit_status = link_process_exit_status(status);
            server->stopping = true;
        }
    }
}

static void take_signal(struct server *server)
{
    struct signalfd_siginfo info;
    if (read(server->polls[POLL_SIGNAL].fd, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGCHLD) {
        reap(server);
    } else if (server->command == 0) {
        server->stopping = true;
    } else if (info.ssi_code != SI_KERNEL) {
        /* From a terminal the command has it as well, and decides. */
        (void)kill(server->command, (int)info.ssi_signo);
    }
}

static void take_events(struct server *server)
{
    if (server->polls[POLL_SIGNAL].revents != 0)
        take_signal(server);
    if (server->polls[POLL_LISTENER].revents != 0)
        accept_client(server);
    for (unsigned i = POLL_CLIENTS; i < POLL_COUNT; i++) {
        if (server->polls[i].fd >= 0 && server->polls[i].revents != 0)
            serve_client(server, &server->polls[i]);
    }
}

/* Sleeps until something happens or the clock says `until_ns`. Timers fire late by a few dozen
 * microseconds on virtual machines: a long sleep ends that much early. */
static void wait_until(struct server *server, uint64_t until_ns)
{
    uint64_t now_ns = link_now();
    uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    bool sparse = until_ns != TIME_NEVER && wait_ns > link_emulator_pause(server->emulator);
    if (sparse)
        wait_ns -= server->lateness_ns;
    struct timespec timeout = {.tv_sec = (time_t)(wait_ns / NS_PER_S),
                               .tv_nsec = (long)(wait_ns % NS_PER_S)};
    int count = ppoll(server->polls, POLL_COUNT, until_ns == TIME_NEVER ? NULL : &timeout, NULL);
    if (count > 0) {
        take_events(server);
    } else if (sparse && count == 0) {
        uint64_t late_ns = link_now() - now_ns - wait_ns;
        if (late_ns > LINK_LATENESS_MAX_NS)
            late_ns = LINK_LATENESS_MAX_NS;
        server->lateness_ns =
            (server->lateness_ns * (LATENESS_WEIGHT - 1) + late_ns) / LATENESS_WEIGHT;
    }
}

/* As a network card does: under load, packets are fetched once a slack, not one by one. */
static void rest(uint64_t slack_ns)
{
    struct timespec pause = {.tv_nsec = (long)slack_ns};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void run(struct server *server)
{
    uint64_t looked_ns = 0, arrived_ns = 0;
    while (!server->stopping) {
        bool busy;
        uint64_t next_ns = link_emulator_turn(server->emulator, &busy);
        uint64_t now_ns = link_now(), slack_ns = link_emulator_slack(server->emulator);
        bool dense = busy && now_ns - arrived_ns < 2 * slack_ns;
        arrived_ns = busy ? now_ns : arrived_ns;
        bool soon = next_ns < now_ns + SPIN_NS && (slack_ns < SPIN_NS || next_ns == 0);
        if (!soon) {
            if (dense && slack_ns >= SPIN_NS)
                rest(slack_ns);
            wait_until(server, next_ns > now_ns + slack_ns ? next_ns : now_ns + slack_ns);
            looked_ns = now_ns;
        } else if (now_ns - looked_ns > NS_PER_MS) { /* spinning, but signals must be heard */
            wait_until(server, 0);
            looked_ns = now_ns;
        }
    }
}

int link_server_run(struct link_emulator *emulator, int listener, pid_t command)
{
    struct server server = {.emulator = emulator, .command = command};
    sigset_t set;
    taken_signals(&set);
    for (unsigned i = 0; i < POLL_COUNT; i++)
        server.polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    server.polls[POLL_NEAR].fd = link_emulator_device(emulator, LINK_NEAR);
    server.polls[POLL_FAR].fd = link_emulator_device(emulator, LINK_FAR);
    server.polls[POLL_SIGNAL].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    server.polls[POLL_LISTENER].fd = listener;
    take_priority();
    run(&server);
    close(server.polls[POLL_SIGNAL].fd);
    for (unsigned i = POLL_CLIENTS; i < POLL_COUNT; i++) {
        if (server.polls[i].fd >= 0)
            close(server.polls[i].fd);
    }
    return server.exit_status;
}
