/* Building and spawning ssh command lines; ssh -G. For ssh_start.c and install_host.c. */
#ifndef PETREL_CLI_SSH_COMMAND_H
#define PETREL_CLI_SSH_COMMAND_H

#include "cli/start/ssh_start.h"
#include "crypto/primitives.h"

#define SSH_WORDS_MAX 128

struct ssh_words {
    const char *words[SSH_WORDS_MAX + 1]; /* ends with NULL */
    size_t count;
    char *split; /* memory behind -e's words */
};

/* The command line up to and without the remote command. `first`: options that go before the
 * user's, ends with NULL; borrowed. */
bool ssh_words_build(struct ssh_words *words, const struct ssh_options *options, const char *host,
                     const char *const *first, struct error *error);
bool ssh_words_add(struct ssh_words *words, const char *word);
void ssh_words_release(struct ssh_words *words);

/* Spawns with pipes on stdin (unless `input` is a descriptor) and stdout; `errors` is its stderr,
 * to nowhere if negative. */
bool ssh_spawn(const struct ssh_words *words, int input, int errors, pid_t *pid, int *to, int *from,
               struct error *error);

/* Spawns a channel's ssh with pipes on all three; the channel's stderr is shown from now on,
 * without what ssh says of a master that it cannot use if `reuses`. */
bool ssh_channel_spawn(struct ssh_channel *channel, const struct ssh_words *words, bool reuses,
                       struct error *error);

/* What `ssh -G` says of the host. Where it cannot be asked (-e, another program): the host itself.
 */
struct ssh_facts {
    char hostname[256];
    uint8_t family; /* 4 or 6 where only that is allowed, else 0 */
    bool jumped;
    bool shares;                      /* the user's own ControlMaster or ControlPath */
    bool plain_ciphers;               /* ssh's own choice, which nobody has changed */
    bool no_input, no_command, forks; /* StdinNull, SessionType, ForkAfterAuthentication */
    bool known;                       /* it was asked */
    uint8_t hash[SHA256_SIZE];        /* of all that it said of the connection */
};
#define SSH_UNDO_MAX 3
/* The options that undo what of the user's configuration would keep any command over there from
 * running with us at its ends: written to `first`, at most SSH_UNDO_MAX. Returns how many. Only
 * what is set is undone: a ssh before 8.7 knows neither these options nor the words for them. */
size_t ssh_facts_undo(const struct ssh_facts *facts, const char **first);
void ssh_facts(struct ssh_facts *facts, const struct ssh_options *options, const char *host);

#endif
