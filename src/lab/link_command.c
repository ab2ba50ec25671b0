/* petrel-lab link, up, down, exec, in, set, stats. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab/command.h"
#include "lab/link_control.h"
#include "lab/link_emulator.h"
#include "lab/link_process.h"
#include "lab/link_server.h"
#include "lab/link_space.h"

#define DOWN_STEPS 400 /* of 5 ms */

static int usage(const char *text)
{
    fprintf(stderr, "petrel-lab: usage: petrel-lab %s\n", text);
    return EXIT_USAGE;
}

static void print_json(FILE *file, const json_t *object)
{
    (void)json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', file);
}

static bool write_report(struct link_emulator *emulator, struct error *error)
{
    const struct link_options *options = link_emulator_options(emulator);
    json_t *report = link_emulator_report(emulator);
    bool written = true;
    if (options->print_stats)
        print_json(stderr, report);
    if (options->json_path != NULL && strcmp(options->json_path, "-") == 0) {
        print_json(stdout, report);
        written = fflush(stdout) == 0;
        if (!written)
            error_set_errno(error, errno, "cannot write to stdout");
    } else if (options->json_path != NULL) {
        written = json_dump_file(report, options->json_path,
                                 JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
        if (!written)
            error_set_errno(error, errno, "cannot write %s", options->json_path);
    }
    json_decref(report);
    return written;
}

/* The socket of a link that has no name is called after its process. */
static int listen_unnamed(char *path, size_t capacity)
{
    char name[32];
    snprintf(name, sizeof name, "link-%d", (int)getpid());
    if (!link_control_path(name, path, capacity, NULL))
        return -1;
    link_control_sweep(path);
    return link_control_listen(path, NULL);
}

static int run_link(struct link_emulator *emulator, char **command, struct error *error)
{
    char control[128];
    int near_fd = link_emulator_space(emulator, LINK_NEAR);
    int listener = listen_unnamed(control, sizeof control);
    link_process_environment(getpid(), near_fd, link_emulator_space(emulator, LINK_FAR),
                             listener >= 0 ? control : NULL);
    link_process_adopt();
    pid_t child = link_process_start(near_fd, command, error);
    int status = EXIT_FAILED;
    if (child > 0) {
        status = link_server_run(emulator, listener, child);
        link_process_end_children();
        if (!write_report(emulator, error))
            status = EXIT_FAILED;
    }
    if (listener >= 0) {
        close(listener);
        (void)unlink(control);
    }
    return status;
}

int command_link(int count, char **arguments)
{
    struct link_options options;
    struct error error = {0};
    size_t used;
    link_options_init(&options);
    if (!link_options_parse(&options, (size_t)(count - 1), arguments + 1, &used, &error))
        return command_fail(&error);
    char **command = arguments + 1 + used;
    if (*command != NULL && strcmp(*command, "--") == 0)
        command++;
    if (*command == NULL)
        return usage("link [OPTION...] -- COMMAND [ARG...]");
    struct link_emulator *emulator = link_emulator_new(&options, &error);
    if (emulator == NULL || !link_server_prepare(&error)) {
        link_emulator_free(emulator);
        return command_fail(&error);
    }
    bool whole;
    const char *offload = link_emulator_offload(emulator, &whole);
    if (options.print_stats || !whole)
        fprintf(stderr, "petrel-lab: %s\n", offload);
    int status = run_link(emulator, command, &error);
    link_emulator_free(emulator);
    return error.kind == ERROR_NONE ? status : command_fail(&error);
}

/* Tells the waiting parent that the link is up, and lets go of the terminal. */
static void detach(int ready_fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid();
    if (chdir("/") != 0 || null < 0)
        return;
    for (int fd = 0; fd <= 2; fd++)
        (void)dup2(null, fd);
    close(null);
    (void)!write(ready_fd, "", 1);
    close(ready_fd);
}

static int serve_standing(const struct link_options *options, const char *path, int ready_fd)
{
    struct error error = {0};
    int listener = link_control_listen(path, &error);
    if (listener < 0)
        return command_fail(&error);
    struct link_emulator *emulator = link_emulator_new(options, &error);
    if (emulator != NULL && link_server_prepare(&error)) {
        bool whole;
        fprintf(stderr, "petrel-lab: up at %s, %s\n", path,
                link_emulator_offload(emulator, &whole));
        detach(ready_fd);
        (void)link_server_run(emulator, listener, 0);
        (void)write_report(emulator, &error);
    }
    link_emulator_free(emulator);
    close(listener);
    (void)unlink(path);
    return error.kind == ERROR_NONE ? EXIT_OK : command_fail(&error);
}

int command_up(int count, char **arguments)
{
    struct link_options options;
    struct error error = {0};
    char path[128], ready;
    size_t used;
    int pipe_fds[2];
    link_options_init(&options);
    if (count < 2)
        return usage("up NAME [OPTION...]");
    if (!link_options_parse(&options, (size_t)(count - 2), arguments + 2, &used, &error) ||
        !link_control_path(arguments[1], path, sizeof path, &error))
        return command_fail(&error);
    if (used != (size_t)(count - 2))
        return usage("up NAME [OPTION...]");
    if (options.json_path != NULL && options.json_path[0] != '/')
        return usage("up NAME --json needs a path from /");
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return EXIT_FAILED;
    pid_t child = fork();
    if (child == 0) {
        close(pipe_fds[0]);
        _exit(serve_standing(&options, path, pipe_fds[1]));
    }
    close(pipe_fds[1]);
    int status = 0;
    if (child > 0 && read(pipe_fds[0], &ready, 1) == 1)
        return EXIT_OK;
    return child > 0 && waitpid(child, &status, 0) == child ? link_process_exit_status(status)
                                                            : EXIT_FAILED;
}

/* Asks the link named by the first word after the command; `words` are the request. */
static json_t *ask(const char *name, size_t count, const char *const *words, struct error *error)
{
    char path[128];
    if (!link_control_path(name, path, sizeof path, error))
        return NULL;
    return link_control_ask(path, count, words, error);
}

static int ask_and_print(const char *name, const char *verb)
{
    struct error error = {0};
    json_t *answer = ask(name, 1, &verb, &error);
    if (answer == NULL)
        return command_fail(&error);
    print_json(stdout, answer);
    json_decref(answer);
    return EXIT_OK;
}

int command_down(int count, char **arguments)
{
    static const struct timespec step = {.tv_nsec = 5 * 1000 * 1000};
    char path[128];
    int status = count == 2 ? ask_and_print(arguments[1], "down") : usage("down NAME");
    /* The name is free once the socket is gone. */
    if (status == EXIT_OK && link_control_path(arguments[1], path, sizeof path, NULL))
        for (int i = 0; i < DOWN_STEPS && access(path, F_OK) == 0; i++)
            (void)nanosleep(&step, NULL);
    return status;
}

int command_stats(int count, char **arguments)
{
    bool reset = count == 3 && strcmp(arguments[2], "--reset") == 0;
    if (count != 2 && !reset)
        return usage("stats NAME [--reset]");
    int status = ask_and_print(arguments[1], "stats");
    if (status != EXIT_OK || !reset)
        return status;
    struct error error = {0};
    const char *verb = "reset";
    json_t *answer = ask(arguments[1], 1, &verb, &error);
    json_decref(answer);
    return answer != NULL ? EXIT_OK : command_fail(&error);
}

int command_set(int count, char **arguments)
{
    const char *words[LINK_REQUEST_WORDS] = {"set"};
    struct error error = {0};
    if (count < 3 || count - 1 > (int)LINK_REQUEST_WORDS)
        return usage("set NAME OPTION...");
    for (int i = 2; i < count; i++)
        words[i - 1] = arguments[i];
    json_t *answer = ask(arguments[1], (size_t)(count - 1), words, &error);
    json_decref(answer);
    return answer != NULL ? EXIT_OK : command_fail(&error);
}

static int run_in(const char *space, char **command)
{
    struct error error = {0};
    if (!link_space_enter(space, &error))
        return command_fail(&error);
    link_process_become(command);
}

int command_in(int count, char **arguments)
{
    char path[64];
    const char *space = count > 1 ? arguments[1] : "";
    if (count < 4 || strcmp(arguments[2], "--") != 0)
        return usage("in PID|PATH -- COMMAND [ARG...]");
    if (strspn(space, "0123456789") == strlen(space)) {
        snprintf(path, sizeof path, "/proc/%.20s/ns/net", space);
        space = path;
    }
    return run_in(space, arguments + 3);
}

int command_exec(int count, char **arguments)
{
    struct error error = {0};
    const char *verb = "where";
    if (count < 5 || strcmp(arguments[3], "--") != 0 ||
        (strcmp(arguments[2], "near") != 0 && strcmp(arguments[2], "far") != 0))
        return usage("exec NAME near|far -- COMMAND [ARG...]");
    json_t *answer = ask(arguments[1], 1, &verb, &error);
    if (answer == NULL)
        return command_fail(&error);
    /* The emulator's descriptors are named in its answer: /proc/PID/fd/N. */
    const char *space = json_string_value(json_object_get(answer, arguments[2]));
    int pid = (int)json_integer_value(json_object_get(answer, "pid")), fds[LINK_ENDS] = {-1, -1};
    static const char *const ends[LINK_ENDS] = {"near", "far"};
    for (unsigned end = 0; end < LINK_ENDS; end++) {
        const char *path = json_string_value(json_object_get(answer, ends[end]));
        const char *number = path != NULL ? strrchr(path, '/') : NULL;
        if (number != NULL)
            fds[end] = atoi(number + 1);
    }
    char control[128];
    if (link_control_path(arguments[1], control, sizeof control, NULL))
        link_process_environment(pid, fds[LINK_NEAR], fds[LINK_FAR], control);
    int status = space != NULL ? run_in(space, arguments + 4) : EXIT_FAILED;
    json_decref(answer);
    return status;
}
