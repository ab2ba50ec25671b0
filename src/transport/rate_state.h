/* The rate controller's inside, shared by its files: rate_controller.c (the interface, plans and
 * measures), rate_startup.c (STARTUP and DRAIN), rate_cycle.c (CRUISE), rate_raise.c (UP),
 * rate_loss.c (DOWN), rate_answer.c (how delivery answered to rate), rate_blind.c (nothing arrives)
 * and rate_memory.c (what is remembered of a path).
 *
 * Rates are doubles in bits of UDP payload a second, times inside a sample are in seconds. Only
 * + - * / and sqrt are used, so that every compiler computes the same trace.
 */
#ifndef PETREL_TRANSPORT_RATE_STATE_H
#define PETREL_TRANSPORT_RATE_STATE_H

#include "base/random.h"
#include "transport/rate_controller.h"

#define RATE_PLANS 256u
#define RATE_STARTUP_LOG 128u
#define RATE_HISTORY 64u
#define RATE_DELIVERED 4u
#define RATE_ANSWERS 16u
#define RATE_MIN_BPS 64000.0
#define RATE_FLOOR_MOST_BPS 512000.0
#define RATE_MAX_BPS 1e12
#define RATE_DRAIN_GAIN 0.5
#define RATE_DRAIN_GAIN_LONG 0.08   /* of a queue of more than a round trip */
#define RATE_EXCESS_MIN 0.01        /* loss above the path's own that is worth a thought */
#define RATE_EXCESS_LARGE 0.05      /* and that is worth haste */
#define RATE_RAISE_PROVED_LOOPS 6.0 /* a raise may be undone until then */
#define RATE_REST_WEIGHT 0.3
#define RATE_DOWN_STALE_LOOPS 40.0 /* how long a DOWN is believed at first */

enum rate_phase { PHASE_STARTUP, PHASE_DRAIN, PHASE_CRUISE, PHASE_DOWN, PHASE_UP, PHASE_FIXED };

/* What an interval was begun as. */
struct rate_plan {
    uint64_t id;
    uint64_t begun_ns;
    enum rate_phase phase;
    double gain, base_bps;
    double loops;  /* length in RTTs, at least 1 */
    bool waits;    /* a short CRUISE for the result of an UP or a DOWN */
    unsigned step; /* of STARTUP: what is sent at one rate */
    bool probe;    /* ... to see whether more arrives */
    unsigned epoch;
};

/* What a closed interval showed. */
struct rate_sample {
    struct rate_plan plan;
    double seconds; /* how long it was sent */
    double packets, lost, events;
    double sent_bps;      /* x */
    double delivered_bps; /* y: over the longer of sending and receiving */
    double arrived_bps;   /* over receiving alone, where that is known */
    double loss;          /* p */
    double sigma;         /* deviation of p to be expected from chance alone */
    double queue_s;       /* least RTT over the base RTT; negative: unknown */
    double queue_mean_s;  /* mean RTT over the base RTT */
    double span_s;        /* what it took the receiver; 0: unknown */
};

/* Losses gathered over several intervals, until they say something. */
struct rate_tally {
    double packets, lost, events, bits, seconds;
    uint64_t since_ns;
};

enum rate_path_class {
    PATH_UNKNOWN,
    PATH_QUEUE,  /* too high a rate showed as delay */
    PATH_SHALLOW /* too high a rate showed as loss: policer or short buffer */
};

struct rate_startup {
    double carried_bps; /* arrives; sent while a probe's answer is on its way */
    double probe_bps;   /* of the present, last or next probe */
    bool probing, probe_due;
    bool opening;      /* the train at the head of the first flight is on its way */
    unsigned begun;    /* intervals of the opening */
    uint64_t probe_ns; /* when the last began */
    unsigned step;     /* counted from 0, the first flight */
    unsigned doubts;
    double best_ratio;
    double first_bps;
    double memory_bps; /* of an earlier transfer, from which this one began; 0: from nothing */
    enum rate_memory_use memory_use;
    unsigned rests;
    struct rate_sample log[RATE_STARTUP_LOG]; /* ring */
    unsigned count;
    unsigned poor; /* windows in a row in which delivery did not follow */
    uint64_t poor_since_ns;
    double grown_bps; /* best delivery, and since when it has not grown */
    uint64_t grown_ns;
};

struct rate_cycle {
    uint64_t cruise_until_ns; /* no UP before; a hold is longer, for a reason */
    uint64_t hold_until_ns;
    unsigned patience; /* 1 to 3: more after failed raises */
    unsigned ladder;   /* large successes in a row */
    bool small;        /* the next UP is a small one */
    bool up_pending, down_pending, down_asked;
    bool polite; /* fair, background: a DOWN was asked for before the first cut */
    uint64_t asked_ns;
    uint64_t pending_id; /* the interval whose result is waited for */
    bool down_wanted;
    bool draining;   /* DOWN is to empty the queue, for the base RTT or to find competition */
    double cure_bps; /* where suspected loss would be gone; 0: nothing is suspected */
    double down_gain;
    double cap_gain;     /* of the UP in flight: what it sent needs room until acknowledged */
    double stale_loops;  /* how long what DOWN found is believed */
    uint64_t down_at_ns; /* the last DOWN */
    uint64_t raised_ns;  /* the last raise, and the rate before it */
    double raised_from_bps;
    struct rate_tally cruise, down;
    struct rate_tally cruise_before; /* what CRUISE had shown when DOWN was begun */
    bool competing;                  /* somebody else keeps the queue filled */
    double yielding_from_bps; /* the rate before it began to follow a queue; 0: it does not */
    double crowded_s;         /* how long the queue has been over twice its target */
    double starved_s;         /* how long the sender itself has fallen short */
    double delivered_bps[RATE_DELIVERED]; /* of the last intervals, a ring */
    unsigned delivered_count;
    uint64_t up_at_ns;   /* the last UP */
    double queue_rest_s; /* the mean queue in CRUISE */
};

/* Believed rates of late. */
struct rate_history {
    double bps[RATE_HISTORY]; /* oldest first */
    unsigned count;
    double spacing_s;
    uint64_t first_ns, next_ns;
};

/* Since when nothing arrives. */
struct rate_blind {
    uint64_t since_ns, halved_ns; /* 0: it does */
    bool fell;                    /* the rate was lowered for it */
};

/* What was sent at about one rate, and what of it arrived. */
struct rate_answer {
    uint64_t at_ns;
    double sent_bps, delivered_bps, seconds, packets;
};

struct rate_answers {
    struct rate_answer log[RATE_ANSWERS]; /* ring */
    unsigned count;
};

/* Of a loss above the path's own share. */
enum rate_verdict {
    RATE_UNCLEAR,
    RATE_FULL, /* more is sent than the path carries */
    RATE_OWN   /* the path loses as much at any rate */
};

struct rate_fixed {
    double bps;
    double bad_s;
};

struct rate_controller {
    struct rate_config config;
    struct random random;
    enum rate_phase state; /* STARTUP, DRAIN, CRUISE (the whole cycle) or FIXED */
    double base_bps;
    unsigned epoch;
    struct rate_plan plan; /* of the interval now being sent */
    struct rate_plan plans[RATE_PLANS];

    /* RTT, nanoseconds. */
    uint64_t base_rtt_ns, base_rtt_at_ns; /* when it was last seen */
    uint64_t older_min_ns, newer_min_ns, window_at_ns;
    uint64_t recent_min_ns, recent_last_ns, recent_at_ns; /* least of about the last RTT */
    uint64_t last_rtt_ns, rtt_count;
    double rise_s, fall_s; /* mean step up and down between RTT samples */
    double jitter_s;       /* what is in both: no queue that grows or drains */
    double rest_s;         /* what looks like a queue at rates that leave none; see rate_rest */

    double straggle_s; /* how much later than the RTT says an interval is settled */

    double deepest_s, deepest_next_s; /* longest queue of late */
    uint64_t deepest_at_ns;
    double brim_s; /* the queue at which the path overflowed of late; 0: it has not */
    uint64_t brim_at_ns;

    double ambient; /* loss that no lower rate avoids */
    bool ambient_known;
    double burst; /* packets lost per loss event, over some tens of recent events */
    double burst_lost, burst_events;
    enum rate_path_class path_class;

    double drain_gain;
    uint64_t drain_from_ns, drain_until_ns;
    uint64_t droop_from_ns; /* the queue's samples are out of date before */
    struct rate_startup startup;
    struct rate_cycle cycle;
    struct rate_fixed fixed;
    struct rate_history history;
    struct rate_blind blind;
    struct rate_answers answers;
};

/* rate_controller.c */
double rate_clamp(double value, double low, double high);
double rate_rtt_s(const struct rate_controller *c);
/* The RTT as it is without a queue of ours: under strong jitter the least of all is rare luck.
 * (Where jitter is weak it comes from others, and what it seems to add is their queue.) */
double rate_still_rtt_s(const struct rate_controller *c);
double rate_queue_target_s(const struct rate_controller *c);
/* `targets` times the target, and what jitter alone can look like. */
double rate_queue_limit_s(const struct rate_controller *c, double targets);
/* An interval that overflowed tells how long the queue can be: the target stays well below. */
void rate_note_brim(struct rate_controller *c, const struct rate_sample *sample, uint64_t now_ns);
/* Over the limit, or nearly as long as it has ever been of late. */
bool rate_queue_is_full(const struct rate_controller *c, double queue_s);
/* An interval is known to have met no queue of our making: what it shows is the path at rest. */
void rate_rest(struct rate_controller *c, const struct rate_sample *sample, double weight);
double rate_queue_now_s(const struct rate_controller *c); /* from the last RTT's samples */
double rate_ack_interval_s(const struct rate_controller *c);
double rate_sigma(const struct rate_controller *c, double loss, double packets);
/* Sets the believed rate; a cut of 3 % or more begins a new epoch. */
/* The least rate ever used: two packets a round trip, so that a standing queue lowers it by itself,
 * within RATE_MIN_BPS and RATE_FLOOR_MOST_BPS. */
double rate_floor_bps(const struct rate_controller *c);
void rate_set_base(struct rate_controller *c, double bps);
void rate_tally_add(struct rate_tally *tally, const struct rate_sample *sample);
/* Enough losses, or enough time, to judge by. */
bool rate_tally_speaks(const struct rate_controller *c, const struct rate_tally *tally);

/* rate_startup.c */
void rate_startup_init(struct rate_controller *c, uint64_t now_ns);
double rate_startup_interval_s(const struct rate_controller *c);
double rate_startup_interval_packets(const struct rate_controller *c);
double rate_startup_pacing_bps(const struct rate_controller *c);
/* The most that is on its way. */
double rate_startup_most_bps(const struct rate_controller *c);
/* An interval that says nothing of the path. */
void rate_startup_void(struct rate_controller *c, const struct rate_plan *plan, uint64_t now_ns);
void rate_startup_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns);
void rate_startup_sample(struct rate_controller *c, const struct rate_sample *sample,
                         uint64_t now_ns);
/* What arrives while the queue is long is what the path carries. */
void rate_drain_sample(struct rate_controller *c, const struct rate_sample *sample);
void rate_drain_begin(struct rate_controller *c, uint64_t now_ns);
/* Every RTT sample while draining. */
void rate_drain_rtt(struct rate_controller *c, double rtt_s, uint64_t now_ns);

/* Climbs once more, from the rate believed now. */
void rate_startup_again(struct rate_controller *c, uint64_t now_ns);
void rate_startup_halve(struct rate_controller *c);

/* rate_answer.c */
void rate_answer_note(struct rate_controller *c, const struct rate_sample *sample);
void rate_answer_forget(struct rate_controller *c);
/* Whose fault `loss` at `bps` is, by all rates of late. Fills the path's own share, and what it
 * carries where it is full. */
enum rate_verdict rate_answer_judge(const struct rate_controller *c, double bps, double loss,
                                    uint64_t now_ns, double *own, double *carried_bps);

/* rate_blind.c */
/* True when the interval shows a hole in the path and nothing of the rate. */
bool rate_blind_interval(struct rate_controller *c, const struct rate_interval *interval,
                         uint64_t now_ns);

/* rate_memory.c */
/* What the remembered path lets the first packets go at; 0: there is none that fits this one. */
double rate_memory_first_bps(const struct rate_controller *c);
/* At the beginning of each interval in the cycle. */
void rate_memory_note(struct rate_controller *c, uint64_t now_ns);

/* rate_cycle.c */
void rate_cycle_enter(struct rate_controller *c, uint64_t now_ns);
void rate_cycle_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns);
void rate_cycle_sample(struct rate_controller *c, const struct rate_sample *sample,
                       uint64_t now_ns);
/* An UP or DOWN brought nothing to judge by. */
void rate_cycle_unfilled(struct rate_controller *c, const struct rate_sample *s);
void rate_cycle_void(struct rate_controller *c, const struct rate_plan *plan);

void rate_cruise_anew(struct rate_controller *c, uint64_t now_ns);
/* The shortest time in which an answer can come: an RTT as it is without a queue, which under
 * jitter is not the least of all, and at least 5 ms. */
double rate_loop_s(const struct rate_controller *c);
double rate_since_s(uint64_t now_ns, uint64_t then_ns);
uint64_t rate_later(uint64_t now_ns, double seconds);
double rate_tally_loss(const struct rate_tally *tally);
double rate_tally_bps(const struct rate_tally *tally);
/* What is lost above the path's own share and is no chance any more. */
double rate_excess_limit(double sigma);
void rate_cut(struct rate_controller *c, double bps);
/* No UP for a while: a bucket of tokens would only carry it until it is empty. */
void rate_hold(struct rate_controller *c, uint64_t now_ns);
double rate_fair_limit_s(const struct rate_controller *c);
bool rate_capacity_fell(struct rate_controller *c, const struct rate_sample *sample, bool queued,
                        uint64_t now_ns);
/* At every half round trip: by how much the RTT grew in it, per second. */
void rate_brake(struct rate_controller *c, double slope, uint64_t now_ns);
void rate_judge_competition(struct rate_controller *c, const struct rate_sample *sample);

/* rate_raise.c */
/* The next UP is a large one and due now. */
void rate_raise_soon(struct rate_controller *c, uint64_t now_ns);
bool rate_raise_is_due(const struct rate_controller *c, uint64_t now_ns);
void rate_raise_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns);
void rate_raise_sample(struct rate_controller *c, const struct rate_sample *sample,
                       uint64_t now_ns);

/* rate_loss.c */
void rate_down_begin(struct rate_controller *c, uint64_t now_ns);
void rate_down_end(struct rate_controller *c);
void rate_down_sample(struct rate_controller *c, const struct rate_sample *sample, uint64_t now_ns);
void rate_judge_cruise(struct rate_controller *c, const struct rate_sample *sample,
                       uint64_t now_ns);

#endif
