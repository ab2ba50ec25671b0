#!/usr/bin/env python3
"""The crash guarantee with the real program: either side dies before and after a file-system call of
a small tree's copy, and at random moments of a large file's. Always the old or the new file stands
under its name, the next run completes and leaves nothing behind.

    crash_test.py PETREL PETREL_LAB [TEST...]

A few calls and moments by default; make crash takes all. By the environment: PETREL_CRASH_ALL=1
every call; PETREL_CRASH_SIZE bytes of the large file; PETREL_CRASH_MOMENTS how often it is killed;
PETREL_CRASH_SEED of what is random.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import hosts
from hosts import HOOKS, MIB

ALL = bool(os.environ.get("PETREL_CRASH_ALL"))
SIZE = int(os.environ.get("PETREL_CRASH_SIZE", 96 * MIB))
MOMENTS = int(os.environ.get("PETREL_CRASH_MOMENTS", 5))
SEED = int(os.environ.get("PETREL_CRASH_SEED", random.randrange(1 << 30)))
POINTS = 5  # calls a side, if not all
LOST_MAX = 64 * MIB
FILE_IO = 11
RETRY = ("--retry-for", "0")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Calls(hosts.Case):
    """Every file-system call of a copy of a small tree."""

    def setUp(self):
        super().setUp()
        if not os.path.exists(HOOKS):
            self.skipTest("petrel-hooks is not built")

    def make_trees(self, source, old):
        self.write(f"{source}/new", 3000)
        self.write(f"{source}/changed", 2000)
        self.write(f"{source}/same", 1000)
        self.write(f"{source}/sub/empty", 0)
        self.write(f"{source}/sub/large", 600000)
        self.write(f"{source}/large", 17 * MIB, seed=1)
        os.symlink("new", self.path(source, "link"))
        os.chmod(self.path(source, "sub"), 0o550)
        self.write(f"{old}/changed", 2500)
        shutil.copy2(self.path(source, "same"), self.path(old, "same"))
        shutil.copy(self.path(source, "large"), self.path(old, "large"))
        with open(self.path(old, "large"), "r+b") as file:
            file.seek(9 * MIB)
            file.write(b"old")
        os.symlink("old", self.path(old, "link"))

    def restore(self, old, target):
        subprocess.run(["chmod", "-R", "u+w", target], stderr=subprocess.DEVNULL)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(old, target, symlinks=True)

    def old_or_new(self, source, old, target):
        for folder, _, files in os.walk(source):
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), source)
                now = content(os.path.join(target, path))
                allowed = [content(os.path.join(source, path)), content(os.path.join(old, path))]
                self.assertIn(now, allowed, f"{path} is neither old nor new")

    def run_with(self, words, near, crash):
        """A copy in which one side has that fail point; its exit code."""
        setting = f"PETREL_TEST_CRASH={crash}"
        if near:
            return self.finish(self.start("copy", *RETRY, *words, prefix=("env", setting),
                                          program=HOOKS)).code
        return self.finish(self.start("copy", *RETRY, *words,
                                      far_petrel=f"env {setting} {HOOKS}")).code

    def kill_at_calls(self, push, near):
        source, target = ("near/tree", "far/tree") if push else ("far/tree", "near/tree")
        self.make_trees(source, "old")
        source, target, old = self.path(source), self.path(target), self.path("old")
        words = (source, self.remote("far")) if push else \
            (self.remote("far/tree"), self.path("near"))
        count = self.path("count")
        self.restore(old, target)
        self.assertEqual(self.run_with(words, near, f"count:{count}"), 0)
        with open(count) as file:
            calls = int(file.read())
        self.assertGreater(calls, 40)
        points = [f"{call}{when}" for call in range(1, calls + 1) for when in ("", "+")]
        if not ALL:
            points = random.Random(SEED).sample(points, POINTS)
        for point in points:
            self.restore(old, target)
            code = self.run_with(words, near, point)
            with self.subTest(call=point, code=code):
                self.old_or_new(source, old, target)
                self.copy(*words)  # at once: the other side of the killed one may still be alive
                self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 10))
                self.same_tree(source, target)
                self.assertEqual(self.halves(), [])
        say(f"killed at {len(points)} points of {calls} calls")

    def halves(self):
        return [name for _, folders, files in os.walk(self.folder) for name in folders + files
                if name.startswith(".petrel-")]

    def test_receiver_of_a_push(self):
        self.kill_at_calls(True, False)

    def test_sender_of_a_push(self):
        self.kill_at_calls(True, True)

    def test_receiver_of_a_pull(self):
        self.kill_at_calls(False, True)

    def test_sender_of_a_pull(self):
        self.kill_at_calls(False, False)

    def test_an_error_of_a_sync_is_final(self):
        """What could not be synced has to come again: it might only be in memory."""
        for name, size in (("large", 20 * MIB), ("middle", 3 * MIB), ("small", 3000)):
            with self.subTest(name):
                source, target = self.write(f"near/{name}", size), self.path("far", name)
                result = self.copy(source, self.remote("far"), code=FILE_IO,
                                   far_petrel=f"env PETREL_TEST_CRASH=sync:1 {HOOKS}")
                self.assertIn(f"{name}: cannot be synced: Input/output error", result.stderr)
                self.assertEqual(os.listdir(self.path("far")), [])
                summary = self.copy("--json", source, self.remote("far")).events()[-1]
                self.assertEqual(summary["kept_bytes"], 0)
                self.assertEqual(content(target), content(source))
                os.remove(target)
        with self.subTest("in place"):
            source, target = self.write("near/file", 20 * MIB), self.write("far/file", 20 * MIB)
            result = self.copy("--inplace", source, self.remote("far"), code=FILE_IO,
                               far_petrel=f"env PETREL_TEST_CRASH=sync:1 {HOOKS}")
            self.assertIn("copy it again with --whole", result.stderr)
            self.assertNotEqual(os.stat(target).st_mtime_ns, os.stat(source).st_mtime_ns)
            self.copy("--inplace", "--whole", source, self.remote("far"))
            self.same_file("near/file", "far/file")


def content(path):
    if os.path.islink(path):
        return os.readlink(path)
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def same_content(a, b):
    with open(a, "rb") as one, open(b, "rb") as other:
        while True:
            x, y = one.read(4 * MIB), other.read(4 * MIB)
            if x != y:
                return False
            if not x:
                return True


class Moments(hosts.Case):
    """Random moments of a large file's copy at 1 Gbit/s; either side, at random. They are drawn by how
    much has arrived, so that they lie all over the file on a machine of any speed."""

    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, hosts, "TIMEOUT", hosts.TIMEOUT)
        hosts.TIMEOUT = max(hosts.TIMEOUT, SIZE // (8 * MIB))  # seconds

    def journalled(self):
        """Bytes that the journal over there knows of: what a run that is killed leaves."""
        for name in os.listdir(self.path("far")):
            if name.endswith(".journal"):
                with open(self.path("far", name), "rb") as file:
                    records = file.read()[64:]
                known = sum(1 for at in range(0, len(records), 40) if any(records[at:at + 32]))
                return known * MIB
        return 0

    def make_source(self):
        source = self.path("near/file")
        command = f"openssl enc -aes-128-ctr -K {SEED:032x} -iv {0:032x} -in /dev/zero " \
                  f"2>/dev/null | head -c {SIZE} >{source}"
        subprocess.run(["bash", "-c", command], check=True)
        return source

    def test_random_moments(self):
        choice = random.Random(SEED)
        source = self.make_source()
        words = ("copy", "--limit", "1gbit", *RETRY, source, self.remote("far"))
        old = self.write("far/file", 5000)
        before = content(old)
        worst = kills = 0
        hosts.link("stats", "--reset")
        for moment in range(MOMENTS):
            process = self.start(*words)
            moment_at = self.journalled() + choice.uniform(0, 2 * SIZE / (MOMENTS + 1))
            begun = hosts.wait_until(lambda: self.journalled() > moment_at or
                                     process.poll() is not None, hosts.TIMEOUT)
            self.assertTrue(begun, "nothing arrives")
            time.sleep(choice.uniform(0, 0.1))
            victims = hosts.own_processes()
            known = self.journalled()
            for victim in victims if choice.random() < 0.3 else [choice.choice(sorted(victims))] \
                    if victims else []:
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.communicate(timeout=120)
            kills += 1
            unfinished = os.path.getsize(old) != SIZE  # or it was killed behind the rename
            if not unfinished:
                break
            worst = max(worst, known - self.journalled())
            with open(old, "rb") as file:
                self.assertEqual(file.read(), before, "the old file is not the old file")
        known = self.journalled()
        self.assertLessEqual(worst, LOST_MAX)
        result = self.copy("--json", source, self.remote("far")).events()[-1]
        self.assertTrue(same_content(source, self.path("far/file")))
        if unfinished:
            self.assertGreaterEqual(result["kept_bytes"], known - LOST_MAX)
        # All that was ever sent, with what the packets carry besides: no kill costs more.
        carried = hosts.link("stats")["forward"]["bytes"]
        self.assertLessEqual(carried, SIZE * 1.1 + (kills + 1) * LOST_MAX)
        say(f"{(carried - SIZE) / max(kills, 1) / MIB:.1f} MiB were sent besides for each kill")
        say(f"seed {SEED}: killed {moment + 1} times; the last run found {known // MIB} MiB and "
            f"kept {result['kept_bytes'] // MIB}")
        self.assertEqual(os.listdir(self.path("far")), ["file"])


if __name__ == "__main__":
    hosts.main()
