#include "cli/start/install_offer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/report/terminal_line.h"
#include "cli/start/shell_words.h"
#include "cli/version.h"

/* ---- texts ---- */

static void add_option(struct shell_words *words, const char *name, const char *value)
{
    if (value == NULL)
        return;
    shell_words_add(words, name);
    shell_words_add(words, value);
}

char *install_command_text(char *text, size_t capacity, const struct ssh_options *options,
                           const char *host)
{
    struct shell_words out = {.text = text, .capacity = capacity};
    text[0] = '\0';
    shell_words_text(&out, "petrel install");
    add_option(&out, "-P", options->port);
    add_option(&out, "-S", options->program);
    add_option(&out, "-e", options->command);
    for (size_t i = 0; i < options->passed.count; i++)
        shell_words_add(&out, options->passed.values[i]);
    shell_words_add(&out, host);
    return text;
}

char *install_sentence(char *text, size_t capacity, const char *host, size_t size,
                       const struct install_result *result)
{
    char bytes[24];
    snprintf(text, capacity, "petrel %s (%s) is on %s in %s%s, checked", PETREL_VERSION,
             format_size(bytes, sizeof(bytes), size), host, result->path,
             result->changed ? "" : " already");
    return text;
}

/* ---- the question ---- */

static bool say_yes(int tty, const char *question, const volatile int *stop)
{
    char line[64];
    for (;;) {
        if (dprintf(tty, "%s", question) < 0 || !terminal_line_read(tty, line, sizeof(line), stop))
            return false;
        const char *word = line + strspn(line, " \t");
        if (strchr("yY", word[0]) != NULL) /* also nothing but Enter */
            return true;
        if (strchr("nN", word[0]) != NULL)
            return false;
    }
}

static bool ask(const struct ssh_options *options, const char *host, size_t size)
{
    if (options->batch || !isatty(STDIN_FILENO))
        return false;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return false;
    char question[512], bytes[24];
    snprintf(question, sizeof(question),
             "petrel is not on %s. Send it (%s to ~/.cache/petrel)? [Y/n] ", host,
             format_size(bytes, sizeof(bytes), size));
    bool yes = say_yes(tty, question, options->stop);
    close(tty);
    return yes;
}

bool install_offer(const struct ssh_options *options, const char *host, const char *missing,
                   bool unasked, char *said, size_t capacity, struct error *error)
{
    struct install_program program = {0};
    struct error cause = {0};
    if (!install_program_open(&program, &cause))
        return error_set(error, ERROR_NO_REMOTE, "%.220s; and %s", missing, cause.text);
    bool good = unasked || ask(options, host, program.size);
    if (!good && options->stop != NULL && *options->stop > 0)
        error_set(error, ERROR_INTERRUPTED, "interrupted");
    if (!good) {
        char command[200];
        error_set(error, ERROR_NO_REMOTE, "%.220s; send it there with: %s (or copy with --install)",
                  missing, install_command_text(command, sizeof(command), options, host));
    }
    struct install_result result;
    good = good && install_send(options, host, &program, &result, error);
    if (good)
        install_sentence(said, capacity, host, program.size, &result);
    install_program_close(&program);
    return good;
}
