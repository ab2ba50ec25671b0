/* petrel status, limit, pause and resume: they ask a petrel serve on this machine through its
 * socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "serve/control_socket.h"

struct control_options {
    const char *control;
    bool json, help;
};

static const struct option table[] = {
    {0, "control", OPTION_TEXT, offsetof(struct control_options, control), "FILE",
     "the server's socket, not the usual one", NULL},
    {0, "json", OPTION_FLAG, offsetof(struct control_options, json), NULL,
     "status: one JSON object", NULL},
    {'h', "help", OPTION_ACTION, offsetof(struct control_options, help), NULL, "print this help",
     NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *control_options_table(void)
{
    return table;
}

/* The words of the command line are those of the socket, but for --json. */
static bool make_request(const char *command, const struct control_options *options,
                         const char **words, size_t count, struct control_request *request,
                         struct error *error)
{
    char line[CONTROL_REQUEST_MAX];
    if (count > 1 || (options->json && strcmp(command, "status") != 0))
        return error_set(error, ERROR_USAGE,
                         "too many words; petrel %s --help shows the right ones", command);
    int length = snprintf(line, sizeof(line), "%s%s%s%s", command, options->json ? "-json" : "",
                          count > 0 ? " " : "", count > 0 ? words[0] : "");
    if (length >= (int)sizeof(line))
        return error_set(error, ERROR_USAGE, "%.40s... is no rate", words[0]);
    return control_request_parse(line, (size_t)length, request, error);
}

static void print_help(void)
{
    printf("petrel status [--json]      what petrel serve on this machine does\n"
           "petrel limit RATE|none      the rate of all its clients together\n"
           "petrel pause                its copies stand still\n"
           "petrel resume               and go on\n\nOptions:\n");
    options_print_help(table);
}

static bool ask(const char *control, const struct control_request *request, struct error *error)
{
    char *own = control == NULL ? control_socket_default_path(error) : NULL;
    const char *path = own != NULL ? own : control;
    char *text = path != NULL ? control_ask(path, request, error) : NULL;
    if (text != NULL)
        fputs(text, stdout);
    free(text);
    free(own);
    return text != NULL;
}

static bool run(int argc, char **argv, const char **words, struct error *error)
{
    struct control_options options = {0};
    struct control_request request;
    size_t count;
    if (!options_parse(table, argc, argv, &options, words, &count, error))
        return false;
    if (options.help) {
        print_help();
        return true;
    }
    return make_request(argv[0], &options, words, count, &request, error) &&
           ask(options.control, &request, error);
}

int command_status(int argc, char **argv)
{
    return command_run(argc, argv, run);
}

int command_limit(int argc, char **argv)
{
    return command_run(argc, argv, run);
}

int command_pause(int argc, char **argv)
{
    return command_run(argc, argv, run);
}

int command_resume(int argc, char **argv)
{
    return command_run(argc, argv, run);
}
