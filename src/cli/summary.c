#include "cli/summary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

struct text {
    char *at;
    size_t left;
};

static void append(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < text->left) {
        text->at += length;
        text->left -= (size_t)length;
    }
}

static uint64_t rate_of(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)bytes * 8e9 / (double)ns) : 0;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part * 100 / (double)whole : 0;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void others(struct text *text, const struct transfer_progress *progress)
{
    if (progress->files_skipped > 0)
        append(text, "%llu file%s already there\n", (unsigned long long)progress->files_skipped,
               plural(progress->files_skipped));
    if (progress->files_failed > 0)
        append(text, "%llu file%s failed\n", (unsigned long long)progress->files_failed,
               plural(progress->files_failed));
}

static void amounts(struct text *text, const struct transfer_progress *progress, uint64_t took_ns,
                    uint64_t command_ns)
{
    char size[24], took[24], command[24], rate[24], whole[24];
    append(text, "%s in %llu file%s, %s in %s (%s); command %s (%s)\n",
           format_size(size, sizeof(size), progress->verified_bytes),
           (unsigned long long)progress->files_done, plural(progress->files_done),
           progress->files_failed == 0 ? "verified" : "not all verified",
           format_time(took, sizeof(took), took_ns),
           format_byte_rate(rate, sizeof(rate), rate_of(progress->verified_bytes, took_ns)),
           format_time(command, sizeof(command), command_ns),
           format_byte_rate(whole, sizeof(whole), rate_of(progress->verified_bytes, command_ns)));
    others(text, progress);
}

/* Loss, resends and the limit are known to the sending side only. */
static void path(struct text *text, const struct transfer_progress *progress)
{
    static const char *const names[LIMIT_COUNT] = {[LIMIT_PATH] = "the path",
                                                   [LIMIT_OPTION] = "--limit",
                                                   [LIMIT_CREDIT] = "the peer's disk",
                                                   [LIMIT_SOURCE] = "our own disk"};
    const struct session_statistics *session = &progress->session;
    if (session->payload_sent == 0)
        return;
    unsigned most = 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        sum += session->limited_ns[i];
        if (session->limited_ns[i] > session->limited_ns[most])
            most = i;
    }
    char rtt[24];
    append(text, "loss %.2f %%, resent %.2f %%, RTT %s; limited by %s for %.0f %% of the time\n",
           share(session->packets_lost, session->packets_sent),
           share(session->payload_resent, session->payload_sent),
           format_time(rtt, sizeof(rtt), session->rtt_ns), names[most],
           share(session->limited_ns[most], sum));
    uint64_t drops = session->peer_socket_drops + session->own_socket_drops;
    if (drops > 0)
        append(text, "%llu packet%s dropped by a host's own socket, not by the path\n",
               (unsigned long long)drops, plural(drops));
}

char *summary_text(char *out, size_t capacity, const struct transfer_progress *progress,
                   const struct summary_file *file, uint64_t command_ns)
{
    struct text text = {.at = out, .left = capacity};
    out[0] = '\0';
    uint64_t took_ns =
        progress->ended_ns > progress->started_ns ? progress->ended_ns - progress->started_ns : 0;
    amounts(&text, progress, took_ns, command_ns);
    path(&text, progress);
    if (file->known) {
        for (unsigned i = 0; i < 32; i++)
            append(&text, "%02x", file->hash[i]);
        append(&text, "  %s\n", file->name);
    }
    return out;
}

char *summary_dry_run(char *out, size_t capacity, const struct transfer_progress *progress,
                      uint64_t files, uint64_t bytes)
{
    struct text text = {.at = out, .left = capacity};
    char size[24];
    out[0] = '\0';
    append(&text, "dry run: %s in %llu file%s would be copied\n",
           format_size(size, sizeof(size), bytes), (unsigned long long)files, plural(files));
    others(&text, progress);
    return out;
}
