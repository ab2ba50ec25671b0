/* petrel-lab: the bench on which petrel is measured. */
#include <stdio.h>
#include <string.h>

#include "lab/command.h"
#include "lab/link_options.h"

static const struct {
    const char *name;
    lab_command *run;
    const char *usage;
    const char *help;
} commands[] = {
    {"link", command_link, "[OPTION...] -- COMMAND [ARG...]",
     "run a command at the near end of an emulated link"},
    {"up", command_up, "NAME [OPTION...]", "make a link that stays"},
    {"down", command_down, "NAME", "end it, and print its counters"},
    {"exec", command_exec, "NAME near|far -- COMMAND [ARG...]", "run a command at one of its ends"},
    {"set", command_set, "NAME OPTION...", "change its impairments at once"},
    {"stats", command_stats, "NAME [--reset]", "print its counters as JSON"},
    {"in", command_in, "NAMESPACE -- COMMAND [ARG...]", "run a command in a network namespace"},
    {"awake", command_awake, "-- COMMAND [ARG...]",
     "run a command while which no processor sleeps: for virtual machines"},
    {"blast", command_blast, "send|receive [OPTION...]", "UDP at a given rate, in trains"},
    {"matrix", command_script, "MATRIX [OPTION...]", "run programs over many paths, against bars"},
    {"compare", command_script, "MATRIX [OPTION...] | RESULTS RESULTS",
     "the same on two emulators, or two runs"},
    {"report", command_script, "[RESULTS...]", "make a page of results"},
    {"pack", command_script, "[RESULTS...]", "compress results to keep them, with their page"},
    {"fit", command_script, "RESULTS...", "fit the model that petrel estimate uses"},
};

int command_fail(const struct error *error)
{
    fprintf(stderr, "petrel-lab: %s\n", error->text);
    return error->kind == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

static void print_line(const char *line)
{
    puts(line);
}

static void help(void)
{
    puts("petrel-lab COMMAND ...: emulated networks to measure petrel on\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        printf("  petrel-lab %s %s\n      %s\n", commands[i].name, commands[i].usage,
               commands[i].help);
    puts("\nOptions of a link (--X means near to far, or both; --X-back the way back):");
    link_options_help(print_line);
}

int main(int count, char **arguments)
{
    if (count < 2 || strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "help") == 0) {
        help();
        return count < 2 ? EXIT_USAGE : EXIT_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(arguments[1], commands[i].name) == 0)
            return commands[i].run(count - 1, arguments + 1);
    }
    fprintf(stderr, "petrel-lab: unknown command '%s' (see petrel-lab --help)\n", arguments[1]);
    return EXIT_USAGE;
}
