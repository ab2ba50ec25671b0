"""How long a copy takes: one formula with a few constants for each program, and how they are fitted.

`petrel estimate`, the calculator of the report and this file compute the same (src/cli/measure/estimate_model.c,
page/calculator.js); tests compare them. The constants stand in model.json, written by `petrel-lab fit`.
"""
import json
import math
import os
import random

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.json")
SEGMENT = 1448          # payload of a TCP segment at MTU 1500
FIRST_WINDOW = 10 * SEGMENT
RTT_LEAST_S = 0.0001
NOTHING = 1e18          # of a cap that does not hold
ARRIVED_LEAST = 1 << 18 # less says more of how files are written than of the path

MEANING = {
    "fixed_s": "seconds that do not depend on the path: starting programs, keys",
    "rtts": "round trips before the first byte and after the last",
    "loss_rtts": "by how much losses stretch those: share of loss times this",
    "start": "how much of a slow start (a doubling each round trip) is felt: 0 to 1",
    "share": "of the line, payload, reached without loss",
    "loss_cost": "what losses cost beyond the lost bytes: rate / (1 + loss x this)",
    "loss_rtt_cost": "the same for long paths: rate / (1 + loss x round trip in s x this)",
    "window_bytes": "most in flight, 0 for no limit: rate = this / round trip",
    "strength": "for senders that halve at each loss: times the window that Reno and CUBIC have at that "
                "loss (RFC 9438), 0 for senders that do not",
    "processor_bytes_per_s": "what the processors carry",
}
PAYLOAD = {"petrel": 1440 / 1500, "scp": SEGMENT / 1500, "cubic": SEGMENT / 1500, "bbr8": SEGMENT / 1500}
TITLES = {"petrel": "petrel", "scp": "scp", "cubic": "one TCP stream, CUBIC",
          "bbr8": "eight TCP streams, BBR"}
# First guesses; a constant that is 0 here does not apply to that program and is not fitted.
GUESS = {
    "petrel": {"fixed_s": 0.6, "rtts": 15, "loss_rtts": 4, "start": 0, "share": 0.97, "loss_cost": 0.2,
               "loss_rtt_cost": 0.2, "window_bytes": 0, "strength": 0, "processor_bytes_per_s": 4e8},
    "scp": {"fixed_s": 0.4, "rtts": 14, "loss_rtts": 6, "start": 0, "share": 0.93, "loss_cost": 0,
            "loss_rtt_cost": 0, "window_bytes": 2e6, "strength": 1, "processor_bytes_per_s": 2e8},
    "cubic": {"fixed_s": 0, "rtts": 2, "loss_rtts": 0, "start": 1, "share": 0.97, "loss_cost": 0,
              "loss_rtt_cost": 0, "window_bytes": 0, "strength": 1, "processor_bytes_per_s": 1e9},
    "bbr8": {"fixed_s": 0, "rtts": 2, "loss_rtts": 0, "start": 0.7, "share": 0.97, "loss_cost": 1,
             "loss_rtt_cost": 20, "window_bytes": 6e7, "strength": 0, "processor_bytes_per_s": 1e9},
}


def loss_window(loss, rtt):
    """Segments in flight on average at this loss: Reno's, or CUBIC's where that is more."""
    return max(1.22 / math.sqrt(loss), 1.054 * (rtt / loss) ** 0.75)


def steady(c, payload, rtt, loss, rate_bps):
    """Bytes a second once it runs."""
    rtt = max(rtt, RTT_LEAST_S)
    line = NOTHING
    if rate_bps:
        line = rate_bps / 8 * payload * (1 - loss) * c["share"]
    reached = min(line, c["processor_bytes_per_s"])
    reached /= 1 + c["loss_cost"] * loss + c["loss_rtt_cost"] * loss * rtt
    if c["window_bytes"]:
        reached = min(reached, c["window_bytes"] / rtt)
    if c["strength"] and loss > 0:
        reached = min(reached, c["strength"] * loss_window(loss, rtt) * SEGMENT / rtt)
    return reached


def seconds(c, payload, rtt, loss, rate_bps, size):
    reached = steady(c, payload, rtt, loss, rate_bps)
    waits = c["rtts"] * rtt * (1 + c["loss_rtts"] * loss)
    doublings = math.log2(1 + reached * rtt / FIRST_WINDOW)
    return c["fixed_s"] + waits + c["start"] * doublings * rtt + size / reached


def load(path=PATH):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- fitting ----

class Sample:
    """One program in one cell: how long it took for how much; of one that did not finish, for what had come
    until it was ended, or where that is next to nothing only that it took longer."""

    def __init__(self, figures, program):
        cell = figures.cell
        self.name, self.rtt, self.loss, self.rate = cell.name, cell.rtt_s, cell.loss, cell.rate_bps
        good = program.good
        self.least_only = not program.finished
        slow = [run for run in good if "floor_mb_per_s" in run]
        if self.least_only and slow[0].get("arrived_bytes", 0) >= ARRIVED_LEAST:
            self.least_only = False
            self.size, self.seconds = slow[0]["arrived_bytes"], slow[0]["seconds"]
        elif self.least_only:
            self.size, self.seconds = cell.size, cell.time_limit_s
        elif "command_seconds" in good[0]:
            self.size, self.seconds = cell.size, program.median("command_seconds")
        else: # a stream: as if it had copied what it carried
            self.seconds = program.median("stream_seconds")
            self.size = program.rate * 1e6 * self.seconds

    def off(self, c, payload):
        """ln of foretold over measured; nothing where it is only known to be slower and that is said."""
        told = math.log(seconds(c, payload, self.rtt, self.loss, self.rate, self.size) / self.seconds)
        return min(0.0, told) if self.least_only else told


def samples_of(all_figures, name):
    return [Sample(figures, program) for figures in all_figures
            if not figures.cell.loss_before and (program := figures.program(name)) and program.good]


def simplex(cost, start, steps=1500):
    """Nelder and Mead's search in the logarithms of the constants."""
    points = [start] + [[value + (0.4 if at == moved else 0) for at, value in enumerate(start)]
                        for moved in range(len(start))]
    ranked = sorted((cost(point), point) for point in points)
    for _ in range(steps):
        worst_cost, worst = ranked[-1]
        centre = [sum(point[at] for _, point in ranked[:-1]) / (len(ranked) - 1)
                  for at in range(len(start))]

        def towards(factor, worst=worst, centre=centre):
            point = [c + factor * (c - w) for c, w in zip(centre, worst)]
            return cost(point), point
        new = towards(1)
        if new[0] < ranked[0][0]:
            new = min(new, towards(2))
        elif new[0] >= ranked[-2][0]:
            new = min(towards(0.5), towards(-0.5))
        if new[0] < worst_cost:
            ranked[-1] = new
        else: # shrink towards the best
            best = ranked[0][1]
            ranked = [ranked[0]] + [(cost(point), point) for point in
                                    ([(b + v) / 2 for b, v in zip(best, old)] for _, old in ranked[1:])]
        ranked.sort()
    return ranked[0][1]


def bounded(name, value):
    return min(1.0, value) if name in ("share", "start") else value


def fit_program(name, samples):
    """The constants that fit these samples best, in the mean of squares of the logarithm."""
    guess, payload = GUESS[name], PAYLOAD[name]
    names = [key for key, value in guess.items() if value]

    def constants(point):
        return {**guess, **{key: bounded(key, math.exp(value)) for key, value in zip(names, point)}}

    def cost(point):
        if any(abs(value - math.log(guess[key])) > 5 for key, value in zip(names, point)):
            return 1e9
        c = constants(point)
        return sum(sample.off(c, payload) ** 2 for sample in samples) / len(samples)
    point = simplex(cost, [math.log(guess[key]) for key in names])
    point = simplex(cost, point) # from a fresh simplex: the first may have collapsed too early
    return {key: float(f"{value:.4g}") for key, value in constants(point).items()}


def errors(c, payload, samples):
    """Median and most of how far off it is, in percent, of cells that finished."""
    off = sorted(abs(math.exp(abs(sample.off(c, payload))) - 1) * 100 for sample in samples
                 if not sample.least_only)
    return {"cells": len(off), "median_percent": round(off[len(off) // 2], 1),
            "most_percent": round(off[-1], 1)} if off else {"cells": 0}


def fit(all_figures):
    """{program: {"constants", "fitted", "held_out"}}: a quarter of the cells, the same for all, is held
    out of the fit and judges it."""
    names = sorted(figures.cell.name for figures in all_figures)
    random.Random(7).shuffle(names)
    held = set(names[:len(names) // 4])
    found = {}
    for name in GUESS:
        samples = samples_of(all_figures, name)
        inside = [sample for sample in samples if sample.name not in held]
        if len(inside) < 8:
            raise ValueError(f"{len(inside)} cells with {name} are too few to fit: at least 8 "
                             "(the matrix 'fit' is made for it)")
        constants = fit_program(name, inside)
        found[name] = {
            "constants": constants, "payload": round(PAYLOAD[name], 5), "title": TITLES[name],
            "fitted": errors(constants, PAYLOAD[name], inside),
            "held_out": errors(constants, PAYLOAD[name],
                               [sample for sample in samples if sample.name in held])}
    return found


def show(programs):
    """Constants with their meaning, and errors."""
    for name, one in programs.items():
        held = one["held_out"]
        print(f"{one['title']}: {one['fitted']['cells']} cells, off by "
              f"{one['fitted'].get('median_percent', '-')} % in the median; "
              f"{held['cells']} cells held out, off by {held.get('median_percent', '-')} % in the median, "
              f"{held.get('most_percent', '-')} % at most")
        for key, value in one["constants"].items():
            if value:
                print(f"  {key:<22} {value:>12g}  {MEANING[key]}")
