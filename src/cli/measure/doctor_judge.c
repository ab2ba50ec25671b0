#include "cli/measure/doctor_judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/report/exit_code.h"
#include "cli/start/install_offer.h"
#include "cli/start/shell_words.h"
#include "cli/version.h"
#include "net/udp.h"

#define SSH_SLOW_NS (5 * NS_PER_S)
#define APART_NS (100 * NS_PER_MS) /* what the end of a login is seen by, at best */

const char *const verdict_names[VERDICT_COUNT] = {[VERDICT_OK] = "ok",
                                                  [VERDICT_SLOW] = "slow",
                                                  [VERDICT_FAILED] = "failed",
                                                  [VERDICT_UNKNOWN] = "unknown"};

struct finding *add_finding(struct findings *findings, enum verdict verdict, const char *format,
                            ...)
{
    unsigned at = findings->count < FINDINGS_MAX ? findings->count++ : FINDINGS_MAX - 1;
    struct finding *finding = &findings->list[at];
    *finding = (struct finding){.verdict = verdict,
                                .kind = verdict == VERDICT_FAILED ? ERROR_IO : ERROR_NONE};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->name, sizeof(finding->name), format, arguments);
    va_end(arguments);
    return finding;
}

void finding_say(struct finding *finding, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof(finding->text), format, arguments);
    va_end(arguments);
}

void finding_add(struct finding *finding, const char *format, ...)
{
    size_t length = strlen(finding->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text + length, sizeof(finding->text) - length, format, arguments);
    va_end(arguments);
}

void finding_next(struct finding *finding, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->next, sizeof(finding->next), format, arguments);
    va_end(arguments);
}

char *command_there(char *text, const struct doctor_facts *facts, const char *command)
{
    return ssh_command_text(text, FINDING_COMMAND_MAX, facts->ssh, facts->host, command);
}

/* ---- ssh and the program there ---- */

static void judge_ssh(const struct doctor_facts *facts, struct findings *findings)
{
    char time[24], login[24], command[FINDING_COMMAND_MAX];
    const struct error *error = &facts->start_error;
    bool failed = error->kind == ERROR_SSH || error->kind == ERROR_INTERRUPTED;
    struct finding *finding = add_finding(findings, VERDICT_OK, "SSH");
    format_time(time, sizeof(time), facts->ssh_ns);
    if (failed) {
        finding->verdict = VERDICT_FAILED;
        finding->kind = error->kind;
        finding_say(finding, "%.300s", error->text);
        finding_next(finding, "petrel needs a login that works: %s",
                     command_there(command, facts, "true"));
        return;
    }
    if (error->kind != ERROR_NONE && facts->login_ns == 0) {
        finding->verdict = VERDICT_UNKNOWN;
        finding_say(finding, "nothing was heard in %s, of a login or of what runs after it", time);
        finding_next(finding, "see how far it gets: %s, with -v",
                     command_there(command, facts, "true"));
        return;
    }
    uint64_t login_ns = facts->login_ns != 0 ? facts->login_ns : facts->ssh_ns;
    bool apart = facts->ssh_ns > login_ns + APART_NS, good = error->kind == ERROR_NONE;
    format_time(login, sizeof(login), login_ns);
    finding_say(finding, "%s%s%s%s%s", apart || !good ? login : "",
                apart || !good ? " until the login was over" : "", apart && good ? ", " : "",
                good ? time : "", good ? " until petrel there answered" : "");
    if (facts->ssh_reused)
        finding_add(finding, ", by a connection that was kept open");
    if (login_ns >= SSH_SLOW_NS) {
        finding->verdict = VERDICT_SLOW;
        finding_next(finding,
                     "see where it waits: %s, with -v (often names: UseDNS in sshd_config, or a "
                     "slow login script)",
                     command_there(command, facts, "true"));
    }
}

static void judge_program(const struct doctor_facts *facts, struct findings *findings)
{
    const struct error *error = &facts->start_error;
    if (error->kind == ERROR_SSH || error->kind == ERROR_INTERRUPTED)
        return;
    char time[24], command[FINDING_COMMAND_MAX];
    struct finding *finding = add_finding(findings, VERDICT_OK, "petrel there");
    if (error->kind == ERROR_NONE) {
        bool same = strcmp(facts->far_version, PETREL_VERSION) == 0;
        uint64_t start_ns = facts->login_ns != 0 ? facts->ssh_ns - facts->login_ns : 0;
        finding_say(finding, "version %s%s%s", facts->far_version, same ? "" : ", here ",
                    same ? "" : PETREL_VERSION);
        if (start_ns < SSH_SLOW_NS)
            return;
        finding->verdict = VERDICT_SLOW;
        finding_say(finding, "version %s answered %s after the login", facts->far_version,
                    format_time(time, sizeof(time), start_ns));
        finding_next(finding, "see what the start-up files of the shell there wait for: %s",
                     command_there(command, facts, "true"));
        return;
    }
    finding->verdict = VERDICT_FAILED;
    finding->kind = error->kind;
    finding_say(finding, "%.340s", error->text);
    bool held = facts->fault == SSH_FAULT_HELD;
    if (facts->fault == SSH_FAULT_PASSWORD) {
        finding_next(finding, "let it start without one: NOPASSWD for petrel in sudoers there");
    } else if (error->kind == ERROR_VERSION || (error->kind == ERROR_NO_REMOTE && !held)) {
        finding_next(finding, "%s",
                     install_command_text(command, sizeof(command), facts->ssh, facts->host));
    } else {
        const char *named = facts->ssh->remote_petrel;
        char version[120];
        snprintf(version, sizeof(version), "%.100s version", named != NULL ? named : "petrel");
        finding_next(finding, "%s%s", command_there(command, facts, version),
                     !held           ? ""
                     : named != NULL ? ": what --remote-petrel names has to run petrel there, and "
                                       "the shell's start-up files must not end or wait"
                                     : ": if that says no version, a start-up file of the shell "
                                       "there (.bashrc, .profile) or a forced command ends or "
                                       "waits before petrel runs");
    }
}

/* ---- the two machines ---- */

static void judge_processor(const struct machine_facts *machine, const char *where,
                            struct findings *findings)
{
    char sealing[24], hashing[24];
    struct finding *finding = add_finding(findings, VERDICT_OK, "processor %s", where);
    finding_say(finding, "%u core%s, %s at %s a core, BLAKE3 at %s%s%s", machine->cores,
                machine->cores == 1 ? "" : "s", machine->sealing,
                format_bit_rate(sealing, sizeof(sealing), machine->sealing_bps),
                format_bit_rate(hashing, sizeof(hashing), machine->hashing_bps),
                machine->features[0] != '\0' ? "; has " : "", machine->features);
    if (machine->aes_hardware)
        return;
    finding->verdict = VERDICT_SLOW;
    finding_say(finding, "no AES instructions %s: %s at %s a core on both sides", where,
                machine->sealing, format_bit_rate(sealing, sizeof(sealing), machine->sealing_bps));
    finding_next(finding,
                 "a virtual machine can be given the host's own processor type; else it is "
                 "as it is");
}

/* Offload may be offered and fail in use: a session that ran knows better. */
static void judge_offload(const struct doctor_facts *facts, bool here, struct findings *findings)
{
    const struct machine_facts *machine = here ? &facts->near : &facts->far;
    const char *where = here ? "here" : "there";
    const struct session_figures *sent = here ? &facts->to.sender : &facts->from.sender;
    const struct session_figures *received = here ? &facts->from.receiver : &facts->to.receiver;
    bool segmentation = machine->segmentation && (!sent->started || sent->segmentation);
    bool coalescing = machine->coalescing && (!received->started || received->coalescing);
    bool good = segmentation && coalescing;
    struct finding *finding =
        add_finding(findings, good ? VERDICT_OK : VERDICT_SLOW, "offload %s", where);
    if (good) {
        finding_say(finding, "packets go out and come in as trains (UDP GSO and GRO)");
        return;
    }
    finding_say(finding, "no%s%s: each packet costs a call of its own",
                segmentation ? "" : " UDP GSO", coalescing ? "" : " UDP GRO");
    if (machine->segmentation && machine->coalescing)
        finding_next(finding,
                     "it is offered %s and fails in use; petrel does without by itself: the "
                     "network driver is to blame (ethtool -K DEVICE tx-udp-segmentation off)",
                     where);
    else
        finding_next(finding, "a newer kernel %s (%s): GSO came with 4.18, sound GRO with 5.12",
                     where, machine->system);
}

static void judge_buffers(const struct machine_facts *machine, const char *where, const char *host,
                          struct findings *findings)
{
    char receive[24], send[24];
    bool small =
        machine->receive_buffer < UDP_BUFFER_SMALL || machine->send_buffer < UDP_BUFFER_SMALL;
    struct finding *finding =
        add_finding(findings, small ? VERDICT_SLOW : VERDICT_OK, "socket buffers %s", where);
    finding_say(finding, "%s to receive, %s to send%s",
                format_size(receive, sizeof(receive), machine->receive_buffer),
                format_size(send, sizeof(send), machine->send_buffer),
                small ? ": small for fast or long paths" : "");
    if (small)
        finding_next(finding, "%s%s%ssudo sysctl -w%s%s", host != NULL ? "on " : "",
                     host != NULL ? host : "", host != NULL ? ": " : "",
                     machine->receive_buffer < UDP_BUFFER_SMALL ? UDP_RECEIVE_HINT : "",
                     machine->send_buffer < UDP_BUFFER_SMALL ? UDP_SEND_HINT : "");
}

static void judge_machine(const struct doctor_facts *facts, bool here, struct findings *findings)
{
    const struct machine_facts *machine = here ? &facts->near : &facts->far;
    const char *where = here ? "here" : "there";
    judge_processor(machine, where, findings);
    judge_offload(facts, here, findings);
    judge_buffers(machine, where, here ? NULL : facts->host, findings);
}

/* ---- disks ---- */

static void judge_disk(const struct doctor_disk *disk, bool source, uint64_t path_bps,
                       const char *host, struct findings *findings)
{
    char rate[24], room[24];
    if (!disk->tried)
        return;
    struct finding *finding =
        add_finding(findings, VERDICT_OK, source ? "disk here" : "disk there");
    if (disk->error.kind != ERROR_NONE) {
        finding->verdict = VERDICT_FAILED;
        finding->kind = disk->error.kind;
        finding_say(finding, "%.340s", disk->error.text);
        finding_next(finding, source ? "name another place with --source"
                                     : "name another place with --destination");
        return;
    }
    format_byte_rate(rate, sizeof(rate), disk->speed.rate_bps);
    if (source)
        finding_say(finding, "reads from %s at %s%s", disk->speed.path, rate,
                    disk->speed.cached ? " (perhaps out of the page cache)" : "");
    else
        finding_say(finding, "writes into %s at %s, with %s free", disk->speed.path, rate,
                    format_size(room, sizeof(room), disk->speed.free_bytes));
    if (path_bps == 0 || disk->speed.rate_bps >= path_bps)
        return;
    finding->verdict = VERDICT_SLOW;
    finding_add(finding, ": slower than the path, which carries %s",
                format_byte_rate(room, sizeof(room), path_bps));
    if (source)
        finding_next(finding, "a copy goes at the disk's pace; read from a faster one if there is");
    else
        finding_next(finding,
                     "a copy goes at the disk's pace; write to a faster one of %s if there "
                     "is",
                     host);
}

/* ---- all of it ---- */

static void judge_rest(const struct doctor_facts *facts, struct findings *findings)
{
    if (facts->far_error.kind == ERROR_NONE)
        return;
    struct finding *finding = add_finding(findings, VERDICT_FAILED, "talk with %s", facts->host);
    finding->kind = facts->far_error.kind;
    finding_say(finding, "%.340s", facts->far_error.text);
    finding_next(finding, "run it again; what stands above holds");
}

void doctor_judge(const struct doctor_facts *facts, struct findings *findings)
{
    memset(findings, 0, sizeof(*findings));
    judge_ssh(facts, findings);
    judge_program(facts, findings);
    if (facts->has_far) {
        judge_udp(facts, findings);
        judge_path(facts, findings);
    }
    judge_machine(facts, true, findings);
    if (facts->has_far)
        judge_machine(facts, false, findings);
    uint64_t path_bps = !facts->through_ssh.tried ? facts->to.receiver.sustained_bps
                                                  : facts->through_ssh.sender.sustained_bps;
    judge_disk(&facts->source, true, path_bps, facts->host, findings);
    judge_disk(&facts->destination, false, path_bps, facts->host, findings);
    judge_rate(facts, findings);
    judge_rest(facts, findings);
}

int findings_exit_code(const struct findings *findings)
{
    for (unsigned i = 0; i < findings->count; i++) {
        if (findings->list[i].verdict == VERDICT_FAILED)
            return exit_code_of(findings->list[i].kind);
    }
    return EXIT_OK;
}
