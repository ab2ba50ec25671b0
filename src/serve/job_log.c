#include "serve/job_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define LINES_A_SECOND 10u

struct line {
    char *text;
    size_t length;
};

static void add(struct line *line, const char *format, ...) PRINTF_LIKE(2, 3);

static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(line->text + line->length, JOB_LINE_MAX - line->length, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->length += (size_t)length;
    if (line->length >= JOB_LINE_MAX)
        line->length = JOB_LINE_MAX - 1;
}

static bool is_plain(const char *value)
{
    if (value[0] == '\0')
        return false;
    for (const char *at = value; *at != '\0'; at++) {
        if (*at <= ' ' || *at >= 0x7f || *at == '"' || *at == '\\' || *at == '=')
            return false;
    }
    return true;
}

/* Bytes beyond ASCII are left alone when they are letters of somebody's language; that they are
 * valid UTF-8 is not looked at, so they are escaped one by one. */
static void add_value(struct line *line, const char *name, const char *value)
{
    if (is_plain(value)) {
        add(line, " %s=%s", name, value);
        return;
    }
    add(line, " %s=\"", name);
    for (const char *at = value; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            add(line, "\\%c", byte);
        else if (byte < ' ' || byte >= 0x7f)
            add(line, "\\x%02x", byte);
        else
            add(line, "%c", byte);
    }
    add(line, "\"");
}

static const char *direction_name(enum board_direction direction)
{
    static const char *const names[] = {[BOARD_UNKNOWN] = "none",
                                        [BOARD_TO_SERVER] = "to-server",
                                        [BOARD_FROM_SERVER] = "from-server",
                                        [BOARD_JOB] = "job"};
    return names[direction];
}

char *job_line(char line[JOB_LINE_MAX], const struct board_client *client,
               const struct board_guest *guest, const struct board_report *report,
               uint64_t duration_ns, const struct error *error)
{
    struct line out = {.text = line};
    char print[FINGERPRINT_SIZE];
    const char *result = error->kind != ERROR_NONE   ? error_kind_name(error->kind)
                         : report->files_failed != 0 ? "partial"
                                                     : "ok";
    double seconds = (double)duration_ns / (double)NS_PER_S;
    line[0] = '\0';
    add(&out, "job=%" PRIu64 " result=%s direction=%s", client->job, result,
        direction_name(report->direction));
    add_value(&out, "path", report->path);
    add_value(&out, "who", guest->who);
    add(&out, " key=%s", fingerprint_format(print, guest->key));
    add_value(&out, "peer", client->peer);
    add(&out, " files=%" PRIu64 " failed=%" PRIu64 " bytes=%" PRIu64 " seconds=%.2f rate=%.0f",
        report->files_done, report->files_failed, report->bytes_done, seconds,
        seconds > 0 ? 8.0 * (double)report->bytes_done / seconds : 0.0);
    if (error->kind != ERROR_NONE)
        add_value(&out, "error", error->text);
    return line;
}

char *refusal_line(char line[JOB_LINE_MAX], const char *peer, const uint8_t *key, const char *what)
{
    struct line out = {.text = line};
    char print[FINGERPRINT_SIZE];
    line[0] = '\0';
    add(&out, "refused");
    add_value(&out, "peer", peer);
    if (key != NULL)
        add(&out, " key=%s", fingerprint_format(print, key));
    add_value(&out, "why", what);
    return line;
}

bool log_gate_admits(struct log_gate *gate, uint64_t now_ns, uint64_t *left_out)
{
    uint64_t second = now_ns / NS_PER_S;
    if (second != gate->second) {
        gate->second = second;
        gate->written = 0;
    }
    if (gate->written >= LINES_A_SECOND) {
        gate->left_out++;
        return false;
    }
    gate->written++;
    *left_out = gate->left_out;
    gate->left_out = 0;
    return true;
}
