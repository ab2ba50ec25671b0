"""Reads a matrix: which paths, which programs, how often, and what petrel has to reach.

    about: long copies over a lossy line          (a line of `key: value`; # begins a comment)
    programs: petrel, scp, curl?                  (`?`: only where it is installed)
    repetitions: 3

    cell: {rate} {rtt} {loss}                     (begins a cell; what stood above holds for all)
      rate: 100mbit | 1gbit                       (`|` makes a cell of each, all combinations)
      rtt: 5ms | 100ms
      loss: 1%
      bar: 0.95 of ceiling

A name of a cell may hold its keys in braces. All faults are found before anything starts, as
MatrixError "FILE:LINE: what"; the lines are kept for faults that only the machine knows.
"""
import hashlib
import itertools
import json
import os
import re

import bars
import drivers
import quantities as q

HERE = os.path.dirname(os.path.abspath(__file__))
FLOW_PROGRAMS = ("cubic", "bbr")


class MatrixError(Exception):
    pass


def one_of(*words):
    def check(text):
        if text not in words:
            raise ValueError(f"'{text}' should be one of: {', '.join(words)}")
        return text
    return check


def positive(reader):
    def check(text):
        value = reader(text)
        if value <= 0:
            raise ValueError(f"'{text}' should be more than nothing")
        return value
    return check


def mtu(text):
    value = q.count(text, 576)
    if value > 65535:
        raise ValueError(f"'{text}' is more than an IP packet can have, 65535")
    return value


def queue(text):
    if not re.fullmatch(r"\d+(\.\d+)?(bdp|p|[KMG]?)", text):
        raise ValueError(f"'{text}' should be like 1bdp, 256K or 100p (packets)")
    return text


def policer(text):
    rate, _, bucket = text.partition(":")
    if q.rate_bps(rate) == 0 or q.size_bytes(bucket or "-") == 0:
        raise ValueError(f"'{text}' should be like 100mbit:1M")
    return text


def lanes(text):
    if text != "auto" and q.count(text) > 16:
        raise ValueError(f"'{text}' is more than petrel has, 16")
    return text


# What the link does. Read here for faults and for the ceiling, handed to the emulator as written.
LINK_KEYS = {
    "rate": q.rate_bps, "rate-back": q.rate_bps, "rtt": q.time_s, "queue": queue,
    "queue-back": queue, "loss": q.share, "loss-back": q.share,
    "loss-at": one_of("before", "after"), "burst": positive(lambda text: float(text)),
    "correlation": q.share, "jitter": q.time_s, "reorder": q.share, "duplicate": q.share,
    "policer": policer, "flow-policer": policer, "mtu": mtu, "seed": q.count,
}
# What is done over it.
WORK_KEYS = {
    "size": positive(q.size_bytes), "repetitions": q.count, "time-limit": positive(q.time_s),
    "direction": one_of("push", "pull"), "files": one_of("memory", "disk"),
    "stream": positive(q.time_s), "beside": one_of(*FLOW_PROGRAMS), "beside-rate": q.rate_bps,
    "visit": one_of("first", "repeated"), "tcp-buffers": one_of("tuned", "default"),
    "socket-buffers": positive(q.size_bytes), "link": one_of("emulated", "direct"),
    "lanes": lanes,
}
TEXT_KEYS = {"about": str, "form": one_of("plain", "rift", "falcon", "farwing")}
LIST_KEYS = ("programs", "bar", "groups")
DEFAULTS = {"size": "256MiB", "repetitions": "3", "time-limit": "60s", "direction": "push",
            "files": "memory", "visit": "first", "tcp-buffers": "tuned", "link": "emulated",
            "rtt": "0", "rate": "none", "loss": "0%", "loss-at": "after", "mtu": "1500", "seed": "1"}
READERS = {**LINK_KEYS, **WORK_KEYS, **TEXT_KEYS}


class Program:
    """One program under test: `curl`, `petrel/fair`, `scp/bbr`, `uftp?`."""

    def __init__(self, text):
        self.optional = text.endswith("?")
        self.name = text.rstrip("?")
        base, _, self.variant = self.name.partition("/")
        self.driver = drivers.find(base)
        if self.driver is None:
            raise ValueError(f"unknown program '{base}'; there are: {', '.join(drivers.names())}")
        if self.variant and self.variant.split(":")[0] not in self.driver.VARIANTS:
            raise ValueError(f"{base} has no variant '{self.variant}'; it has: "
                             f"{', '.join(self.driver.VARIANTS) or 'none'}")
        self.kinds = getattr(self.driver, "KINDS_OF", {}).get(self.variant, self.driver.KINDS)


def short_hash(words):
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]


class Cell:
    """What one cell says, as text by key (`words`), as numbers by attribute, and on which lines."""

    def __init__(self, name, words, programs, bar_list, groups, lines):
        self.name, self.words, self.programs, self.bars = name, words, programs, bar_list
        self.groups, self.lines = groups, lines
        value = {key: READERS[key](text) for key, text in words.items()}
        self.rate_bps, self.rtt_s, self.loss = value["rate"], value["rtt"], value["loss"]
        self.size, self.repetitions = value["size"], value["repetitions"]
        self.time_limit_s, self.direction = value["time-limit"], value["direction"]
        self.stream_s = value.get("stream", 0)
        self.mtu, self.loss_before = value["mtu"], value["loss-at"] == "before"
        self.direct = value["link"] == "direct"
        self.place = "petrel" # what makes the link: "netem", or "hosts", whose rate is the path's own
        self.beside_rate_bps = value.get("beside-rate", 0)
        self.socket_buffers = value.get("socket-buffers", 0)

    def cap_size(self, most):
        """For a quick look: no larger than this; 0 is no cap."""
        if most and self.size > most:
            self.size, self.words["size"] = most, f"{most}b"

    def link_options(self):
        """For petrel-lab link: what the cell says, but for what petrel-lab has by default."""
        options = []
        for key, text in self.words.items():
            if key in LINK_KEYS and not (key.startswith("rate") and text == "none"):
                options += [f"--{key}", text]
        if self.direction == "pull": # the cell's words are about the way of the data
            swap = {"--loss": "--loss-back", "--loss-back": "--loss"}
            options = [swap.get(option, option) for option in options]
        return options

    def ceiling(self):
        """MB/s of payload that the link can carry in UDP packets with petrel's header; None without a
        rate. IPv4, UDP and the sealed packet's head take 60 bytes of each IP packet."""
        if not self.rate_bps or self.direct or self.place == "hosts":
            return None
        left = 1 if self.loss_before else 1 - self.loss
        return self.rate_bps / 8e6 * (self.mtu - 60) / self.mtu * left

    def conditions(self):
        """All that decides what a run measures: two rows may be compared when these are equal."""
        return {**({"place": self.place} if self.place != "petrel" else {}),
                **{key: text for key, text in sorted(self.words.items())
                   if key in LINK_KEYS or key in WORK_KEYS and key != "repetitions"}}

    def conditions_hash(self):
        return short_hash(self.conditions())

    def path_hash(self):
        """Of what the path alone is made of: cells that differ in their work share its calibration."""
        path = {**LINK_KEYS, "direction": 0, "tcp-buffers": 0, "link": 0, "place": 0}
        return short_hash({key: text for key, text in self.conditions().items() if key in path})


class Matrix:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.name = re.sub(r"\.matrix$", "", os.path.basename(path))
        self.about, self.form, self.cells = "", "plain", []
        self.parse()

    def fail(self, line, what):
        raise MatrixError(f"{self.path}:{line}: {what}")

    def parse(self):
        blocks = [[None, 0, []]] # name of the cell, line, [(line, key, text)]
        for number, line in enumerate(self.text.splitlines(), 1):
            line = re.sub(r"(^|\s)#.*", "", line).strip()
            if not line:
                continue
            key, colon, text = (part.strip() for part in line.partition(":"))
            if not colon or not text:
                self.fail(number, f"'{line}' is no line of the form 'key: value'")
            if key == "cell":
                blocks.append([text, number, []])
            elif key in READERS or key in LIST_KEYS:
                blocks[-1][2].append((number, key, text))
            else:
                known = ", ".join(sorted([*READERS, *LIST_KEYS, "cell"]))
                self.fail(number, f"unknown key '{key}'; there are: {known}")
        common = blocks[0][2]
        for line, key, text in common:
            if key in TEXT_KEYS:
                setattr(self, key, self.check(line, key, text))
        for name, line, own in blocks[1:]:
            self.cells += self.expand(name, line, common, own)
        if not self.cells:
            self.fail(len(self.text.splitlines()) or 1, "no cell: a line 'cell: NAME' begins one")
        names = set()
        for cell in self.cells:
            if cell.name in names:
                self.fail(cell.lines["cell"], f"two cells are called '{cell.name}'")
            names.add(cell.name)

    def check(self, line, key, text):
        try:
            return READERS[key](text)
        except ValueError as fault:
            self.fail(line, f"{key}: {fault}")

    def expand(self, name, line, common, own):
        """The cells of one block: one for each combination of what stands between bars."""
        options, lines, lists = {}, {"cell": line}, {key: [] for key in LIST_KEYS}
        seen = set()
        for place, entries in (("common", common), ("own", own)):
            for number, key, text in entries:
                if key in LIST_KEYS:
                    if key == "programs": # a cell's own replace the common ones; bars add up
                        lists[key] = []
                    lists[key].append((number, text))
                elif key not in TEXT_KEYS:
                    if (place, key) in seen:
                        self.fail(number, f"'{key}' stands twice here; alternatives are 'a | b'")
                    seen.add((place, key))
                    options[key] = [part.strip() for part in text.split("|")]
                    for part in options[key]:
                        self.check(number, key, part)
                lines[key] = number
        words = {**{key: [text] for key, text in DEFAULTS.items()}, **options}
        for combination in itertools.product(*words.values()):
            yield self.cell(name, dict(zip(words, combination)), lists, lines)

    def cell(self, name, words, lists, lines):
        try:
            name = re.sub(r"\{([\w-]+)\}", lambda match: words[match[1]], name)
        except KeyError as key:
            self.fail(lines["cell"], f"the name speaks of {key}, which the cell does not have")
        name = re.sub(r"\s+", "-", name.strip())
        programs, bar_list, groups = [], [], []
        for number, text in lists["programs"]:
            for word in re.split(r"[,\s]+", text):
                programs.append(self.made(Program, word, number))
        for number, text in lists["bar"]:
            bar_list.append(self.made(bars.Bar, text, number))
        for _, text in lists["groups"]:
            groups += re.split(r"[,\s]+", text)
        cell = Cell(name, words, programs, bar_list, groups, lines)
        self.check_cell(cell)
        return cell

    def made(self, kind, text, line):
        try:
            return kind(text)
        except ValueError as fault:
            self.fail(line, str(fault))

    def check_cell(self, cell):
        """What is possible key by key and impossible together."""
        lines = cell.lines
        if not cell.programs:
            self.fail(lines["cell"], f"cell '{cell.name}' has no programs: 'programs: petrel, scp'")
        if "burst" in cell.words and "correlation" in cell.words:
            self.fail(lines["burst"], "burst and correlation are two ways to say the same: take one")
        if cell.direct and (cell.rate_bps or cell.rtt_s or cell.loss):
            self.fail(lines["link"], "a direct link has no rate, rtt or loss")
        if cell.loss >= 1:
            self.fail(lines["loss"], "nothing arrives with 100% loss")
        if "beside-rate" in cell.words and "beside" not in cell.words:
            self.fail(lines["beside-rate"], "beside-rate is of the flow that 'beside' names")
        for program in cell.programs:
            kind = "beside" if "beside" in cell.words else "stream" if cell.stream_s else "copy"
            if kind not in program.kinds:
                self.fail(lines["programs"], f"{program.name} cannot do '{kind}' (cell "
                          f"'{cell.name}'); it can: {', '.join(program.kinds)}")
            for key in getattr(program.driver, "REFUSES", {}).get(program.variant, ()):
                if key in lines:
                    self.fail(lines[key], f"{program.name} cannot follow '{key}' (cell '{cell.name}')")

    def sha256(self):
        """Of the whole text, bars included: results carry it, so bars cannot move afterwards."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def find(name):
    """The path of a matrix given as a file or as the name of a ready one; MatrixError."""
    if os.path.isfile(name):
        return name
    ready = os.path.join(HERE, "matrices", f"{name}.matrix")
    if os.path.exists(ready):
        return ready
    names = sorted(entry[:-7] for entry in os.listdir(os.path.join(HERE, "matrices"))
                   if entry.endswith(".matrix"))
    raise MatrixError(f"no file and no ready matrix '{name}'; ready are: {', '.join(names)}")


def load(name):
    path = find(name)
    with open(path, encoding="utf-8") as file:
        return Matrix(os.path.relpath(path), file.read())
