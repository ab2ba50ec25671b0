/* Named scenarios of a whole session in virtual time: each a path, a mishap, how it may end, and
 * the share of what the path allows that it must reach. `sim_scenarios [name...]` runs some or all;
 * with --trace the events of one are printed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim_case.h"

#define MBIT UINT64_C(1000000)
#define GBIT UINT64_C(1000000000)
#define MS NS_PER_MS
#define S NS_PER_S

struct scenario {
    const char *name;
    uint64_t rate_bps, rtt_ns;
    uint32_t blocks, length; /* 0: 64 of about 250,000 bytes */
    unsigned share;          /* percent of rate x (1 - loss) that the goodput must reach; 0: any */
    void (*shape)(struct sim_case *c);
    /* Further demands on the outcome: NULL when they are met. */
    const char *(*check)(const struct sim_outcome *outcome);
};

/* ---- loss, order, delay ---- */

static void loss_both(struct sim_case *c, uint32_t share)
{
    c->world.links[0].loss = share;
    c->world.links[1].loss = share;
}

static void loss_1(struct sim_case *c)
{
    c->world.links[0].loss = SIM_SHARE(1);
}

static void loss_5(struct sim_case *c)
{
    c->world.links[0].loss = SIM_SHARE(5);
}

static void loss_10(struct sim_case *c)
{
    c->world.links[0].loss = SIM_SHARE(10);
}

static void loss_30(struct sim_case *c)
{
    c->world.links[0].loss = SIM_SHARE(30);
}

static void loss_10_both(struct sim_case *c)
{
    loss_both(c, SIM_SHARE(10));
}

static void loss_30_both(struct sim_case *c)
{
    loss_both(c, SIM_SHARE(30));
}

static void loss_30_of_acks(struct sim_case *c)
{
    c->world.links[1].loss = SIM_SHARE(30);
}

static void pull_loss_5(struct sim_case *c)
{
    sim_case_pull(c);
    loss_both(c, SIM_SHARE(5));
}

static void bursts(struct sim_case *c)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].burst_enter = SIM_SHARE(0.5);
        c->world.links[i].burst_leave = SIM_SHARE(10);
        c->world.links[i].burst_loss = SIM_SHARE(90);
    }
}

static void correlated(struct sim_case *c)
{
    c->world.links[0].loss = SIM_SHARE(5);
    c->world.links[0].loss_repeat = SIM_SHARE(25);
}

static void reorder(struct sim_case *c)
{
    c->world.links[0].reorder = SIM_SHARE(10);
    c->world.links[0].reorder_ns = 10 * MS;
}

static void duplicates(struct sim_case *c)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].duplicate = SIM_SHARE(20);
    }
}

static void jitter(struct sim_case *c)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].jitter_ns = 8 * MS;
    }
}

static void jitter_and_reorder(struct sim_case *c)
{
    jitter(c);
    reorder(c);
}

/* ---- capacity ---- */

static void shallow_queue(struct sim_case *c)
{
    c->world.links[0].queue_bytes /= 10;
}

static void policer(struct sim_case *c)
{
    c->world.links[0].policer_bps = 50 * MBIT;
    c->world.links[0].policer_burst_bytes = 60000;
}

static void rate_drops(struct sim_case *c)
{
    sim_link_change(&c->world.links[0], 1 * S, SIM_CHANGE_RATE, 20 * MBIT);
}

static void rate_rises(struct sim_case *c)
{
    c->world.links[0].rate_bps = 20 * MBIT;
    sim_link_change(&c->world.links[0], 2 * S, SIM_CHANGE_RATE, 100 * MBIT);
}

static void slow_ack_path(struct sim_case *c)
{
    c->world.links[1].rate_bps = 1 * MBIT;
    c->world.links[1].queue_bytes = 60000;
}

static void slow_disk(struct sim_case *c)
{
    c->blocks.disk_bps = 20 * MBIT;
    c->blocks.buffers = 8;
}

static void slow_source(struct sim_case *c)
{
    c->blocks.source_bps = 20 * MBIT;
}

static void one_buffer(struct sim_case *c)
{
    c->blocks.buffers = 1;
}

/* ---- outages ---- */

static void outage_5(struct sim_case *c)
{
    sim_case_outage(c, 1 * S, 5 * S);
}

static void outage_60(struct sim_case *c)
{
    sim_case_outage(c, 1 * S, 60 * S);
}

/* Longer than the idle timeout of 90 s. */
static void outage_100(struct sim_case *c)
{
    sim_case_outage(c, 1 * S, 100 * S);
    c->allowed[SENDER] = c->allowed[RECEIVER] = ENDS_WITH(ERROR_PEER_LOST);
}

static void short_outages(struct sim_case *c)
{
    for (uint64_t i = 1; i <= 4; i++) {
        sim_case_outage(c, i * S, 300 * MS);
    }
}

static void one_way_outage(struct sim_case *c)
{
    sim_link_change(&c->world.links[1], 1 * S, SIM_CHANGE_UP, 0);
    sim_link_change(&c->world.links[1], 4 * S, SIM_CHANGE_UP, 1);
    c->world.good_from_ns = 4 * S;
}

/* ---- MTU ---- */

static void mtu(struct sim_case *c, uint32_t bytes, uint32_t interface_mtu)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].mtu = bytes;
        c->world.hosts[i].interface_mtu = interface_mtu;
    }
}

static void mtu_1280(struct sim_case *c)
{
    mtu(c, 1280, 1500);
}

static void mtu_1400(struct sim_case *c)
{
    mtu(c, 1400, 1500);
}

static void mtu_1400_loss(struct sim_case *c)
{
    mtu(c, 1400, 1500);
    loss_both(c, SIM_SHARE(10));
}

static void mtu_1500(struct sim_case *c)
{
    mtu(c, 1500, 1500);
}

static void mtu_9000(struct sim_case *c)
{
    mtu(c, 9000, 9000);
}

static void mtu_9000_one_side(struct sim_case *c)
{
    mtu(c, 1500, 9000);
    c->world.hosts[RECEIVER].interface_mtu = 1500;
}

static void black_hole(struct sim_case *c)
{
    mtu(c, 1500, 1500);
    for (unsigned i = 0; i < 2; i++) {
        sim_link_change(&c->world.links[i], 500 * MS, SIM_CHANGE_MTU, 1300);
    }
}

static const char *size_is(const struct sim_outcome *outcome, unsigned size)
{
    return outcome->statistics[SENDER].datagram_size == size ? NULL : "another packet size";
}

static const char *size_1252(const struct sim_outcome *outcome)
{
    return size_is(outcome, 1280 - 28);
}

static const char *size_1372(const struct sim_outcome *outcome)
{
    return size_is(outcome, 1400 - 28);
}

static const char *size_1472(const struct sim_outcome *outcome)
{
    return size_is(outcome, 1500 - 28);
}

static const char *size_8972(const struct sim_outcome *outcome)
{
    return size_is(outcome, 9000 - 28);
}

/* ---- addresses and lanes ---- */

static void port_change(struct sim_case *c)
{
    sim_case_act(c, 600 * MS, SIM_REBIND_PORT, SENDER, 0);
}

static void port_change_pull(struct sim_case *c)
{
    sim_case_pull(c);
    sim_case_act(c, 600 * MS, SIM_REBIND_PORT, RECEIVER, 0);
}

static void address_change(struct sim_case *c)
{
    sim_case_act(c, 600 * MS, SIM_CHANGE_ADDRESS, SENDER, 0);
}

static void address_change_pull(struct sim_case *c)
{
    sim_case_pull(c);
    sim_case_act(c, 600 * MS, SIM_CHANGE_ADDRESS, RECEIVER, 0);
}

static void changes_and_loss(struct sim_case *c)
{
    loss_both(c, SIM_SHARE(10));
    for (unsigned i = 1; i <= 3; i++) {
        sim_case_act(c, i * 500 * MS, i % 2 ? SIM_REBIND_PORT : SIM_CHANGE_ADDRESS, SENDER, 0);
    }
}

static void lanes(struct sim_case *c, unsigned count)
{
    c->world.hosts[0].lanes = c->world.hosts[1].lanes = count;
}

static void lanes_4(struct sim_case *c)
{
    lanes(c, 4);
}

static void lanes_16(struct sim_case *c)
{
    lanes(c, 16);
}

static void lanes_16_loss(struct sim_case *c)
{
    lanes(c, 16);
    loss_both(c, SIM_SHARE(5));
}

static void lanes_pull(struct sim_case *c)
{
    lanes(c, 4);
    sim_case_pull(c);
}

static void lanes_late(struct sim_case *c)
{
    for (unsigned i = 1; i < 8; i++) {
        sim_case_act(c, i * 150 * MS, SIM_OPEN_LANE, SENDER, 0);
    }
}

static void dead_lane(struct sim_case *c)
{
    lanes(c, 4);
    sim_case_act(c, 500 * MS, SIM_CUT_LANE, SENDER, 2);
}

static void dead_lane_from_start(struct sim_case *c)
{
    lanes(c, 4);
    sim_case_act(c, 0, SIM_CUT_LANE, SENDER, 1);
}

static void first_lane_dies(struct sim_case *c)
{
    lanes(c, 4);
    sim_case_act(c, 500 * MS, SIM_CUT_LANE, SENDER, 0);
}

static void stream(struct sim_case *c)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.hosts[i].stream = true;
    }
}

static void stream_pull(struct sim_case *c)
{
    stream(c);
    sim_case_pull(c);
}

static void stream_slow_disk(struct sim_case *c)
{
    stream(c);
    slow_disk(c);
}

/* ---- ends ---- */

static void peer_vanishes(struct sim_case *c)
{
    sim_case_act(c, 700 * MS, SIM_VANISH, RECEIVER, 0);
    c->allowed[SENDER] = ENDS_WITH(ERROR_PEER_LOST);
    c->world.stall_ns = 0;
}

static void sender_vanishes(struct sim_case *c)
{
    sim_case_act(c, 700 * MS, SIM_VANISH, SENDER, 0);
    c->allowed[RECEIVER] = ENDS_WITH(ERROR_PEER_LOST);
    c->world.stall_ns = 0;
}

static void short_idle_timeout(struct sim_case *c)
{
    peer_vanishes(c);
    c->world.hosts[SENDER].idle_timeout_ns = 5 * S;
    c->world.limit_ns = 7 * S;
}

static void user_stops_sender(struct sim_case *c)
{
    sim_case_act(c, 700 * MS, SIM_ABORT, SENDER, 0);
    c->allowed[SENDER] = ENDS_WITH(ERROR_INTERRUPTED);
    c->allowed[RECEIVER] = ENDS_WITH(ERROR_INTERRUPTED); /* the reason travels */
    c->world.limit_ns = 10 * S;
}

static void user_stops_receiver(struct sim_case *c)
{
    sim_case_act(c, 700 * MS, SIM_ABORT, RECEIVER, 0);
    c->allowed[RECEIVER] = ENDS_WITH(ERROR_INTERRUPTED);
    c->allowed[SENDER] = ENDS_WITH(ERROR_INTERRUPTED);
    c->world.limit_ns = 10 * S;
}

static void no_server(struct sim_case *c)
{
    sim_case_act(c, 0, SIM_VANISH, RECEIVER, 0);
    c->allowed[SENDER] = ENDS_WITH(ERROR_UNREACHABLE);
    c->world.hosts[SENDER].open_timeout_ns = 3 * S;
    c->world.limit_ns = 4 * S;
}

static void udp_dropped(struct sim_case *c)
{
    sim_link_change(&c->world.links[0], 0, SIM_CHANGE_UP, 0);
    sim_link_change(&c->world.links[1], 0, SIM_CHANGE_UP, 0);
    c->allowed[SENDER] = c->allowed[RECEIVER] = ENDS_WITH(ERROR_UNREACHABLE);
    for (unsigned i = 0; i < 2; i++) {
        c->world.hosts[i].open_timeout_ns = 3 * S;
    }
    c->world.stall_ns = 0;
    c->world.limit_ns = 4 * S;
}

static void impostor(struct sim_case *c)
{
    c->world.hosts[RECEIVER].wrong_secret = true;
    c->allowed[SENDER] = c->allowed[RECEIVER] = ENDS_WITH(ERROR_UNREACHABLE);
    c->world.stall_ns = 0;
}

static void false_addresses(struct sim_case *c)
{
    c->world.hosts[SENDER].false_candidates = 3;
}

static void server_starts_late(struct sim_case *c)
{
    c->world.hosts[RECEIVER].start_ns = 1500 * MS;
}

static void version_ranges(struct sim_case *c)
{
    c->world.hosts[SENDER].version_min = 1;
    c->world.hosts[SENDER].version_max = 3;
}

static void no_common_version(struct sim_case *c)
{
    c->world.hosts[SENDER].version_min = 2;
    c->world.hosts[SENDER].version_max = 3;
    c->allowed[SENDER] = ENDS_WITH(ERROR_VERSION);
    c->allowed[RECEIVER] = ENDS_WITH(ERROR_VERSION);
}

static void chacha(struct sim_case *c)
{
    c->world.hosts[RECEIVER].no_aes = true;
    c->world.real_aead = true;
}

static void real_cipher(struct sim_case *c)
{
    c->world.real_aead = true;
}

/* ---- hostile and damaged ---- */

static void forged(struct sim_case *c)
{
    c->world.attacker.share = SIM_SHARE(20);
    c->world.attacker.spoof = true;
}

static void forged_flood(struct sim_case *c)
{
    c->world.attacker.share = SIM_SHARE(50);
    c->world.attacker.flood = 5;
    c->world.attacker.spoof = true;
}

static void forged_real_cipher(struct sim_case *c)
{
    forged(c);
    c->world.real_aead = true;
}

static void corrupted(struct sim_case *c)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].corrupt = SIM_SHARE(5);
    }
}

/* ---- small work ---- */

static void control_only(struct sim_case *c)
{
    c->blocks.count = 0;
    c->blocks.control_bytes = 1000000;
}

static void control_and_loss(struct sim_case *c)
{
    c->blocks.control_bytes = 1000000;
    loss_both(c, SIM_SHARE(10));
}

/* Credit counts blocks: small ones need many to fill the path. */
static void many_buffers(struct sim_case *c)
{
    c->blocks.buffers = 600;
}

static void many_buffers_loss_10(struct sim_case *c)
{
    many_buffers(c);
    loss_both(c, SIM_SHARE(10));
}

/* Fifteen packets, ten percent lost: tails and probes are everything. */
static void tail_loss(struct sim_case *c)
{
    loss_both(c, SIM_SHARE(10));
}

static void late_wakes(struct sim_case *c)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.hosts[i].wake_delay_ns = 3 * MS;
    }
}

static const struct scenario scenarios[] = {
    {"clean", 100 * MBIT, 40 * MS, 0, 0, 75, NULL, NULL},
    {"clean-short-path", 1 * GBIT, 50000, 64, 500000, 60, NULL, NULL},
    {"clean-gbit", 1 * GBIT, 20 * MS, 128, 1000000, 60, NULL, NULL},
    {"clean-long-path", 50 * MBIT, 600 * MS, 0, 0, 35, NULL, NULL},
    {"clean-slow", 1 * MBIT, 100 * MS, 60, 10000, 30, NULL, NULL},
    {"loss-1", 100 * MBIT, 40 * MS, 0, 0, 70, loss_1, NULL},
    {"loss-5", 100 * MBIT, 40 * MS, 0, 0, 60, loss_5, NULL},
    {"loss-10", 100 * MBIT, 40 * MS, 0, 0, 50, loss_10, NULL},
    {"loss-30", 100 * MBIT, 40 * MS, 0, 0, 25, loss_30, NULL},
    {"loss-10-both", 100 * MBIT, 40 * MS, 0, 0, 50, loss_10_both, NULL},
    {"loss-30-both", 100 * MBIT, 40 * MS, 0, 0, 20, loss_30_both, NULL},
    {"loss-30-of-acks", 100 * MBIT, 40 * MS, 0, 0, 65, loss_30_of_acks, NULL},
    {"pull-loss-5", 100 * MBIT, 40 * MS, 0, 0, 60, pull_loss_5, NULL},
    {"short-path-loss-1", 1 * GBIT, 50000, 64, 500000, 50, loss_1, NULL},
    {"bursts", 100 * MBIT, 40 * MS, 0, 0, 25, bursts, NULL},
    {"correlated", 100 * MBIT, 40 * MS, 0, 0, 50, correlated, NULL},
    {"reorder", 100 * MBIT, 40 * MS, 0, 0, 60, reorder, NULL},
    {"duplicates", 100 * MBIT, 40 * MS, 0, 0, 60, duplicates, NULL},
    {"jitter", 100 * MBIT, 40 * MS, 0, 0, 55, jitter, NULL},
    {"jitter-and-reorder", 100 * MBIT, 40 * MS, 0, 0, 50, jitter_and_reorder, NULL},
    {"shallow-queue", 100 * MBIT, 40 * MS, 0, 0, 55, shallow_queue, NULL},
    {"policer", 100 * MBIT, 40 * MS, 0, 0, 30, policer, NULL},
    {"rate-drops", 100 * MBIT, 40 * MS, 0, 0, 15, rate_drops, NULL},
    {"rate-rises", 100 * MBIT, 40 * MS, 0, 0, 25, rate_rises, NULL},
    {"slow-ack-path", 100 * MBIT, 40 * MS, 0, 0, 50, slow_ack_path, NULL},
    {"slow-disk", 100 * MBIT, 40 * MS, 0, 0, 15, slow_disk, NULL},
    {"slow-source", 100 * MBIT, 40 * MS, 0, 0, 16, slow_source, NULL},
    {"one-buffer", 100 * MBIT, 40 * MS, 0, 0, 5, one_buffer, NULL},
    {"outage-5", 100 * MBIT, 40 * MS, 0, 0, 0, outage_5, NULL},
    {"outage-60", 100 * MBIT, 40 * MS, 0, 0, 0, outage_60, NULL},
    {"outage-100", 100 * MBIT, 40 * MS, 0, 0, 0, outage_100, NULL},
    {"short-outages", 20 * MBIT, 40 * MS, 0, 0, 35, short_outages, NULL},
    {"one-way-outage", 100 * MBIT, 40 * MS, 0, 0, 0, one_way_outage, NULL},
    {"mtu-1280", 100 * MBIT, 40 * MS, 0, 0, 60, mtu_1280, size_1252},
    {"mtu-1400", 100 * MBIT, 40 * MS, 0, 0, 65, mtu_1400, size_1372},
    {"mtu-1400-loss-10", 100 * MBIT, 40 * MS, 0, 0, 45, mtu_1400_loss, size_1372},
    {"mtu-1500", 100 * MBIT, 40 * MS, 0, 0, 70, mtu_1500, size_1472},
    {"mtu-9000", 1 * GBIT, 10 * MS, 128, 1000000, 60, mtu_9000, size_8972},
    {"mtu-9000-one-side", 100 * MBIT, 40 * MS, 0, 0, 65, mtu_9000_one_side, size_1472},
    {"black-hole", 100 * MBIT, 40 * MS, 0, 0, 25, black_hole, size_1252},
    {"port-change", 100 * MBIT, 40 * MS, 0, 0, 55, port_change, NULL},
    {"port-change-pull", 100 * MBIT, 40 * MS, 0, 0, 40, port_change_pull, NULL},
    {"address-change", 100 * MBIT, 40 * MS, 0, 0, 40, address_change, NULL},
    {"address-change-pull", 100 * MBIT, 40 * MS, 0, 0, 30, address_change_pull, NULL},
    {"changes-and-loss", 100 * MBIT, 40 * MS, 0, 0, 20, changes_and_loss, NULL},
    {"lanes-4", 100 * MBIT, 40 * MS, 0, 0, 70, lanes_4, NULL},
    {"lanes-16", 100 * MBIT, 40 * MS, 0, 0, 50, lanes_16, NULL},
    {"lanes-16-loss-5", 100 * MBIT, 40 * MS, 0, 0, 50, lanes_16_loss, NULL},
    {"lanes-pull", 100 * MBIT, 40 * MS, 0, 0, 65, lanes_pull, NULL},
    {"lanes-late", 100 * MBIT, 40 * MS, 0, 0, 65, lanes_late, NULL},
    {"dead-lane", 100 * MBIT, 40 * MS, 0, 0, 30, dead_lane, NULL},
    {"dead-lane-from-start", 100 * MBIT, 40 * MS, 0, 0, 40, dead_lane_from_start, NULL},
    {"first-lane-dies", 100 * MBIT, 40 * MS, 0, 0, 30, first_lane_dies, NULL},
    {"stream", 100 * MBIT, 40 * MS, 0, 0, 85, stream, NULL},
    {"stream-pull", 100 * MBIT, 40 * MS, 0, 0, 85, stream_pull, NULL},
    {"stream-slow-disk", 100 * MBIT, 40 * MS, 0, 0, 15, stream_slow_disk, NULL},
    {"stream-one-byte", 100 * MBIT, 40 * MS, 1, 1, 0, stream, NULL},
    {"peer-vanishes", 100 * MBIT, 40 * MS, 0, 0, 0, peer_vanishes, NULL},
    {"sender-vanishes", 100 * MBIT, 40 * MS, 0, 0, 0, sender_vanishes, NULL},
    {"short-idle-timeout", 100 * MBIT, 40 * MS, 0, 0, 0, short_idle_timeout, NULL},
    {"user-stops-sender", 100 * MBIT, 40 * MS, 0, 0, 0, user_stops_sender, NULL},
    {"user-stops-receiver", 100 * MBIT, 40 * MS, 0, 0, 0, user_stops_receiver, NULL},
    {"no-server", 100 * MBIT, 40 * MS, 0, 0, 0, no_server, NULL},
    {"udp-dropped", 100 * MBIT, 40 * MS, 0, 0, 0, udp_dropped, NULL},
    {"impostor", 100 * MBIT, 40 * MS, 0, 0, 0, impostor, NULL},
    {"false-addresses", 100 * MBIT, 40 * MS, 0, 0, 70, false_addresses, NULL},
    {"server-starts-late", 100 * MBIT, 40 * MS, 0, 0, 70, server_starts_late, NULL},
    {"version-ranges", 100 * MBIT, 40 * MS, 0, 0, 70, version_ranges, NULL},
    {"no-common-version", 100 * MBIT, 40 * MS, 0, 0, 0, no_common_version, NULL},
    {"chacha", 100 * MBIT, 40 * MS, 16, 250000, 40, chacha, NULL},
    {"real-cipher", 100 * MBIT, 40 * MS, 0, 0, 70, real_cipher, NULL},
    {"forged", 100 * MBIT, 40 * MS, 0, 0, 40, forged, NULL},
    {"forged-flood", 100 * MBIT, 40 * MS, 0, 0, 60, forged_flood, NULL},
    {"forged-real-cipher", 100 * MBIT, 40 * MS, 16, 250000, 25, forged_real_cipher, NULL},
    {"corrupted", 100 * MBIT, 40 * MS, 0, 0, 55, corrupted, NULL},
    {"one-byte", 100 * MBIT, 40 * MS, 1, 1, 0, NULL, NULL},
    {"one-byte-loss-30", 100 * MBIT, 40 * MS, 1, 1, 0, loss_30_both, NULL},
    {"nothing", 100 * MBIT, 40 * MS, 0, 1, 0, control_only, NULL},
    {"tail-loss", 100 * MBIT, 40 * MS, 1, 15 * 1400, 0, tail_loss, NULL},
    {"tail-loss-long-path", 100 * MBIT, 300 * MS, 1, 15 * 1400, 0, tail_loss, NULL},
    {"many-small-blocks", 100 * MBIT, 40 * MS, 2000, 3000, 35, many_buffers, NULL},
    {"many-small-blocks-loss-10", 100 * MBIT, 40 * MS, 2000, 3000, 25, many_buffers_loss_10, NULL},
    {"control-and-loss", 100 * MBIT, 40 * MS, 0, 0, 35, control_and_loss, NULL},
    {"late-wakes", 100 * MBIT, 40 * MS, 0, 0, 60, late_wakes, NULL},
};

#define SCENARIO_COUNT (sizeof(scenarios) / sizeof(scenarios[0]))

static void build(const struct scenario *scenario, struct sim_case *c)
{
    /* The place in the table is no seed: adding one must not change the others. */
    uint64_t seed = 0;
    for (const char *at = scenario->name; *at != '\0'; at++) {
        seed = seed * 31 + (unsigned char)*at;
    }
    sim_case_init(c, seed, scenario->rate_bps, scenario->rtt_ns);
    if (scenario->blocks != 0) {
        c->blocks.count = scenario->blocks;
    }
    if (scenario->length != 0) {
        c->blocks.length_min = c->blocks.length_max = scenario->length;
    }
    if (scenario->shape != NULL) {
        scenario->shape(c);
    }
}

static bool run(const struct scenario *scenario, FILE *trace)
{
    static struct sim_case c;
    struct sim_outcome outcome;
    build(scenario, &c);
    c.world.trace = trace;
    sim_case_run(&c, &outcome);
    uint64_t loss = c.world.links[0].loss;
    uint64_t allowed_bps =
        sim_scale(scenario->rate_bps, (UINT64_C(1) << 32) - loss, UINT64_C(1) << 32);
    uint64_t share = outcome.goodput_bps * 100 / allowed_bps;
    if (outcome.good && scenario->check != NULL && scenario->check(&outcome) != NULL) {
        outcome.good = false;
        snprintf(outcome.text, sizeof(outcome.text), "%s", scenario->check(&outcome));
    }
    if (outcome.good && share < scenario->share) {
        outcome.good = false;
        snprintf(outcome.text, sizeof(outcome.text),
                 "goodput is %" PRIu64 " %% of what the path allows, at least %u %% expected",
                 share, scenario->share);
    }
    printf("%-26s %s %4" PRIu64 " %% %8.3f s %8" PRIu64 " events %016" PRIx64 "%s%s\n",
           scenario->name, outcome.good ? "ok  " : "FAIL", share,
           (double)outcome.took_ns / (double)NS_PER_S, outcome.events, outcome.hash,
           outcome.good ? "" : "  ", outcome.text);
    return outcome.good;
}

static bool wanted(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    bool trace = argc > 1 && strcmp(argv[1], "--trace") == 0;
    unsigned ran = 0, failed = 0;
    for (size_t i = 0; i < SCENARIO_COUNT; i++) {
        if (wanted(scenarios[i].name, argc - 1 - trace, argv + 1 + trace)) {
            ran++;
            failed += !run(&scenarios[i], trace ? stdout : NULL);
        }
    }
    printf("%u scenarios, %u failed\n", ran, failed);
    return ran == 0 || failed > 0;
}
