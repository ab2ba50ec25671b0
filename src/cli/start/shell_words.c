#include "cli/start/shell_words.h"

#include <string.h>

static void add(struct shell_words *words, const char *bytes, size_t size)
{
    if (size > words->capacity - 1 - words->length)
        size = words->capacity - 1 - words->length;
    memcpy(words->text + words->length, bytes, size);
    words->length += size;
    words->text[words->length] = '\0';
}

void shell_words_text(struct shell_words *words, const char *text)
{
    add(words, text, strlen(text));
}

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"

void shell_words_add(struct shell_words *words, const char *word)
{
    add(words, " ", 1);
    if (word[0] != '\0' && word[strspn(word, PLAIN)] == '\0') {
        shell_words_text(words, word);
        return;
    }
    add(words, "'", 1);
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            shell_words_text(words, "'\\''");
        else
            add(words, word, 1);
    }
    add(words, "'", 1);
}

char *ssh_command_text(char *text, size_t capacity, const struct ssh_options *options,
                       const char *host, const char *command)
{
    struct shell_words words = {.text = text, .capacity = capacity};
    text[0] = '\0';
    if (options->command != NULL) {
        shell_words_text(&words, options->command);
    } else if (options->program != NULL) {
        shell_words_add(&words, options->program);
        memmove(text, text + 1, words.length--); /* the first word needs no blank */
    } else {
        shell_words_text(&words, "ssh");
    }
    if (options->port != NULL) {
        shell_words_add(&words, "-p");
        shell_words_add(&words, options->port);
    }
    for (size_t i = 0; i < options->passed.count; i++)
        shell_words_add(&words, options->passed.values[i]);
    shell_words_add(&words, host);
    if (command[strspn(command, PLAIN " ")] != '\0') { /* for the shell over there, not for ours */
        shell_words_add(&words, command);
    } else {
        shell_words_text(&words, " ");
        shell_words_text(&words, command);
    }
    return text;
}
