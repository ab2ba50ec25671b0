/* How the sender behaves towards others on the path: what --policy takes, and the word for it in
 * the start line. */
#ifndef PETREL_CLI_SEND_POLICY_H
#define PETREL_CLI_SEND_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/rate_controller.h"

#define SEND_RATE_LEAST_BPS 64000u /* the controller goes no lower */
#define SEND_POLICY_WORD_MAX 32

struct send_policy {
    enum rate_policy kind;
    uint64_t fixed_bps; /* 0: the controller finds the rate */
};

/* "auto", "fair", "background" or "fixed:RATE" with a unit. False with ERROR_USAGE and an example.
 */
bool send_policy_parse(const char *text, struct send_policy *policy, struct error *error);

/* How many lanes: "auto" (0) or a number up to LANES_MAX. False with ERROR_USAGE. */
bool lanes_parse(const char *text, unsigned *lanes, struct error *error);

/* The policy for the start line, where a fixed rate is a bare number of bits a second. `word` has
 * SEND_POLICY_WORD_MAX bytes. Reading returns false, and changes nothing, for what it does not
 * know. */
void send_policy_write(const struct send_policy *policy, char *word);
bool send_policy_read(const char *word, struct send_policy *policy);

#endif
