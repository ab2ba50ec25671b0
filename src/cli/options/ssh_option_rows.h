/* The options that reach ssh, as rows for the option tables of every command that starts one, so
 * that they mean the same everywhere. The command's options begin with a struct ssh_options.
 */
#ifndef PETREL_CLI_SSH_OPTION_ROWS_H
#define PETREL_CLI_SSH_OPTION_ROWS_H

#include "cli/options/ssh_options.h"

#define SSH_FIELD(name) offsetof(struct ssh_options, name)

#define SSH_OPTION_ROWS                                                                            \
    {'P', NULL, OPTION_CUSTOM, 0, "PORT", "port that sshd listens on", ssh_option_port},           \
        {'i', NULL, OPTION_CUSTOM, 0, "FILE", "identity file for ssh", ssh_option_identity},       \
        {'F', NULL, OPTION_CUSTOM, 0, "FILE", "ssh's configuration file", ssh_option_config},      \
        {'J', NULL, OPTION_CUSTOM, 0, "HOST", "jump host for ssh", ssh_option_jump},               \
        {'o', NULL, OPTION_CUSTOM, 0, "OPTION", "any option of ssh", ssh_option_any},              \
        {'4', NULL, OPTION_FLAG, SSH_FIELD(ipv4), NULL, "IPv4 only", NULL},                        \
        {'6', NULL, OPTION_FLAG, SSH_FIELD(ipv6), NULL, "IPv6 only", NULL},                        \
        {'B', NULL, OPTION_FLAG, SSH_FIELD(batch), NULL, "never ask (ssh's BatchMode)", NULL},     \
        {'S', NULL, OPTION_TEXT, SSH_FIELD(program), "PROGRAM", "program to use for ssh", NULL},   \
        {0,           "no-reuse",                                                                  \
         OPTION_FLAG, SSH_FIELD(no_reuse),                                                         \
         NULL,        "leave no ssh connection open for the next minute",                          \
         NULL},                                                                                    \
        {0,                                                                                        \
         "config",                                                                                 \
         OPTION_CONFIG,                                                                            \
         SSH_FIELD(config),                                                                        \
         "FILE",                                                                                   \
         "settings from FILE alone; none: from no file",                                           \
         NULL},                                                                                    \
    {                                                                                              \
        'e', "rsh", OPTION_TEXT, SSH_FIELD(command), "COMMAND",                                    \
            "command to use for ssh, as in rsync", NULL                                            \
    }

/* The same for commands that take petrel://, where no ssh is started. */
#define LISTENING_OPTION_ROWS                                                                      \
    {0,           "identity",                                                                      \
     OPTION_TEXT, SSH_FIELD(identity),                                                             \
     "FILE",      "petrel:// knows us by the key in FILE (see petrel key)",                        \
     NULL},                                                                                        \
        {0,           "known-hosts",                                                               \
         OPTION_TEXT, SSH_FIELD(known_hosts),                                                      \
         "FILE",      "the keys of listening petrels that were met before",                        \
         NULL},                                                                                    \
    {                                                                                              \
        0, "accept-new", OPTION_FLAG, SSH_FIELD(accept_new), NULL,                                 \
            "trust a listening petrel that was not met before", NULL                               \
    }

bool ssh_option_port(void *target, const char *value, struct error *error);
bool ssh_option_identity(void *target, const char *value, struct error *error);
bool ssh_option_config(void *target, const char *value, struct error *error);
bool ssh_option_jump(void *target, const char *value, struct error *error);
bool ssh_option_any(void *target, const char *value, struct error *error);

/* The far end is a petrel that listens on `host` (borrowed). `port` NULL: the usual one. */
bool ssh_option_listening(struct ssh_options *options, const char *host, const char *port,
                          struct error *error);

/* After parsing: checks what options say together and passes the flags on. */
bool ssh_options_finish(struct ssh_options *options, struct error *error);
/* For a new connection after one that was lost, `failures` tries after it: ssh does not wait for an
 * answer as long as it else may, and does without a master of the user's whose own may be gone. */
bool ssh_options_retry(struct ssh_options *options, unsigned failures, struct error *error);
void ssh_options_release(struct ssh_options *options);

#endif
