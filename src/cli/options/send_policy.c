#include "cli/options/send_policy.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "transport/limits.h"

#define FIXED "fixed:"

static const char *const names[] = {
    [RATE_AUTO] = "auto", [RATE_FAIR] = "fair", [RATE_BACKGROUND] = "background"};

static bool find_name(const char *text, struct send_policy *policy)
{
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *policy = (struct send_policy){.kind = (enum rate_policy)i};
            return true;
        }
    }
    return false;
}

bool lanes_parse(const char *text, unsigned *lanes, struct error *error)
{
    uint64_t number = 0;
    if (strcmp(text, "auto") != 0 &&
        (!parse_unsigned(text, LANES_MAX, &number, NULL) || number == 0))
        return error_set(error, ERROR_USAGE, "--lanes takes auto or a number from 1 to %d, not %s",
                         LANES_MAX, text);
    *lanes = (unsigned)number;
    return true;
}

bool send_policy_parse(const char *text, struct send_policy *policy, struct error *error)
{
    if (find_name(text, policy))
        return true;
    if (strncmp(text, FIXED, strlen(FIXED)) != 0)
        return error_set(error, ERROR_USAGE,
                         "--policy takes auto, fair, background or fixed:RATE, as in "
                         "fixed:200Mbit, not %s",
                         text);
    struct error cause = {0};
    uint64_t rate_bps = 0;
    if (!parse_rate(text + strlen(FIXED), &rate_bps, &cause))
        return error_set(error, ERROR_USAGE, "--policy %s: %s; write fixed:200Mbit or fixed:25MB",
                         text, cause.text);
    if (rate_bps < SEND_RATE_LEAST_BPS)
        return error_set(error, ERROR_USAGE,
                         "--policy %s: the rate is 64kbit (8kB a second) at the least, as in "
                         "fixed:200Mbit",
                         text);
    *policy = (struct send_policy){.fixed_bps = rate_bps};
    return true;
}

void send_policy_write(const struct send_policy *policy, char *word)
{
    if (policy->fixed_bps != 0)
        snprintf(word, SEND_POLICY_WORD_MAX, FIXED "%llu", (unsigned long long)policy->fixed_bps);
    else
        snprintf(word, SEND_POLICY_WORD_MAX, "%s", names[policy->kind]);
}

bool send_policy_read(const char *word, struct send_policy *policy)
{
    if (find_name(word, policy))
        return true;
    uint64_t rate_bps = 0;
    if (strncmp(word, FIXED, strlen(FIXED)) != 0 ||
        !parse_unsigned(word + strlen(FIXED), UINT64_MAX, &rate_bps, NULL) ||
        rate_bps < SEND_RATE_LEAST_BPS)
        return false;
    *policy = (struct send_policy){.fixed_bps = rate_bps};
    return true;
}
