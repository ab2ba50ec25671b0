#include "cli/start/host_key.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/report/terminal_line.h"

enum answer { ANSWER_YES, ANSWER_NO, ANSWER_NOBODY };

/* "yes" in full, or the fingerprint that the server's owner has told: a mere Enter is a reflex. */
static enum answer ask_on(int tty, const char *name, const char *fingerprint,
                          const volatile int *stop)
{
    char line[128];
    if (dprintf(tty,
                "petrel has not met %s before. The fingerprint of its key is\n  %s\n"
                "(petrel key --fingerprint prints it there.) Trust it? yes, no, or paste the "
                "fingerprint: ",
                name, fingerprint) < 0)
        return ANSWER_NOBODY;
    while (terminal_line_read(tty, line, sizeof(line), stop)) {
        const char *word = line + strspn(line, " \t");
        size_t length = strcspn(word, " \t\r");
        if ((length == strlen(fingerprint) && strncmp(word, fingerprint, length) == 0) ||
            (length == 3 && strncasecmp(word, "yes", length) == 0))
            return ANSWER_YES;
        if (length == 2 && strncasecmp(word, "no", length) == 0)
            return ANSWER_NO;
        if (dprintf(tty, "Please type yes, no or the fingerprint: ") < 0)
            break;
    }
    return ANSWER_NOBODY;
}

/* The terminal itself, so that stdin may bring the bytes to copy. */
static enum answer ask(const struct host_key_options *options, const char *name,
                       const char *fingerprint)
{
    int tty = options->batch ? -1 : open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return ANSWER_NOBODY;
    enum answer answer = ask_on(tty, name, fingerprint, options->stop);
    close(tty);
    return answer;
}

static bool accept_new(const struct host_key_options *options, const char *name, const char *path,
                       const char *fingerprint, struct error *error)
{
    enum answer answer = options->accept_new ? ANSWER_YES : ask(options, name, fingerprint);
    if (options->stop != NULL && *options->stop > 0)
        return error_set(error, ERROR_INTERRUPTED, "interrupted");
    if (answer == ANSWER_NOBODY)
        return error_set(error, ERROR_CRYPTO,
                         "%s was not met before, and there is no terminal to ask on: its key is "
                         "%s. If that is right, add --accept-new, or its line to %s",
                         name, fingerprint, path);
    if (answer == ANSWER_NO)
        return error_set(error, ERROR_CRYPTO, "the key of %s was not accepted", name);
    return true;
}

static bool accept_in(const struct host_key_options *options, const char *path, const char *host,
                      uint16_t port, const uint8_t key[KEY_SIZE], struct error *error)
{
    struct known_host_found found;
    char name[HOST_TEXT_SIZE], fingerprint[FINGERPRINT_SIZE];
    if (!known_hosts_check(path, host, port, key, &found, error))
        return false;
    if (found.what == KNOWN_HOST_SAME)
        return true;
    if (found.what == KNOWN_HOST_CHANGED)
        return known_hosts_refuse(path, host, port, key, &found, error);
    host_format(name, host, port);
    fingerprint_format(fingerprint, key);
    if (!accept_new(options, name, path, fingerprint, error) ||
        !known_hosts_add(path, host, port, key, error))
        return false;
    if (!options->quiet)
        fprintf(stderr, "petrel: the key of %s, %s, is in %s from now on\n", name, fingerprint,
                path);
    return true;
}

bool host_key_accept(const struct host_key_options *options, const char *host, uint16_t port,
                     const uint8_t key[KEY_SIZE], struct error *error)
{
    char *own = options->path == NULL ? known_hosts_default_path(error) : NULL;
    const char *path = own != NULL ? own : options->path;
    bool good = path != NULL && accept_in(options, path, host, port, key, error);
    free(own);
    return good;
}
