/* Round trip, loss, packet size, and the rate to expect. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/measure/doctor_judge.h"
#include "net/udp.h"
#include "transport/limits.h"

#define RTT_LONG_NS (300 * NS_PER_MS)
#define JITTER_LARGE_NS (20 * NS_PER_MS)
#define LOSS_SMALL 0.005
#define LOST_FEW 4u /* packets: chance, in a short look */
#define DROPS_SMALL 0.002
#define BUSY_SHARE 0.4 /* of one core */

/* ---- round trip and loss ---- */

static void judge_rtt(const struct doctor_facts *facts, struct findings *findings)
{
    char mean[24], least[24], jitter[24];
    const struct probe_loss *loss = &facts->loss;
    struct finding *finding = add_finding(findings, VERDICT_OK, "round trip");
    finding_say(finding, "%s (at least %s, deviation %s)",
                format_time(mean, sizeof(mean), loss->rtt_mean_ns),
                format_time(least, sizeof(least), loss->rtt_min_ns),
                format_time(jitter, sizeof(jitter), loss->rtt_jitter_ns));
    if (loss->rtt_jitter_ns > JITTER_LARGE_NS) {
        finding->verdict = VERDICT_SLOW;
        finding_next(finding, "it varies much: a radio link, or somebody else's full queue; look "
                              "for a busy upload");
    } else if (loss->rtt_min_ns > RTT_LONG_NS) {
        finding->verdict = VERDICT_SLOW;
        finding_next(finding, "a very long way: each start costs several round trips, so copy many "
                              "files in one run");
    }
}

/* What one TCP flow makes of it: Mathis et al., "The macroscopic behavior of the TCP congestion
 * avoidance algorithm", 1997: MSS / RTT * sqrt(3/2) / sqrt(loss). */
static uint64_t tcp_ceiling(const struct doctor_facts *facts, double share)
{
    double rtt = (double)facts->loss.rtt_mean_ns / 1e9;
    return rtt > 0 ? (uint64_t)(1448 * 8 / rtt * 1.2247 / sqrt(share)) : 0;
}

static void judge_loss(const struct doctor_facts *facts, bool there, unsigned lost, unsigned of,
                       struct findings *findings)
{
    char ceiling[24];
    double share = of > 0 ? (double)lost / of : 0;
    bool small = share < LOSS_SMALL || lost < LOST_FEW;
    struct finding *finding = add_finding(findings, small ? VERDICT_OK : VERDICT_SLOW,
                                          "loss on the way %s", there ? "there" : "back");
    finding_say(finding, "%.1f %% (%u of %u light packets)", share * 100, lost, of);
    if (!small)
        finding_next(
            finding,
            "petrel keeps its rate, one classic TCP flow would be held to about %s; a line "
            "that loses this much without load is worth a call to who runs it",
            format_bit_rate(ceiling, sizeof(ceiling), tcp_ceiling(facts, share)));
}

/* ---- packet size ---- */

static unsigned ip_size(const struct doctor_facts *facts, const struct doctor_run *run)
{
    unsigned headers = facts->targets[facts->chosen].address.family == 4 ? 28 : 48;
    return run->sender.datagram_bytes != 0 ? run->sender.datagram_bytes + headers : 0;
}

static void explain_small(struct finding *finding, const struct doctor_facts *facts, unsigned found)
{
    unsigned told = facts->size_there.refusal.icmp_mtu;
    if (told == 0)
        told = facts->size_both.refusal.icmp_mtu;
    if (told != 0) {
        finding_say(finding,
                    "%u bytes, of this interface's %u: a link on the way takes at most %u, "
                    "and says so by ICMP",
                    found, facts->interface_mtu, told);
        return;
    }
    finding->verdict = VERDICT_SLOW;
    finding_say(
        finding,
        "%u bytes, of this interface's %u: larger packets vanish on the way without an ICMP "
        "message (a black hole)",
        found, facts->interface_mtu);
    finding_next(
        finding,
        "petrel needs nothing; TCP may hang there: set the interface's MTU to %u, or sysctl "
        "-w net.ipv4.tcp_mtu_probing=1",
        found);
}

/* Less than a session begins with. */
static void explain_too_small(struct finding *finding, const struct doctor_facts *facts)
{
    char address[64];
    unsigned least = DATAGRAM_MIN + (facts->targets[facts->chosen].address.family == 4 ? 28u : 48u);
    address_format(address, sizeof(address), &facts->targets[facts->chosen].address);
    char *colon = strrchr(address, ':');
    if (colon != NULL)
        *colon = '\0';
    finding->verdict = VERDICT_FAILED;
    finding->kind = ERROR_UNREACHABLE;
    finding_say(
        finding,
        "packets over about %u bytes vanish%s; petrel needs %u, so that its UDP does not get "
        "through",
        facts->size_passing, facts->large_arrive ? " on the way back" : " on the way there", least);
    finding_next(
        finding,
        "find what drops large UDP packets or fragments: a firewall rule on length, here or "
        "on %s, or a tunnel with a small MTU: tracepath -n %s",
        facts->host, address);
}

static void judge_mtu(const struct doctor_facts *facts, struct findings *findings)
{
    unsigned there = ip_size(facts, &facts->to), back = ip_size(facts, &facts->from);
    unsigned found = there != 0 && (back == 0 || there < back) ? there : back;
    bool whole = facts->size_both.answered > 0;
    bool too_small = facts->size_passing != 0 && found == 0;
    if (found == 0 && !whole && !too_small)
        return;
    struct finding *finding = add_finding(findings, VERDICT_OK, "packet size");
    if (too_small) {
        explain_too_small(finding, facts);
        return;
    }
    /* A short transfer over a bad path may not have got so far. */
    if (whole && found < facts->interface_mtu)
        found = facts->interface_mtu;
    if (found >= facts->interface_mtu)
        finding_say(finding, "%u bytes both ways, as large as this interface has them", found);
    else
        explain_small(finding, facts, found);
}

void judge_path(const struct doctor_facts *facts, struct findings *findings)
{
    const struct probe_loss *loss = &facts->loss;
    if (facts->chosen < 0)
        return;
    if (loss->answered > 0)
        judge_rtt(facts, findings);
    unsigned arrived = facts->arrivals.loss_arrived;
    if (loss->sent > 0) {
        judge_loss(facts, true, loss->sent > arrived ? loss->sent - arrived : 0, loss->sent,
                   findings);
        judge_loss(facts, false, arrived > loss->answered ? arrived - loss->answered : 0, arrived,
                   findings);
    }
    judge_mtu(facts, findings);
}

/* ---- the rate ---- */

struct estimate {
    uint64_t rate_bps;
    const char *limit;
};

static void hold_to(struct estimate *estimate, uint64_t rate_bps, const char *limit)
{
    if (rate_bps != 0 && rate_bps < estimate->rate_bps)
        *estimate = (struct estimate){rate_bps, limit};
}

static bool is_busy(const struct session_figures *figures)
{
    return figures->cpu_seconds >= BUSY_SHARE * figures->seconds;
}

/* What held up a session of memory blocks for most of its time. A processor only counts when it had
 * something to do: a rate that shrinks under heavy loss leaves packets late, too. */
static const char *limit_of(const struct doctor_run *run, bool sends_here)
{
    const struct session_figures *sender = &run->sender;
    uint64_t path = sender->path_ns, credit = sender->credit_ns;
    uint64_t processor = sender->processor_ns + sender->source_ns;
    if (processor > path && processor >= credit && is_busy(sender))
        return sends_here ? "this machine's processor" : "the processor there";
    if (credit > path && is_busy(&run->receiver))
        return sends_here ? "the processor there" : "this machine's processor";
    return "the path";
}

/* With the disks at work as well: what waited for whom, and whether that one's disk is much faster
 * than all of it. */
static const char *limit_with_disks(const struct doctor_facts *facts)
{
    const struct doctor_run *run = &facts->with_disks;
    const struct session_figures *sender = &run->sender;
    uint64_t near_disk = run->receiver.sustained_bps / 2 * 3;
    if (sender->source_ns > sender->path_ns && sender->source_ns >= sender->credit_ns &&
        facts->source.speed.rate_bps < near_disk)
        return "the disk here";
    if (sender->credit_ns > sender->path_ns && facts->destination.speed.rate_bps < near_disk)
        return "the disk there";
    return limit_of(run, true);
}

static const struct doctor_run *run_of(const struct doctor_facts *facts, bool to)
{
    const struct doctor_run *together = &facts->with_disks;
    if (to && together->tried && together->error.kind == ERROR_NONE &&
        together->receiver.sustained_bps != 0)
        return together;
    return to ? &facts->to : &facts->from;
}

static struct estimate estimate_rate(const struct doctor_facts *facts, bool to)
{
    const struct doctor_run *run = run_of(facts, to);
    bool together = run == &facts->with_disks;
    struct estimate estimate = {run->receiver.sustained_bps,
                                together ? limit_with_disks(facts) : limit_of(run, to)};
    if (estimate.rate_bps == 0 || run->error.kind != ERROR_NONE)
        return (struct estimate){0, NULL};
    if (to && facts->source.tried)
        hold_to(&estimate, facts->source.speed.rate_bps, "the disk here");
    if (to && facts->destination.tried)
        hold_to(&estimate, facts->destination.speed.rate_bps, "the disk there");
    return estimate;
}

/* Nothing was verified, however long was waited: of the disks something is known all the same. */
static void say_unknown(struct finding *finding, const struct doctor_facts *facts,
                        const struct doctor_run *run, bool to)
{
    char rate[24];
    struct estimate disks = {UINT64_MAX, NULL};
    if (to && facts->source.tried)
        hold_to(&disks, facts->source.speed.rate_bps, "the disk here");
    if (to && facts->destination.tried)
        hold_to(&disks, facts->destination.speed.rate_bps, "the disk there");
    finding->verdict = VERDICT_UNKNOWN;
    finding_say(finding, "unknown: nothing arrived and was verified within %.1f s",
                run->sender.seconds);
    if (disks.limit != NULL)
        finding_add(finding, "; at most %s, which is what %s gives",
                    format_byte_rate(rate, sizeof(rate), disks.rate_bps), disks.limit);
    finding_next(finding, "measure for longer, on machines that are less busy: --time=30s");
}

static void judge_direction(const struct doctor_facts *facts, bool to, struct findings *findings)
{
    const struct doctor_run *run = to ? &facts->to : &facts->from;
    if (!run->tried)
        return;
    bool failed = run->error.kind != ERROR_NONE;
    /* Told by its cause, or beside the rate of the way that a copy takes instead. */
    if (failed && facts->size_passing != 0)
        return;
    bool apart = failed && facts->through_ssh.tried;
    struct finding *finding = add_finding(findings, VERDICT_OK,
                                          apart ? "session over UDP"
                                          : to  ? "rate to expect there"
                                                : "rate to expect from there");
    if (failed) {
        finding->verdict = VERDICT_FAILED;
        finding->kind = run->error.kind;
        finding_say(finding, "a session of memory blocks failed: %.280s", run->error.text);
        finding_next(finding, "run it again; if it stays so, it is worth a report");
        return;
    }
    struct estimate estimate = estimate_rate(facts, to);
    char rate[24], rtt[24];
    const struct session_figures *sender = &run_of(facts, to)->sender;
    *(to ? &findings->expected_to_bps : &findings->expected_from_bps) = estimate.rate_bps;
    *(to ? &findings->limit_to : &findings->limit_from) = estimate.limit;
    if (estimate.rate_bps == 0) {
        say_unknown(finding, facts, run, to);
        return;
    }
    finding_say(finding, "%s, limited by %s (%s%.1f %% lost in this short run, round trip %s)",
                format_byte_rate(rate, sizeof(rate), estimate.rate_bps), estimate.limit,
                to ? "" : "disks not counted; ",
                sender->packets_sent > 0
                    ? 100.0 * (double)sender->packets_lost / (double)sender->packets_sent
                    : 0,
                format_time(rtt, sizeof(rtt), sender->rtt_ns));
    if (estimate.rate_bps < DOCTOR_RATE_SMALL_BPS && strcmp(estimate.limit, "the path") == 0) {
        finding->verdict = VERDICT_SLOW;
        finding_next(finding,
                     "the path carries no more: compare with what the line should give, and "
                     "look for other traffic on it");
    }
}

static void judge_drops(const struct doctor_facts *facts, struct findings *findings)
{
    const struct session_figures *to = &facts->to.sender, *from = &facts->from.receiver;
    uint64_t drops = to->receiver_drops + from->receiver_drops;
    uint64_t packets = to->packets_sent + facts->from.sender.packets_sent;
    if (packets == 0 || (double)drops < DROPS_SMALL * (double)packets)
        return;
    struct finding *finding = add_finding(findings, VERDICT_SLOW, "receiving sockets");
    finding_say(finding, "%llu of %llu packets were dropped by a receiver's own full socket",
                (unsigned long long)drops, (unsigned long long)packets);
    bool there = to->receiver_drops >= from->receiver_drops;
    unsigned granted = there ? facts->far.receive_buffer : facts->near.receive_buffer;
    if (granted >= UDP_RECEIVE_WANTED)
        finding_next(finding,
                     "its buffer is as large as petrel wants it: the processor %s was too busy to "
                     "empty it; stop what else runs there, or copy with --limit",
                     there ? "there" : "here");
    else
        finding_next(finding, "%s%s: sudo sysctl -w" UDP_RECEIVE_HINT ", or a less busy processor",
                     there ? "on " : "here", there ? facts->host : "");
}

static void judge_ssh_rate(const struct doctor_facts *facts, struct findings *findings)
{
    const struct doctor_run *run = &facts->through_ssh;
    if (!run->tried)
        return;
    char rate[24];
    struct finding *finding = add_finding(findings, VERDICT_SLOW, "rate to expect there");
    if (run->error.kind != ERROR_NONE) {
        finding->verdict = VERDICT_UNKNOWN;
        finding_say(finding, "unknown: %.300s", run->error.text);
        return;
    }
    if (run->sender.sustained_bps == 0) {
        say_unknown(finding, facts, run, true);
        return;
    }
    struct estimate estimate = {run->sender.sustained_bps, "the SSH channel"};
    hold_to(&estimate, facts->source.speed.rate_bps, "the disk here");
    hold_to(&estimate, facts->destination.speed.rate_bps, "the disk there");
    findings->expected_to_bps = estimate.rate_bps;
    findings->limit_to = estimate.limit;
    finding_say(finding, "%s without UDP, limited by %s",
                format_byte_rate(rate, sizeof(rate), estimate.rate_bps), estimate.limit);
    finding_next(finding, "UDP would be faster: see its line above");
}

void judge_rate(const struct doctor_facts *facts, struct findings *findings)
{
    judge_drops(facts, findings);
    judge_direction(facts, true, findings);
    judge_direction(facts, false, findings);
    judge_ssh_rate(facts, findings);
}
