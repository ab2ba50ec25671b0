/* Scenarios of what a path does: loss, order, capacity, outages, packet sizes. */
#include "scenario.h"

/* ---- loss, order, delay ---- */

void loss_both(struct sim_case *c, uint32_t share)
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

/* Each packet by itself up to `jitter_ns` early or late: order is not kept at all. */
static void shuffle(struct sim_case *c, uint64_t jitter_ns)
{
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].delay_ns -= jitter_ns;
        c->world.links[i].reorder = UINT32_MAX;
        c->world.links[i].reorder_ns = 2 * jitter_ns;
    }
}

static void shuffle_8(struct sim_case *c)
{
    shuffle(c, 8 * MS);
}

static void shuffle_30(struct sim_case *c)
{
    shuffle(c, 30 * MS);
}

static void shuffle_58(struct sim_case *c)
{
    shuffle(c, 58 * MS);
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

/* Three packets. */
static void tiny_queue(struct sim_case *c)
{
    c->world.links[0].queue_bytes = 5000;
}

static void two_packet_queue(struct sim_case *c)
{
    c->world.links[0].queue_bytes = 3000;
}

/* Each lane gets a quarter of what the path carries. */
static void flow_policer(struct sim_case *c)
{
    c->world.links[0].flow_policer_bps = 30 * MBIT;
    c->world.links[0].flow_policer_burst_bytes = 100000;
    c->world.hosts[SENDER].grows = true;
}

static void flow_policer_pull(struct sim_case *c)
{
    flow_policer(c);
    c->world.hosts[SENDER].grows = false;
    c->world.hosts[RECEIVER].grows = true;
    sim_case_pull(c);
}

/* The same at a rate where each lane has many packets on its way. */
static void flows_of_300m(struct sim_case *c, unsigned lanes)
{
    c->world.links[0].flow_policer_bps = 300 * MBIT;
    c->world.links[0].flow_policer_burst_bytes = 1000000;
    c->world.hosts[SENDER].lanes = c->world.hosts[RECEIVER].lanes = lanes;
}

static void flows_of_300m_four_lanes(struct sim_case *c)
{
    flows_of_300m(c, 4);
}

static void flows_of_300m_one_lane(struct sim_case *c)
{
    flows_of_300m(c, 1);
}

static void flows_of_300m_auto(struct sim_case *c)
{
    flows_of_300m(c, 1);
    c->world.hosts[SENDER].grows = true;
}

/* One lane carries all there is: a second brings nothing. */
static void one_lane_is_enough(struct sim_case *c)
{
    c->world.hosts[SENDER].grows = true;
}

static const char *four_lanes(const struct sim_outcome *outcome)
{
    return outcome->statistics[SENDER].lanes < 4 ? "fewer than four lanes were opened" : NULL;
}

static const char *two_lanes_at_most(const struct sim_outcome *outcome)
{
    return outcome->statistics[SENDER].lanes > 2 ? "more lanes were opened for nothing" : NULL;
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

void slow_disk(struct sim_case *c)
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
    c->world.stall_ns = 2 * S; /* something moves again by then */
}

static void outage_60(struct sim_case *c)
{
    sim_case_outage(c, 1 * S, 60 * S);
    c->world.stall_ns = 3 * S;
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

/* Case 12: a minute of loss at full packet size, which is no black hole. */
static void minute_loss_5(struct sim_case *c)
{
    mtu(c, 1500, 1500);
    loss_both(c, SIM_SHARE(5));
}

static void minute_loss_10(struct sim_case *c)
{
    mtu(c, 1500, 1500);
    loss_both(c, SIM_SHARE(10));
}

static void minute_loss_15(struct sim_case *c)
{
    mtu(c, 1500, 1500);
    loss_both(c, SIM_SHARE(15));
}

/* About 10 % in bursts of 20 packets on average, nine of ten in a burst lost. */
static void minute_bursts(struct sim_case *c)
{
    mtu(c, 1500, 1500);
    for (unsigned i = 0; i < 2; i++) {
        c->world.links[i].burst_enter = SIM_SHARE(0.6);
        c->world.links[i].burst_leave = SIM_SHARE(5);
        c->world.links[i].burst_loss = SIM_SHARE(90);
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

const struct scenario path_scenarios[] = {
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
    {"shuffle-8", 100 * MBIT, 100 * MS, 100, BLOCK_SIZE, 80, shuffle_8, NULL},
    {"shuffle-30", 100 * MBIT, 100 * MS, 100, BLOCK_SIZE, 80, shuffle_30, NULL},
    {"shuffle-58", 100 * MBIT, 120 * MS, 100, BLOCK_SIZE, 80, shuffle_58, NULL},
    {"shuffle-58-2m", 100 * MBIT, 120 * MS, 2, BLOCK_SIZE, 10, shuffle_58, NULL},
    {"shallow-queue", 100 * MBIT, 40 * MS, 0, 0, 55, shallow_queue, NULL},
    {"tiny-queue", 4 * MBIT, 10 * MS, 100, 200000, 88, tiny_queue, NULL},
    {"tiny-queue-20m", 20 * MBIT, 10 * MS, 200, 500000, 88, tiny_queue, NULL},
    {"two-packet-queue", 4 * MBIT, 10 * MS, 200, 200000, 88, two_packet_queue, NULL},
    {"two-packet-queue-20m", 20 * MBIT, 10 * MS, 200, 500000, 88, two_packet_queue, NULL},
    {"two-packet-queue-1m", 1 * MBIT, 50 * MS, 60, 200000, 88, two_packet_queue, NULL},
    {"flow-policer", 120 * MBIT, 20 * MS, 100, BLOCK_SIZE, 75, flow_policer, four_lanes},
    {"flow-policer-pull", 120 * MBIT, 20 * MS, 100, BLOCK_SIZE, 75, flow_policer_pull, four_lanes},
    {"flows-of-300m-one-lane", 1200 * MBIT, 20 * MS, 60, BLOCK_SIZE, 22, flows_of_300m_one_lane,
     NULL},
    {"flows-of-300m-four-lanes", 1200 * MBIT, 20 * MS, 300, BLOCK_SIZE, 90,
     flows_of_300m_four_lanes, NULL},
    {"flows-of-300m-auto", 1200 * MBIT, 20 * MS, 700, BLOCK_SIZE, 75, flows_of_300m_auto,
     four_lanes},
    {"one-lane-is-enough", 120 * MBIT, 20 * MS, 100, BLOCK_SIZE, 88, one_lane_is_enough,
     two_lanes_at_most},
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
    {"case-12-loss-5", 20 * MBIT, 100 * MS, 600, 250000, 70, minute_loss_5, size_1472},
    {"case-12-loss-10", 20 * MBIT, 100 * MS, 600, 250000, 85, minute_loss_10, size_1472},
    {"case-12-loss-15", 20 * MBIT, 100 * MS, 600, 250000, 85, minute_loss_15, size_1472},
    {"case-12-bursts", 20 * MBIT, 100 * MS, 300, 250000, 20, minute_bursts, size_1472},
    {"mtu-1280", 100 * MBIT, 40 * MS, 0, 0, 60, mtu_1280, size_1252},
    {"mtu-1400", 100 * MBIT, 40 * MS, 0, 0, 65, mtu_1400, size_1372},
    {"mtu-1400-loss-10", 100 * MBIT, 40 * MS, 0, 0, 45, mtu_1400_loss, size_1372},
    {"mtu-1500", 100 * MBIT, 40 * MS, 0, 0, 70, mtu_1500, size_1472},
    {"mtu-9000", 1 * GBIT, 10 * MS, 128, 1000000, 60, mtu_9000, size_8972},
    {"mtu-9000-one-side", 100 * MBIT, 40 * MS, 0, 0, 65, mtu_9000_one_side, size_1472},
    {"black-hole", 100 * MBIT, 40 * MS, 0, 0, 25, black_hole, size_1252},
    {0},
};
