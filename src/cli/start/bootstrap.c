#include "cli/start/bootstrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/options/port_range.h"

#define START "petrel-start "
#define ANSWER "PETREL-REMOTE "
#define FAILURE "PETREL-ERROR "

#define PATH_RTT_MAX_US UINT64_C(60000000)

static void to_hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

static bool from_hex(const char *text, uint8_t *bytes, size_t size)
{
    if (strlen(text) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        char *end;
        bytes[i] = (uint8_t)strtoul(pair, &end, 16);
        if (*end != '\0' || strspn(pair, "0123456789abcdef") != 2)
            return false;
    }
    return true;
}

static const struct {
    const char *name;
    unsigned way;
} way_names[] = {{"udp", WAY_UDP}, {"ssh", WAY_SSH}, {"ports", WAY_PORTS}};

#define WAY_NAMES (sizeof(way_names) / sizeof(way_names[0]))

#define WAYS_TEXT_MAX 16 /* all names together */

/* Such as "udp,ssh". */
static const char *ways_text(unsigned ways, char text[WAYS_TEXT_MAX])
{
    text[0] = '\0';
    for (size_t i = 0; i < WAY_NAMES; i++) {
        if ((ways & way_names[i].way) == 0)
            continue;
        size_t length = strlen(text);
        snprintf(text + length, WAYS_TEXT_MAX - length, "%s%s", length > 0 ? "," : "",
                 way_names[i].name);
    }
    return text;
}

/* Ways that are not known are skipped. */
static unsigned read_ways(const char *value)
{
    unsigned ways = 0;
    while (*value != '\0') {
        size_t length = strcspn(value, ",");
        for (size_t i = 0; i < WAY_NAMES; i++) {
            if (length == strlen(way_names[i].name) &&
                memcmp(value, way_names[i].name, length) == 0)
                ways |= way_names[i].way;
        }
        value += length + (value[length] == ',');
    }
    return ways;
}

static const char *const jobs[JOB_COUNT] = {
    [JOB_COPY] = "copy", [JOB_MEASURE] = "measure", [JOB_FILES] = "files"};

/* What is not known is a copy. */
static enum bootstrap_job read_job(const char *value)
{
    for (unsigned i = 0; i < JOB_COUNT; i++) {
        if (strcmp(value, jobs[i]) == 0)
            return (enum bootstrap_job)i;
    }
    return JOB_COPY;
}

static size_t fits(int length, size_t capacity)
{
    return length > 0 && (size_t)length < capacity ? (size_t)length : 0;
}

size_t bootstrap_write_start(const struct bootstrap_start *start, char *line, size_t capacity)
{
    char secret[2 * START_SECRET_SIZE + 1], session[2 * SESSION_ID_SIZE + 1];
    char policy[SEND_POLICY_WORD_MAX], ways[WAYS_TEXT_MAX];
    to_hex(start->secret, START_SECRET_SIZE, secret);
    to_hex(start->session_id, SESSION_ID_SIZE, session);
    send_policy_write(&start->policy, policy);
    int length = snprintf(
        line, capacity,
        START "secret=%s session=%s role=%s ports=%u-%u lanes=%u limit=%llu policy=%s "
              "protocol=%u-%u path=%llu,%llu,%lu job=%s ways=%s\n",
        secret, session, start->remote_sends ? "send" : "receive", start->first_port,
        start->last_port, start->lanes, (unsigned long long)start->limit_bps, policy,
        start->protocol.lowest, start->protocol.highest, (unsigned long long)start->path.rate_bps,
        (unsigned long long)(start->path.rtt_ns / NS_PER_US),
        (unsigned long)start->path.loss_millionths, jobs[start->job], ways_text(start->ways, ways));
    wipe(secret, sizeof(secret));
    return fits(length, capacity);
}

size_t bootstrap_write_answer(const struct bootstrap_answer *answer, char *line, size_t capacity)
{
    char ways[WAYS_TEXT_MAX];
    return fits(snprintf(line, capacity,
                         ANSWER "version=%s protocol=%u-%u port=%u address=%s "
                                "job=%s ways=%s\n",
                         answer->version, answer->protocol.lowest, answer->protocol.highest,
                         answer->port, answer->address[0] ? answer->address : "none",
                         jobs[answer->job], ways_text(answer->ways, ways)),
                capacity);
}

/* The text may hold a file's name, and a name may hold a newline. */
static void one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ')
            *text = '?';
    }
}

size_t bootstrap_write_error(const struct error *error, char *line, size_t capacity)
{
    size_t length =
        fits(snprintf(line, capacity, FAILURE "%s %s\n", error_kind_name(error->kind), error->text),
             capacity);
    if (length == 0)
        return 0;
    line[length - 1] = '\0';
    one_line(line);
    line[length - 1] = '\n';
    return length;
}

/* ---- reading ---- */

/* The next "key=value" of the line, both cut out in place. */
static bool next_pair(char **rest, char **key, char **value)
{
    char *word;
    while ((word = strsep(rest, " \t\r")) != NULL) {
        char *equals = strchr(word, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        *key = word;
        *value = equals + 1;
        return true;
    }
    return false;
}

static bool read_number(const char *value, uint64_t limit, uint64_t *number)
{
    return parse_unsigned(value, limit, number, NULL);
}

/* What is malformed counts as not said. */
static void read_protocol(const char *value, struct version_range *range)
{
    uint16_t lowest, highest;
    if (port_range_parse(value, &lowest, &highest) && highest <= UINT8_MAX)
        *range = (struct version_range){.lowest = (uint8_t)lowest, .highest = (uint8_t)highest};
}

/* "rate,microseconds,millionths". */
static void read_path(const char *value, struct rate_memory *path)
{
    static const uint64_t limits[3] = {UINT64_MAX, PATH_RTT_MAX_US, 1000000};
    uint64_t numbers[3];
    for (unsigned i = 0; i < 3; i++) {
        char word[24];
        size_t length = strcspn(value, ",");
        if (length >= sizeof(word) || (value[length] == ',') != (i < 2))
            return;
        memcpy(word, value, length);
        word[length] = '\0';
        if (!read_number(word, limits[i], &numbers[i]))
            return;
        value += length + 1;
    }
    *path = (struct rate_memory){.rate_bps = numbers[0],
                                 .rtt_ns = numbers[1] * NS_PER_US,
                                 .loss_millionths = (uint32_t)numbers[2]};
}

bool version_ranges_meet(struct version_range a, struct version_range b)
{
    return a.highest == 0 || b.highest == 0 || (a.lowest <= b.highest && b.lowest <= a.highest);
}

/* One key of the start line; returns the bit that stands for it, 0 when it is unknown or bad. */
static unsigned read_start_pair(struct bootstrap_start *start, const char *key, const char *value)
{
    uint64_t number = 0;
    if (strcmp(key, "secret") == 0)
        return from_hex(value, start->secret, START_SECRET_SIZE) ? 1 : 0;
    if (strcmp(key, "session") == 0)
        return from_hex(value, start->session_id, SESSION_ID_SIZE) ? 2 : 0;
    if (strcmp(key, "role") == 0) {
        start->remote_sends = strcmp(value, "send") == 0;
        return start->remote_sends || strcmp(value, "receive") == 0 ? 4 : 0;
    }
    if (strcmp(key, "ports") == 0)
        return port_range_parse(value, &start->first_port, &start->last_port) ? 8 : 0;
    if (strcmp(key, "lanes") == 0 && read_number(value, 16, &number))
        start->lanes = (unsigned)number;
    if (strcmp(key, "limit") == 0 && read_number(value, UINT64_MAX, &number))
        start->limit_bps = number;
    if (strcmp(key, "policy") == 0)
        send_policy_read(value, &start->policy);
    if (strcmp(key, "protocol") == 0)
        read_protocol(value, &start->protocol);
    if (strcmp(key, "path") == 0)
        read_path(value, &start->path);
    if (strcmp(key, "job") == 0)
        start->job = read_job(value);
    if (strcmp(key, "ways") == 0)
        start->ways = read_ways(value);
    return 0;
}

bool bootstrap_read_start(struct bootstrap_start *start, const char *line, struct error *error)
{
    char copy[BOOTSTRAP_LINE_MAX];
    memset(start, 0, sizeof(*start));
    if (strncmp(line, START, strlen(START)) != 0 ||
        (size_t)snprintf(copy, sizeof(copy), "%s", line + strlen(START)) >= sizeof(copy))
        return error_set(error, ERROR_PROTOCOL,
                         "expected a start line on stdin; this command is run by petrel itself");
    char *rest = copy, *key, *value;
    unsigned seen = 0;
    while (next_pair(&rest, &key, &value))
        seen |= read_start_pair(start, key, value);
    wipe(copy, sizeof(copy));
    if (seen != 15)
        return error_set(error, ERROR_PROTOCOL, "the start line lacks a key or holds a bad value");
    return true;
}

bool bootstrap_is_answer(const char *line)
{
    if (strncmp(line, FAILURE, strlen(FAILURE)) == 0)
        return true;
    return strncmp(line, ANSWER, strlen(ANSWER)) == 0 && strstr(line, " port=") != NULL;
}

static bool read_error(const char *text, struct error *error)
{
    size_t length = strcspn(text, " ");
    enum error_kind kind = ERROR_PEER;
    for (unsigned i = 1; i < ERROR_KIND_COUNT; i++) {
        const char *name = error_kind_name((enum error_kind)i);
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            kind = (enum error_kind)i;
    }
    return error_set(error, kind, "%s", text[length] == ' ' ? text + length + 1 : "it failed");
}

bool bootstrap_read_answer(struct bootstrap_answer *answer, const char *line, struct error *error)
{
    memset(answer, 0, sizeof(*answer));
    if (strncmp(line, FAILURE, strlen(FAILURE)) == 0)
        return read_error(line + strlen(FAILURE), error);
    char copy[BOOTSTRAP_LINE_MAX];
    if (strncmp(line, ANSWER, strlen(ANSWER)) != 0 ||
        (size_t)snprintf(copy, sizeof(copy), "%s", line + strlen(ANSWER)) >= sizeof(copy))
        return error_set(error, ERROR_PROTOCOL, "the far end's answer is not understood");
    char *rest = copy, *key, *value;
    while (next_pair(&rest, &key, &value)) {
        uint64_t number;
        if (strcmp(key, "version") == 0)
            snprintf(answer->version, sizeof(answer->version), "%s", value);
        else if (strcmp(key, "protocol") == 0)
            read_protocol(value, &answer->protocol);
        else if (strcmp(key, "ways") == 0)
            answer->ways = read_ways(value);
        else if (strcmp(key, "port") == 0 && read_number(value, 65535, &number))
            answer->port = (uint16_t)number;
        else if (strcmp(key, "address") == 0 && strcmp(value, "none") != 0)
            snprintf(answer->address, sizeof(answer->address), "%s", value);
        else if (strcmp(key, "job") == 0)
            answer->job = read_job(value);
    }
    if (answer->port == 0 && answer->job == JOB_COPY && answer->ways != WAY_SSH)
        return error_set(error, ERROR_PROTOCOL, "the far end's answer names no port");
    return true;
}
