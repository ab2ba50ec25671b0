#include "cli/copy/copy_listening.h"

#include <string.h>

#include "base/units.h"
#include "cli/start/direct.h"

#define ALONE_NS (10 * NS_PER_S)
#define BESIDE_TCP_NS (3 * NS_PER_S)

static uint32_t in_us(uint64_t ns)
{
    return ns / NS_PER_US > UINT32_MAX ? 0 : (uint32_t)(ns / NS_PER_US);
}

static bool fill(struct driver_config *driver, const struct direct *direct, bool alone,
                 struct error *error)
{
    struct far_addresses addresses;
    if (!direct_resolve(direct, &addresses, error))
        return false;
    _Static_assert(sizeof(driver->candidates) == sizeof(addresses.list), "");
    memcpy(driver->candidates, addresses.list, sizeof(driver->candidates));
    driver->candidate_count = addresses.count;
    driver->identity = &direct->identity;
    driver->open_timeout_ns = alone ? ALONE_NS : BESIDE_TCP_NS;
    driver->says_wishes = true;
    driver->wishes = (struct hello_wishes){
        .limit_bps = driver->limit_bps,
        .policy = (uint8_t)driver->policy,
        .fixed_bps = driver->fixed_bps,
        .path_bps = driver->remembered.rate_bps,
        .path_rtt_us = in_us(driver->remembered.rtt_ns),
        .path_loss_millionths = driver->remembered.loss_millionths,
    };
    driver->own_id[0] = 1; /* never zeros */
    return random_bytes(driver->own_id + 1, OPEN_ID_SIZE - 1, error);
}

static bool run_once(struct transfer_run *run, bool goes_over, struct transfer_progress *progress,
                     char *hint, size_t hint_capacity, struct error *error)
{
    struct tcp_watch watch = {.addresses = run->driver.candidates,
                              .count = run->driver.candidate_count};
    run->tcp_watch = goes_over ? &watch : NULL;
    bool good = transfer_run(run, progress, hint, hint_capacity, error);
    run->tcp_watch = NULL;
    tcp_watch_end(&watch);
    return good;
}

static bool run_keys(struct transfer_run *run, struct direct *direct, bool alone, bool goes_over,
                     struct transfer_progress *progress, char *hint, size_t hint_capacity,
                     struct error *error)
{
    for (;;) {
        if (!fill(&run->driver, direct, alone, error))
            return false;
        if (run_once(run, goes_over, progress, hint, hint_capacity, error))
            return true;
        if (!direct_accepts(direct, error))
            return false;
    }
}

bool copy_listening_run(struct transfer_run *run, const struct ssh_options *options, bool alone,
                        bool goes_over, struct transfer_progress *progress, char *hint,
                        size_t hint_capacity, bool *silent, struct error *error)
{
    struct direct direct;
    *silent = false;
    bool good = direct_open(&direct, options, error) &&
                run_keys(run, &direct, alone, goes_over, progress, hint, hint_capacity, error);
    direct_close(&direct);
    if (good)
        return true;
    *silent = error->kind == ERROR_UNREACHABLE;
    if (error->kind == ERROR_PERMISSION && strcmp(error->text, HANDSHAKE_REFUSED) == 0) {
        error_clear(error);
        error_set(error, ERROR_PERMISSION, DIRECT_REFUSED, options->listening);
    }
    return false;
}
