/* petrel --complete: what may stand where a shell's cursor stands, for completions/.
 *
 *   petrel --complete plain|bash WORD...
 *
 * The words are those after "petrel" up to the cursor, the last one being the one to complete. Each
 * line of the answer is that word completed and, in plain, a tab and what it is. bash: the words
 * come as they were typed and the answer is quoted in the same way. Everything follows from the
 * tables of commands and options; what cannot be found out is left out, and nothing is ever said
 * on stderr.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/complete/complete_hosts.h"
#include "cli/complete/complete_paths.h"
#include "cli/complete/complete_words.h"
#include "cli/options/copy_options.h"
#include "cli/options/ssh_option_rows.h"
#include "cli/report/exit_code.h"

#define WORD_MAX 8192

struct complete {
    bool quotes;        /* bash: what is added is quoted */
    const char *before; /* of the word, stays as it is: "--name=", "host:dir/" */
    const char *prefix; /* of the word, what the rest has to begin with */
    const char *after;  /* added to each */
};

/* ---- the answer ---- */

static void offer(const struct complete *complete, const char *text, const char *what)
{
    char quoted[WORD_MAX];
    if (strncmp(text, complete->prefix, strlen(complete->prefix)) != 0 ||
        !complete_quote(quoted, sizeof(quoted), text))
        return;
    printf("%s%s%s", complete->before, complete->quotes ? quoted : text, complete->after);
    if (what != NULL && !complete->quotes)
        printf("\t%s", what);
    putchar('\n');
}

/* A directory's slash, like the signs above, is never quoted. Names that begin with a dot are
 * offered where the dot was typed. */
static void offer_name(void *context, const char *name)
{
    const struct complete *complete = context;
    if (name[0] != '.' || complete->prefix[0] == '.')
        offer(complete, name, NULL);
}

static void offer_host(void *context, const char *host)
{
    offer(context, host, "host");
}

/* ---- files and hosts ---- */

/* Cuts `word` behind its last `sign`: what is before it goes to `before`, with `start` in front. */
static const char *cut_behind(const char *word, char sign, const char *start, char *before)
{
    const char *end = strrchr(word, sign);
    size_t length = end != NULL ? (size_t)(end - word) + 1 : 0;
    snprintf(before, WORD_MAX, "%s%.*s", start, (int)length, word);
    return word + length;
}

/* What stays of the word has to be quoted, too; but not ~ in front of a slash. */
static const char *as_typed(const struct complete *complete, const char *text, char *out)
{
    size_t bare = strncmp(text, "~/", 2) == 0 ? 2 : 0;
    memcpy(out, text, bare);
    bool fits = complete_quote(out + bare, WORD_MAX - bare, text + bare);
    return complete->quotes && fits ? out : text;
}

static void offer_local(const struct complete *asked, const char *start, const char *word)
{
    char directory[WORD_MAX], before[2 * WORD_MAX], typed[WORD_MAX];
    struct complete complete = *asked;
    complete.prefix = cut_behind(word, '/', "", directory);
    snprintf(before, sizeof(before), "%s%s", start, as_typed(asked, directory, typed));
    complete.before = before;
    complete.after = "";
    complete_local(directory, offer_name, &complete);
}

static void offer_hosts(const struct complete *asked, const char *config, const char *start,
                        const char *word, const char *after)
{
    char user[WORD_MAX], before[2 * WORD_MAX];
    struct complete complete = *asked;
    complete.prefix = cut_behind(word, '@', "", user);
    snprintf(before, sizeof(before), "%s%s", start, user);
    complete.before = before;
    complete.after = after;
    complete_hosts(config, offer_host, &complete);
}

/* -F's file among what was typed. */
static const char *ssh_config(const struct ssh_options *ssh)
{
    for (size_t i = 0; i + 1 < ssh->passed.count; i++) {
        if (strcmp(ssh->passed.values[i], "-F") == 0)
            return ssh->passed.values[i + 1];
    }
    return NULL;
}

static void offer_remote(const struct complete *asked, struct copy_options *options,
                         const struct operand *operand, const char *word)
{
    char directory[WORD_MAX], before[2 * WORD_MAX], typed[WORD_MAX];
    struct complete complete = *asked;
    struct error ignored = {0};
    size_t host_size = strlen(word) - strlen(operand->path);
    complete.prefix = cut_behind(operand->path, '/', "", directory);
    snprintf(before, sizeof(before), "%.*s%s", (int)host_size, word,
             as_typed(asked, directory, typed));
    complete.before = before;
    complete.after = "";
    options->ssh.batch = true;
    copy_options_lend(&options->settings, copy_options_table(), &options->ssh, operand->host,
                      &options->uses, &ignored);
    error_clear(&ignored);
    if (operand->listens &&
        !ssh_option_listening(&options->ssh, operand->host, operand->port, &ignored))
        return;
    if (ssh_options_finish(&options->ssh, &ignored))
        (operand->listens ? complete_listening : complete_remote)(&options->ssh, operand->host,
                                                                  directory, offer_name, &complete);
}

/* ---- options ---- */

static void offer_value(const struct complete *asked, const struct option *option,
                        const struct ssh_options *ssh, const char *start, const char *word)
{
    const char *rest = option->value_name != NULL ? option->value_name : "";
    struct complete complete = *asked;
    if (strcmp(rest, "FILE") == 0 || strcmp(rest, "PATH") == 0) {
        offer_local(asked, start, word);
    } else if (strcmp(rest, "HOST") == 0) {
        offer_hosts(asked, ssh_config(ssh), start, word, "");
    } else {
        char one[64];
        complete.before = start;
        complete.prefix = word;
        complete.quotes = false; /* they need none, and : is to be left alone */
        while (complete_next_word(&rest, one, sizeof(one)))
            offer(&complete, one, NULL);
    }
}

static bool needs_value(const struct option *option)
{
    return option->value_name != NULL && option->kind != OPTION_OPTIONAL;
}

static void offer_options(const struct complete *asked, const struct option *table,
                          const char *word)
{
    for (; table->short_name || table->long_name; table++) {
        char text[80];
        if (table->help == NULL)
            continue;
        if (table->long_name != NULL)
            snprintf(text, sizeof(text), "--%s%s", table->long_name, needs_value(table) ? "=" : "");
        else
            snprintf(text, sizeof(text), "-%c", table->short_name);
        struct complete complete = {
            .quotes = asked->quotes, .before = text, .prefix = "", .after = ""};
        if (strncmp(text, word, strlen(word)) == 0)
            offer(&complete, "", table->help);
    }
}

/* The option whose value is the next word, if `word` ends so. */
static const struct option *awaits_value(const struct option *table, const char *word)
{
    bool negated;
    if (word[0] != '-' || word[1] == '\0')
        return NULL;
    if (word[1] == '-') {
        const struct option *option = options_find(table, word + 2, strlen(word + 2), &negated);
        return option != NULL && !negated && needs_value(option) ? option : NULL;
    }
    for (const char *at = word + 1; *at != '\0'; at++) {
        const struct option *option = table;
        while ((option->short_name || option->long_name) && option->short_name != *at)
            option++;
        if (option->short_name != *at)
            return NULL;
        if (needs_value(option))
            return at[1] == '\0' ? option : NULL;
    }
    return NULL;
}

/* ---- where the cursor stands ---- */

struct place {
    const struct command *command;
    const struct option *table;
    char **words; /* of the command, without its name */
    int count;    /* the last is the one to complete */
    bool ended;   /* by "--" before it */
    const struct option *awaits;
};

static void find_place(struct place *place)
{
    for (int i = 0; i + 1 < place->count; i++) {
        const char *word = place->words[i];
        if (place->awaits != NULL) {
            place->awaits = NULL;
        } else if (!place->ended && strcmp(word, "--") == 0) {
            place->ended = true;
        } else if (!place->ended) {
            place->awaits = awaits_value(place->table, word);
        }
    }
}

/* What the words before say to ssh, as far as they can be understood: it is said alike to every
 * command. */
static void take_words(const struct place *place, struct copy_options *options)
{
    struct error ignored = {0};
    size_t count;
    const char **operands = calloc((size_t)place->count + 1, sizeof(*operands));
    if (operands != NULL)
        options_parse_uses(copy_options_table(), place->count, place->words - 1, options, operands,
                           &count, &options->uses, &ignored);
    free(operands);
}

static void offer_operand(const struct complete *complete, const struct place *place,
                          const char *word)
{
    struct copy_options options = {0};
    struct operand operand = {0};
    take_words(place, &options);
    bool takes_files = place->command->operands == OPERANDS_FILES;
    if (takes_files && operand_parse(&operand, word, NULL) && operand.remote) {
        if (!operand.listens || strchr(strstr(word, "://") + 3, '/') != NULL)
            offer_remote(complete, &options, &operand, word);
    } else if (takes_files) {
        if (strchr(word, '/') == NULL)
            offer_hosts(complete, ssh_config(&options.ssh), "", word, ":");
        offer_local(complete, "", word);
    } else if (place->command->operands == OPERANDS_HOST) {
        offer_hosts(complete, ssh_config(&options.ssh), "", word, "");
    }
    operand_release(&operand);
    copy_options_release(&options);
}

static void answer(const struct complete *complete, struct place *place)
{
    const char *word = place->words[place->count - 1];
    char start[WORD_MAX];
    const struct ssh_options none = {0};
    find_place(place);
    const char *equals = strchr(word, '=');
    bool is_option = word[0] == '-' && !place->ended;
    if (place->awaits != NULL) {
        offer_value(complete, place->awaits, &none, "", word);
    } else if (is_option && strncmp(word, "--", 2) == 0 && equals != NULL) {
        bool negated;
        const struct option *option =
            options_find(place->table, word + 2, (size_t)(equals - word) - 2, &negated);
        snprintf(start, sizeof(start), "%.*s", (int)(equals - word) + 1, word);
        if (option != NULL && !negated)
            offer_value(complete, option, &none, start, equals + 1);
    } else if (is_option) {
        offer_options(complete, place->table, word);
    } else {
        offer_operand(complete, place, word);
    }
}

static void offer_commands(const struct complete *asked, const char *word)
{
    struct complete complete = *asked;
    complete.before = "";
    complete.prefix = word;
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (command->help != NULL)
            offer(&complete, command->name, command->help);
    }
}

static void complete_line(const struct complete *complete, int count, char **words)
{
    static const struct option no_options[] = {{0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL}};
    struct place place = {.command = command_find("copy"), .words = words, .count = count};
    const struct command *named = count > 1 ? command_find(words[0]) : NULL;
    if (named != NULL && named->help != NULL) {
        place.command = named;
        place.words++;
        place.count--;
    } else if (count == 1) {
        offer_commands(complete, words[0]);
    }
    place.table = place.command->options != NULL ? place.command->options() : no_options;
    answer(complete, &place);
}

int command_complete(int argc, char **argv)
{
    if (argc < 3)
        return EXIT_USAGE;
    struct complete complete = {.before = "", .prefix = "", .after = ""};
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, STDERR_FILENO);
    if (strlen(argv[argc - 1]) >= WORD_MAX)
        return EXIT_OK;
    if (strcmp(argv[1], "bash") == 0) {
        char open_quote = '\0';
        for (int i = 2; i < argc; i++)
            open_quote = complete_unquote(argv[i]);
        complete.quotes = open_quote == '\0'; /* else readline quotes what it puts in */
    }
    complete_line(&complete, argc - 2, argv + 2);
    return EXIT_OK;
}
