#include <stdio.h>
#include <time.h>

#include "base/units.h"
#include "cli/copy/copy_internal.h"
#include "cli/options/ssh_option_rows.h"
#include "cli/start/ssh_answer.h"

#define NAP_NS (100 * NS_PER_MS)

/* The error of a copy that is not tried again, although it might have been. */
static void explain_end(const struct copy *copy, enum retry_verdict verdict, struct error *error)
{
    const char *host = copy->options.host, *said = copy->channel.last_words;
    char time[24];
    format_time(time, sizeof(time), driver_now() - copy->retry.heard_ns);
    struct error last = *error;
    error_clear(error);
    if (verdict == RETRY_REFUSED)
        error_set(error, ERROR_PEER_LOST,
                  "the connection to %s was lost, and a new login was refused%s: %s", host,
                  ssh_user_is_there(&copy->options.ssh) ? "" : " where nobody can type a password",
                  said);
    else if (verdict == RETRY_FRUITLESS)
        error_set(error, ERROR_PEER_LOST, "%.300s, several times at the same point", last.text);
    else if (last.kind == ERROR_PEER_LOST)
        error_set(error, ERROR_PEER_LOST, "%.300s", last.text);
    else
        error_set(error, ERROR_PEER_LOST, "no answer from %s for %s; the last try: %.300s", host,
                  time, last.text);
}

/* False when the user had enough of it. */
static bool wait_until(struct copy *copy, uint64_t at_ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    while (*copy->stop == 0 && driver_now() < at_ns) {
        report_tick(copy->report, &copy->shown);
        nanosleep(&nap, NULL);
    }
    return *copy->stop == 0;
}

static void tell_loss(struct copy *copy, const char *text)
{
    char time[24];
    uint64_t limit_ns = copy->retry.limit_ns, minutes = limit_ns / (60 * NS_PER_S);
    if (minutes > 0 && limit_ns % (60 * NS_PER_S) == 0)
        snprintf(time, sizeof(time), "%llu min", (unsigned long long)minutes);
    else
        format_time(time, sizeof(time), limit_ns);
    report_note(copy->report, "%s; trying again for up to %s", text, time);
    report_silence_is_told(copy->report, copy->retry.heard_ns, copy->options.ssh.listening == NULL);
}

bool copy_goes_on(struct copy *copy, struct copy_try *try)
{
    if (copy->stream_begun)
        return false;
    struct retry_outcome outcome = {.error = &try->error,
                                    .refused = retry_is_refusal(copy->channel.last_words),
                                    .missing = copy->channel.missing,
                                    .progress = &try->progress};
    uint64_t at_ns = 0;
    bool was_reached = try->progress.session.last_heard_ns != 0;
    enum retry_verdict verdict = retry_judge(&copy->retry, &outcome, driver_now(), &at_ns);
    if (verdict == RETRY_NOT)
        return false;
    if (verdict != RETRY_AGAIN) {
        explain_end(copy, verdict, &try->error);
        return false;
    }
    if (was_reached)
        tell_loss(copy, try->error.text);
    copy->shown = try->progress;
    retry_add(&copy->shown, &copy->before);
    copy->shown.session.last_heard_ns = copy->retry.heard_ns;
    bool good = ssh_options_retry(&copy->options.ssh, copy->retry.failures, &try->error) &&
                wait_until(copy, at_ns);
    if (!good) {
        error_clear(&try->error);
        return error_set(&try->error, ERROR_INTERRUPTED, "interrupted");
    }
    retry_add(&try->progress, &copy->before);
    copy->before = try->progress;
    return true;
}
