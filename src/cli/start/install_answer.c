#include "cli/start/install_answer.h"

#include <stdio.h>
#include <string.h>

#include "tree/display.h"

#define MARK "PETREL-INSTALL "

static void keep_noise(struct install_answer *answer)
{
    if (answer->noise[0] == '\0' && strspn(answer->line, " \t\r") < answer->length)
        display_bytes(answer->noise, sizeof(answer->noise), answer->line, answer->length);
}

/* Moves the first word of `*rest` to `word`; false when there is none or it is too long. */
static bool take_word(const char **rest, char *word, size_t capacity)
{
    size_t length = strcspn(*rest, " ");
    if (length == 0 || length >= capacity)
        return false;
    memcpy(word, *rest, length);
    word[length] = '\0';
    *rest += length + ((*rest)[length] == ' ');
    return true;
}

static bool understand(struct install_answer *answer, const char *rest)
{
    static const char *const words[] = {[INSTALL_READY] = "ready",
                                        [INSTALL_DONE] = "done",
                                        [INSTALL_NONE] = "none",
                                        [INSTALL_ERROR] = "error"};
    char word[16];
    if (!take_word(&rest, word, sizeof(word)))
        return false;
    size_t which = 0;
    while (which < sizeof(words) / sizeof(words[0]) && strcmp(word, words[which]) != 0)
        which++;
    if (which == sizeof(words) / sizeof(words[0]))
        return false;
    answer->system[0] = answer->machine[0] = answer->hash[0] = '\0';
    if (which == INSTALL_READY && (!take_word(&rest, answer->system, sizeof(answer->system)) ||
                                   !take_word(&rest, answer->machine, sizeof(answer->machine)) ||
                                   !take_word(&rest, answer->hash, sizeof(answer->hash))))
        return false;
    answer->word = (enum install_word)which;
    display_name(answer->text, sizeof(answer->text), rest);
    return true;
}

bool install_answer_take(struct install_answer *answer, char byte)
{
    if (byte != '\n') {
        if (answer->length < sizeof(answer->line) - 1)
            answer->line[answer->length++] = byte != '\0' ? byte : ' ';
        return false;
    }
    answer->line[answer->length] = '\0';
    const char *mark = strstr(answer->line, MARK);
    bool ours = mark != NULL && understand(answer, mark + strlen(MARK));
    if (!ours)
        keep_noise(answer);
    answer->length = 0;
    return ours;
}

void install_answer_end(struct install_answer *answer)
{
    answer->line[answer->length] = '\0';
    keep_noise(answer);
    answer->length = 0;
}

enum error_kind install_error_kind(const char *text)
{
    static const struct {
        const char *says;
        enum error_kind kind;
    } known[] = {
        {"ermission denied", ERROR_PERMISSION},
        {"ead-only file system", ERROR_PERMISSION},
        {"not permitted", ERROR_PERMISSION},
        {"o space left", ERROR_NO_SPACE},
        {"quota exceeded", ERROR_NO_SPACE},
        {"File exists", ERROR_EXISTS},
        {"Not a directory", ERROR_EXISTS},
        {"is a folder", ERROR_EXISTS},
        {"other bytes", ERROR_VERIFY},
        {"bytes came", ERROR_VERIFY},
        {"No such file or directory", ERROR_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strstr(text, known[i].says) != NULL)
            return known[i].kind;
    }
    return ERROR_IO;
}
