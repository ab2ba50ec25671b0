"""The lab's Python parts that need no network: matrices, bars, medians, what netem is told, and the model of
petrel estimate, which the C program has to compute alike.

    lab_scripts_test.py PETREL
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "lab"))

import cell_run  # noqa: E402
import counters  # noqa: E402
import facts  # noqa: E402
import guess  # noqa: E402
import matrix_file  # noqa: E402
import model  # noqa: E402
import pack  # noqa: E402
import results  # noqa: E402
import rows  # noqa: E402
import veth  # noqa: E402


def matrix(text):
    return matrix_file.Matrix("m.matrix", text)


def run(program, repetition=1, **more):
    return {"kind": "run", "program": program, "repetition": repetition, **more}


class Installation(unittest.TestCase):
    def test_every_file_is_listed(self):
        lab = os.path.join(ROOT, "lab")
        with open(os.path.join(lab, "meson.build"), encoding="utf-8") as file:
            listed = file.read()
        for folder, folders, names in os.walk(lab):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                if name not in ("meson.build", "model_header.py"): # for the build itself
                    self.assertIn(f"{name}'", listed, os.path.join(folder, name))


class Matrices(unittest.TestCase):
    def test_alternatives_make_every_combination(self):
        one = matrix("programs: petrel\nrate: 1gbit\ncell: {rtt} {loss}\n  rtt: 5ms | 100ms\n  loss: 0% | 1%\n")
        self.assertEqual([cell.name for cell in one.cells], ["5ms-0%", "5ms-1%", "100ms-0%", "100ms-1%"])
        self.assertEqual((one.cells[3].rtt_s, one.cells[3].loss, one.cells[3].rate_bps), (0.1, 0.01, 10**9))

    def test_a_cell_has_its_own_words_and_the_common_ones(self):
        one = matrix("programs: petrel, scp\nbar: 3x scp\nrtt: 4ms\n"
                     "cell: a\n  rtt: 1ms # its own\n  bar: 5 MB/s\n  programs: petrel\ncell: b\n")
        a, b = one.cells
        self.assertEqual((a.rtt_s, b.rtt_s), (0.001, 0.004))
        self.assertEqual([bar.text for bar in a.bars], ["3x scp", "5 MB/s"])
        self.assertEqual([len(cell.programs) for cell in one.cells], [1, 2])

    def test_the_ceiling_counts_headers_and_losses_behind_the_limiter(self):
        text = "programs: petrel\ncell: a\n  rate: 1gbit\n  loss: 10%\n  loss-at: {}\n"
        self.assertAlmostEqual(matrix(text.format("before")).cells[0].ceiling(), 120.0)
        self.assertAlmostEqual(matrix(text.format("after")).cells[0].ceiling(), 108.0)

    def test_a_pull_turns_the_losses_round(self):
        cell = matrix("programs: petrel\ncell: a\n  loss: 2%\n  direction: pull\n").cells[0]
        words = cell.link_options()
        self.assertEqual(words[words.index("--loss-back") + 1], "2%")
        self.assertNotIn("--loss", words)

    def test_conditions_change_with_all_but_bars_and_names(self):
        base = matrix("programs: petrel\ncell: a\n  loss: 2%\n  bar: 3x\n").cells[0]
        renamed = matrix("programs: petrel, scp\ncell: b\n  loss: 2%\n  repetitions: 9\n").cells[0]
        other = matrix("programs: petrel\ncell: a\n  loss: 2%\n  seed: 2\n").cells[0]
        self.assertEqual(base.conditions_hash(), renamed.conditions_hash())
        self.assertNotEqual(base.conditions_hash(), other.conditions_hash())

    def test_cells_share_a_path_that_differ_in_their_work(self):
        one = matrix("programs: petrel\ncell: {loss} {size}\n  loss: 1% | 2%\n  size: 1MiB | 2MiB\n")
        hashes = {cell.name: cell.path_hash() for cell in one.cells}
        self.assertEqual(hashes["1%-1MiB"], hashes["1%-2MiB"])
        self.assertNotEqual(hashes["1%-1MiB"], hashes["2%-1MiB"])

    def test_every_ready_matrix_can_be_read(self):
        folder = os.path.join(ROOT, "lab", "matrices")
        sizes = {}
        for name in os.listdir(folder):
            one = matrix_file.load(os.path.join(folder, name))
            sizes[one.name] = len(one.cells)
            self.assertTrue(one.about, name)
            for cell, likely, most in guess.matrix_s(one):
                self.assertTrue(0 < likely <= most, (name, cell.name))
        self.assertEqual((sizes["rift"], sizes["quick"]), (25, 6))
        self.assertEqual(sizes["serve"], 6)
        for name in ("rift-10g", "falcon", "farwing", "fit", "fair", "burst", "bench", "ci"):
            self.assertIn(name, sizes)

    def test_a_variant_may_do_less(self):
        for work in ("stream: 5s", "beside: cubic"):
            with self.assertRaisesRegex(matrix_file.MatrixError, "petrel/serve cannot do '.*it can: copy$"):
                matrix(f"programs: petrel, petrel/serve\ncell: a\n  {work}\n")
        for key in ("visit: first", "socket-buffers: 212992"):
            with self.assertRaisesRegex(matrix_file.MatrixError, f"petrel/serve cannot follow '{key.split(':')[0]}'"):
                matrix(f"programs: petrel, petrel/serve\ncell: a\n  {key}\n")

    def test_published_figures_name_cells_that_there_are(self):
        import published
        for name, rows in published.BY_FORM.items():
            cells = {cell.name for cell in matrix_file.load(name).cells}
            self.assertEqual(set(rows) - cells, set(), name)

    def test_a_cut_matrix_is_read_or_refused(self):
        with open(os.path.join(ROOT, "lab", "matrices", "falcon.matrix"), encoding="utf-8") as file:
            text = file.read()
        for at in range(0, len(text), 7):
            try:
                matrix(text[:at])
            except matrix_file.MatrixError as fault:
                self.assertRegex(str(fault), r"^m\.matrix:\d+: ")


class Figures(unittest.TestCase):
    def figures(self, bars, runs, more=""):
        lines = "".join(f"  bar: {bar}\n" for bar in bars)
        one = matrix("programs: petrel, scp, bbr8\ncell: a\n  rate: 80mbit\n  size: 10MB\n  time-limit: 10s\n"
                     + more + lines)
        return results.CellFigures(one, one.cells[0], runs)

    def test_medians_with_least_and_most(self):
        one = self.figures([], [run("petrel", at, mb_per_s=value) for at, value in enumerate((9, 7, 8))]).petrel
        self.assertEqual((one.rate, one.least, one.most), (8, 7, 9))

    def test_what_did_not_finish_bounds_the_ratio(self):
        figures = self.figures([], [run("petrel", mb_per_s=8.0), run("scp", 1, floor_mb_per_s=1.0),
                                    run("scp", 2, floor_mb_per_s=1.0), run("scp", 3, mb_per_s=1.1)])
        self.assertEqual(figures.ratio(figures.program("scp")), (8.0, True))
        self.assertEqual(results.rate_words(figures.program("scp")), "< 1.0")

    def test_bars(self):
        runs = [run("petrel", mb_per_s=9.0, resent_percent=2.0, sender_rss_mb=50.0, receiver_rss_mb=99.0,
                    sender_cpu_s_per_gb=1.0, receiver_cpu_s_per_gb=0.5, queue_ms=3.0),
                run("scp", floor_mb_per_s=2.0), run("bbr8", mb_per_s=9.5)]
        for bar, met in (("4x scp", True), ("5x scp", False), ("3x", False), ("above bbr8", False),
                         ("0.93 of ceiling", True), ("0.95 of ceiling", False), ("9 MB/s", True),
                         ("resent at most 1.9%", False), ("sender memory at most 50MB", True),
                         ("receiver memory at most 98MB", False), ("processor at most 1.5 s/GB", True),
                         ("queue at most 2.9ms (target 3)", False), ("keeps 45%", None)):
            verdict = self.figures([bar], runs).verdicts()[0]
            self.assertIs(verdict[1], met, (bar, verdict[2]))

    def test_no_slower_but_for_a_little_is_a_tie_or_a_loss(self):
        for rate, met, says in ((9.85, False, "0.985x scp, a loss"), (9.9, True, "0.990x scp, a tie"),
                                (10.1, True, "1.010x scp, a tie"), (10.2, True, "1.020x scp, ahead")):
            figures = self.figures(["0.99x scp"], [run("petrel", mb_per_s=rate), run("scp", mb_per_s=10.0)])
            self.assertEqual(figures.verdicts()[0][1:], (met, says))
            self.assertIn(says, rows.cell_words(figures, ["petrel", "scp"])[-1])
        figures = self.figures(["0.99x scp"], [run("petrel", mb_per_s=0.9), run("scp", floor_mb_per_s=1.0)])
        self.assertEqual(figures.verdicts()[0][2], "at least 0.900x scp, not known which")

    def test_a_failure_of_petrel_is_a_miss_without_any_bar(self):
        self.assertIn("it broke", self.figures([], [run("petrel", failed="it broke")]).misses()[0])
        self.assertIn("dropped", self.figures([], [run("petrel", mb_per_s=9.0, receiver_drops=3)]).misses()[0])

    def test_a_petrel_that_did_not_finish_misses_every_bar(self):
        for bar in ("0.01 of ceiling", "1 MB/s", "above scp", "resent at most 99%", "keeps 1%"):
            figures = self.figures([bar], [run("petrel", floor_mb_per_s=9.9), run("scp", floor_mb_per_s=0.1)])
            self.assertEqual(figures.misses(), [f"{bar}: petrel did not finish in time"])

    def test_a_bar_without_petrel_is_missed(self):
        self.assertEqual(len(self.figures(["5 MB/s"], [run("bbr8", mb_per_s=9.5)]).misses()), 1)

    def test_a_line_of_another_schema_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"schema": 2, "kind": "run"}\n')
            with self.assertRaisesRegex(ValueError, "r.jsonl:1: schema 2"):
                results.load(path)

    def test_a_line_that_lacks_something_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.jsonl")
            for line, says in (('{"schema": 1, "kind": "run", "matrix": "m"}', "lacks 'cell'"),
                               ('{"schema": 1}', "lacks 'kind"), ('{"schema": 1, "kind": "x"}', "lacks 'kind"),
                               ('{"schema": 1, "kind": "begin"}', "lacks 'matrix'"), ("[1]", "no line of results")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(line + "\n")
                with self.assertRaisesRegex(ValueError, f"r.jsonl:1: .*{says}"):
                    results.load(path)


class Hope(unittest.TestCase):
    """Whether a copy is ended before its time is up: 10 MB over 1 MB/s, of which some have come."""

    def job(self, came, rate="8mbit", direction="push"):
        cell = matrix(f"programs: petrel\ncell: a\n  rate: {rate}\n  size: 10MB\n  direction: {direction}\n"
                      "  time-limit: 15s\n").cells[0]

        class End:
            folder = "/nonexistent"

        class Place:
            receiver = staticmethod(lambda direction: End)
        job = cell_run.Job(Place, cell, cell.programs[0], "")
        ways = {"forward": {"delivered": {"bytes": came}}, "back": {"delivered": {"bytes": 10**9}}}
        if direction == "pull":
            ways = {"forward": ways["back"], "back": ways["forward"]}
        counted = mock.patch.object(cell_run, "link_counters", lambda place: ways if came is not None else None)
        counted.start()
        self.addCleanup(counted.stop)
        return job

    def test_only_what_a_full_line_cannot_carry_is_hopeless(self):
        for came, left, hopeless in ((0, 9.9, True), (0, 10.1, False), (8_000_000, 1.9, True),
                                     (8_000_000, 2.1, False), (10_400_000, 0.1, False)):
            for direction in ("push", "pull"):
                self.assertIs(self.job(came, direction=direction).hopeless(left), hopeless, (came, left))

    def test_without_a_rate_or_counters_nothing_is(self):
        self.assertFalse(self.job(0, rate="none").hopeless(0.1))
        self.assertFalse(self.job(None).hopeless(0.1))


def lines_of(runs, cells=("a", "b"), name="m"):
    """Lines of results: `runs` are (cell, program, repetition, figures)."""
    text = "programs: petrel, scp\ntime-limit: 10s\nsize: 10MB\n" + \
        "".join(f"cell: {cell}\n  rate: {'none' if cell == 'free' else '80mbit'}\n" for cell in cells)
    one = matrix_file.Matrix(f"{name}.matrix", text)
    begin = {"schema": 1, "kind": "begin", "matrix": name, "matrix_path": f"{name}.matrix", "matrix_text": text,
             "matrix_sha256": one.sha256(), "size_cap": 0, "place": "petrel", "absent": [],
             "host_label": "one machine", "versions": {}, "sysctls": {}, "began": "2026-01-01T00:00:00+00:00"}
    conditions = {cell.name: cell.conditions_hash() for cell in one.cells}
    return [begin, *({"schema": 1, "matrix": name, "cell": cell, "conditions": conditions[cell],
                      **run(program, repetition, **figures)} for cell, program, repetition, figures in runs)]


class Files(unittest.TestCase):
    """What is done with files of results, through the commands."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, lines, more=""):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines) + more)
        return path

    def lab(self, *words, code=0):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "lab"), *words], capture_output=True, text=True,
                              cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def rates(self, name, *values, cell="a", program="petrel"):
        return self.write(name, lines_of([(cell, program, at, {"mb_per_s": value})
                                          for at, value in enumerate(values, 1)], cells=[cell]))

    def test_two_runs_agree_in_the_median(self):
        first = self.rates("1.jsonl", 9.0, 5.0, 8.0)
        self.assertIn("all within 5 %", self.lab("compare", first, self.rates("2.jsonl", 8.3, 8.2, 2.0)))
        self.assertRegex(self.lab("compare", first, self.rates("3.jsonl", 8.5, 9.9, 1.0), code=1),
                         r"a +petrel +8.0 +8.5 +6.2 % too far apart\n\n1 further apart than 5 %")
        self.lab("compare", first, self.rates("3.jsonl", 8.5), "--within", "7%")

    def test_what_finished_once_only_does_not_agree(self):
        unfinished = {"floor_mb_per_s": 1.0}
        slow = self.write("slow.jsonl", lines_of([("a", "scp", 1, unfinished)]))
        again = self.write("again.jsonl", lines_of([("a", "scp", 1, unfinished), ("b", "scp", 1, unfinished)]))
        self.assertIn("all within", self.lab("compare", slow, again))
        self.assertIn("1 further apart", self.lab("compare", slow, self.write(
            "done.jsonl", lines_of([("a", "scp", 1, {"mb_per_s": 1.1})])), code=1))

    def test_without_a_rate_nothing_is_judged(self):
        one, other = self.rates("1.jsonl", 100.0, cell="free"), self.rates("2.jsonl", 200.0, cell="free")
        self.assertIn("no rate: not judged", self.lab("compare", one, other))

    def test_results_that_share_no_cell(self):
        self.assertIn("no cell is in both", self.lab("compare", self.rates("1.jsonl", 1.0),
                                                     self.rates("2.jsonl", 1.0, cell="b"), code=2))

    def test_packing_keeps_every_whole_line(self):
        lines = lines_of([("a", "petrel", 1, {"mb_per_s": 8.0})])
        os.mkdir(os.path.join(self.folder, "results"))
        path = self.write("results/m.jsonl", lines, '{"schema": 1, "ki')
        self.assertIn("MB to keep, of 20 at most", self.lab("pack"))
        kept = results.load(f"{path}.xz")
        self.assertEqual([json.loads(line["raw"]) for line in kept], lines)
        self.assertEqual(pack.packed(os.path.dirname(path)), [f"{path}.xz"])
        self.assertTrue(os.path.exists(os.path.join(self.folder, "results", "measured.html")))
        # A folder is all that is packed there, and once.
        self.assertEqual(self.lab("report", "--markdown", "results"), self.lab("report", "--markdown", path))
        self.assertIn("no runs in it", self.lab("pack", self.write("none.jsonl", lines[:1]), code=2))

    def test_other_work_and_own_drops_are_told(self):
        lines = lines_of([("a", "petrel", 1, {"mb_per_s": 8.0})])
        for share, told in ((0.02, False), (0.4, True)):
            lines[1]["own_drops"] = 7 if told else 0
            lines[0].update(busy_share=share, load="17.0 9.0 3.0 1/100 4711")
            self.lab("report", self.write("m.jsonl", lines), "--out", "page.html")
            with open(os.path.join(self.folder, "page.html"), encoding="utf-8") as page:
                text = page.read()
            self.assertEqual("Other work had 40 % of the machine when" in text, told)
            self.assertEqual("1 run</a> the ends themselves dropped" in text, told)

    def test_what_the_host_took_is_told_and_the_calmest_attempt_counts(self):
        def attempt(number, rate, taken):
            return "a", "petrel", 1, {"mb_per_s": rate, "attempt": number, "stolen_percent": taken}
        for attempts, rate, says in (([(1, 5.0, 30.0), (2, 8.0, 2.0)], "8.0", "1 run during which the host"),
                                     ([(1, 5.0, 30.0), (2, 8.0, 60.0)], "5.0", "at most <a"),
                                     ([(1, 8.0, 5.0)], "8.0", None)):
            path = self.write("m.jsonl", lines_of([attempt(*one) for one in attempts]))
            row = next(line for line in self.lab("report", "--markdown", path).splitlines() if line.startswith("| a"))
            self.assertEqual(row.split(" | ")[1], rate)
            self.assertEqual("the host took 30 % of the processors" in row, rate == "5.0")
            self.lab("report", path, "--out", "page.html")
            with open(os.path.join(self.folder, "page.html"), encoding="utf-8") as page:
                text = page.read()
            if says:
                self.assertIn(says, text)
            else:
                self.assertNotIn("the host", text)

    def test_a_cap_of_the_size_is_told(self):
        lines = lines_of([("a", "petrel", 1, {"mb_per_s": 8.0})])
        lines[0]["size_cap"] = 1 << 20
        cell = matrix_file.Matrix("m.matrix", lines[0]["matrix_text"]).cells[0]
        cell.cap_size(1 << 20)
        lines[1]["conditions"] = cell.conditions_hash()
        self.assertIn("; files of at most 1 MiB; one machine", self.lab("report", "--markdown",
                                                                       self.write("m.jsonl", lines)))

    def test_how_often_is_told(self):
        once = [("a", "petrel", 1, {"mb_per_s": 8.0}), ("b", "petrel", 1, {"mb_per_s": 8.0})]
        thrice = once + [("a", "petrel", at, {"mb_per_s": 8.0}) for at in (2, 3)]
        for runs, words in ((once, "1 repetition"), (thrice, "1 to 3 repetitions"),
                            ([one for one in thrice if one[0] == "a"], "3 repetitions")):
            path = self.write("m.jsonl", lines_of(runs))
            self.assertIn(f"; {words}; one machine", self.lab("report", "--markdown", path))
            self.lab("report", path, "--out", "page.html")
            with open(os.path.join(self.folder, "page.html"), encoding="utf-8") as page:
                text = page.read()
            self.assertIn(f"<p>{words} of each program in each cell", text)
            self.assertEqual("spread is not known" in text, not words.startswith("3"))


class Facts(unittest.TestCase):
    def test_what_is_busy(self):
        with mock.patch.object(facts, "read", mock.Mock(side_effect=["cpu  100 0 100 50 7 0 0 0 0 0\n",
                                                                    "cpu  110 0 110 99 9 0 0 50 0 0\n"])), \
                mock.patch.object(facts.os, "cpu_count", lambda: 2):
            self.assertEqual(facts.busy_share(0.5), 0.2) # 20 of 100 hundredths


class Counters(unittest.TestCase):
    def test_differences_by_name(self):
        first = counters.pairs("Udp: InDatagrams RcvbufErrors\nUdp: 5 0\n")
        second = counters.pairs("Udp: InDatagrams RcvbufErrors\nUdp: 9 2\n")
        self.assertEqual(counters.difference(first, second), {"Udp.InDatagrams": 4, "Udp.RcvbufErrors": 2})
        self.assertEqual(counters.drops({"Udp.InDatagrams": 4, "Udp.RcvbufErrors": 2, "link0.sent_drop": 1}), 3)

    def test_interfaces_and_softnet(self):
        dev = "Inter-| Receive | Transmit\n face |bytes packets|bytes drop\n lo: 1 2 3 4\n"
        self.assertEqual(counters.interfaces(dev), {"lo.received_bytes": 1, "lo.received_packets": 2,
                                                    "lo.sent_bytes": 3, "lo.sent_drop": 4})
        self.assertEqual(counters.softnet("0a 01 00 0\n05 00 02 0\n"), {
            "softnet.processed": 15, "softnet.dropped": 1, "softnet.time_squeeze": 2})


    def test_the_host_is_no_load_of_ours(self):
        found = counters.processors("cpu  100 1 20 500 40 3 4 72 0 0\n")
        self.assertEqual(found, {"processor.busy": 128, "processor.niced": 1, "processor.stolen": 72})
        self.assertEqual(counters.stolen_percent(found), 36.0)
        with mock.patch.object(counters, "AWAKE", True): # the loops are no work, and yet run
            self.assertEqual(counters.processors("cpu  100 1 20 500 40 3 4 72 0 0\n")["processor.busy"], 127)
            self.assertEqual(counters.stolen_percent(dict(found, **{"processor.niced": 801})), 7.2)
        self.assertEqual(counters.stolen_percent({"processor.stolen": 1}), 0)


class Attempts(unittest.TestCase):
    def attempts(self, *taken):
        told = [RuntimeError("no") if one < 0 else {} for one in taken]
        place = mock.Mock(ends=lambda: [])
        with mock.patch.object(cell_run, "run_once", mock.Mock(side_effect=told)), \
                mock.patch.object(cell_run, "stolen_since", mock.Mock(side_effect=map(abs, taken))):
            return list(cell_run.run_calmly(place, None, None, None, None, 3))

    def test_a_run_that_the_host_disturbed_is_repeated_twice_at_most(self):
        self.assertEqual([one["attempt"] for one in self.attempts(4.0)], [1])
        self.assertEqual([one["stolen_percent"] for one in self.attempts(20.0, 1.0)], [20.0, 1.0])
        self.assertEqual(len(self.attempts(20.0, 30.0, 40.0)), 3)
        self.assertEqual([one.get("failed") for one in self.attempts(-9.0, 1.0)], ["no", None])


class Netem(unittest.TestCase):
    def cell(self, more):
        return dict(matrix(f"programs: petrel\ncell: a\n  rtt: 100ms\n  rate: 80mbit\n{more}").cells[0].words)

    def test_words(self):
        self.assertEqual(veth.netem_words(self.cell("  loss: 1%\n"), False),
                         ["limit", "1000000", "delay", "50000us", "loss", "random", "1%"])
        self.assertEqual(veth.netem_words(self.cell("  loss: 1%\n"), True)[4:], [])
        self.assertEqual(veth.netem_words(self.cell("  loss: 1%\n  loss-at: before\n"), False)[4:], [])
        words = veth.netem_words(self.cell("  loss: 5%\n  burst: 4\n"), False)[4:]
        enter, leave = float(words[2].rstrip("%")), float(words[3].rstrip("%"))
        self.assertAlmostEqual(enter / (enter + leave), 0.05, places=6) # the share as asked
        self.assertEqual(leave, 25)                                    # runs of four

    def test_queue(self):
        self.assertEqual(veth.queue_bytes(self.cell(""), 80_000_000, 1500), 1_000_000)
        self.assertEqual(veth.queue_bytes(self.cell("  queue: 10p\n"), 80_000_000, 1500), 15000)

    def test_what_netem_has_not(self):
        with self.assertRaisesRegex(RuntimeError, "netem has no policer"):
            veth.netem_words(self.cell("  policer: 10mbit:1M\n"), False)


FAKE_AWS = """#!/bin/sh
echo "$*" >>"$FAKE_LOG"
case "$*" in
*run-instances*) echo i-1 ;;
*create-security-group*) echo sg-1 ;;
*PublicIpAddress*) echo 192.0.2.1 ;;
*InstanceId*) echo i-1 ;;
*GroupId*) echo sg-1 ;;
esac
"""


class CloudPair(unittest.TestCase):
    def test_what_is_made_is_told_and_taken_down(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("aws", FAKE_AWS), ("ssh", "#!/bin/sh\n")):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(path, 0o755)
            log, key = os.path.join(folder, "log"), os.path.join(folder, "key.pub")
            with open(key, "w", encoding="utf-8") as file:
                file.write("ssh-ed25519 AAAA somebody\n")
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", FAKE_LOG=log, LAB_KEY=key,
                               LAB_ADDRESS="198.51.100.7", TMPDIR=folder)
            script = os.path.join(ROOT, "lab", "hosts", "aws")
            told = subprocess.check_output([script], env=environment, text=True)
            self.assertEqual(told, "admin@192.0.2.1 admin@192.0.2.1\n")
            subprocess.run([script, "down"], env=environment, check=True)
            with open(log, encoding="utf-8") as file:
                calls = file.read()
            for region in ("eu-central-1", "us-west-2"):
                for what in ("run-instances", "terminate-instances", "delete-security-group"):
                    self.assertIn(f"ec2 {what} --region {region}", calls)
            self.assertIn("--cidr 198.51.100.7/32", calls)


class Samples(unittest.TestCase):
    """What the fit takes from a program that did not finish."""

    def sample(self, **more):
        one = matrix("programs: scp\ncell: a\n  rate: 80mbit\n  rtt: 20ms\n  size: 10MB\n  time-limit: 10s\n")
        figures = results.CellFigures(one, one.cells[0], [run("scp", floor_mb_per_s=1.0, seconds=9.0, **more)])
        return model.Sample(figures, figures.program("scp"))

    def test_what_had_come_counts(self):
        sample = self.sample(arrived_bytes=2_000_000)
        self.assertEqual((sample.size, sample.seconds, sample.least_only), (2_000_000, 9.0, False))

    def test_next_to_nothing_only_says_that_it_took_longer(self):
        for came in (0, 1000):
            sample = self.sample(arrived_bytes=came)
            self.assertEqual((sample.size, sample.seconds, sample.least_only), (10_000_000, 10.0, True))


class Model(unittest.TestCase):
    def test_the_program_computes_the_same(self):
        for rtt, loss, rate, size in ((0.1, 0.01, 10**9, 10 << 30), (0.005, 0.0, 10**8, 1 << 20),
                                      (0.25, 0.1, 0, 1 << 30), (0.0, 0.0, 10**9, 1 << 30)):
            words = [PETREL, "estimate", "--rtt", f"{round(rtt * 1e6)}us", "--loss", f"{loss * 100:g}%",
                     "--size", str(size), "--json", *(["--rate", f"{rate // 1000}kbit"] if rate else [])]
            told = json.loads(subprocess.check_output(words))
            self.assertEqual(told["fitted_on"], model.load()["fitted_on"])
            for row in told["programs"]:
                one = model.load()["programs"][row["program"]]
                ours = model.seconds(one["constants"], one["payload"], rtt, loss, rate, size)
                self.assertAlmostEqual(row["seconds"] / ours, 1, places=5, msg=str((words, row)))

    def test_it_says_what_is_wrong(self):
        for words in (["--loss", "80%"], ["--rtt", "20s"], ["--size", "0"], ["host"], ["--rate", "5"]):
            done = subprocess.run([PETREL, "estimate", *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertRegex(done.stderr, r"^petrel: .*such as|^petrel: .*write", words)

    def test_more_loss_distance_and_size_never_make_it_faster(self):
        for name, one in model.load()["programs"].items():
            for loss in (0.001, 0.01, 0.05):
                base = model.seconds(one["constants"], one["payload"], 0.05, loss, 10**9, 1 << 30)
                for rtt, more_loss, size in ((0.1, loss, 1 << 30), (0.05, loss * 2, 1 << 30),
                                             (0.05, loss, 1 << 31)):
                    self.assertGreaterEqual(model.seconds(one["constants"], one["payload"], rtt, more_loss,
                                                          10**9, size), base * 0.999, (name, loss))

    def test_the_fit_finds_the_constants_that_made_the_data(self):
        true = {**model.GUESS["petrel"], "fixed_s": 1.1, "rtts": 11.0, "share": 0.9, "loss_cost": 1.5}
        generator, samples = random.Random(3), []
        for rtt in (0.002, 0.02, 0.08, 0.25):
            for loss in (0.0, 0.01, 0.05, 0.1):
                for rate, size in ((10**8, 16 << 20), (10**8, 64 << 20), (10**9, 512 << 20)):
                    sample = model.Sample.__new__(model.Sample)
                    sample.name, sample.rtt, sample.loss, sample.rate = "x", rtt, loss, rate
                    sample.size, sample.least_only = size, False
                    sample.seconds = model.seconds(true, 0.96, rtt, loss, rate, size) * generator.uniform(0.97, 1.03)
                    samples.append(sample)
        found = model.fit_program("petrel", samples)
        self.assertLess(model.errors(found, 0.96, samples)["median_percent"], 3)
        for name, within in (("fixed_s", 0.15), ("rtts", 0.15), ("share", 0.05)):
            self.assertLess(abs(found[name] / true[name] - 1), within, name)


if __name__ == "__main__":
    PETREL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
