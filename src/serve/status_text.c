#include "serve/status_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static const char *const directions[] = {[BOARD_UNKNOWN] = "none",
                                         [BOARD_TO_SERVER] = "to-server",
                                         [BOARD_FROM_SERVER] = "from-server",
                                         [BOARD_JOB] = "job"};

static unsigned count_clients(const struct board *board)
{
    unsigned count = 0;
    for (unsigned seat = 0; seat < board_seats(board); seat++) {
        struct board_guest guest;
        count += board_guest(board, seat, &guest);
    }
    return count;
}

static uint64_t since(uint64_t then_s, uint64_t now_s)
{
    return now_s > then_s ? now_s - then_s : 0;
}

/* ---- for people ---- */

/* Comments and roots come from files and sessions: what is no text does not reach a terminal. */
static const char *shown(char text[BOARD_TEXT_MAX], const char *from)
{
    size_t length = 0;
    for (; from[length] != '\0' && length + 1 < BOARD_TEXT_MAX; length++) {
        unsigned char byte = (unsigned char)from[length];
        text[length] = byte < ' ' || byte >= 0x7f ? '?' : from[length];
    }
    text[length] = '\0';
    return length > 0 ? text : "-";
}

static void print_server(FILE *out, const struct metrics *metrics, const struct board *board,
                         uint64_t now_s)
{
    char up[24], rate[24];
    uint64_t jobs = 0, refused = 0;
    for (unsigned i = 0; i < JOB_RESULT_COUNT; i++)
        jobs += metrics->jobs[i];
    for (unsigned i = 0; i < REFUSED_COUNT; i++)
        refused += metrics->refused[i];
    fprintf(out,
            "up %s, %u of at most %u clients, %" PRIu64 " jobs done, %" PRIu64
            " refused; limit %s%s%s\n",
            format_clock(up, sizeof(up), since(metrics->started_s, now_s) * NS_PER_S),
            count_clients(board), board_seats(board), jobs, refused,
            metrics->limit_bps != 0 ? format_bit_rate(rate, sizeof(rate), metrics->limit_bps)
                                    : "none",
            metrics->paused ? "; PAUSED" : "", metrics->draining ? "; ending, no new clients" : "");
}

static void print_client(FILE *out, const struct board_client *client,
                         const struct board_guest *guest, const struct board_report *report,
                         uint64_t now_s)
{
    char who[BOARD_TEXT_MAX], peer[BOARD_TEXT_MAX], path[BOARD_TEXT_MAX], done[24], rate[24];
    char total[24] = "?", time[24];
    if (report->bytes_total != 0)
        format_size(total, sizeof(total), report->bytes_total);
    fprintf(out, "job %" PRIu64 "  %s  %s  %s %s  %s of %s  %s  %s\n", client->job,
            shown(who, guest->who), shown(peer, client->peer), directions[report->direction],
            shown(path, report->path), format_size(done, sizeof(done), report->bytes_done), total,
            format_byte_rate(rate, sizeof(rate), report->rate_bps),
            format_clock(time, sizeof(time), since(client->started_s, now_s) * NS_PER_S));
}

char *status_text(const struct metrics *metrics, const struct board *board, uint64_t now_s)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    print_server(out, metrics, board, now_s);
    for (unsigned seat = 0; seat < board_seats(board); seat++) {
        struct board_report report;
        struct board_guest guest;
        if (!board_guest(board, seat, &guest))
            continue;
        board_read(board, seat, &report);
        print_client(out, board_client(board, seat), &guest, &report, now_s);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- JSON ---- */

static void put_number(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name,
                        json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

/* Bytes that are no UTF-8 become "?". */
static void put_text(json_t *object, const char *name, const char *value)
{
    char text[BOARD_TEXT_MAX];
    json_t *string = json_string(value);
    json_object_set_new(object, name, string != NULL ? string : json_string(shown(text, value)));
}

static json_t *client_json(const struct board_client *client, const struct board_guest *guest,
                           const struct board_report *report, uint64_t now_s)
{
    char print[FINGERPRINT_SIZE];
    json_t *object = json_object();
    put_number(object, "job", client->job);
    put_text(object, "who", guest->who);
    put_text(object, "key", fingerprint_format(print, guest->key));
    put_text(object, "peer", client->peer);
    put_text(object, "direction", directions[report->direction]);
    put_text(object, "path", report->path);
    put_number(object, "bytes_done", report->bytes_done);
    put_number(object, "bytes_total", report->bytes_total);
    put_number(object, "files_done", report->files_done);
    put_number(object, "files_failed", report->files_failed);
    put_number(object, "rate_bps", report->rate_bps);
    put_number(object, "buffer_bytes", report->memory_bytes);
    put_number(object, "seconds", since(client->started_s, now_s));
    return object;
}

char *status_json(const struct metrics *metrics, const struct board *board, uint64_t now_s)
{
    json_t *object = json_pack("{s:i,s:b,s:b}", "schema", 1, "paused", metrics->paused, "draining",
                               metrics->draining);
    json_t *clients = json_array();
    put_number(object, "seconds", since(metrics->started_s, now_s));
    put_number(object, "clients_max", board_seats(board));
    put_number(object, "limit_bps", metrics->limit_bps);
    for (unsigned seat = 0; seat < board_seats(board); seat++) {
        struct board_report report;
        struct board_guest guest;
        if (!board_guest(board, seat, &guest))
            continue;
        board_read(board, seat, &report);
        json_array_append_new(clients,
                              client_json(board_client(board, seat), &guest, &report, now_s));
    }
    json_object_set_new(object, "clients", clients);
    char *line = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER), *text = NULL;
    json_decref(object);
    if (line == NULL || asprintf(&text, "%s\n", line) < 0)
        text = NULL;
    free(line);
    return text;
}
