/* petrel key: shows the identity that petrel serve's clients and servers know each other by, and
 * makes it when it is missing. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "keys/identity.h"
#include "tree/display.h"

struct key_options {
    const char *identity;
    bool fingerprint, quiet, help;
};

static const struct option table[] = {
    {0, "identity", OPTION_TEXT, offsetof(struct key_options, identity), "FILE",
     "the key in FILE, not in ~/.config/petrel/identity", NULL},
    {'l', "fingerprint", OPTION_FLAG, offsetof(struct key_options, fingerprint), NULL,
     "print the fingerprint, for people to compare", NULL},
    {'q', "quiet", OPTION_FLAG, offsetof(struct key_options, quiet), NULL,
     "do not say that a key was made", NULL},
    {'h', "help", OPTION_ACTION, offsetof(struct key_options, help), NULL, "print this help", NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *key_options_table(void)
{
    return table;
}

static bool show(const struct key_options *options, const char *path, struct error *error)
{
    struct identity identity;
    bool made;
    char key[KEY_TEXT_SIZE], fingerprint[FINGERPRINT_SIZE], comment[4 * KEY_COMMENT_MAX];
    if (!identity_load_or_make(path, &identity, &made, error))
        return false;
    display_name(comment, sizeof(comment), identity.comment);
    if (made && !options->quiet)
        fprintf(stderr,
                "petrel: made a key in %s; the line on standard output goes into the server's "
                "authorized_keys\n",
                path);
    if (options->fingerprint)
        printf("%s %s\n", fingerprint_format(fingerprint, identity.key), comment);
    else
        printf("%s %s %s\n", KEY_WORD, key_format(key, identity.key), comment);
    identity_wipe(&identity);
    return true;
}

static bool run(int argc, char **argv, const char **words, struct error *error)
{
    struct key_options options = {0};
    size_t count;
    if (!options_parse(table, argc, argv, &options, words, &count, error))
        return false;
    if (options.help) {
        printf(
            "petrel key      print the public key that petrel serve knows you by; makes it first "
            "when there is none\n\nOptions:\n");
        options_print_help(table);
        return true;
    }
    if (count != 0)
        return error_set(error, ERROR_USAGE,
                         "petrel key takes no operand, but %s; a file is named by --identity=FILE",
                         words[0]);
    char *own = options.identity == NULL ? identity_default_path(error) : NULL;
    const char *path = own != NULL ? own : options.identity;
    bool good = path != NULL && show(&options, path, error);
    free(own);
    return good;
}

int command_key(int argc, char **argv)
{
    return command_run(argc, argv, run);
}
