"""petrel-lab matrix: a small matrix to its end, faults named before anything starts, interruptions after
which nothing is left but the results, and going on from them."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = """
programs: petrel, bbr
repetitions: 2
size: 2MiB
time-limit: 30s
cell: one
  rate: 200mbit
  rtt: 10ms
  loss: 1%
  lanes: 3
  bar: 0.01 of ceiling
  bar: sender memory at most 1MB (target 6)
"""
LONG = """
programs: petrel
repetitions: 4
size: 1MiB
time-limit: 30s
cell: long
  rate: 50mbit
  rtt: 10ms
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="petrel-lab-test-")
        self.path = self.folder.name
        self.out = os.path.join(self.path, "out.jsonl")
        # What a run makes goes here, so that what it leaves is seen.
        self.environment = dict(os.environ, TMPDIR=self.path)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, text, name="m.matrix"):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def lab(self, *words, code=0, environment=None):
        if words[0] == "matrix" and "--out" in words: # this machine's host may be busy, and says nothing here
            words += ("--attempts", "1")
        done = subprocess.run([LAB, *words], capture_output=True, text=True, timeout=150,
                              env=environment or self.environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def lines(self, kind):
        with open(self.out, encoding="utf-8") as file:
            found = [json.loads(line) for line in file if line.endswith("\n")]
        self.assertTrue(all(line["schema"] == 1 for line in found))
        return [line for line in found if line["kind"] == kind]


class Faults(Case):
    def test_each_is_named_with_its_line(self):
        for text, line, says in (
                ("cell: a\n  colour: red\n", 2, "unknown key 'colour'"),
                ("programs: petrel\ncell: a\n  loss: 120%\n", 3, "loss: '120%' should be a share"),
                ("programs: petrel\ncell: a\n  lanes: 17\n", 3, "'17' is more than petrel has"),
                ("programs: petrel\ncell: a\n  bar: 0x\n", 3, "'0x' is met by anything"),
                ("programs: petrel, scpx\ncell: a\n", 1, "unknown program 'scpx'"),
                ("programs: petrel\ncell: a\n  bar: fast\n", 3, "'fast' is no bar"),
                ("programs: petrel\ncell: a\n  rtt: 1ms\n  rtt: 2ms\n", 4, "stands twice"),
                ("programs: petrel\ncell: a\ncell: a\n", 3, "two cells are called 'a'"),
                ("programs: scp\ncell: a\n  stream: 5s\n", 1, "scp cannot do 'stream'"),
                ("programs: petrel\nnonsense\n", 2, "no line of the form"),
                ("programs: petrel\n", 1, "no cell")):
            path = self.write(text)
            done = self.lab("matrix", path, "--out", self.out, code=2)
            self.assertRegex(done.stderr, rf"m\.matrix:{line}: ")
            self.assertIn(says, done.stderr)
            self.assertFalse(os.path.exists(self.out))

    def test_a_missing_program_is_named_with_its_line(self):
        tools = os.path.join(self.path, "tools")
        os.mkdir(tools)
        os.symlink(sys.executable, os.path.join(tools, "python3"))
        path = self.write("# first\nprograms: petrel, rsync\ncell: a\n")
        done = self.lab("matrix", path, "--out", self.out, code=2,
                        environment=dict(self.environment, PATH=tools))
        self.assertIn("m.matrix:2: rsync needs rsync, which is not here", done.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_an_unknown_matrix_or_cell(self):
        self.assertIn("ready are: ", self.lab("matrix", "nosuch", code=2).stderr)
        done = self.lab("matrix", self.write(SMALL), "--only", "two", code=2)
        self.assertIn("no such cell or group: two", done.stderr)
        path = self.write("programs: petrel\ncell: {loss} {rtt}\n  loss: 0% | 1%\n  rtt: 5ms | 9ms\n")
        self.assertIn("\n2 cells, about ", self.lab("matrix", path, "--only", "1%-*", "--list").stdout)
        self.assertIn("\n3 cells, about ", self.lab("matrix", path, "--only", "1%-*", "0%-5ms", "--list").stdout)


class Runs(Case):
    def test_a_small_matrix(self):
        path = self.write(SMALL)
        done = self.lab("matrix", path, "--out", self.out, "--label", "a test", code=1)
        self.assertIn("sender memory at most 1MB (target 6): ", done.stdout) # a bar that is missed
        begin = self.lines("begin")[0]
        self.assertEqual((begin["matrix_text"], begin["host_label"]), (SMALL, "a test"))
        for name in ("kernel", "processor", "sysctls", "versions", "petrel", "command_line"):
            self.assertTrue(begin[name], name)
        runs = self.lines("run")
        self.assertEqual([(run["program"], run["repetition"]) for run in runs],
                         [("petrel", 1), ("bbr", 1), ("petrel", 2), ("bbr", 2)])
        for run in runs:
            self.assertNotIn("failed", run)
            self.assertTrue(run["finished"])
            self.assertGreater(run["mb_per_s"], 0)
            self.assertGreater(run["emulator"]["forward"]["packets"], 100)
            self.assertGreater(run["counters"]["far"]["Ip.InReceives"], 0)
        petrels = [run for run in runs if run["program"] == "petrel"]
        for run in petrels:
            self.assertTrue(run["sha256_equal"])
            self.assertGreater(run["near"]["rss_mb"], 1)
            self.assertGreater(run["far"]["rss_mb"], 1)
            self.assertGreaterEqual(run["detail"]["lanes"], 3)
            # Its own account of the loss is the link's.
            self.assertLess(abs(run["loss_percent"] - run["link_loss_percent"]), 1)
        place = self.lines("place")[0]
        self.assertIn("--loss", place["link"])
        self.assertIn("trains", place["emulator_offload"])
        self.assertTrue(any(line.startswith("link0 1500") for line in place["far"]), place["far"])
        calibration = self.lines("calibration")[0]
        self.assertGreater(calibration["tcp_bbr_mbit"], 0)
        self.assertEqual({line["program"] for line in self.lines("settings")}, {"petrel", "bbr"})
        # All is there: nothing runs again, and the verdict is the same.
        self.lab("matrix", path, "--out", self.out, "--resume", code=1)
        self.assertEqual(len(self.lines("run")), 4)
        # More repetitions add to those that there are.
        self.lab("matrix", path, "--out", self.out, "--resume", "--runs", "3", "--no-calibration", code=1)
        self.assertEqual([(run["program"], run["repetition"]) for run in self.lines("run")[4:]],
                         [("petrel", 3), ("bbr", 3)])
        # A file of results is never written over.
        self.assertIn("exists", self.lab("matrix", path, "--out", self.out, code=2).stderr)

    def test_a_petrel_that_listens(self):
        path = self.write("programs: petrel/serve, bbr\nrepetitions: 2\nsize: 2MiB\ntime-limit: 30s\n"
                          "cell: {direction}\n  direction: push | pull\n  rate: 200mbit\n  rtt: 10ms\n"
                          "  bar: 0.01x bbr\n")
        done = self.lab("matrix", path, "--out", self.out, "--no-calibration")
        self.assertRegex(done.stdout, r"met \(\d\.\d{3}x bbr, (a tie|ahead)\)")
        runs = [run for run in self.lines("run") if run["program"] == "petrel/serve"]
        self.assertEqual([(run["cell"], run["repetition"]) for run in runs],
                         [("push", 1), ("push", 2), ("pull", 1), ("pull", 2)])
        for run in runs:
            self.assertNotIn("failed", run)
            self.assertTrue(run["finished"] and run["sha256_equal"])
            self.assertTrue(any(word.startswith("petrel://") for word in run["command"]), run["command"])
            # Nothing went by TCP, be it SSH or the way where UDP is silent.
            self.assertEqual(run["emulator"]["forward"]["tcp"]["packets"], 0)
            # The whole command, of which the transfer is a part.
            self.assertEqual(run["seconds"], run["command_seconds"])
            self.assertLess(0, run["detail"]["transfer_seconds"])
            self.assertLessEqual(run["detail"]["transfer_seconds"], run["seconds"])
            self.assertGreater(run["far"]["rss_mb"], 1)
            self.assertGreater(run["far"]["cpu_s"], 0)

    def test_a_matrix_with_a_time_limit_says_what_it_is_at_least(self):
        path = self.write("programs: scp\nrepetitions: 1\nsize: 16MiB\ntime-limit: 3s\ncell: slow\n"
                          "  rate: 8mbit\n  rtt: 10ms\n")
        self.lab("matrix", path, "--out", self.out, "--no-calibration")
        run = self.lines("run")[0]
        self.assertFalse(run["finished"])
        self.assertAlmostEqual(run["floor_mb_per_s"], (16 << 20) / 3 / 1e6, places=3)
        self.assertLess(run["arrived_bytes"], 16 << 20)
        # 16 MiB take 17 s at least, so that there was no need to wait for three.
        self.assertTrue(run["ended_early"])
        self.assertTrue(0 < run["crossed_mb_per_s"] < 1.1, run["crossed_mb_per_s"]) # the line has 1 MB/s
        self.assertLess(run["seconds"], 3)


class Interrupted(Case):
    def ours(self):
        """Processes that have the test's folder in their words or environment."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    with open(f"/proc/{entry}/cmdline", "rb") as words, \
                            open(f"/proc/{entry}/environ", "rb") as environment:
                        if self.path.encode() in words.read() + environment.read():
                            found.append(int(entry))
                except OSError:
                    pass
        return found

    def interrupt(self, number):
        path = self.write(LONG)
        process = subprocess.Popen([LAB, "matrix", path, "--out", self.out, "--no-calibration", "--attempts", "1"],
                                   env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 90
        while not os.path.exists(self.out) or not self.lines("run"):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() else "")
            time.sleep(0.1)
        self.pid = process.pid
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        deadline = time.monotonic() + 30
        while self.ours() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.ours(), [], "processes are left")
        return process.returncode, said

    def left(self):
        shared = [f"/dev/shm/{name}" for name in os.listdir("/dev/shm")
                  if name.startswith(f"petrel-lab-{self.pid}-")]
        return [name for name in os.listdir(self.path) if name.startswith("petrel-lab-")] + shared

    def test_by_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            code, said = self.interrupt(number)
            self.assertEqual(code, 128 + number, said)
            self.assertIn("everything taken down", said)
            self.assertEqual(self.left(), [])
            before = len(self.lines("run"))
            self.assertGreater(before, 0)
            os.unlink(self.out)

    def test_by_a_kill_and_going_on(self):
        code, _ = self.interrupt(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        with open(self.out, "a", encoding="utf-8") as file: # a line that was cut off
            file.write('{"schema": 1, "kind": "ru')
        self.lab("matrix", self.write(LONG), "--out", self.out, "--resume",
                 "--no-calibration")
        with open(self.out, encoding="utf-8") as file:
            runs = [json.loads(line) for line in file if '"kind": "run"' in line]
        self.assertEqual(sorted(run["repetition"] for run in runs), [1, 2, 3, 4])
        # What the killed one left of files is gone since the next one began.
        self.assertEqual([name for name in os.listdir(self.path) if name.startswith("petrel-lab-")], [])


def missing():
    done = subprocess.run([LAB, "link", "--", "true"], stderr=subprocess.PIPE, text=True)
    return done.stderr.strip() if done.returncode else None


if __name__ == "__main__":
    LAB = os.path.abspath(sys.argv.pop(2))
    sys.argv.pop(1)
    if missing():
        print(f"skipped: {missing()}")
        sys.exit(77)
    unittest.main(verbosity=2)
