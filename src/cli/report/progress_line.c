#include "cli/report/progress_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/report/stillness.h"

#define DRAW_NS (100 * NS_PER_MS)
#define RATE_WINDOW_NS NS_PER_S
#define SILENCE_NS (2 * NS_PER_S)
#define PART_MAX 64

void progress_line_init(struct progress_line *line, bool wanted)
{
    const char *terminal = getenv("TERM");
    bool dumb = terminal == NULL || strcmp(terminal, "dumb") == 0;
    *line = (struct progress_line){.enabled = wanted && !dumb && isatty(STDERR_FILENO)};
}

static unsigned terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

/* Appends a part and its gap when it fits whole; parts come in order of importance. */
static void add(char *text, size_t capacity, unsigned width, const char *part)
{
    size_t have = strlen(text);
    size_t gap = have > 0 ? 2 : 0;
    size_t need = have + gap + strlen(part);
    if (part[0] == '\0' || need >= width || need >= capacity)
        return;
    memcpy(text + have, "  ", gap);
    strcpy(text + have + gap, part);
}

static uint64_t total_of(const struct transfer_progress *progress)
{
    return progress->total_bytes > progress->verified_bytes ? progress->total_bytes
                                                            : progress->verified_bytes;
}

static void amount_part(char *part, const struct transfer_progress *progress)
{
    char done[24], total[24];
    format_size(done, sizeof(done), progress->verified_bytes);
    format_size(total, sizeof(total), total_of(progress));
    snprintf(part, PART_MAX, "%s of %s%s", done, progress->totals_final ? "" : "at least ", total);
}

static void percent_part(char *part, const struct transfer_progress *progress)
{
    uint64_t total = total_of(progress);
    part[0] = '\0';
    if (total > 0 && progress->totals_final)
        snprintf(part, PART_MAX, "%u%%",
                 (unsigned)((double)progress->verified_bytes * 100 / (double)total));
}

static void eta_part(char *part, const struct transfer_progress *progress, double rate_bps)
{
    uint64_t left = total_of(progress) - progress->verified_bytes;
    char clock[24];
    part[0] = '\0';
    if (rate_bps < 1 || left == 0)
        return;
    double seconds = (double)left * 8 / rate_bps;
    if (seconds < 360000)
        snprintf(part, PART_MAX, "ETA %s%s", progress->totals_final ? "" : "over ",
                 format_clock(clock, sizeof(clock), (uint64_t)(seconds * 1e9)));
}

static void path_part(char *part, const struct transfer_progress *progress)
{
    const struct sender_figures *sender = &progress->sender;
    char rtt[24];
    part[0] = '\0';
    if (progress->session.rtt_ns == 0)
        return;
    format_time(rtt, sizeof(rtt), progress->session.rtt_ns);
    if (sender->packets_sent > 0 && sender->payload_sent > 0)
        snprintf(part, PART_MAX, "loss %.1f%%  RTT %s",
                 (double)sender->packets_lost * 100 / (double)sender->packets_sent, rtt);
    else
        snprintf(part, PART_MAX, "RTT %s", rtt);
}

/* The other end is idle only while it answers. */
static bool add_stillness(char *text, size_t capacity, unsigned width, uint64_t silent_ns,
                          uint64_t idle_ns)
{
    char part[PART_MAX];
    uint64_t seconds = (idle_ns > 0 ? idle_ns : silent_ns) / NS_PER_S;
    if (idle_ns == 0 && silent_ns < SILENCE_NS)
        return false;
    snprintf(part, PART_MAX, "%s for %llu s", idle_ns > 0 ? "nothing moves" : "no answer",
             (unsigned long long)seconds);
    add(text, capacity, width, part);
    add(text, capacity, width, idle_ns > 0 ? "the other end is alive" : "waiting; Ctrl-C ends it");
    return true;
}

char *progress_line_text(char *text, size_t capacity, unsigned width,
                         const struct transfer_progress *progress, double rate_bps,
                         uint64_t idle_ns, uint64_t now_ns)
{
    char part[PART_MAX], rate[24];
    text[0] = '\0';
    if (progress->phase == PHASE_CONNECTING) {
        add(text, capacity, width, "connecting");
        return text;
    }
    amount_part(part, progress);
    add(text, capacity, width, part);
    percent_part(part, progress);
    add(text, capacity, width, part);
    if (add_stillness(text, capacity, width, stillness_silent_ns(progress, now_ns), idle_ns))
        return text;
    uint64_t whole_bps = rate_bps < 1e18 ? (uint64_t)rate_bps : UINT64_C(1000000000000000000);
    add(text, capacity, width, format_byte_rate(rate, sizeof(rate), whole_bps));
    eta_part(part, progress, rate_bps);
    add(text, capacity, width, part);
    snprintf(part, PART_MAX, "%llu of %s%llu files",
             (unsigned long long)(progress->files_done + progress->files_skipped),
             progress->totals_final ? "" : "at least ", (unsigned long long)progress->total_files);
    add(text, capacity, width, progress->total_files > 1 ? part : "");
    path_part(part, progress);
    add(text, capacity, width, part);
    return text;
}

/* Bytes that went over the path: the rate is its, not the disk's. */
static uint64_t came(const struct transfer_progress *progress)
{
    return progress->verified_bytes - progress->kept_bytes;
}

static void measure_rate(struct progress_line *line, const struct transfer_progress *progress,
                         uint64_t now_ns)
{
    if (line->mark_ns == 0) {
        line->mark_ns = now_ns;
        line->mark_bytes = came(progress);
    }
    uint64_t passed = now_ns - line->mark_ns;
    if (passed < RATE_WINDOW_NS / 4)
        return;
    double now_bps = (double)(came(progress) - line->mark_bytes) * 8e9 / (double)passed;
    line->rate_bps = line->rate_bps == 0 ? now_bps : line->rate_bps * 0.7 + now_bps * 0.3;
    line->mark_ns = now_ns;
    line->mark_bytes = came(progress);
}

/* A copy in the background leaves the terminal to others. */
static bool in_foreground(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO);
    return group < 0 || group == getpgrp();
}

void progress_line_draw(struct progress_line *line, const struct transfer_progress *progress,
                        uint64_t idle_ns, uint64_t now_ns)
{
    if (!line->enabled || (line->drawn && now_ns < line->last_draw_ns + DRAW_NS))
        return;
    measure_rate(line, progress, now_ns);
    if (!in_foreground())
        return;
    char text[320];
    progress_line_text(text, sizeof(text), terminal_width(), progress, line->rate_bps, idle_ns,
                       now_ns);
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    line->drawn = true;
    line->last_draw_ns = now_ns;
}

void progress_line_clear(struct progress_line *line)
{
    if (!line->drawn)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    line->drawn = false;
}
