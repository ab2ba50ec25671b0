/* petrel clean, petrel ls, petrel manifest, petrel verify: their command lines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/files/file_job_json.h"
#include "cli/interrupt.h"
#include "cli/options/copy_options.h"
#include "cli/options/operand.h"
#include "cli/options/ssh_option_rows.h"
#include "cli/report/exit_code.h"

struct file_options {
    struct ssh_options ssh;
    bool dry_run, hash_only, follow_links, content_only, details, recursive, json, quiet, help;
};

_Static_assert(offsetof(struct file_options, ssh) == 0, "as SSH_OPTION_ROWS has it");
#define FIELD(name) offsetof(struct file_options, name)

#define COMMON_ROWS                                                                                \
    SSH_OPTION_ROWS, LISTENING_OPTION_ROWS, {0,           "remote-petrel",                         \
                                             OPTION_TEXT, FIELD(ssh.remote_petrel),                \
                                             "COMMAND",   "how to run petrel over there",          \
                                             NULL},                                                \
        {0, "json", OPTION_FLAG, FIELD(json), NULL, "events as JSON, one a line", NULL},           \
        {'q', "quiet", OPTION_FLAG, FIELD(quiet), NULL, "only errors", NULL},                      \
        {'h', "help", OPTION_ACTION, FIELD(help), NULL, "print this help", NULL},                  \
    {                                                                                              \
        0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL                                                  \
    }

static const struct option clean_table[] = {
    {'n', "dry-run", OPTION_FLAG, FIELD(dry_run), NULL, "list it, remove nothing", NULL},
    COMMON_ROWS,
};

static const struct option ls_table[] = {
    {'l', NULL, OPTION_FLAG, FIELD(details), NULL, "with mode, size and time of each", NULL},
    {'R', "recursive", OPTION_FLAG, FIELD(recursive), NULL, "with all below directories", NULL},
    COMMON_ROWS,
};

static const struct option manifest_table[] = {
    {0, "hash", OPTION_FLAG, FIELD(hash_only), NULL, "print the manifest's hash alone", NULL},
    {'L', "copy-links", OPTION_FLAG, FIELD(follow_links), NULL,
     "follow symbolic links inside trees", NULL},
    COMMON_ROWS,
};

static const struct option verify_table[] = {
    {0, "content", OPTION_FLAG, FIELD(content_only), NULL, "permissions and times may differ",
     NULL},
    COMMON_ROWS,
};

/* What a host's settings may say. */
static const struct option lent_table[] = {
    SSH_OPTION_ROWS,
    LISTENING_OPTION_ROWS,
    {0, "remote-petrel", OPTION_TEXT, FIELD(ssh.remote_petrel), NULL, NULL, NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *clean_options_table(void)
{
    return clean_table;
}

const struct option *ls_options_table(void)
{
    return ls_table;
}

const struct option *manifest_options_table(void)
{
    return manifest_table;
}

const struct option *verify_options_table(void)
{
    return verify_table;
}

struct command_line {
    struct file_options options;
    struct option_uses uses;
    struct settings settings; /* those of copy's that are options here */
    const char **words;
    size_t count;
    struct file_job job;
    char *host; /* NULL: here */
    FILE *manifest;
    bool is_terminal; /* standard output */
};

/* ---- what it prints ---- */

/* On a terminal, names must not be able to move its cursor: control bytes, also those of two bytes
 * in UTF-8, are shown as question marks. */
static bool print_plainly(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool long_form =
            byte == 0xc2 && i + 1 < size && ((unsigned char)bytes[i + 1] & 0xe0) == 0x80;
        bool control = (byte < 0x20 && byte != '\n') || byte == 0x7f || long_form;
        if (putchar(control ? '?' : byte) == EOF)
            return false;
        i += long_form;
    }
    return true;
}

static bool print_out(void *context, const char *bytes, size_t size)
{
    const struct command_line *command = context;
    return command->is_terminal ? print_plainly(bytes, size)
                                : fwrite(bytes, 1, size, stdout) == size;
}

static void print_remark(void *context, const char *line, bool is_error)
{
    const struct command_line *command = context;
    if (is_error || !command->options.quiet)
        fprintf(stderr, "petrel: %s\n", line);
}

static int run(struct command_line *command, const struct file_job_output *output)
{
    command->options.ssh.stop = output->stop;
    if (command->host == NULL)
        return file_job_run(&command->job, command->manifest, false, NULL, output);
    return file_job_send(&command->job, command->manifest, &command->options.ssh, command->host,
                         output);
}

/* ---- what is asked ---- */

static bool parse(struct command_line *command, const struct option *table, int argc, char **argv,
                  struct error *error)
{
    command->words = calloc((size_t)argc + 1, sizeof(*command->words));
    if (command->words == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for operands");
    return options_parse_uses(table, argc, argv, &command->options, command->words, &command->count,
                              &command->uses, error);
}

/* Takes a path that may be on a host; all of a command's are on one machine. */
static bool take_path(struct command_line *command, const char *word, struct error *error)
{
    struct operand operand;
    if (!operand_parse(&operand, word, error))
        return false;
    bool first = command->job.path_count == 0;
    bool same = operand.remote
                    ? command->host != NULL && strcmp(operand.host, command->host) == 0 &&
                          operand.listens == (command->options.ssh.listening != NULL)
                    : command->host == NULL;
    bool good = first || same ||
                error_set(error, ERROR_USAGE,
                          "the paths are on different machines; name those of "
                          "one at a time");
    if (good && first && operand.remote) {
        command->host = strdup(operand.host);
        if (operand.listens)
            good = ssh_option_listening(&command->options.ssh, command->host, operand.port, error);
        else if (operand.port != NULL)
            good = ssh_option_port(&command->options.ssh, operand.port, error);
    }
    good = good && (file_job_add_path(&command->job, operand.path) ||
                    error_set(error, ERROR_MEMORY, "no memory for operands"));
    operand_release(&operand);
    return good;
}

/* When it is known where the paths are. */
static bool settle(struct command_line *command, struct error *error)
{
    struct ssh_options *ssh = &command->options.ssh;
    return (command->host == NULL || copy_options_lend(&command->settings, lent_table, ssh,
                                                       command->host, &command->uses, error)) &&
           ssh_options_finish(ssh, error);
}

static void release(struct command_line *command)
{
    if (command->manifest != NULL && command->manifest != stdin)
        fclose(command->manifest);
    file_job_release(&command->job);
    ssh_options_release(&command->options.ssh);
    option_uses_release(&command->uses);
    settings_release(&command->settings);
    free(command->words);
    free(command->host);
}

static int finish(struct command_line *command, bool good, const struct error *error)
{
    struct file_job_output output = {
        .out = print_out, .remark = print_remark, .context = command, .stop = interrupt_watch()};
    command->is_terminal = isatty(STDOUT_FILENO) != 0;
    if (!good)
        print_remark(command, error->text, true);
    int code = good ? run(command, &output) : job_json_failed(&command->job, &output, error);
    if (fflush(stdout) != 0 && code == EXIT_OK) {
        fprintf(stderr, "petrel: cannot write to standard output: %s\n", strerror(errno));
        code = EXIT_FILE_IO;
    }
    release(command);
    return code;
}

/* Whether help was asked for, which ends the command. */
static bool helped(struct command_line *command, const char *usage, const struct option *table)
{
    if (!command->options.help)
        return false;
    printf("%s\n\nOptions:\n", usage);
    options_print_help(table);
    release(command);
    return true;
}

static void take_flags(struct command_line *command, enum file_job_kind kind)
{
    command->job.kind = kind;
    command->job.dry_run = command->options.dry_run;
    command->job.hash_only = command->options.hash_only;
    command->job.follow_links = command->options.follow_links;
    command->job.content_only = command->options.content_only;
    command->job.details = command->options.details;
    command->job.recursive = command->options.recursive;
    command->job.json = command->options.json;
}

static bool take_paths(struct command_line *command, struct error *error)
{
    bool good = true;
    for (size_t i = 0; i < command->count && good; i++)
        good = take_path(command, command->words[i], error);
    return good;
}

int command_clean(int argc, char **argv)
{
    struct command_line command = {0};
    struct error error = {0};
    bool good = parse(&command, clean_table, argc, argv, &error);
    if (good && helped(&command, "petrel clean [OPTION...] [[user@]host:]DIR", clean_table))
        return EXIT_OK;
    if (good && command.count != 1)
        good = error_set(&error, ERROR_USAGE,
                         "petrel clean needs one directory: petrel clean [[user@]host:]DIR");
    good = good && take_path(&command, command.words[0], &error) && settle(&command, &error);
    take_flags(&command, FILE_JOB_CLEAN);
    return finish(&command, good, &error);
}

int command_manifest(int argc, char **argv)
{
    struct command_line command = {0};
    struct error error = {0};
    bool good = parse(&command, manifest_table, argc, argv, &error);
    if (good &&
        helped(&command, "petrel manifest [OPTION...] [[user@]host:]PATH...", manifest_table))
        return EXIT_OK;
    if (good && command.count == 0)
        good = error_set(&error, ERROR_USAGE,
                         "petrel manifest needs a path: petrel manifest [[user@]host:]PATH...");
    good = good && take_paths(&command, &error) && settle(&command, &error);
    take_flags(&command, FILE_JOB_MANIFEST);
    return finish(&command, good, &error);
}

int command_ls(int argc, char **argv)
{
    struct command_line command = {0};
    struct error error = {0};
    bool good = parse(&command, ls_table, argc, argv, &error);
    if (good && helped(&command, "petrel ls [OPTION...] [[[user@]host:]PATH...]", ls_table))
        return EXIT_OK;
    if (good && command.count == 0)
        good = take_path(&command, ".", &error);
    good = good && take_paths(&command, &error) && settle(&command, &error);
    take_flags(&command, FILE_JOB_LIST);
    return finish(&command, good, &error);
}

/* It is read twice, which a pipe cannot be. */
static FILE *open_manifest(const char *name, struct error *error)
{
    bool is_stdin = strcmp(name, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(name, "re");
    if (file == NULL) {
        error_set_errno(error, errno, "cannot read the manifest %s", name);
        return NULL;
    }
    if (fseeko(file, 0, SEEK_SET) == 0)
        return file;
    FILE *kept = file_job_keep(file, error);
    if (!is_stdin)
        fclose(file);
    return kept;
}

int command_verify(int argc, char **argv)
{
    struct command_line command = {0};
    struct error error = {0};
    bool good = parse(&command, verify_table, argc, argv, &error);
    if (good &&
        helped(&command, "petrel verify [OPTION...] MANIFEST [[[user@]host:]DIR]", verify_table))
        return EXIT_OK;
    if (good && (command.count < 1 || command.count > 2))
        good = error_set(&error, ERROR_USAGE,
                         "petrel verify needs a manifest and perhaps a directory: petrel verify "
                         "MANIFEST [[[user@]host:]DIR]");
    good = good && take_path(&command, command.count == 2 ? command.words[1] : ".", &error) &&
           settle(&command, &error);
    if (good)
        command.manifest = open_manifest(command.words[0], &error);
    take_flags(&command, FILE_JOB_VERIFY);
    return finish(&command, good && command.manifest != NULL, &error);
}
