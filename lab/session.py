"""Runs a matrix: cell after cell, what was done before left out, each line of results written as soon as
it is there. Ends cleanly at any moment: namespaces, processes and folders go, results stay."""
import datetime
import json
import os
import shutil
import signal
import sys
import uuid

import emulated
import ends
import facts
import results
import two_hosts
import veth
from matrix_file import MatrixError


class Interrupted(Exception):
    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.number = number


def on_signals():
    def interrupt(number, _):
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN) # once is enough: what follows is the cleaning up
        raise Interrupted(number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


class Log:
    """The file of results. With `resume`, knows what it holds already."""

    def __init__(self, path, resume):
        self.done, self.lines = set(), []
        if os.path.exists(path):
            if not resume:
                raise MatrixError(f"{path} exists: --resume goes on with it, --out names another")
            self.lines = results.load(path)
            self.done = {self.key(line) for line in self.lines
                         if line["kind"] == "run" and "failed" not in line}
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.file = open(path, "a", encoding="utf-8")
        if self.lines or self.file.tell():
            self.file.write("" if self.ends_with_newline(path) else "\n")
        self.path = path

    @staticmethod
    def ends_with_newline(path):
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    @staticmethod
    def key(line):
        return line["matrix"], line["cell"], line["conditions"], line["program"], line["repetition"]

    def write(self, line):
        text = json.dumps({"schema": results.SCHEMA, **line})
        print(text, file=self.file, flush=True)
        self.lines.append(dict(json.loads(text), line=0, file=self.path, raw=text))


class Session:
    """`log` is set once `check` has found nothing: until then nothing is written."""

    def __init__(self, matrix, options):
        self.matrix, self.options, self.log = matrix, options, None
        self.id = uuid.uuid4().hex[:12]
        self.absent, self.big, self.calibrated = [], {}, set()
        self.temp = emulated.new_folder(os.environ.get("TMPDIR", "/tmp"))
        self.petrel = self.keep_program(options.petrel)

    def keep_program(self, petrel):
        """A copy, so that a build in mid-run changes nothing; itself where copies cannot run."""
        copy = os.path.join(self.temp, os.path.basename(petrel))
        for name in (petrel, os.path.join(os.path.dirname(petrel), "petrel-hooks")):
            if os.path.exists(name):
                shutil.copy2(name, self.temp)
        return copy if facts.first_line([copy, "--version"]) else petrel

    # ---- before anything starts ----

    def check(self):
        """Missing programs and room, each with the line of the matrix that asks for it; MatrixError."""
        look = two_hosts.which(self.options, self.temp) if self.options.hosts else lambda end, tool: \
            shutil.which(tool, path=f"{os.environ['PATH']}:{ends.SEARCH}")
        for cell in self.matrix.cells:
            for program in list(cell.programs):
                missing = [tool for end in ("near", "far") for tool in program.driver.NEEDS[end]
                           if not look(end, tool)]
                if not missing:
                    continue
                if not program.optional:
                    self.matrix.fail(cell.lines["programs"],
                                     f"{program.name} needs {missing[0]}, which is not here (Debian: "
                                     f"apt install {program.driver.PACKAGES}; or write "
                                     f"'{program.name}?' to go without)")
                cell.programs.remove(program)
                self.absent.append(program.name)
            if not cell.programs:
                self.matrix.fail(cell.lines["programs"], f"no program of cell '{cell.name}' is here")
            self.check_room(cell)
        if self.options.hosts:
            return
        why = emulated.probe(self.options.lab) if self.options.emulator == "petrel" else \
            veth.netem_missing()
        if why:
            raise MatrixError(f"no link can be made here by {self.options.emulator}: {why}")
        if any(cell.direct for cell in self.matrix.cells) and os.getuid() != 0:
            raise MatrixError("a direct link needs root: --only or --group leave such cells out")

    def folder_of(self, cell):
        return self.options.folder if cell.words["files"] == "disk" else "/dev/shm"

    def check_room(self, cell):
        if self.options.hosts or cell.stream_s:
            return
        folder = self.folder_of(cell)
        free, need = emulated.free_bytes(folder), 2 * cell.size + (64 << 20)
        if free < need:
            self.matrix.fail(cell.lines.get("size", cell.lines["cell"]),
                             f"cell '{cell.name}' needs {need / 1e9:.1f} GB in {folder}, "
                             f"{free / 1e9:.1f} GB are free there (--size caps it)")

    def begin(self):
        options = self.options
        self.log.write({
            "kind": "begin", "session": self.id, "matrix": self.matrix.name,
            "matrix_path": self.matrix.path, "matrix_text": self.matrix.text,
            "matrix_sha256": self.matrix.sha256(), "size_cap": options.size,
            "place": options.place,
            "began": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "command_line": options.command_line, "emulator": options.emulator,
            "loss_tool": "nftables at the receiver" if options.hosts else
            {"petrel": "petrel-lab link", "netem": "tc netem with HTB"}[options.emulator],
            "hosts": two_hosts.facts_of(options, self.temp) if options.hosts else None,
            "host_label": options.label or ("two hosts" if options.hosts else "one machine"),
            "absent": sorted(set(self.absent)), **facts.machine(self.petrel)})

    # ---- cells ----

    def wanted(self, cell):
        found = []
        for repetition in range(1, cell.repetitions + 1):
            for program in cell.programs:
                head = {"matrix": self.matrix.name, "cell": cell.name,
                        "conditions": cell.conditions_hash(), "program": program.name,
                        "repetition": repetition}
                if self.log.key(head) not in self.log.done:
                    found.append([program.name, repetition])
        return found

    def run_cell(self, cell, wanted):
        """Starts the cell and writes what it tells. RuntimeError when it ends without its runs."""
        parent = self.folder_of(cell)
        if not self.options.hosts and parent not in self.big: # kept: it holds the source for all cells
            self.big[parent] = emulated.new_folder(parent)
        temp = os.path.join(self.temp, f"cell-{len(os.listdir(self.temp))}")
        os.mkdir(temp)
        job_path = os.path.join(temp, "job")
        with open(job_path, "w", encoding="utf-8") as file:
            json.dump({"path": self.matrix.path, "text": self.matrix.text, "cap": self.options.size,
                       "cell": cell.name, "wanted": wanted, "folder": self.big.get(parent),
                       "attempts": max(1, self.options.attempts),
                       "calibrate": not self.options.no_calibration and cell.path_hash() not in self.calibrated,
                       "hosts": two_hosts.words(self.options, temp) if self.options.hosts else None}, file)
        process = two_hosts.start(job_path) if self.options.hosts else emulated.start(
            cell, self.options.emulator, job_path, temp, self.petrel, self.options.lab)
        try:
            for line in process.stdout:
                self.told(cell, json.loads(line))
            complaint = process.stderr.read().strip()
            if process.wait():
                raise RuntimeError(f"cell '{cell.name}' ended with {process.returncode}: "
                                   f"{complaint[-600:]}")
        finally:
            ends.end_all(process)
            shutil.rmtree(temp, ignore_errors=True)

    def told(self, cell, line):
        if line["kind"] == "calibration": # once for all cells over this path
            self.calibrated.add(cell.path_hash())
            line["path"] = cell.path_hash()
        self.log.write({"kind": line.pop("kind"), "session": self.id, "matrix": self.matrix.name,
                        "matrix_sha256": self.matrix.sha256()[:16], "cell": cell.name,
                        "conditions": cell.conditions_hash(), **line})
        if "program" in line and "wall_s" in line and sys.stderr.isatty():
            print(f"\r\033[K{cell.name}: {line['program']} {line['repetition']} done", end="\r",
                  file=sys.stderr, flush=True)

    def run(self, show):
        """All cells; `show` gets each cell's figures when it is done. Returns the CellFigures."""
        try:
            self.begin()
            for cell in self.matrix.cells:
                wanted = self.wanted(cell)
                if wanted:
                    try:
                        self.run_cell(cell, wanted)
                    except RuntimeError as fault:
                        self.log.write({"kind": "fault", "session": self.id,
                                        "matrix": self.matrix.name, "cell": cell.name,
                                        "text": str(fault)})
                        print(f"petrel-lab: {fault}", file=sys.stderr)
                show(self.figures(cell))
        finally:
            self.end()
        return [self.figures(cell) for cell in self.matrix.cells]

    def end(self):
        """Removes the folders; a second time does no harm."""
        for folder in [self.temp, *self.big.values()]:
            shutil.rmtree(folder, ignore_errors=True)
        two_hosts.end(self.options)

    def figures(self, cell):
        runs = [line for line in self.log.lines if line["kind"] == "run" and
                (line["matrix"], line["cell"], line["conditions"]) ==
                (self.matrix.name, cell.name, cell.conditions_hash())]
        return results.CellFigures(self.matrix, cell, runs)
