#include "measure/session_run.h"

#include <string.h>

static void check_hashes(const struct session_run *run, struct session_outcome *outcome)
{
    if (outcome->error.kind == ERROR_NONE && run->sends && !outcome->memory.verified)
        error_set(&outcome->error, ERROR_VERIFY,
                  "what arrived in the other end's memory is not what was sent");
}

bool session_run(const struct session_run *run, struct session_outcome *outcome)
{
    memset(outcome, 0, sizeof(*outcome));
    struct memory_end *end = run->sends ? memory_sender_new(&run->memory, &outcome->error)
                                        : memory_receiver_new(&run->memory, &outcome->error);
    if (end == NULL)
        return false;
    struct driver_config config = run->driver;
    memory_end_configure(end, &config);
    struct driver *driver = driver_new(&config, &outcome->error);
    wipe(config.secret, sizeof(config.secret));
    if (driver != NULL) {
        memory_end_set_driver(end, driver);
        driver_run(driver, &outcome->error);
        memory_end_report(end, &outcome->memory);
        driver_statistics(driver, &outcome->net);
        check_hashes(run, outcome);
    }
    memory_end_free(end);
    driver_free(driver);
    return outcome->error.kind == ERROR_NONE;
}
