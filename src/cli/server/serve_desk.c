#include "cli/server/serve_desk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "net/driver.h"
#include "serve/job_log.h"
#include "serve/metrics_http.h"
#include "serve/status_text.h"

struct serve_desk {
    struct board *board;
    struct metrics counts;
    struct control_socket *control;
    char *control_path;
    struct metrics_http *http;
    struct log_gate gate;
    uint64_t jobs;  /* numbers given */
    bool *admitted; /* of each place */
};

static uint64_t now_s(void)
{
    return (uint64_t)time(NULL);
}

static void share_out(struct serve_desk *desk)
{
    board_share_out(desk->board, desk->counts.limit_bps, desk->counts.paused);
}

/* ---- what is asked of it ---- */

static char *describe_limit(const struct serve_desk *desk)
{
    char rate[24], *text = NULL;
    int length = desk->counts.limit_bps != 0
                     ? asprintf(&text, "at most %s for all clients together\n",
                                format_bit_rate(rate, sizeof(rate), desk->counts.limit_bps))
                     : asprintf(&text, "no limit for all clients together\n");
    return length < 0 ? NULL : text;
}

static char *answer(void *context, const struct control_request *request, struct error *error)
{
    struct serve_desk *desk = context;
    char *text = NULL;
    switch (request->what) {
    case CONTROL_STATUS:
        text = status_text(&desk->counts, desk->board, now_s());
        break;
    case CONTROL_STATUS_JSON:
        text = status_json(&desk->counts, desk->board, now_s());
        break;
    case CONTROL_LIMIT:
        desk->counts.limit_bps = request->limit_bps;
        share_out(desk);
        text = describe_limit(desk);
        break;
    case CONTROL_PAUSE:
    case CONTROL_RESUME:
        desk->counts.paused = request->what == CONTROL_PAUSE;
        share_out(desk);
        text = strdup(desk->counts.paused ? "paused; petrel resume lets copies go on\n"
                                          : "copies go on\n");
        break;
    }
    if (text == NULL)
        error_set(error, ERROR_MEMORY, "no memory");
    return text;
}

static char *give_metrics(void *context, size_t *size)
{
    const struct serve_desk *desk = context;
    return metrics_text(&desk->counts, desk->board, size);
}

/* ---- opening and closing ---- */

/* The usual place may be missing, such as /run/petrel for a user who is not root: that is no reason
 * not to serve. */
static bool open_control(struct serve_desk *desk, const char *control, struct error *error)
{
    if (control != NULL && strcmp(control, "none") == 0)
        return true;
    struct error cause = {0};
    desk->control_path = control != NULL ? strdup(control) : control_socket_default_path(&cause);
    if (desk->control_path == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for the control socket");
    desk->control = control_socket_open(desk->control_path, answer, desk, &cause);
    if (desk->control != NULL)
        return true;
    if (control != NULL)
        return error_set(error, cause.kind, "%s", cause.text);
    fprintf(stderr,
            "petrel serve: %s; petrel status and limit will not reach this server "
            "(--control=FILE names another place)\n",
            cause.text);
    return true;
}

struct serve_desk *serve_desk_open(const struct serve_desk_config *config, struct error *error)
{
    struct serve_desk *desk = calloc(1, sizeof(*desk));
    if (desk == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for the desk");
        return NULL;
    }
    desk->counts = (struct metrics){.started_s = now_s(), .limit_bps = config->limit_bps};
    desk->board = board_new(config->clients, error);
    desk->admitted = calloc(config->clients, sizeof(*desk->admitted));
    bool good = desk->board != NULL && desk->admitted != NULL;
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory for %u clients", config->clients);
    if (good && config->metrics != NULL)
        good = (desk->http = metrics_http_open(config->metrics, give_metrics, desk, error)) != NULL;
    if (good && open_control(desk, config->control, error))
        return desk;
    serve_desk_close(desk);
    return NULL;
}

void serve_desk_close(struct serve_desk *desk)
{
    if (desk == NULL)
        return;
    control_socket_free(desk->control);
    metrics_http_free(desk->http);
    board_free(desk->board);
    free(desk->control_path);
    free(desk->admitted);
    free(desk);
}

void serve_desk_become_session(struct serve_desk *desk, unsigned place)
{
    control_socket_forget(desk->control);
    desk->control = NULL;
    metrics_http_free(desk->http);
    desk->http = NULL;
    board_keep_only(desk->board, place);
}

struct board *serve_desk_board(const struct serve_desk *desk)
{
    return desk->board;
}

struct metrics *serve_desk_counts(struct serve_desk *desk)
{
    return &desk->counts;
}

const char *serve_desk_control(const struct serve_desk *desk)
{
    return desk->control != NULL ? desk->control_path : NULL;
}

/* ---- guests ---- */

/* Of strangers; how many lines were left out comes before the next one. */
static bool may_log(struct serve_desk *desk)
{
    uint64_t left_out = 0;
    bool may = log_gate_admits(&desk->gate, driver_now(), &left_out);
    if (may && left_out > 0)
        fprintf(stderr, "petrel serve: of %" PRIu64 " clients before no refusal was written here\n",
                left_out);
    return may;
}

void serve_desk_came(struct serve_desk *desk, unsigned place, const struct address *from,
                     bool *logs)
{
    struct board_client client = {.job = ++desk->jobs, .started_s = now_s()};
    address_format(client.peer, sizeof(client.peer), from);
    board_take(desk->board, place, &client);
    desk->admitted[place] = false;
    share_out(desk);
    *logs = may_log(desk);
}

void serve_desk_turned_away(struct serve_desk *desk, const struct address *from)
{
    char line[JOB_LINE_MAX], peer[64];
    desk->counts.refused[REFUSED_LIMIT]++;
    address_format(peer, sizeof(peer), from);
    if (may_log(desk))
        fprintf(stderr, "petrel serve: %s\n",
                refusal_line(line, peer, NULL, "as many clients are here as --max-clients allows"));
}

void serve_desk_admitted(struct serve_desk *desk, unsigned place)
{
    if (desk->admitted[place])
        return;
    desk->admitted[place] = true;
    desk->counts.accepted++;
    share_out(desk);
}

void serve_desk_left(struct serve_desk *desk, unsigned place, bool good)
{
    struct board_report report;
    board_read(desk->board, place, &report);
    if (desk->admitted[place])
        metrics_count_job(&desk->counts, &report, !good);
    if (report.refusal < REFUSED_COUNT)
        desk->counts.refused[report.refusal]++;
    board_leave(desk->board, place);
    desk->admitted[place] = false;
    share_out(desk);
}

/* ---- waiting ---- */

unsigned serve_desk_polls(const struct serve_desk *desk, struct pollfd polls[SERVE_DESK_POLLS])
{
    unsigned count = desk->control != NULL ? control_socket_polls(desk->control, polls) : 0;
    if (desk->http != NULL)
        polls[count++] = (struct pollfd){.fd = metrics_http_fd(desk->http), .events = POLLIN};
    return count;
}

uint64_t serve_desk_wait(const struct serve_desk *desk, uint64_t most_ns)
{
    uint64_t now_ns = driver_now(), first_ns = now_ns + most_ns;
    if (desk->control != NULL && control_socket_deadline(desk->control) < first_ns)
        first_ns = control_socket_deadline(desk->control);
    if (desk->http != NULL && metrics_http_deadline(desk->http, now_ns) < first_ns)
        first_ns = metrics_http_deadline(desk->http, now_ns);
    return first_ns > now_ns ? first_ns - now_ns : 0;
}

void serve_desk_step(struct serve_desk *desk)
{
    if (desk->control != NULL)
        control_socket_step(desk->control, driver_now());
    if (desk->http != NULL)
        metrics_http_step(desk->http);
}
