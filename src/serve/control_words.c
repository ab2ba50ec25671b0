#include "serve/control_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

static const char *const words[] = {
    [CONTROL_STATUS] = "status", [CONTROL_STATUS_JSON] = "status-json", [CONTROL_LIMIT] = "limit",
    [CONTROL_PAUSE] = "pause",   [CONTROL_RESUME] = "resume",
};
#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static bool parse_limit(const char *text, uint64_t *limit_bps, struct error *error)
{
    if (strcmp(text, "none") == 0) {
        *limit_bps = 0;
        return true;
    }
    uint64_t rate;
    if (!parse_rate(text, &rate, error))
        return false;
    if (rate == 0)
        return error_set(error, ERROR_USAGE, "a limit of 0 lets nothing pass; that is pause");
    *limit_bps = rate;
    return true;
}

bool control_request_parse(const char *line, size_t length, struct control_request *request,
                           struct error *error)
{
    char text[CONTROL_REQUEST_MAX];
    struct control_request found = {0};
    if (length >= sizeof(text) || memchr(line, '\0', length) != NULL)
        return error_set(error, ERROR_USAGE, "a request is a word or two");
    memcpy(text, line, length);
    text[length] = '\0';
    char *value = strchr(text, ' ');
    if (value != NULL)
        *value++ = '\0';
    size_t which = 0;
    while (which < WORD_COUNT && strcmp(words[which], text) != 0)
        which++;
    if (which == WORD_COUNT)
        return error_set(error, ERROR_USAGE, "requests are status, limit RATE, pause and resume");
    found.what = (enum control_what)which;
    if ((found.what == CONTROL_LIMIT) != (value != NULL))
        return error_set(error, ERROR_USAGE,
                         value != NULL ? "%s stands alone" : "%s takes a rate, or none",
                         words[which]);
    if (value != NULL && !parse_limit(value, &found.limit_bps, error))
        return false;
    *request = found;
    return true;
}

char *control_request_format(char line[CONTROL_REQUEST_MAX], const struct control_request *request)
{
    if (request->what != CONTROL_LIMIT)
        snprintf(line, CONTROL_REQUEST_MAX, "%s", words[request->what]);
    else if (request->limit_bps == 0)
        snprintf(line, CONTROL_REQUEST_MAX, "limit none");
    else
        snprintf(line, CONTROL_REQUEST_MAX, "limit %" PRIu64 "bit", request->limit_bps);
    return line;
}
