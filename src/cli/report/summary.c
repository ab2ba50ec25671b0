#include "cli/report/summary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define SHORTEST_NS (500 * NS_PER_MS)

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

static void others(struct text *text, const struct transfer_progress *progress, bool dry_run)
{
    if (progress->files_skipped > 0)
        append(text, "%llu file%s already there\n", (unsigned long long)progress->files_skipped,
               plural(progress->files_skipped));
    if (progress->deleted > 0)
        append(text, "%llu %sdeleted\n", (unsigned long long)progress->deleted,
               dry_run ? "would be " : "");
    if (progress->files_failed > 0)
        append(text, "%llu file%s failed\n", (unsigned long long)progress->files_failed,
               plural(progress->files_failed));
}

/* Where all of it was there already, nothing came at any rate. */
static void append_rate(struct text *text, uint64_t whole, uint64_t came, uint64_t ns)
{
    char rate[24];
    if (came > 0 || whole == 0)
        append(text, " (%s)", format_byte_rate(rate, sizeof(rate), rate_of(came, ns)));
}

static void amounts(struct text *text, const struct transfer_progress *progress, uint64_t took_ns,
                    uint64_t command_ns)
{
    char size[24], took[24], command[24];
    if (progress->files_done == 0 && progress->verified_bytes == 0 && progress->files_skipped > 0) {
        append(text, "nothing to copy; command %s\n",
               format_time(command, sizeof(command), command_ns));
        others(text, progress, false);
        return;
    }
    uint64_t came = progress->verified_bytes - progress->kept_bytes;
    append(text, "%s in %llu file%s, %s in %s",
           format_size(size, sizeof(size), progress->verified_bytes),
           (unsigned long long)progress->files_done, plural(progress->files_done),
           progress->files_failed == 0 ? "verified" : "not all verified",
           format_time(took, sizeof(took), took_ns));
    append_rate(text, progress->verified_bytes, came, took_ns);
    append(text, "; command %s", format_time(command, sizeof(command), command_ns));
    append_rate(text, progress->verified_bytes, came, command_ns);
    append(text, "\n");
    if (progress->kept_bytes > 0)
        append(text, "%s of it was there already\n",
               format_size(size, sizeof(size), progress->kept_bytes));
    others(text, progress, false);
}

static const char *limit_name(unsigned limit, bool sends, const struct summary_limits *limits)
{
    switch ((enum session_limit)limit) {
    case LIMIT_PATH:
        return "the path";
    case LIMIT_OPTION:
        return limits->own ? "--limit" : "the other end's limit";
    case LIMIT_CREDIT:
        return !sends           ? "our own disk"
               : limits->guests ? "the peer's disk or its limit"
                                : "the peer's disk";
    case LIMIT_SOURCE:
        return sends ? "our own disk" : "the peer's disk";
    case LIMIT_PROCESSOR:
        return sends ? "our own processor" : "the peer's processor";
    case LIMIT_COUNT:
        break;
    }
    return "nothing";
}

static void append_limit(struct text *text, const struct transfer_progress *progress,
                         const struct summary_limits *limits)
{
    const uint64_t *limited_us = progress->sender.limited_us;
    unsigned most = 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        sum += limited_us[i];
        if (limited_us[i] > limited_us[most])
            most = i;
    }
    if (sum > 0)
        append(text, "; limited by %s for %.0f %% of the time",
               limit_name(most, progress->sends, limits), share(limited_us[most], sum));
}

/* A copy of a moment says nothing about its path. */
static void path(struct text *text, const struct transfer_progress *progress,
                 const struct summary_limits *limits, uint64_t took_ns)
{
    const struct session_statistics *session = &progress->session;
    const struct sender_figures *sender = &progress->sender;
    if (sender->payload_sent > 0 && took_ns >= SHORTEST_NS) {
        char rtt[24];
        append(text, "loss %.2f %%, resent %.2f %%, RTT %s",
               share(sender->packets_lost, sender->packets_sent),
               share(sender->payload_resent, sender->payload_sent),
               format_time(rtt, sizeof(rtt), session->rtt_ns));
        append_limit(text, progress, limits);
        append(text, "\n");
    }
    uint64_t drops = session->peer_socket_drops + session->own_socket_drops;
    if (drops > 0)
        append(text, "%llu packet%s dropped by a host's own socket, not by the path\n",
               (unsigned long long)drops, plural(drops));
}

char *summary_text(char *out, size_t capacity, const struct transfer_progress *progress,
                   const struct summary_file *file, const struct summary_limits *limits,
                   uint64_t command_ns)
{
    struct text text = {.at = out, .left = capacity};
    out[0] = '\0';
    uint64_t took_ns =
        progress->ended_ns > progress->started_ns ? progress->ended_ns - progress->started_ns : 0;
    amounts(&text, progress, took_ns, command_ns);
    path(&text, progress, limits, took_ns);
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
    others(&text, progress, true);
    return out;
}
