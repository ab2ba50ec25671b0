#include "cli/start/answer_search.h"

#include <stdio.h>
#include <string.h>

#define MARK "PETREL-"
#define KEPT (BOOTSTRAP_LINE_MAX / 2) /* of a line that is too long: an answer is shorter */

static void keep_noise(struct answer_search *search)
{
    if (search->noise[0] == '\0' && strspn(search->line, " \t\r") < search->length)
        snprintf(search->noise, sizeof(search->noise), "%.*s", (int)sizeof(search->noise) - 1,
                 search->line);
}

static void add_byte(struct answer_search *search, char byte)
{
    if (search->length == sizeof(search->line) - 1) {
        search->line[search->length] = '\0';
        keep_noise(search);
        memmove(search->line, search->line + search->length - KEPT, KEPT);
        search->length = KEPT;
    }
    search->line[search->length++] = byte != '\0' ? byte : ' ';
}

bool answer_search_take(struct answer_search *search, char byte)
{
    if (byte != '\n') {
        add_byte(search, byte);
        return false;
    }
    search->line[search->length] = '\0';
    for (const char *at = search->line; (at = strstr(at, MARK)) != NULL; at++) {
        if (bootstrap_is_answer(at)) {
            memmove(search->line, at, strlen(at) + 1);
            return true;
        }
    }
    keep_noise(search);
    search->length = 0;
    return false;
}

void answer_search_end(struct answer_search *search)
{
    search->line[search->length] = '\0';
    keep_noise(search);
    search->length = 0;
}

bool answer_is_prompt(const char *line)
{
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == ' ')
        length--;
    return length > 0 && line[length - 1] == ':' &&
           (strstr(line, "assword") != NULL || strstr(line, "assphrase") != NULL);
}
