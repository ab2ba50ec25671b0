/* What facts mean, for facts that are hard to plant between two hosts. */
#include "unit.h"

#include <errno.h>

#include "base/units.h"
#include "cli/measure/doctor_judge.h"
#include "cli/report/exit_code.h"

static struct machine_facts good_machine(void)
{
    return (struct machine_facts){.system = "Linux 6.1",
                                  .cores = 4,
                                  .aes_hardware = true,
                                  .sealing = "AES-256-GCM by openssl",
                                  .sealing_bps = 1000000000,
                                  .receive_buffer = 64u << 20,
                                  .send_buffer = 16u << 20,
                                  .segmentation = true,
                                  .coalescing = true};
}

static struct session_figures figures(uint64_t rate_bps, uint16_t datagram)
{
    return (struct session_figures){.started = true,
                                    .sustained_bps = rate_bps,
                                    .seconds = 2,
                                    .cpu_seconds = 0.1,
                                    .packets_sent = 10000,
                                    .path_ns = NS_PER_S,
                                    .datagram_bytes = datagram,
                                    .segmentation = true,
                                    .coalescing = true};
}

static void all_is_well(struct doctor_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    static const struct ssh_options plain;
    facts->host = "server";
    facts->ssh = &plain;
    facts->first_port = 60000;
    facts->last_port = 60009;
    facts->has_far = true;
    snprintf(facts->far_version, sizeof(facts->far_version), "1");
    facts->near = facts->far = good_machine();
    facts->target_count = 1;
    facts->targets[0].address = (struct address){.family = 4, .bytes = {192, 0, 2, 7}};
    assert_true(port_set_parse(&facts->echo.opened, "60000-60009"));
    facts->targets[0].answered = facts->arrivals.arrived4 = facts->echo.opened;
    facts->targets[0].answered_at_once = 10;
    facts->chosen_port = 60000;
    facts->loss = (struct probe_loss){
        .sent = 800, .answered = 800, .rtt_min_ns = 20 * NS_PER_MS, .rtt_mean_ns = 21 * NS_PER_MS};
    facts->arrivals.loss_arrived = 800;
    facts->interface_mtu = 1500;
    facts->size_both.answered = 1;
    facts->to.tried = facts->from.tried = true;
    facts->to.sender = facts->to.receiver = figures(800000000, 1472);
    facts->from.sender = facts->from.receiver = figures(400000000, 1472);
}

/* The only finding that is not "ok"; fails when there is another. */
static const struct finding *only_bad(const struct findings *findings)
{
    const struct finding *bad = NULL;
    for (unsigned i = 0; i < findings->count; i++) {
        const struct finding *one = &findings->list[i];
        if (one->verdict == VERDICT_OK)
            continue;
        if (bad != NULL)
            fail_msg("%s: %s; and %s: %s", bad->name, bad->text, one->name, one->text);
        bad = one;
    }
    assert_non_null(bad);
    return bad;
}

static void expect(const struct doctor_facts *facts, const char *name, enum verdict verdict,
                   const char *says, const char *next)
{
    struct findings findings;
    doctor_judge(facts, &findings);
    const struct finding *bad = only_bad(&findings);
    assert_string_equal(bad->name, name);
    assert_int_equal(bad->verdict, verdict);
    if (strstr(bad->text, says) == NULL || strstr(bad->next, next) == NULL)
        fail_msg("%s: %s; next: %s", name, bad->text, bad->next);
}

static void test_all_is_well(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    doctor_judge(&facts, &findings);
    for (unsigned i = 0; i < findings.count; i++)
        assert_int_equal(findings.list[i].verdict, VERDICT_OK);
    assert_int_equal(findings_exit_code(&findings), EXIT_OK);
    assert_int_equal(findings.expected_to_bps, 800000000);
    assert_int_equal(findings.expected_from_bps, 400000000);
    assert_string_equal(findings.limit_to, "the path");
}

static void test_a_hole_that_is_told(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    facts.size_both = (struct probe_size){.sent = 5};
    facts.size_there = (struct probe_size){.sent = 5, .refusal = {.icmp_mtu = 1420}};
    facts.to.sender.datagram_bytes = 1392;
    doctor_judge(&facts, &findings);
    bool found = false;
    for (unsigned i = 0; i < findings.count; i++) {
        assert_int_equal(findings.list[i].verdict, VERDICT_OK);
        found |= strstr(findings.list[i].text, "at most 1420, and says so by ICMP") != NULL;
    }
    assert_true(found);
    facts.size_there.refusal.icmp_mtu = 0;
    expect(&facts, "packet size", VERDICT_SLOW, "black hole", "MTU to 1420");
}

static void test_jump_host(void **state)
{
    (void)state;
    struct doctor_facts facts;
    all_is_well(&facts);
    facts.target_count = 0;
    facts.chosen = -1;
    facts.to.tried = facts.from.tried = false;
    expect(&facts, "UDP", VERDICT_FAILED, "jump host", "");
}

static void test_why_udp_is_silent(void **state)
{
    (void)state;
    static const struct {
        int local_errno, icmp_errno;
        bool arrives;
        uint8_t from; /* the last byte of who sent it */
        bool own;
        const char *says, *next;
    } cases[] = {
        {0, 0, false, 0, false, "nothing arrives there", "ufw allow 60000:60009/udp"},
        {0, 0, true, 0, false, "no answer comes back", "udp sport 60000-60009"},
        {0, ECONNREFUSED, false, 7, false, "192.0.2.7 sent ICMP port unreachable", "firewall-cmd"},
        {0, EACCES, false, 7, false, "administratively prohibited", "nft insert rule"},
        {0, EHOSTUNREACH, false, 7, false, "host unreachable", "open UDP"},
        {0, ECONNREFUSED, false, 1, false, "192.0.2.1, in between, sent ICMP port unreachable",
         "ask who runs 192.0.2.1"},
        {0, ECONNREFUSED, false, 3, true, "rule on this machine", "output udp dport"},
        {EPERM, EHOSTUNREACH, false, 3, true, "rule on this machine", "output udp dport"},
        {0, EHOSTUNREACH, false, 3, true, "this machine itself, 192.0.2.3, says host unreachable",
         "ip route get 192.0.2.7"},
        {EPERM, 0, false, 0, false, "rule on this machine", "output udp dport"},
        {ENETUNREACH, 0, false, 0, false, "nothing can be sent from here",
         "ip route get 192.0.2.7"},
        /* What comes back says more than what could not leave once. */
        {EPERM, ECONNREFUSED, false, 7, false, "sent ICMP", "open UDP"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct doctor_facts facts;
        struct findings findings;
        all_is_well(&facts);
        memset(&facts.targets[0].answered, 0, sizeof(facts.targets[0].answered));
        if (!cases[i].arrives)
            memset(&facts.arrivals, 0, sizeof(facts.arrivals));
        facts.targets[0].refusal =
            (struct probe_refusal){.local_errno = cases[i].local_errno,
                                   .icmp_errno = cases[i].icmp_errno,
                                   .icmp_is_own = cases[i].own,
                                   .icmp_from = {.family = 4, .bytes = {192, 0, 2, cases[i].from}}};
        facts.chosen = -1;
        facts.to.tried = facts.from.tried = false;
        expect(&facts, "UDP 192.0.2.7", VERDICT_FAILED, cases[i].says, cases[i].next);
        doctor_judge(&facts, &findings);
        assert_int_equal(findings_exit_code(&findings), EXIT_UNREACHABLE);
    }
}

/* On a path that loses packets some ports seem closed: no cause for alarm. */
static void test_a_few_ports_by_chance(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    facts.last_port = 60099;
    assert_true(port_set_parse(&facts.echo.opened, "60000-60099"));
    assert_true(port_set_parse(&facts.targets[0].answered, "60000-60049,60053-60099"));
    doctor_judge(&facts, &findings);
    for (unsigned i = 0; i < findings.count; i++)
        assert_int_equal(findings.list[i].verdict, VERDICT_OK);
    assert_true(port_set_parse(&facts.targets[0].answered, "60000-60049"));
    expect(&facts, "UDP 192.0.2.7", VERDICT_SLOW,
           "60000-60049 of 60000-60099 answer: a copy begins", "--udp-ports 60000-60049,");
    assert_true(port_set_parse(&facts.targets[0].answered, "60010,60020-60049"));
    expect(&facts, "UDP 192.0.2.7", VERDICT_SLOW, "look for an open one first",
           "--udp-ports 60020-60049,");
    facts.chosen = -1;
    facts.to.tried = facts.from.tried = false;
    expect(&facts, "UDP 192.0.2.7", VERDICT_FAILED, "goes through ssh", "--udp-ports 60020-60049,");
}

static void test_the_processor_is_the_limit(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    facts.to.sender.processor_ns = 2 * NS_PER_S;
    facts.to.sender.cpu_seconds = 1.9;
    facts.from.sender.credit_ns = 2 * NS_PER_S;
    facts.from.receiver.cpu_seconds = 1.9;
    doctor_judge(&facts, &findings);
    assert_string_equal(findings.limit_to, "this machine's processor");
    assert_string_equal(findings.limit_from, "this machine's processor");
    facts.to.sender.cpu_seconds = 0.1; /* late, but not for want of a processor */
    doctor_judge(&facts, &findings);
    assert_string_equal(findings.limit_to, "the path");
}

static void test_drops_at_a_receiver(void **state)
{
    (void)state;
    struct doctor_facts facts;
    all_is_well(&facts);
    facts.to.sender.receiver_drops = 500;
    expect(&facts, "receiving sockets", VERDICT_SLOW, "500 of 20000", "too busy to empty it");
    facts.far.receive_buffer = 8u << 20; /* no fault by itself */
    expect(&facts, "receiving sockets", VERDICT_SLOW, "500 of 20000",
           "on server: sudo sysctl -w net.core.rmem_max");
}

static void test_slow_ssh_and_failed_sessions(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    facts.ssh_ns = 8 * NS_PER_S;
    expect(&facts, "SSH", VERDICT_SLOW, "8.0 s", "ssh server true, with -v");
    /* What starts after the login is not ssh's fault. */
    facts.login_ns = NS_PER_S;
    expect(&facts, "petrel there", VERDICT_SLOW, "7.0 s after the login", "start-up files");
    facts.ssh_ns = NS_PER_S;
    error_set(&facts.to.error, ERROR_PEER_LOST, "the far end fell silent");
    expect(&facts, "rate to expect there", VERDICT_FAILED, "fell silent", "again");
    doctor_judge(&facts, &findings);
    assert_int_equal(findings_exit_code(&findings), EXIT_TIMEOUT);
    assert_int_equal(findings.expected_to_bps, 0);
}

/* What can be pasted reaches the host in the way that the user has named. */
static void test_advice_keeps_the_options_for_ssh(void **state)
{
    (void)state;
    struct doctor_facts facts;
    const char *words[] = {"-F", "my config", "-J", "gate"};
    struct ssh_options ssh = {.port = "2222", .passed = {words, 4}};
    memset(&facts, 0, sizeof(facts));
    facts.host = "server";
    facts.ssh = &ssh;
    facts.near = good_machine();
    facts.chosen = -1;
    error_set(&facts.start_error, ERROR_SSH, "refused");
    expect(&facts, "SSH", VERDICT_FAILED, "refused",
           "ssh -p 2222 -F 'my config' -J gate server true");
    error_clear(&facts.start_error);
    facts.login_ns = NS_PER_S / 10;
    facts.ssh_ns = 20 * NS_PER_S;
    facts.fault = SSH_FAULT_ABSENT;
    error_set(&facts.start_error, ERROR_NO_REMOTE, "there is no petrel");
    expect(&facts, "petrel there", VERDICT_FAILED, "no petrel",
           "petrel install -P 2222 -F 'my config' -J gate server");
    facts.fault = SSH_FAULT_HELD;
    expect(&facts, "petrel there", VERDICT_FAILED, "no petrel",
           "ssh -p 2222 -F 'my config' -J gate server petrel version: if");
    facts.fault = SSH_FAULT_PASSWORD;
    expect(&facts, "petrel there", VERDICT_FAILED, "no petrel", "NOPASSWD");
    facts.fault = SSH_FAULT_OTHER;
    error_clear(&facts.start_error);
    error_set(&facts.start_error, ERROR_PEER, "it is odd");
    expect(&facts, "petrel there", VERDICT_FAILED, "odd",
           "ssh -p 2222 -F 'my config' -J gate server petrel version");
}

static void test_too_small_for_a_session(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    facts.size_both = facts.size_there = (struct probe_size){.sent = 5};
    facts.size_passing = 1000;
    memset(&facts.to, 0, sizeof(facts.to));
    memset(&facts.from, 0, sizeof(facts.from));
    facts.to.tried = facts.through_ssh.tried = true;
    error_set(&facts.to.error, ERROR_UNREACHABLE, "no answer");
    facts.through_ssh.sender = figures(300000000, 0);
    doctor_judge(&facts, &findings);
    bool found = false;
    for (unsigned i = 0; i < findings.count; i++) {
        const struct finding *one = &findings.list[i];
        bool size = strcmp(one->name, "packet size") == 0;
        found |= size && strstr(one->text, "over about 1000 bytes vanish on the way there") != NULL;
        assert_true(one->verdict == (size ? VERDICT_FAILED : VERDICT_OK) ||
                    strcmp(one->name, "rate to expect there") == 0);
    }
    assert_true(found);
    assert_int_equal(findings_exit_code(&findings), EXIT_UNREACHABLE);
    assert_int_equal(findings.expected_to_bps, 300000000);
    assert_string_equal(findings.limit_to, "the SSH channel");
}

static void test_nothing_was_verified(void **state)
{
    (void)state;
    struct doctor_facts facts;
    all_is_well(&facts);
    facts.to.sender.sustained_bps = facts.to.receiver.sustained_bps = 0;
    facts.destination.tried = true;
    facts.destination.speed.rate_bps = 40000000;
    expect(&facts, "rate to expect there", VERDICT_UNKNOWN,
           "5.00 MB/s, which is what the disk there", "--time");
}

static void test_the_rate_with_the_disks_at_work(void **state)
{
    (void)state;
    struct doctor_facts facts;
    struct findings findings;
    all_is_well(&facts);
    facts.source.tried = facts.destination.tried = facts.with_disks.tried = true;
    facts.source.speed.rate_bps = 3000000000;
    facts.destination.speed.rate_bps = 900000000;
    facts.with_disks.sender = facts.with_disks.receiver = figures(600000000, 1472);
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.expected_to_bps, 600000000);
    assert_string_equal(findings.limit_to, "the path");
    facts.with_disks.sender.credit_ns = 2 * NS_PER_S;
    facts.with_disks.receiver.cpu_seconds = 1.9;
    facts.destination.speed.rate_bps = 2000000000;
    doctor_judge(&facts, &findings);
    assert_string_equal(findings.limit_to, "the processor there");
    facts.destination.speed.rate_bps = 800000000;
    doctor_judge(&facts, &findings);
    assert_string_equal(findings.limit_to, "the disk there");
    facts.with_disks.sender.credit_ns = 0;
    facts.with_disks.sender.source_ns = 2 * NS_PER_S;
    facts.source.speed.rate_bps = 800000000;
    doctor_judge(&facts, &findings);
    assert_string_equal(findings.limit_to, "the disk here");
    /* A session that failed says nothing: what each can do alone does. */
    error_set(&facts.with_disks.error, ERROR_IO, "it broke");
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.expected_to_bps, 800000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_well),
        cmocka_unit_test(test_a_hole_that_is_told),
        cmocka_unit_test(test_jump_host),
        cmocka_unit_test(test_why_udp_is_silent),
        cmocka_unit_test(test_a_few_ports_by_chance),
        cmocka_unit_test(test_the_processor_is_the_limit),
        cmocka_unit_test(test_drops_at_a_receiver),
        cmocka_unit_test(test_advice_keeps_the_options_for_ssh),
        cmocka_unit_test(test_the_rate_with_the_disks_at_work),
        cmocka_unit_test(test_slow_ssh_and_failed_sessions),
        cmocka_unit_test(test_too_small_for_a_session),
        cmocka_unit_test(test_nothing_was_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
