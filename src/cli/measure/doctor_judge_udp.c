/* Which addresses and ports UDP reaches, and why not the others. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/measure/doctor_judge.h"

#define NEARLY_ALL_PERCENT 95u /* on a path that loses packets a few ports seem closed */

/* An address without its port. */
static char *host_text(char *text, size_t capacity, const struct address *address)
{
    address_format(text, capacity, address);
    char *colon = strrchr(text, ':');
    if (colon != NULL)
        *colon = '\0';
    return text;
}

static void name_rule(struct finding *finding, const struct doctor_facts *facts)
{
    unsigned first = facts->first_port, last = facts->last_port;
    finding_next(
        finding,
        "open UDP %u-%u on %s: sudo ufw allow %u:%u/udp, or firewall-cmd "
        "--add-port=%u-%u/udp, or nft insert rule inet filter input udp dport %u-%u accept",
        first, last, facts->host, first, last, first, last, first, last);
}

static const char *icmp_meaning(int icmp_errno)
{
    if (icmp_errno == ECONNREFUSED)
        return "port unreachable";
    if (icmp_errno == EACCES)
        return "administratively prohibited";
    if (icmp_errno == EHOSTUNREACH)
        return "host unreachable or prohibited";
    if (icmp_errno == ENETUNREACH)
        return "network unreachable or prohibited";
    return strerror(icmp_errno);
}

static void allow_here(struct finding *finding, const struct doctor_facts *facts)
{
    finding_next(
        finding,
        "allow it here: nft insert rule inet filter output udp dport %u-%u accept (see nft "
        "list ruleset)",
        facts->first_port, facts->last_port);
}

static void explain_local(struct finding *finding, const struct doctor_facts *facts,
                          const char *address, int local_errno)
{
    if (local_errno == EPERM || local_errno == EACCES) {
        finding_say(finding, "a firewall rule on this machine refuses to send UDP to %s (%s)",
                    address, strerror(local_errno));
        allow_here(finding, facts);
        return;
    }
    finding_say(finding, "nothing can be sent from here to %s (%s)", address,
                strerror(local_errno));
    finding_next(finding, "this machine has no way there: ip route get %s", address);
}

static bool is_own_rule(const struct probe_refusal *refusal)
{
    return refusal->icmp_is_own &&
           (refusal->icmp_errno == ECONNREFUSED || refusal->local_errno == EPERM ||
            refusal->local_errno == EACCES);
}

/* Who sent the ICMP message tells whose rule it is: this machine's, the host's, or that of a router
 * in between. */
static void explain_icmp(struct finding *finding, const struct doctor_facts *facts,
                         const struct probe_target *target, const char *address)
{
    const struct probe_refusal *refusal = &target->refusal;
    const char *meaning = icmp_meaning(refusal->icmp_errno);
    char from[64];
    host_text(from, sizeof(from), &refusal->icmp_from);
    if (is_own_rule(refusal)) {
        finding_say(
            finding,
            "a firewall rule on this machine refuses to send UDP to %s (rejected by itself, "
            "%s, with ICMP %s)",
            address, from, meaning);
        allow_here(finding, facts);
    } else if (refusal->icmp_is_own) {
        finding_say(finding, "nothing gets from here to %s: this machine itself, %s, says %s",
                    address, from, meaning);
        finding_next(finding, "this machine finds no way there: ip route get %s", address);
    } else if (address_same_host(&refusal->icmp_from, &target->address)) {
        finding_say(finding, "UDP to ports %u-%u of %s is rejected: %s sent ICMP %s",
                    facts->first_port, facts->last_port, address, from, meaning);
        name_rule(finding, facts);
    } else {
        finding_say(finding,
                    "UDP to ports %u-%u of %s is rejected on the way: %s, in between, sent ICMP %s",
                    facts->first_port, facts->last_port, address, from, meaning);
        finding_next(finding, "ask who runs %s to let UDP %u-%u through to %s", from,
                     facts->first_port, facts->last_port, address);
    }
}

static void explain_silence(struct finding *finding, const struct doctor_facts *facts,
                            const struct probe_target *target, unsigned arrived)
{
    char address[64];
    host_text(address, sizeof(address), &target->address);
    if (arrived > 0 && facts->arrivals.refusal[0] != '\0') {
        finding_say(finding,
                    "packets to %s arrive there, but a firewall rule on that host refuses to send "
                    "the answers (%s)",
                    address, facts->arrivals.refusal);
        finding_next(finding,
                     "allow it on %s: nft insert rule inet filter output udp sport %u-%u accept "
                     "(see nft list ruleset there)",
                     facts->host, facts->first_port, facts->last_port);
    } else if (arrived > 0) {
        finding_say(finding,
                    "packets to %s arrive there, but no answer comes back: a firewall or NAT near "
                    "this machine drops answers of UDP",
                    address);
        finding_next(finding,
                     "let them in here: nft insert rule inet filter input udp sport %u-%u accept",
                     facts->first_port, facts->last_port);
    } else if (target->refusal.icmp_errno != 0) {
        explain_icmp(finding, facts, target, address);
    } else if (target->refusal.local_errno != 0) {
        explain_local(finding, facts, address, target->refusal.local_errno);
    } else {
        finding_say(
            finding,
            "UDP to ports %u-%u of %s gets no answer, and nothing arrives there: dropped on "
            "the way or by the host's firewall%s",
            facts->first_port, facts->last_port, address,
            target->knocks > 0 ? "; packets from there do arrive here" : "");
        name_rule(finding, facts);
    }
}

/* A part of the range answers: whether a copy finds it, and what spares it the search. */
static void explain_part(struct finding *finding, const struct doctor_facts *facts,
                         const struct probe_target *target)
{
    char ports[128];
    uint16_t first, last, own = port_set_first(&facts->echo.opened);
    bool one = port_set_count(&target->answered) == 1;
    port_set_format(ports, sizeof(ports), &target->answered);
    port_set_longest(&target->answered, &first, &last);
    finding->verdict = facts->chosen >= 0 ? VERDICT_SLOW : VERDICT_FAILED;
    finding->kind = facts->chosen >= 0 ? ERROR_NONE : ERROR_UNREACHABLE;
    finding_say(finding, "only port%s %s of %u-%u answer%s: ", one ? "" : "s", ports,
                facts->first_port, facts->last_port, one ? "s" : "");
    if (facts->chosen < 0)
        finding_add(finding,
                    "none of them is among the few that a copy tries, so that it goes through ssh");
    else if (port_set_has(&target->answered, own))
        finding_add(finding, "a copy begins at %u, further ones at once may have to search", own);
    else
        finding_add(finding, "a copy begins at %u, and has to look for an open one first", own);
    if (first == last)
        finding_next(finding, "use --udp-ports %u, or open UDP %u-%u on %s", first,
                     facts->first_port, facts->last_port, facts->host);
    else
        finding_next(finding, "use --udp-ports %u-%u, or open UDP %u-%u on %s", first, last,
                     facts->first_port, facts->last_port, facts->host);
}

static void judge_target(const struct doctor_facts *facts, const struct probe_target *target,
                         struct findings *findings)
{
    char address[64], other[64];
    host_text(address, sizeof(address), &target->address);
    unsigned answered = port_set_count(&target->answered);
    unsigned opened = port_set_count(&facts->echo.opened);
    struct finding *finding = add_finding(findings, VERDICT_OK, "UDP %s", address);
    bool begins = port_set_has(&target->answered, port_set_first(&facts->echo.opened));
    if (begins && answered * 100 >= opened * NEARLY_ALL_PERCENT) {
        bool knocked = target->answered_at_once * 100 < opened * NEARLY_ALL_PERCENT;
        finding_say(finding, "%u of %u ports in %u-%u answer%s", answered, opened,
                    facts->first_port, facts->last_port,
                    knocked ? ", after the far end knocked as it does for a copy: a firewall lets "
                              "only replies in"
                            : "");
        return;
    }
    if (answered > 0) {
        explain_part(finding, facts, target);
        return;
    }
    unsigned arrived = port_set_count(target->address.family == 4 ? &facts->arrivals.arrived4
                                                                  : &facts->arrivals.arrived6);
    explain_silence(finding, facts, target, arrived);
    /* Where another address works this one costs a moment at the start of a copy. */
    finding->verdict = facts->chosen >= 0 ? VERDICT_SLOW : VERDICT_FAILED;
    finding->kind = facts->chosen >= 0 ? ERROR_NONE : ERROR_UNREACHABLE;
    if (facts->chosen >= 0) {
        host_text(other, sizeof(other), &facts->targets[facts->chosen].address);
        finding_next(finding, "petrel uses %s; -%u leaves the other out, or mend it", other,
                     facts->targets[facts->chosen].address.family == 4 ? 4u : 6u);
    }
}

static void judge_ports(const struct doctor_facts *facts, struct findings *findings)
{
    unsigned busy = port_set_count(&facts->echo.busy);
    if (facts->echo_error.kind != ERROR_NONE) {
        char command[FINDING_COMMAND_MAX];
        struct finding *finding = add_finding(findings, VERDICT_FAILED, "UDP ports");
        /* A used-up range is a path without UDP, for a copy. */
        finding->kind =
            facts->echo_error.kind == ERROR_IO ? ERROR_UNREACHABLE : facts->echo_error.kind;
        finding_say(finding, "on %s: %.280s", facts->host, facts->echo_error.text);
        finding_next(finding, "name other ports with --udp-ports, or see who has them: %s",
                     command_there(command, facts, "ss -ulpn"));
    } else if (busy > 0) {
        char ports[128];
        struct finding *finding = add_finding(findings, VERDICT_OK, "UDP ports");
        finding_say(finding, "%u of %u-%u are in use on %s (%s); petrel takes another", busy,
                    facts->first_port, facts->last_port, facts->host,
                    port_set_format(ports, sizeof(ports), &facts->echo.busy));
    }
}

void judge_udp(const struct doctor_facts *facts, struct findings *findings)
{
    if (facts->target_count == 0) {
        struct finding *finding = add_finding(findings, VERDICT_FAILED, "UDP");
        finding->kind = ERROR_UNREACHABLE;
        finding_say(finding,
                    "%s is reached through a jump host and has no public address, so no UDP can go "
                    "there",
                    facts->host);
        finding_next(finding, "make it reachable from here, or run petrel on the jump host");
        return;
    }
    judge_ports(facts, findings);
    if (facts->echo_error.kind != ERROR_NONE)
        return;
    for (unsigned i = 0; i < facts->target_count; i++)
        judge_target(facts, &facts->targets[i], findings);
}
