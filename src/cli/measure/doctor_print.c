#include "cli/measure/doctor_print.h"

#include <stdio.h>

#include "cli/report/json_report.h"
#include "tree/display.h"

#define NAME_COLUMN 26

void doctor_print(const struct findings *findings)
{
    for (unsigned i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        /* Some of it is the other end's own words. */
        char text[1024];
        printf("%-8s %-*s %s\n", verdict_names[finding->verdict], NAME_COLUMN, finding->name,
               display_name(text, sizeof(text), finding->text));
        if (finding->next[0] != '\0')
            printf("%-8s %-*s next: %s\n", "", NAME_COLUMN, "",
                   display_name(text, sizeof(text), finding->next));
    }
}

/* ---- JSON ---- */

static void put_run(json_t *object, const char *name, const struct doctor_run *run)
{
    json_t *inner = json_object();
    if (!run->tried) {
        json_decref(inner);
        return;
    }
    if (run->error.kind != ERROR_NONE)
        json_report_text(inner, "error", run->error.text);
    json_report_object(inner, "sender", session_figures_fields, &run->sender);
    json_report_object(inner, "receiver", session_figures_fields, &run->receiver);
    json_object_set_new(object, name, inner);
}

static void put_findings(json_t *object, const struct findings *findings)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        json_t *one = json_object();
        json_report_text(one, "name", finding->name);
        json_report_text(one, "verdict", verdict_names[finding->verdict]);
        json_report_text(one, "text", finding->text);
        json_report_text(one, "next", finding->next);
        json_array_append_new(list, one);
    }
    json_object_set_new(object, "findings", list);
}

static void put_targets(json_t *object, const struct doctor_facts *facts)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < facts->target_count; i++) {
        const struct probe_target *target = &facts->targets[i];
        char address[64];
        static const struct field fields[] = {
            FIELD_AS("answered", struct probe_target, answered, FIELD_PORTS, 0),
            FIELD(struct probe_target, answered_at_once, FIELD_U32, 0),
            FIELD(struct probe_target, knocks, FIELD_U32, 0), FIELDS_END};
        json_t *one = json_object();
        json_report_text(one, "address",
                         address_format(address, sizeof(address), &target->address));
        fields_write(one, fields, target);
        json_object_set_new(one, "local_errno", json_integer(target->refusal.local_errno));
        json_object_set_new(one, "icmp_errno", json_integer(target->refusal.icmp_errno));
        json_array_append_new(list, one);
    }
    json_object_set_new(object, "udp", list);
}

#define ROW(member) FIELD(struct probe_loss, member, FIELD_U64, 0)
static const struct field rtt_fields[] = {ROW(rtt_min_ns), ROW(rtt_mean_ns), ROW(rtt_jitter_ns),
                                          FIELDS_END};
#undef ROW

static void put_probes(json_t *object, const struct doctor_facts *facts)
{
    const struct probe_loss *loss = &facts->loss;
    json_object_set_new(object, "interface_mtu", json_integer(facts->interface_mtu));
    json_object_set_new(object, "probes_sent", json_integer(loss->sent));
    json_object_set_new(object, "probes_arrived", json_integer(facts->arrivals.loss_arrived));
    json_object_set_new(object, "probes_answered", json_integer(loss->answered));
    fields_write(object, rtt_fields, loss);
}

static void put_rates(json_t *object, const struct findings *findings)
{
    json_object_set_new(object, "expected_to_bps",
                        json_integer((json_int_t)findings->expected_to_bps));
    json_object_set_new(object, "expected_from_bps",
                        json_integer((json_int_t)findings->expected_from_bps));
    json_report_text(object, "limit_to", findings->limit_to);
    json_report_text(object, "limit_from", findings->limit_from);
}

static json_t *build(const struct doctor_facts *facts, const struct findings *findings,
                     int exit_code)
{
    json_t *object = json_object();
    json_object_set_new(object, "schema", json_integer(1));
    json_report_text(object, "host", facts->host);
    json_object_set_new(object, "exit_code", json_integer(exit_code));
    put_findings(object, findings);
    put_rates(object, findings);
    json_object_set_new(object, "ssh_seconds", json_real((double)facts->ssh_ns / 1e9));
    json_object_set_new(object, "ssh_reused", json_boolean(facts->ssh_reused));
    json_report_text(object, "far_version", facts->far_version);
    json_report_object(object, "near", measure_facts_fields, &facts->near);
    if (facts->has_far)
        json_report_object(object, "far", measure_facts_fields, &facts->far);
    put_targets(object, facts);
    if (facts->chosen >= 0)
        put_probes(object, facts);
    put_run(object, "to", &facts->to);
    put_run(object, "from", &facts->from);
    put_run(object, "with_disks", &facts->with_disks);
    put_run(object, "through_ssh", &facts->through_ssh);
    if (facts->source.tried)
        json_report_object(object, "source", measure_disk_fields, &facts->source.speed);
    if (facts->destination.tried)
        json_report_object(object, "destination", measure_disk_fields, &facts->destination.speed);
    return object;
}

bool doctor_print_json(const struct doctor_facts *facts, const struct findings *findings,
                       int exit_code, FILE *out, const char *file, struct error *error)
{
    return json_report_write_to(build(facts, findings, exit_code), out, file, error);
}
