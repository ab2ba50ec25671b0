/* Scenarios of addresses, lanes, endings, attackers and small work. */
#include "scenario.h"

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

/* None of the acks gets through that would tell the new port: the client has to speak up. */
static void port_change_unheard(struct sim_case *c)
{
    port_change_pull(c);
    sim_link_change(&c->world.links[1], 590 * MS, SIM_CHANGE_UP, 0);
    sim_link_change(&c->world.links[1], 800 * MS, SIM_CHANGE_UP, 1);
    c->world.good_from_ns = 800 * MS;
    c->world.stall_ns = 1 * S;
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

/* ---- two ways: datagrams, and the stream beside them ---- */

static void two_ways(struct sim_case *c)
{
    c->world.hosts[0].channel = c->world.hosts[1].channel = true;
    c->world.hosts[0].lanes = 4;
}

static void up(struct sim_case *c, unsigned link, uint64_t at_ns, bool passes)
{
    sim_link_change(&c->world.links[link], at_ns, SIM_CHANGE_UP, passes);
}

static void no_udp(struct sim_case *c)
{
    two_ways(c);
    up(c, 0, 0, false);
    up(c, 1, 0, false);
}

static void no_udp_pull(struct sim_case *c)
{
    no_udp(c);
    sim_case_pull(c);
}

static void udp_comes(struct sim_case *c)
{
    no_udp(c);
    up(c, 0, 2 * S, true);
    up(c, 1, 2 * S, true);
}

static void udp_comes_pull(struct sim_case *c)
{
    udp_comes(c);
    sim_case_pull(c);
}

static void udp_goes(struct sim_case *c)
{
    two_ways(c);
    up(c, 0, 1 * S, false);
    up(c, 1, 1 * S, false);
}

static void udp_goes_pull(struct sim_case *c)
{
    udp_goes(c);
    sim_case_pull(c);
}

/* Data still arrive, and nothing that says so. */
static void acks_go(struct sim_case *c)
{
    two_ways(c);
    up(c, 1, 1 * S, false);
}

static void udp_goes_and_comes(struct sim_case *c)
{
    udp_goes(c);
    up(c, 0, 6 * S, true);
    up(c, 1, 6 * S, true);
}

static void udp_goes_and_comes_pull(struct sim_case *c)
{
    udp_goes_and_comes(c);
    sim_case_pull(c);
}

/* The stream is a tenth as fast: what lies in it may not hold the rest up. */
static void udp_comes_slow_stream(struct sim_case *c)
{
    udp_comes(c);
    c->world.hosts[0].stream_bps /= 10;
    c->world.hosts[1].stream_bps /= 10;
}

/* Shorter than what makes a path silent. */
static void short_gap(struct sim_case *c)
{
    udp_goes(c);
    up(c, 0, 3 * S, true);
    up(c, 1, 3 * S, true);
}

/* The client knows the round trip from the channel, as net/driver_way does. */
static void slow_first_answer(struct sim_case *c)
{
    two_ways(c);
    c->world.hosts[0].rtt_ns = 600 * MS;
    loss_both(c, SIM_SHARE(10));
}

static const char *stays_on_datagrams(const struct sim_outcome *outcome)
{
    const struct session_statistics *sender = &outcome->statistics[SENDER];
    return sender->on_stream || sender->way_changes > 0 ? "the sender went by the stream" : NULL;
}

static const char *ends_on_datagrams(const struct sim_outcome *outcome)
{
    return outcome->statistics[SENDER].on_stream ? "the sender is still on the stream" : NULL;
}

static const char *ends_on_stream(const struct sim_outcome *outcome)
{
    return outcome->statistics[SENDER].on_stream ? NULL : "the sender is not on the stream";
}

static const char *goes_and_comes(const struct sim_outcome *outcome)
{
    const struct session_statistics *sender = &outcome->statistics[SENDER];
    return sender->on_stream || sender->way_changes != 2 ? "not once there and once back" : NULL;
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

static void half_lost(struct sim_case *c)
{
    loss_both(c, SIM_SHARE(50));
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

const struct scenario session_scenarios[] = {
    {"port-change", 100 * MBIT, 40 * MS, 0, 0, 55, port_change, NULL},
    {"port-change-pull", 100 * MBIT, 40 * MS, 0, 0, 40, port_change_pull, NULL},
    {"port-change-unheard", 100 * MBIT, 40 * MS, 0, 0, 40, port_change_unheard, NULL},
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
    {"two-ways", 100 * MBIT, 40 * MS, 0, 0, 60, two_ways, stays_on_datagrams},
    {"two-ways-no-udp", 100 * MBIT, 40 * MS, 0, 0, 85, no_udp, ends_on_stream},
    {"two-ways-no-udp-pull", 100 * MBIT, 40 * MS, 0, 0, 85, no_udp_pull, ends_on_stream},
    {"two-ways-udp-comes", 100 * MBIT, 40 * MS, 200, BLOCK_SIZE, 70, udp_comes, ends_on_datagrams},
    {"two-ways-udp-comes-pull", 100 * MBIT, 40 * MS, 200, BLOCK_SIZE, 70, udp_comes_pull,
     ends_on_datagrams},
    {"two-ways-slow-stream", 100 * MBIT, 40 * MS, 100, BLOCK_SIZE, 40, udp_comes_slow_stream,
     ends_on_datagrams},
    {"two-ways-udp-goes", 100 * MBIT, 40 * MS, 100, BLOCK_SIZE, 55, udp_goes, ends_on_stream},
    {"two-ways-udp-goes-pull", 100 * MBIT, 40 * MS, 100, BLOCK_SIZE, 55, udp_goes_pull,
     ends_on_stream},
    {"two-ways-acks-go", 100 * MBIT, 40 * MS, 100, BLOCK_SIZE, 50, acks_go, ends_on_stream},
    {"two-ways-and-back", 100 * MBIT, 40 * MS, 150, BLOCK_SIZE, 55, udp_goes_and_comes,
     goes_and_comes},
    {"two-ways-and-back-pull", 100 * MBIT, 40 * MS, 150, BLOCK_SIZE, 55, udp_goes_and_comes_pull,
     goes_and_comes},
    {"two-ways-short-gap", 100 * MBIT, 40 * MS, 100, BLOCK_SIZE, 40, short_gap, stays_on_datagrams},
    {"two-ways-slow-answer", 100 * MBIT, 600 * MS, 100, BLOCK_SIZE, 0, slow_first_answer,
     ends_on_datagrams},
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
    {"one-byte-loss-50", 100 * MBIT, 40 * MS, 1, 1, 0, half_lost, NULL},
    {"nothing", 100 * MBIT, 40 * MS, 0, 1, 0, control_only, NULL},
    {"tail-loss", 100 * MBIT, 40 * MS, 1, 15 * 1400, 0, tail_loss, NULL},
    {"tail-loss-long-path", 100 * MBIT, 300 * MS, 1, 15 * 1400, 0, tail_loss, NULL},
    {"many-small-blocks", 100 * MBIT, 40 * MS, 2000, 3000, 35, many_buffers, NULL},
    {"many-small-blocks-loss-10", 100 * MBIT, 40 * MS, 2000, 3000, 25, many_buffers_loss_10, NULL},
    {"control-and-loss", 100 * MBIT, 40 * MS, 0, 0, 35, control_and_loss, NULL},
    {"late-wakes", 100 * MBIT, 40 * MS, 0, 0, 60, late_wakes, NULL},
    {0},
};
