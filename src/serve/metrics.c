#include "serve/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const refusals[REFUSED_COUNT] = {
    [REFUSED_KEY] = "key",     [REFUSED_EXPIRED] = "expired",     [REFUSED_REQUEST] = "request",
    [REFUSED_LIMIT] = "limit", [REFUSED_HANDSHAKE] = "handshake",
};
static const char *const results[JOB_RESULT_COUNT] = {"ok", "partial", "failed"};

void metrics_count_job(struct metrics *metrics, const struct board_report *report, bool failed)
{
    metrics->jobs[failed ? JOB_FAILED : report->files_failed != 0 ? JOB_PARTIAL : JOB_OK]++;
    if (report->direction == BOARD_TO_SERVER) {
        metrics->bytes_in += report->bytes_done;
        metrics->files_in += report->files_done;
    } else if (report->direction == BOARD_FROM_SERVER) {
        metrics->bytes_out += report->bytes_done;
        metrics->files_out += report->files_done;
    }
}

struct one {
    const char *name, *type, *help;
    uint64_t value;
};

static void print_ones(FILE *out, const struct one *ones, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", ones[i].name, ones[i].help,
                ones[i].name, ones[i].type, ones[i].name, ones[i].value);
}

static void print_table(FILE *out, const char *name, const char *help, const char *label,
                        const char *const *values, const uint64_t *counts, size_t count)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, values[i], counts[i]);
}

static void print_counts(FILE *out, const struct metrics *metrics)
{
    const struct one ones[] = {
        {"petrel_start_time_seconds", "gauge", "When the server started, since 1970.",
         metrics->started_s},
        {"petrel_sessions_accepted_total", "counter", "Clients whose key was right.",
         metrics->accepted},
        {"petrel_received_bytes_total", "counter", "Verified content that came, of ended jobs.",
         metrics->bytes_in},
        {"petrel_sent_bytes_total", "counter", "Verified content that went, of ended jobs.",
         metrics->bytes_out},
        {"petrel_received_files_total", "counter", "Files that came, of ended jobs.",
         metrics->files_in},
        {"petrel_sent_files_total", "counter", "Files that went, of ended jobs.",
         metrics->files_out},
        {"petrel_datagrams_dropped_total", "counter", "Packets of strangers that were no knock.",
         metrics->datagrams_dropped},
        {"petrel_cookies_total", "counter", "Cookies sent under load.", metrics->cookies},
        {"petrel_reloads_total", "counter", "Reloads of keys and roots that took effect.",
         metrics->reloads},
        {"petrel_limit_bits_per_second", "gauge", "The limit of all together, 0 for none.",
         metrics->limit_bps},
        {"petrel_paused", "gauge", "1 while paused.", metrics->paused},
        {"petrel_draining", "gauge", "1 once new clients are refused before the end.",
         metrics->draining},
    };
    print_ones(out, ones, sizeof(ones) / sizeof(ones[0]));
    print_table(out, "petrel_refused_total", "Clients and jobs that were refused.", "why", refusals,
                metrics->refused, REFUSED_COUNT);
    print_table(out, "petrel_jobs_total", "Jobs that ended.", "result", results, metrics->jobs,
                JOB_RESULT_COUNT);
}

/* Without labels of clients: who asks for metrics learns amounts, not names. */
static void print_now(FILE *out, const struct board *board)
{
    uint64_t active = 0, half_open = 0, rate_bps = 0, memory = 0, bytes = 0;
    for (unsigned seat = 0; seat < board_seats(board); seat++) {
        struct board_report report;
        struct board_guest guest;
        if (board_client(board, seat) == NULL)
            continue;
        if (!board_guest(board, seat, &guest)) {
            half_open++;
            continue;
        }
        board_read(board, seat, &report);
        active++;
        rate_bps += report.rate_bps;
        memory += report.memory_bytes;
        bytes += report.bytes_done;
    }
    const struct one ones[] = {
        {"petrel_sessions", "gauge", "Clients now.", active},
        {"petrel_half_open", "gauge", "Clients that have proved nothing yet.", half_open},
        {"petrel_sessions_max", "gauge", "As many as there may be.", board_seats(board)},
        {"petrel_rate_bits_per_second", "gauge", "The present rate of all jobs.", rate_bps},
        {"petrel_buffer_bytes", "gauge", "Buffers of all jobs.", memory},
        {"petrel_running_bytes", "gauge", "Content that running jobs have verified.", bytes},
    };
    print_ones(out, ones, sizeof(ones) / sizeof(ones[0]));
}

char *metrics_text(const struct metrics *metrics, const struct board *board, size_t *size)
{
    char *text = NULL;
    size_t written = 0;
    FILE *out = open_memstream(&text, &written);
    if (out == NULL)
        return NULL;
    print_counts(out, metrics);
    print_now(out, board);
    bool good = ferror(out) == 0;
    if (fclose(out) != 0 || !good) {
        free(text);
        return NULL;
    }
    *size = written;
    return text;
}
