"""Reads files of results (JSON lines, plain, .gz or .xz) and condenses them: runs of a program in a cell
to a median with least and most, a cell to ratios and met or missed bars."""
import gzip
import json
import lzma
import os
import statistics

import matrix_file
from quantities import show_size

SCHEMA = 1
STOLEN_MOST = 5 # per cent that the host took for others; such a run may be repeated
# Without these a line says nothing; what else it lacks shows as "-".
NEEDED = {"begin": ("matrix", "matrix_path", "matrix_text", "matrix_sha256", "size_cap", "place", "absent",
                    "host_label", "versions", "sysctls", "began"),
          "run": ("matrix", "cell", "conditions", "program", "repetition"),
          "calibration": ("matrix", "cell", "conditions"), "settings": ("program", "text"),
          "place": (), "fault": ("text",)}
OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def load(path):
    """The lines as dicts, each with `line`, its number, and `file`. What was cut off by an interruption
    is left out."""
    opener = OPENERS.get(os.path.splitext(path)[1], open)
    found = []
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            try:
                one = json.loads(text)
            except ValueError:
                continue
            if not isinstance(one, dict):
                raise ValueError(f"{path}:{number}: no line of results")
            if one.get("schema") != SCHEMA:
                raise ValueError(f"{path}:{number}: schema {one.get('schema')}, this program reads "
                                 f"{SCHEMA}")
            lacks = [name for name in NEEDED.get(one.get("kind"), ("kind of line",)) if name not in one]
            if lacks:
                raise ValueError(f"{path}:{number}: no line of results: it lacks '{lacks[0]}'")
            found.append(dict(one, line=number, file=os.path.basename(path), raw=text.strip()))
    return found


class ProgramFigures:
    def __init__(self, name, runs):
        self.name, self.runs = name, runs
        self.failures = [run for run in runs if "failed" in run]
        self.good = [run for run in runs if "failed" not in run]
        done = sorted(run["mb_per_s"] for run in self.good if "mb_per_s" in run)
        slow = [run for run in self.good if "floor_mb_per_s" in run]
        # Where half of the runs did not finish the median did not.
        self.finished = bool(done) and len(done) > len(slow)
        self.rate = statistics.median([0.0] * len(slow) + done) if self.finished else None
        self.least, self.most = (done[0], done[-1]) if done else (None, None)
        self.floor = slow[0]["floor_mb_per_s"] if slow else None
        # No rate of this program was higher: what a ratio is at least formed with.
        self.bound = self.rate if self.finished else self.floor

    def median(self, figure):
        values = [run[figure] for run in self.good if run.get(figure) is not None]
        return statistics.median(values) if values else None

    def processor(self):
        """Seconds a GB of both ends together."""
        ends = [self.median(f"{end}_cpu_s_per_gb") for end in ("sender", "receiver")]
        return None if None in ends else sum(ends)


def calmest(runs):
    """Of the attempts at a run the one of which the host took least; failures stay beside it."""
    best = {}
    for run in runs:
        key = run.get("session"), run["program"], run["repetition"]
        if "failed" not in run and stolen(run) < stolen(best.get(key)):
            best[key] = run
    return [run for run in runs if "failed" in run or
            run is best[run.get("session"), run["program"], run["repetition"]]]


def stolen(run):
    """Per cent; older lines do not say."""
    return run.get("stolen_percent", 0) if run else float("inf")


class CellFigures:
    """All runs of a cell under the same conditions, and the cell as the matrix described it."""

    def __init__(self, matrix, cell, runs, calibrations=()):
        self.matrix, self.cell, self.calibrations = matrix, cell, list(calibrations)
        self.attempts, runs = len(runs), calmest(runs)
        self.programs = [ProgramFigures(program.name, own) for program in cell.programs
                         if (own := [run for run in runs if run["program"] == program.name])]
        self.petrel = next((one for one in self.programs if one.name.split("/")[0] == "petrel"), None)
        self.runs = runs

    def program(self, name):
        return next((one for one in self.programs if one.name == name), None)

    def stolen(self):
        """The most that the host took of one of the runs that count, in per cent."""
        return max(map(stolen, self.runs), default=0)

    def others(self):
        return [one for one in self.programs if one.name.split("/")[0] != "petrel"]

    def of_ceiling(self, program):
        ceiling = self.cell.ceiling()
        return program.rate / ceiling if ceiling and program and program.rate else None

    def ratio(self, other):
        """petrel's rate over another's, and whether that is only a floor; (None, False)."""
        if not self.petrel or not self.petrel.rate or not other or not other.bound:
            return None, False
        return self.petrel.rate / other.bound, not other.finished

    def verdicts(self):
        """[(bar, met or None, words)], and what no cell may show besides, as bars without a text."""
        found = [(bar, *bar.judge(self)) for bar in self.cell.bars]
        petrel = self.petrel
        if petrel and petrel.failures:
            found.append((None, False, f"petrel failed: {petrel.failures[0]['failed']}"))
        if petrel and petrel.median("receiver_drops"):
            found.append((None, False, "the receiver's socket dropped"))
        return found

    def misses(self):
        return [words if bar is None else f"{bar.text}: {words}"
                for bar, met, words in self.verdicts() if met is False]


def cells(lines):
    """CellFigures of all that `load` read, in the order of the matrix; the newest text of a matrix
    counts, and its hash has to be the one that its runs carry."""
    matrices, runs, calibrations = {}, {}, {}
    for line in lines:
        if line["kind"] == "begin":
            matrix = matrix_file.Matrix(line["matrix_path"], line["matrix_text"])
            matrix.cap, matrix.place = line["size_cap"], line["place"]
            matrices[line["matrix"], matrix.place, matrix.cap] = matrix
        elif line["kind"] == "run":
            runs.setdefault((line["matrix"], line["cell"], line["conditions"]), []).append(line)
        elif line["kind"] == "calibration":
            path = line.get("path", line["conditions"]) # without: of the cell alone
            calibrations.setdefault((line["matrix"], path), []).append(line)
    found = []
    for (name, _, _), matrix in matrices.items():
        for cell in matrix.cells:
            cell.place = matrix.place
            cell.cap_size(matrix.cap)
            key = name, cell.name, cell.conditions_hash()
            if key in runs: # once, though two caps may come to the same size
                known = [one for hash_ in (key[2], cell.path_hash()) for one in calibrations.get((name, hash_), ())]
                found.append(CellFigures(matrix, cell, runs.pop(key), known))
    return found


def same_cells(ours, theirs):
    """Pairs of CellFigures under the same name and conditions."""
    known = {(one.matrix.name, one.cell.name, one.cell.conditions_hash()): one for one in theirs}
    pairs = ((one, known.get((one.matrix.name, one.cell.name, one.cell.conditions_hash()))) for one in ours)
    return [pair for pair in pairs if pair[1]]


def repetitions_words(figures):
    """How often each program ran in each cell: "3 repetitions", or "1 to 3 repetitions"."""
    counts = sorted({len(program.runs) for one in figures for program in one.programs})
    few = f"{counts[0]} to " if len(counts) > 1 else ""
    return f"{few}{counts[-1]} repetition{'' if counts[-1] == 1 else 's'}"


def machine_words(lines, matrix):
    """Where and when the newest runs of a matrix were, and what was left off, for a line above a table."""
    begin = [line for line in lines if line["kind"] == "begin" and line["matrix"] == matrix.name][-1]
    cap = f"; files of at most {show_size(matrix.cap)}" if matrix.cap else ""
    return f"{cap}; {begin['host_label']}, {begin.get('processors', '?')} processors " \
           f"({begin.get('processor', '?')}), {begin['began'][:10]}"


def number(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def rate_words(program, digits=1):
    """ "104.2", or "< 4.5" of a program that did not finish, or "failed"."""
    if program is None or not program.runs:
        return "-"
    if program.finished:
        return number(program.rate, digits)
    return f"< {number(program.floor, digits)}" if program.floor else "failed"
