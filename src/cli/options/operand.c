#include "cli/options/operand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/options/port_range.h"

#define SCHEME "scp://"
#define LISTENS "petrel://"

bool operand_parse_host(struct operand *host, const char *word, struct error *error)
{
    const char *colon = strchr(word, ':');
    char *with_colon = NULL;
    bool url = strstr(word, "://") != NULL;
    bool bare = colon == NULL || (word[strlen(word) - 1] == ']');
    if (!url && bare && asprintf(&with_colon, "%s:", word) < 0)
        return error_set(error, ERROR_MEMORY, "no memory for the host");
    bool many = !url && !bare && strchr(colon + 1, ':') != NULL && strchr(word, '[') == NULL;
    if (many && asprintf(&with_colon, "[%s]:", word) < 0) /* an IPv6 address */
        return error_set(error, ERROR_MEMORY, "no memory for the host");
    bool good = operand_parse(host, with_colon != NULL ? with_colon : word, error);
    free(with_colon);
    if (good && host->listens)
        return error_set(
            error, ERROR_USAGE,
            "%s is a petrel that listens, and this needs a login there by ssh: write %s, "
            "or user@%s; without one, a copy's own last lines say what held it up",
            word, host->host, host->host);
    if (good && (!host->remote || host->path[0] != '\0'))
        return error_set(error, ERROR_USAGE, "%s is no [user@]host", word);
    return good;
}

void operand_release(struct operand *operand)
{
    free(operand->host);
    free(operand->port);
    free(operand->path);
    *operand = (struct operand){0};
}

static char *copy_of(const char *start, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, start, length);
        copy[length] = '\0';
    }
    return copy;
}

/* Splits "[user@]host" or "[user@][v6]" off `word`; returns what follows it, NULL if malformed. */
static const char *take_host(struct operand *operand, const char *word, const char *stops)
{
    const char *host = word;
    size_t before = strcspn(word, "[:/");
    const char *at = memchr(word, '@', before);
    if (at != NULL)
        host = at + 1;
    size_t user = (size_t)(host - word);
    const char *end;
    size_t length;
    if (*host == '[') {
        const char *close = strchr(host, ']');
        if (close == NULL)
            return NULL;
        host++;
        length = (size_t)(close - host);
        end = close + 1;
    } else {
        length = strcspn(host, stops);
        end = host + length;
    }
    if (length == 0)
        return NULL;
    operand->host = malloc(user + length + 1);
    if (operand->host == NULL)
        return NULL;
    memcpy(operand->host, word, user);
    memcpy(operand->host + user, host, length);
    operand->host[user + length] = '\0';
    return end;
}

static bool check_host(const struct operand *operand, const char *word, struct error *error)
{
    const char *at = strrchr(operand->host, '@');
    const char *name = at != NULL ? at + 1 : operand->host;
    if (operand->host[0] == '-' || name[0] == '-')
        return error_set(error, ERROR_USAGE,
                         "%s: a host name cannot begin with '-'; write a local file as ./%s", word,
                         word);
    return true;
}

static bool wrong_url(const struct operand *operand, const char *word, struct error *error)
{
    return error_set(error, ERROR_USAGE, "%s: expected %s", word,
                     operand->listens ? "petrel://host[:port]/name/path"
                                      : "scp://[user@]host[:port]/path");
}

static bool parse_url(struct operand *operand, const char *word, struct error *error)
{
    const char *rest = take_host(operand, strstr(word, "://") + 3, ":/");
    if (rest == NULL)
        return wrong_url(operand, word, error);
    if (*rest == ':') {
        uint16_t first, last;
        size_t digits = strspn(rest + 1, "0123456789");
        operand->port = copy_of(rest + 1, digits);
        if (operand->port == NULL || !port_range_parse(operand->port, &first, &last))
            return error_set(error, ERROR_USAGE, "%s: a port is a number from 1 to 65535", word);
        rest += 1 + digits;
    }
    if (*rest != '\0' && *rest != '/')
        return wrong_url(operand, word, error);
    if (*rest == '/')
        rest++;
    operand->path = copy_of(rest, strlen(rest));
    if (operand->listens && strchr(operand->host, '@') != NULL)
        return error_set(error, ERROR_USAGE,
                         "%s: a listening petrel has no users, it knows you by your key; write "
                         "petrel://host[:port]/name/path",
                         word);
    return check_host(operand, word, error);
}

static bool is_remote(const char *word)
{
    if (word[0] == ':')
        return false;
    size_t stop = strcspn(word, ":/[");
    if (word[stop] != '[')
        return word[stop] == ':';
    /* Brackets count only where a host may stand: at the start or after user@. */
    if (stop > 0 && word[stop - 1] != '@')
        return false;
    const char *close = strchr(word + stop, ']');
    return close != NULL && close[1] == ':';
}

/* What other programs take, or what is not complete: each with the way to write it here. */
static bool check_form(const char *word, struct error *error)
{
    static const char *const schemes[] = {"rsync://", "ssh://", "sftp://", "http://",
                                          "https://", "ftp://", "file://", "s3://"};
    size_t stop = strcspn(word, ":/[");
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncasecmp(word, schemes[i], strlen(schemes[i])) == 0)
            return error_set(error, ERROR_USAGE,
                             "%s: petrel does not speak %.*s; write [user@]host:path or "
                             "scp://[user@]host[:port]/path",
                             word, (int)strlen(schemes[i]), schemes[i]);
    }
    if (word[0] == '@' && word[stop] == ':')
        return error_set(error, ERROR_USAGE,
                         "%s: no user stands before the @; write user@host:path or host:path",
                         word);
    if (word[stop] == '[' && (stop == 0 || word[stop - 1] == '@') &&
        strchr(word + stop, ']') == NULL && strchr(word + stop, ':') != NULL)
        return error_set(error, ERROR_USAGE,
                         "%s: the bracket is not closed; write [address]:path, or ./%s for a file "
                         "here",
                         word, word);
    if (stop == 0 || word[stop] != ':' || word[stop + 1] != ':')
        return true;
    const char *last = strrchr(word, ':'), *at = memchr(word, '@', stop);
    const char *host = at != NULL ? at + 1 : word;
    if (strspn(host, "0123456789abcdefABCDEF:") >= (size_t)(last - host))
        return error_set(error, ERROR_USAGE,
                         "%s: an IPv6 address stands in brackets; write %.*s[%.*s]:%s", word,
                         (int)(host - word), word, (int)(last - host), host, last + 1);
    return error_set(error, ERROR_USAGE,
                     "%s: host::module means a daemon of rsync; petrel goes through ssh: write "
                     "%.*s:path",
                     word, (int)stop, word);
}

bool operand_parse(struct operand *operand, const char *word, struct error *error)
{
    *operand = (struct operand){0};
    if (!check_form(word, error))
        return false;
    bool good = true;
    operand->listens = strncmp(word, LISTENS, strlen(LISTENS)) == 0;
    if (operand->listens || strncmp(word, SCHEME, strlen(SCHEME)) == 0) {
        operand->remote = true;
        good = parse_url(operand, word, error);
    } else if (is_remote(word)) {
        operand->remote = true;
        const char *rest = take_host(operand, word, ":");
        good = (rest != NULL && *rest == ':') ||
               error_set(error, ERROR_USAGE, "%s: expected [user@]host:path", word);
        if (good) {
            operand->path = copy_of(rest + 1, strlen(rest + 1));
            good = check_host(operand, word, error);
        }
    } else {
        operand->path = copy_of(word, strlen(word));
        if (word[0] == '\0')
            good = error_set(error, ERROR_USAGE, "an empty name is no file");
    }
    if (good && operand->path == NULL)
        good = error_set(error, ERROR_MEMORY, "no memory for %s", word);
    if (!good)
        operand_release(operand);
    return good;
}
