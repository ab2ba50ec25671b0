#include "cli/measure/measure_words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/units.h"

/* ---- tables ---- */

#define ROW(member, kind, limit) FIELD(struct measure_request, member, kind, limit)
static const struct field request_fields[] = {
    ROW(stop, FIELD_BOOL, 0),
    ROW(sends, FIELD_BOOL, 0),
    ROW(writes, FIELD_BOOL, 0),
    ROW(stream, FIELD_BOOL, 0),
    ROW(until_ended, FIELD_BOOL, 0),
    ROW(first_port, FIELD_U16, 0),
    ROW(last_port, FIELD_U16, 0),
    ROW(ports4, FIELD_PORTS, 0),
    ROW(ports6, FIELD_PORTS, 0),
    ROW(token, FIELD_HEX, 0),
    ROW(secret, FIELD_HEX, 0),
    ROW(session_id, FIELD_HEX, 0),
    ROW(size_bytes, FIELD_U64, UINT64_C(1) << 48),
    ROW(time_ns, FIELD_U64, MEASURE_TIME_MAX_NS),
    ROW(limit_bps, FIELD_U64, 0),
    ROW(fixed_bps, FIELD_U64, 0),
    ROW(from_ns, FIELD_U64, 0),
    ROW(until_ns, FIELD_U64, 0),
    ROW(lanes, FIELD_U32, LANES_MAX),
    ROW(streams, FIELD_U32, TCP_STREAMS_MAX),
    ROW(policy, FIELD_U32, 2),
    ROW(congestion, FIELD_TEXT, 0),
    ROW(path, FIELD_TEXT, 0),
    FIELDS_END,
};
#undef ROW

#define ROW(member, kind) FIELD(struct machine_facts, member, kind, 0)
const struct field measure_facts_fields[] = {
    ROW(system, FIELD_TEXT),
    ROW(cores, FIELD_U32),
    ROW(load, FIELD_REAL),
    ROW(memory_bytes, FIELD_U64),
    ROW(aes_hardware, FIELD_BOOL),
    ROW(features, FIELD_TEXT),
    ROW(sealing, FIELD_TEXT),
    ROW(sealing_bps, FIELD_U64),
    ROW(hashing_bps, FIELD_U64),
    ROW(receive_buffer, FIELD_U32),
    ROW(send_buffer, FIELD_U32),
    ROW(segmentation, FIELD_BOOL),
    ROW(coalescing, FIELD_BOOL),
    ROW(ipv4, FIELD_BOOL),
    ROW(ipv6, FIELD_BOOL),
    ROW(congestion, FIELD_TEXT),
    FIELDS_END,
};
#undef ROW

#define ROW(member, kind) FIELD(struct disk_speed, member, kind, 0)
const struct field measure_disk_fields[] = {
    ROW(bytes, FIELD_U64),
    ROW(ns, FIELD_U64),
    ROW(rate_bps, FIELD_U64),
    ROW(free_bytes, FIELD_U64),
    ROW(cached, FIELD_BOOL),
    ROW(path, FIELD_TEXT),
    FIELDS_END,
};
#undef ROW

const struct field measure_started_fields[] = {
    FIELD(struct measure_started, port, FIELD_U16, 0),
    FIELD(struct measure_started, opened, FIELD_PORTS, 0),
    FIELD(struct measure_started, busy, FIELD_PORTS, 0),
    FIELDS_END,
};

#define ROW(member, kind) FIELD(struct measure_arrivals, member, kind, 0)
const struct field measure_arrivals_fields[] = {
    ROW(arrived4, FIELD_PORTS),   ROW(arrived6, FIELD_PORTS),   ROW(loss_arrived, FIELD_U32),
    ROW(size_arrived, FIELD_U32), ROW(both_arrived, FIELD_U32), ROW(strangers, FIELD_U32),
    ROW(refused, FIELD_U32),      ROW(refusal, FIELD_TEXT),     FIELDS_END,
};
#undef ROW

#define ROW(member, kind) FIELD(struct session_figures, member, kind, 0)
const struct field session_figures_fields[] = {
    ROW(started, FIELD_BOOL),
    ROW(verified, FIELD_BOOL),
    ROW(bytes, FIELD_U64),
    ROW(seconds, FIELD_REAL),
    ROW(sustained_bps, FIELD_U64),
    ROW(sustained_from_ns, FIELD_U64),
    ROW(sustained_until_ns, FIELD_U64),
    ROW(cpu_seconds, FIELD_REAL),
    ROW(peak_memory_bytes, FIELD_U64),
    ROW(packets_sent, FIELD_U64),
    ROW(packets_lost, FIELD_U64),
    ROW(payload_sent, FIELD_U64),
    ROW(payload_resent, FIELD_U64),
    ROW(receiver_drops, FIELD_U64),
    ROW(rtt_ns, FIELD_U64),
    ROW(rtt_min_ns, FIELD_U64),
    ROW(datagrams_received, FIELD_U64),
    ROW(datagram_bytes, FIELD_U16),
    ROW(lanes, FIELD_U32),
    ROW(path_ns, FIELD_U64),
    ROW(limit_ns, FIELD_U64),
    ROW(credit_ns, FIELD_U64),
    ROW(source_ns, FIELD_U64),
    ROW(processor_ns, FIELD_U64),
    ROW(receive_buffer, FIELD_U32),
    ROW(send_buffer, FIELD_U32),
    ROW(segmentation, FIELD_BOOL),
    ROW(coalescing, FIELD_BOOL),
    FIELDS_END,
};
#undef ROW

#define ROW(member, kind) FIELD(struct tcp_figures, member, kind, 0)
const struct field tcp_figures_fields[] = {
    ROW(bytes, FIELD_U64),        ROW(seconds, FIELD_REAL),    ROW(sustained_bps, FIELD_U64),
    ROW(cpu_seconds, FIELD_REAL), ROW(retransmits, FIELD_U64), FIELDS_END,
};
#undef ROW

static const char *const do_names[MEASURE_DO_COUNT] = {
    [MEASURE_PING] = "ping",   [MEASURE_FACTS] = "facts",     [MEASURE_DISK] = "disk",
    [MEASURE_ECHO] = "echo",   [MEASURE_SESSION] = "session", [MEASURE_TCP] = "tcp",
    [MEASURE_KNOCK] = "knock", [MEASURE_END] = "end",
};

/* ---- lines ---- */

static size_t put_line(json_t *object, char *line, size_t capacity)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    json_decref(object);
    size_t length = text != NULL ? strlen(text) : 0;
    bool fits = length > 0 && length + 2 <= capacity;
    if (fits) {
        memcpy(line, text, length);
        memcpy(line + length, "\n", 2);
    }
    if (text != NULL)
        wipe(text, length);
    free(text);
    return fits ? length + 1 : 0;
}

static json_t *get_object(const char *line, struct error *error)
{
    json_t *object = strlen(line) < MEASURE_LINE_MAX ? json_loads(line, 0, NULL) : NULL;
    if (!json_is_object(object)) {
        json_decref(object);
        error_set(error, ERROR_PROTOCOL, "a line about measurements is no JSON object");
        return NULL;
    }
    return object;
}

static bool has_of(enum measure_do what)
{
    return what == MEASURE_END || what == MEASURE_KNOCK;
}

size_t measure_write_request(const struct measure_request *request, char *line, size_t capacity)
{
    json_t *object = json_object();
    json_object_set_new(object, "do", json_string(do_names[request->what]));
    if (has_of(request->what))
        json_object_set_new(object, "of", json_string(do_names[request->of]));
    fields_write(object, request_fields, request);
    return put_line(object, line, capacity);
}

static bool read_do(const json_t *object, const char *name, enum measure_do *what,
                    struct error *error)
{
    const char *said = json_string_value(json_object_get(object, name));
    for (unsigned i = 0; said != NULL && i < MEASURE_DO_COUNT; i++) {
        if (strcmp(said, do_names[i]) == 0) {
            *what = (enum measure_do)i;
            return true;
        }
    }
    return error_set(error, ERROR_VERSION,
                     "this petrel does not know that measurement; bring both to one version");
}

static bool check_request(const struct measure_request *request, struct error *error)
{
    bool ports = request->what == MEASURE_ECHO || request->what == MEASURE_TCP ||
                 (request->what == MEASURE_SESSION && !request->stream);
    if (ports && (request->first_port == 0 || request->first_port > request->last_port))
        return error_set(error, ERROR_PROTOCOL, "a measurement lacks its ports");
    unsigned knocks = port_set_count(&request->ports4) + port_set_count(&request->ports6);
    if (knocks > MEASURE_KNOCKS_MAX || (request->what == MEASURE_KNOCK && knocks == 0))
        return error_set(error, ERROR_PROTOCOL, "a measurement names %u ports to knock at", knocks);
    bool ends = request->size_bytes != 0 || request->time_ns != 0;
    bool timed = request->what == MEASURE_DISK || request->what == MEASURE_TCP;
    if ((timed && request->time_ns == 0) || (request->what == MEASURE_SESSION && !ends))
        return error_set(error, ERROR_PROTOCOL, "a measurement lacks its time");
    if (request->what == MEASURE_TCP && request->streams == 0)
        return error_set(error, ERROR_PROTOCOL, "a measurement lacks its streams");
    return true;
}

bool measure_read_request(struct measure_request *request, const char *line, struct error *error)
{
    memset(request, 0, sizeof(*request));
    json_t *object = get_object(line, error);
    bool good = object != NULL && read_do(object, "do", &request->what, error) &&
                (!has_of(request->what) || read_do(object, "of", &request->of, error)) &&
                fields_read(request, request_fields, object, error) &&
                check_request(request, error);
    json_decref(object);
    return good;
}

size_t measure_write_answer(const struct error *failed, const struct field *table, const void *from,
                            char *line, size_t capacity)
{
    json_t *object = json_object();
    if (failed != NULL && failed->kind != ERROR_NONE) {
        const struct field text = {"text", FIELD_TEXT, 0, sizeof(failed->text), 0};
        const struct field fields[] = {text, FIELDS_END};
        json_object_set_new(object, "error", json_string(error_kind_name(failed->kind)));
        fields_write(object, fields, failed->text);
    }
    if (table != NULL)
        fields_write(object, table, from);
    return put_line(object, line, capacity);
}

static enum error_kind kind_of(const char *name)
{
    for (unsigned i = 1; i < ERROR_KIND_COUNT; i++) {
        if (strcmp(error_kind_name((enum error_kind)i), name) == 0)
            return (enum error_kind)i;
    }
    return ERROR_PEER;
}

bool measure_read_answer(const char *line, const struct field *table, void *into,
                         struct error *error)
{
    json_t *object = get_object(line, error);
    if (object == NULL)
        return false;
    bool good = table == NULL || fields_read(into, table, object, error);
    const char *kind = json_string_value(json_object_get(object, "error"));
    const char *text = json_string_value(json_object_get(object, "text"));
    if (good && kind != NULL)
        good = error_set(error, kind_of(kind), "%s", text != NULL ? text : "it failed over there");
    json_decref(object);
    return good;
}

/* ---- figures ---- */

static uint64_t peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

void session_figures_of(struct session_figures *figures, const struct session_outcome *outcome)
{
    const struct memory_report *memory = &outcome->memory;
    const struct session_statistics *session = &memory->session;
    const struct driver_statistics *net = &outcome->net;
    *figures = (struct session_figures){
        .started = memory->started,
        .verified = memory->verified,
        .bytes = memory->bytes,
        .seconds = memory->seconds,
        .sustained_bps = memory->sustained_bps,
        .sustained_from_ns = memory->sustained.from_ns,
        .sustained_until_ns = memory->sustained.until_ns,
        .cpu_seconds = memory->cpu_seconds,
        .peak_memory_bytes = peak_memory(),
        .packets_sent = session->packets_sent,
        .packets_lost = session->packets_lost,
        .payload_sent = session->payload_sent,
        .payload_resent = session->payload_resent,
        .receiver_drops = session->peer_socket_drops + session->own_socket_drops,
        .rtt_ns = session->rtt_ns,
        .rtt_min_ns = session->rtt_min_ns,
        .datagrams_received = net->datagrams_received,
        .datagram_bytes = session->datagram_size,
        .lanes = session->lanes,
        .path_ns = session->limited_ns[LIMIT_PATH],
        .limit_ns = session->limited_ns[LIMIT_OPTION],
        .credit_ns = session->limited_ns[LIMIT_CREDIT],
        .source_ns = session->limited_ns[LIMIT_SOURCE],
        .processor_ns = session->limited_ns[LIMIT_PROCESSOR],
        .receive_buffer = net->receive_buffer,
        .send_buffer = net->send_buffer,
        .segmentation = net->segmentation,
        .coalescing = net->coalescing,
    };
}

void tcp_figures_of(struct tcp_figures *figures, const struct tcp_flow_report *report,
                    const struct rate_window *window)
{
    bool all = window->from_ns == window->until_ns;
    *figures =
        (struct tcp_figures){.bytes = report->bytes,
                             .seconds = report->seconds,
                             .sustained_bps = all ? report->sustained_bps
                                                  : rate_samples_within(&report->samples, window),
                             .cpu_seconds = report->cpu_seconds,
                             .retransmits = report->retransmits};
}
