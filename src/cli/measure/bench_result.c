#include "cli/measure/bench_result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/report/json_report.h"
#include "tree/display.h"

/* ---- for people ---- */

static double per_gigabyte(double seconds, uint64_t bytes)
{
    return bytes > 0 ? seconds * 1e9 / (double)bytes : 0;
}

static uint64_t whole_rate(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (uint64_t)((double)bytes * 8 / seconds) : 0;
}

static double ratio(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0;
}

static double percent(uint64_t part, uint64_t whole)
{
    return 100 * ratio(part, whole);
}

static void print_row(const struct bench_result *result, const char *name, uint64_t sustained_bps,
                      uint64_t whole_bps, const char *share, double sender_cpu, double receiver_cpu)
{
    char sustained[24], whole[24];
    double here = result->reverse ? receiver_cpu : sender_cpu;
    double there = result->reverse ? sender_cpu : receiver_cpu;
    printf("%-14s %12s %12s %12s %8.2f %8.2f\n", name,
           format_byte_rate(sustained, sizeof(sustained), sustained_bps),
           format_byte_rate(whole, sizeof(whole), whole_bps), share, here, there);
}

static void name_flow(const struct bench_tcp *tcp, char *name, size_t capacity)
{
    if (tcp->streams == 1)
        snprintf(name, capacity, "TCP %s", tcp->congestion);
    else
        snprintf(name, capacity, "%u TCP %s", tcp->streams, tcp->congestion);
}

static void print_tcp(const struct bench_result *result, const struct bench_tcp *tcp)
{
    char name[40], share[24];
    name_flow(tcp, name, sizeof(name));
    if (tcp->error.kind != ERROR_NONE) {
        char text[1024];
        printf("%-14s %s\n", name, display_name(text, sizeof(text), tcp->error.text));
        return;
    }
    snprintf(share, sizeof(share), "x %.2f",
             ratio(result->receiver.sustained_bps, tcp->receiver.sustained_bps));
    print_row(result, name, tcp->receiver.sustained_bps,
              whole_rate(tcp->receiver.bytes, tcp->receiver.seconds), share,
              per_gigabyte(tcp->sender.cpu_seconds, tcp->receiver.bytes),
              per_gigabyte(tcp->receiver.cpu_seconds, tcp->receiver.bytes));
}

static const char *limit_name(const struct session_figures *sender, double *share)
{
    const struct {
        uint64_t ns;
        const char *name;
    } limits[] = {{sender->path_ns, "the path"},
                  {sender->limit_ns, "the rate asked for"},
                  {sender->credit_ns, "the receiving end"},
                  {sender->source_ns, "the sending end's memory"},
                  {sender->processor_ns, "the sending end's processor"}};
    unsigned most = 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        sum += limits[i].ns;
        if (limits[i].ns > limits[most].ns)
            most = i;
    }
    *share = percent(limits[most].ns, sum);
    return limits[most].name;
}

static void print_path(const struct bench_result *result)
{
    const struct session_figures *sender = &result->sender, *receiver = &result->receiver;
    const struct session_figures *near = result->reverse ? receiver : sender;
    const struct session_figures *far = result->reverse ? sender : receiver;
    char rtt[24], least[24], here[24], there[24];
    double share;
    const char *limit = limit_name(sender, &share);
    printf("\nloss %.2f %%, resent %.2f %%, round trip %s (at least %s), datagrams of %u bytes, "
           "%u lane%s\n",
           percent(sender->packets_lost, sender->packets_sent),
           percent(sender->payload_resent, sender->payload_sent),
           format_time(rtt, sizeof(rtt), sender->rtt_ns),
           format_time(least, sizeof(least), sender->rtt_min_ns), sender->datagram_bytes,
           sender->lanes, sender->lanes == 1 ? "" : "s");
    printf("%llu packets dropped by the receiver's own socket; limited by %s for %.0f %% of the "
           "time\n",
           (unsigned long long)sender->receiver_drops, limit, share);
    printf("peak memory %s here, %s there; every block verified by its BLAKE3%s\n",
           format_size(here, sizeof(here), near->peak_memory_bytes),
           format_size(there, sizeof(there), far->peak_memory_bytes),
           result->disk != NULL ? ", written and synced" : "");
}

static void print_share(const struct bench_result *result)
{
    char petrel[24], tcp[24];
    if (!result->shared)
        return;
    if (result->share_error.kind != ERROR_NONE) {
        char text[1024];
        printf("beside a TCP flow: %s\n",
               display_name(text, sizeof(text), result->share_error.text));
        return;
    }
    uint64_t ours = result->share_receiver.sustained_bps, theirs = result->share_tcp.sustained_bps;
    printf("beside one TCP flow: petrel %s, TCP %s (%.0f %% of the two)\n",
           format_byte_rate(petrel, sizeof(petrel), ours),
           format_byte_rate(tcp, sizeof(tcp), theirs), percent(theirs, ours + theirs));
}

void bench_print(const struct bench_result *result)
{
    const struct session_figures *sender = &result->sender, *receiver = &result->receiver;
    printf("%s %s, random bytes from memory%s%s\n\n", result->reverse ? "from" : "to", result->host,
           result->disk != NULL ? " into " : "", result->disk != NULL ? result->disk : "");
    printf("%-14s %12s %12s %12s %8s %8s\n", "", "sustained", "end to end", "petrel is", "CPU s/GB",
           "CPU s/GB");
    printf("%-14s %12s %12s %12s %8s %8s\n", "", "", "", "", "here", "there");
    print_row(result, "petrel", receiver->sustained_bps, whole_rate(sender->bytes, sender->seconds),
              "", per_gigabyte(sender->cpu_seconds, sender->bytes),
              per_gigabyte(receiver->cpu_seconds, sender->bytes));
    for (unsigned i = 0; i < result->tcp_count; i++)
        print_tcp(result, &result->tcp[i]);
    print_path(result);
    print_share(result);
    if (result->tcp_count > 0)
        printf("TCP here is neither encrypted nor verified.\n");
}

/* ---- JSON ---- */

static void put_session(json_t *object, const struct session_figures *sender,
                        const struct session_figures *receiver)
{
    json_report_object(object, "sender", session_figures_fields, sender);
    json_report_object(object, "receiver", session_figures_fields, receiver);
    json_report_number(object, "sustained_bps", receiver->sustained_bps);
    json_report_number(object, "end_to_end_bps", whole_rate(sender->bytes, sender->seconds));
}

static json_t *tcp_object(const struct bench_result *result, const struct bench_tcp *tcp)
{
    json_t *one = json_object();
    json_report_text(one, "congestion", tcp->congestion);
    json_report_number(one, "streams", tcp->streams);
    json_object_set_new(one, "available", json_boolean(tcp->error.kind == ERROR_NONE));
    if (tcp->error.kind != ERROR_NONE) {
        json_report_text(one, "reason", tcp->error.text);
        return one;
    }
    json_report_object(one, "sender", tcp_figures_fields, &tcp->sender);
    json_report_object(one, "receiver", tcp_figures_fields, &tcp->receiver);
    json_report_number(one, "sustained_bps", tcp->receiver.sustained_bps);
    json_object_set_new(
        one, "petrel_is",
        json_real(ratio(result->receiver.sustained_bps, tcp->receiver.sustained_bps)));
    return one;
}

static json_t *share_object(const struct bench_result *result)
{
    json_t *share = json_object();
    if (result->share_error.kind != ERROR_NONE)
        json_report_text(share, "error", result->share_error.text);
    put_session(share, &result->share_sender, &result->share_receiver);
    json_report_object(share, "tcp", tcp_figures_fields, &result->share_tcp);
    return share;
}

static json_t *build(const struct bench_result *result, int exit_code)
{
    json_t *object = json_object(), *petrel = json_object(), *list = json_array();
    json_report_number(object, "schema", 1);
    json_report_text(object, "host", result->host);
    json_report_text(object, "direction", result->reverse ? "from" : "to");
    json_object_set_new(object, "exit_code", json_integer(exit_code));
    if (result->error.kind != ERROR_NONE)
        json_report_text(object, "error", result->error.text);
    if (result->disk != NULL)
        json_report_text(object, "disk", result->disk);
    json_object_set_new(object, "ssh_seconds", json_real((double)result->ssh_ns / 1e9));
    json_report_object(object, "near", measure_facts_fields, &result->near);
    json_report_object(object, "far", measure_facts_fields, &result->far);
    put_session(petrel, &result->sender, &result->receiver);
    json_object_set_new(object, "petrel", petrel);
    for (unsigned i = 0; i < result->tcp_count; i++)
        json_array_append_new(list, tcp_object(result, &result->tcp[i]));
    json_object_set_new(object, "tcp", list);
    if (result->shared)
        json_object_set_new(object, "share", share_object(result));
    return object;
}

bool bench_print_json(const struct bench_result *result, int exit_code, FILE *out, const char *file,
                      struct error *error)
{
    return json_report_write_to(build(result, exit_code), out, file, error);
}
