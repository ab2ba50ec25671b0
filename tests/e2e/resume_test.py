#!/usr/bin/env python3
"""petrel copy over what is there already: whole, in part, half-written, or just being written.

    resume_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shutil
import signal
import subprocess

import hosts
from hosts import MIB

OK, INTERRUPTED, VANISHED, LOST = 0, 20, 24, 30


class Case(hosts.Case):
    def summary(self, *words, **keywords):
        """The last event of a copy that ends well."""
        return self.copy("--json", *words, **keywords).events()[-1]

    def change(self, path, offset, data=b"changed"):
        with open(self.path(path), "r+b") as file:
            file.seek(offset)
            file.write(data)

    def clone(self, a, b, size=None):
        """b begins like a; its time is another."""
        with open(self.path(a), "rb") as one, open(self.path(b), "wb") as other:
            other.write(one.read() if size is None else one.read(size))
        os.utime(self.path(b), (1, 1))


class WhatIsThere(Case):
    def test_case_09_what_is_at_the_destination(self):
        source = self.write("near/file", 12 * MIB + 5, seed=1)
        cases = {"shorter and different": (6 * MIB + 9, MIB, 7),
                 "of equal size and different": (12 * MIB + 5, 5 * MIB, 1),
                 "a prefix of garbage": (12 * MIB + 5, 0, 1),
                 "shorter": (6 * MIB, None, 6)}
        for name, (size, changed, comes) in cases.items():
            with self.subTest(name):
                self.clone("near/file", "far/file", size)
                if changed is not None:
                    self.change("far/file", changed)
                summary = self.summary(source, self.remote("far"))
                self.same_file("near/file", "far/file")
                self.assertLess(summary["payload_sent"], (comes + 1) * MIB)
                self.assertGreater(summary["kept_bytes"], (12 - comes - 1) * MIB)
                self.assertEqual(os.listdir(self.path("far")), ["file"])

    def test_case_09_longer_at_the_destination(self):
        source = self.write("near/file", 7 * MIB + 100, seed=1)
        self.clone("near/file", "far/file")
        with open(self.path("far/file"), "ab") as file:
            file.write(os.urandom(5 * MIB))
        summary = self.summary(source, self.remote("far"))
        self.same_file("near/file", "far/file")
        self.assertLess(summary["payload_sent"], MIB)

    def test_pull_over_what_is_there(self):
        self.write("far/d/large", 8 * MIB, seed=1)
        self.write("far/d/small", 1000, seed=2)
        os.mkdir(self.path("near/d"))
        for name in "large", "small":
            self.clone(f"far/d/{name}", f"near/d/{name}")
        self.change("near/d/large", 3 * MIB)
        summary = self.summary(self.remote("far/d"), self.path("near"))
        self.same_tree("far/d", "near/d")
        self.assertLess(summary["payload_sent"], 2 * MIB)
        self.assertEqual((summary["files_done"], summary["files_skipped"]), (1, 1))

    def test_a_mebibyte_of_a_gibibyte(self):
        """Issue figure: at most 3 MiB are sent."""
        size = int(os.environ.get("PETREL_GIBIBYTE", "256"))
        source = self.write("near/file", size * MIB, seed=1)
        subprocess.run(["cp", source, self.path("far/file")], check=True)
        self.change("near/file", 100 * MIB + 1000, os.urandom(MIB))
        os.utime(source)
        summary = self.summary(source, self.remote("far"))
        self.same_file("near/file", "far/file")
        self.assertLess(summary["payload_sent"], 3 * MIB)

    def test_checksum_and_whole(self):
        source = self.write("near/file", 3 * MIB, seed=1)
        self.write("far/file", 3 * MIB, seed=2)
        for path in "near/file", "far/file":
            os.utime(self.path(path), (1, 1))
        self.assertEqual(self.summary(source, self.remote("far"))["files_skipped"], 1)
        self.assertEqual(self.summary("-c", source, self.remote("far"))["files_done"], 1)
        self.same_file("near/file", "far/file")
        summary = self.summary("-c", source, self.remote("far"))
        self.assertEqual((summary["files_skipped"], summary["payload_sent"] < MIB), (1, True))
        os.utime(source)
        summary = self.summary("--whole", source, self.remote("far"))
        self.assertGreater(summary["payload_sent"], 3 * MIB)


class UnderAnotherName(Case):
    def test_renamed_moved_and_duplicated(self):
        self.write("near/d/large", 20 * MIB, seed=1)
        self.write("near/d/sub/small", 100000, seed=2)
        self.copy(self.path("near/d"), self.remote("far"))
        os.rename(self.path("near/d/large"), self.path("near/d/sub/renamed"))
        shutil.copy(self.path("near/d/sub/small"), self.path("near/d/duplicate"))
        summary = self.summary(self.path("near/d"), self.remote("far"))
        self.assertLess(summary["payload_sent"], 100000)
        self.assertEqual(summary["kept_bytes"], 20 * MIB + 100000)
        for name in "sub/renamed", "duplicate":
            self.same_file(f"near/d/{name}", f"far/d/{name}")

    def test_a_single_file_beside_its_old_name(self):
        source = self.write("near/old", 20 * MIB, seed=1)
        self.copy(source, self.remote("far"))
        os.rename(source, self.path("near/new"))
        summary = self.summary(self.path("near/new"), self.remote("far"))
        self.assertLess(summary["payload_sent"], 100000)
        self.same_file("near/new", "far/new")

    def test_reference(self):
        self.write("near/d/a", 3 * MIB, seed=1)
        self.write("far/elsewhere/b", 10, seed=2)
        subprocess.run(["cp", self.path("near/d/a"), self.path("far/elsewhere/x")], check=True)
        summary = self.summary("--reference", self.path("far/elsewhere"), self.path("near/d"),
                               self.remote("far"))
        self.assertLess(summary["payload_sent"], 100000)
        self.same_tree("near/d", "far/d")
        self.copy("--reference", self.path("far"), self.remote("far/d"), self.path("near"),
                  code=0)
        self.fails(47, "--reference", "--reference", "/nonexistent", self.path("near/d"),
                   self.remote("far"))


class InPlace(Case):
    def test_in_place(self):
        source = self.write("near/file", 30 * MIB, seed=1)
        self.clone("near/file", "far/file", 25 * MIB)
        self.change("far/file", 7 * MIB)
        inode = os.stat(self.path("far/file")).st_ino
        summary = self.summary("--inplace", source, self.remote("far"))
        self.same_file("near/file", "far/file")
        self.assertEqual(os.stat(self.path("far/file")).st_ino, inode)
        self.assertLess(summary["payload_sent"], 7 * MIB)

    def test_a_device(self):
        image = self.write("image", 12 * MIB, seed=2)
        made = subprocess.run(["losetup", "--find", "--show", image], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        if made.returncode or not hosts.is_root():
            self.skipTest("there are no loop devices here")
        device = made.stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "-d", device])
        source = self.write("near/file", 10 * MIB, seed=1)
        self.fails(48, "no plain file", source, f"{hosts.HOST}:{device}")
        self.copy("--inplace", source, f"{hosts.HOST}:{device}")
        with open(device, "rb") as there, open(source, "rb") as here:
            self.assertTrue(there.read(10 * MIB) == here.read())
        self.change("near/file", 5 * MIB)
        os.utime(source)
        summary = self.summary("--inplace", source, f"{hosts.HOST}:{device}")
        self.assertLess(summary["payload_sent"], 2 * MIB)
        small = self.write("near/small", 5000, seed=3)
        self.copy("--inplace", small, f"{hosts.HOST}:{device}")
        with open(device, "rb") as there, open(small, "rb") as here:
            self.assertTrue(there.read(5000) == here.read())
        large = self.write("near/large", 20 * MIB, seed=3)
        self.fails(43, "the device has only 12582912 bytes", "--inplace", large,
                   f"{hosts.HOST}:{device}")

    def test_verify_disk(self):
        self.write("near/d/large", 20 * MIB, seed=1)
        self.write("near/d/small", 100, seed=2)
        self.copy("--verify=disk", self.path("near/d"), self.remote("far"))
        self.same_tree("near/d", "far/d")
        self.fails(1, "--verify takes arrival", "--verify=net", self.path("near/d"),
                   self.remote("far"))


class Killed(Case):
    """Case 8: kill either side at any moment and run the same again at once."""

    def half(self, *words):
        """Bytes on disk of what is half-written in a folder."""
        sizes = [os.stat(os.path.join(folder, name)).st_blocks * 512
                 for folder, _, files in os.walk(self.path(*words))
                 for name in files if name.startswith(".petrel-")]
        return sum(sizes)

    def journalled(self, folder):
        """Blocks that journals in the folder know of."""
        return sum((os.path.getsize(os.path.join(where, name)) - 64) // 40
                   for where, _, files in os.walk(self.path(folder))
                   for name in files if name.endswith(".journal"))

    def kill_and_go_on(self, push, whom, sign, kills=3):
        size = 90
        near, far = ("near", "far") if push else ("far", "near")
        source = self.write(f"{near}/file", size * MIB, seed=1)
        words = (source, self.remote("far")) if push else \
            (self.remote("far/file"), self.path("near"))
        limit = ("--limit", "240Mbit", "--retry-for", "0")
        for i in range(kills):
            before = self.journalled(far)
            process = self.start("copy", "--json", *limit, *words)
            arrived = hosts.wait_until(
                lambda: self.journalled(far) >= before + 10 + i or process.poll() is not None, 30)
            self.assertTrue(arrived)
            self.assertIsNone(process.poll(), "too fast to be killed")
            victims = {process.pid} if whom == "near" else hosts.own_processes() - {process.pid}
            for victim in victims:
                os.kill(victim, sign)
            if whom == "near" and sign == signal.SIGKILL:
                process.wait()  # the far end may still be alive: the next run comes at once
                process.communicate()
            else:
                result = self.finish(process)
                self.assertNotEqual(result.code, 0)
            self.assertNotIn("file", os.listdir(self.path(far)))
        known = self.journalled(far)
        self.assertGreaterEqual(known, 10 * kills)
        summary = self.summary(*words)
        self.same_file("near/file", "far/file")
        # At most 64 MiB may be lost; the kill just before loses what was on its way.
        self.assertGreater(summary["kept_bytes"], (known - 20) * MIB)
        self.assertLess(summary["payload_sent"], (size - known + 40) * MIB)
        self.assertEqual(os.listdir(self.path(far)), ["file"])

    def test_case_08_the_sender_is_killed(self):
        self.kill_and_go_on(True, "near", signal.SIGKILL)

    def test_case_08_the_receiver_is_killed(self):
        self.kill_and_go_on(True, "far", signal.SIGKILL)

    def test_case_08_a_pull_is_killed_here(self):
        self.kill_and_go_on(False, "near", signal.SIGKILL)

    def test_case_08_a_pull_is_killed_there(self):
        self.kill_and_go_on(False, "far", signal.SIGKILL)

    def test_case_08_goes_on_by_itself(self):
        """A copy whose far end is killed starts another, which finds what has arrived."""
        source = self.write("near/file", 60 * MIB, seed=1)
        process = self.start("copy", "--json", "--limit", "240Mbit", source, self.remote("far"))
        self.assertTrue(hosts.wait_until(lambda: self.journalled("far") >= 20, 30))
        for victim in hosts.own_processes() - {process.pid}:
            os.kill(victim, signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertGreaterEqual(result.events()[-1]["kept_bytes"], 18 * MIB)
        self.same_file("near/file", "far/file")

    def test_interrupted(self):
        self.kill_and_go_on(True, "near", signal.SIGINT, kills=2)

    def test_two_at_once_to_one_file(self):
        """The second asks the first to stop, and goes on from what it has written."""
        source = self.write("near/file", 60 * MIB, seed=1)
        first = self.start("copy", "--limit", "80Mbit", source, self.remote("far"))
        self.assertTrue(hosts.wait_until(lambda: self.journalled("far") >= 10, 30))
        summary = self.summary(source, self.remote("far"))
        self.assertGreaterEqual(summary["kept_bytes"], 9 * MIB)
        self.same_file("near/file", "far/file")
        ended = self.finish(first)
        self.assertEqual(ended.code, 20, ended.stderr)
        self.assertRegex(ended.stderr, r"stopped by another copy to the same file \(process \d+ on ")
        self.assertEqual(os.listdir(self.path("far")), ["file"])

    def test_two_pulls_at_once_to_one_file(self):
        self.write("far/file", 60 * MIB, seed=1)
        first = self.start("copy", "--limit", "80Mbit", self.remote("far/file"), self.near)
        self.assertTrue(hosts.wait_until(lambda: self.journalled("near") >= 10, 30))
        second = self.start("copy", self.remote("far/file"), self.near)
        ended = self.finish(first)
        self.assertEqual(self.finish(second).code, 0)
        self.same_file("near/file", "far/file")
        self.assertEqual(ended.code, 20, ended.stderr)
        self.assertIn(f"another copy to the same file (process {second.pid} on ", ended.stderr)


class Journals(Case):
    def leave_half(self, name="file"):
        self.source = self.write(f"near/{name}", 40 * MIB, seed=1)
        process = self.start("copy", "--limit", "100Mbit", self.source, self.remote("far"))

        def journal():
            return next((name for name in os.listdir(self.path("far"))
                         if name.endswith(".journal")), None)
        self.assertTrue(hosts.wait_until(
            lambda: journal() and os.path.getsize(self.path("far", journal())) > 500, 30))
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).code, INTERRUPTED)
        # The other end may yet write to what the test is going to spoil.
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 20))
        return self.path("far", journal())

    def test_useless_journals(self):
        for name, damage, says in (("corrupted", (20, b"\xff"), "corrupted"),
                                   ("newer", (11, b"\x02"), "newer version"),
                                   ("cut", None, "corrupted")):
            with self.subTest(name):
                journal = self.leave_half()
                if damage is None:
                    os.truncate(journal, 30)
                else:
                    self.change(journal, *damage)
                result = self.copy(self.source, self.remote("far"))
                self.assertIn(says, result.stderr)
                self.same_file("near/file", "far/file")
                self.assertEqual(os.listdir(self.path("far")), ["file"])
                os.remove(self.path("far/file"))

    def test_a_journal_of_another_file(self):
        """With its half-written file it stands under the names that this one's would have."""
        journal = self.leave_half()
        half = journal[:-len(".journal")]
        for name in journal, half:
            os.rename(name, self.path("near", os.path.basename(name)))
        wanted = self.leave_half("other")
        for name, here in ((journal, wanted), (half, wanted[:-len(".journal")])):
            os.rename(self.path("near", os.path.basename(name)), here)
        result = self.copy("--json", self.source, self.remote("far"))
        self.assertIn("of another file", result.stderr)
        self.assertEqual(result.events()[-1]["kept_bytes"], 0)
        self.same_file("near/other", "far/other")
        self.assertEqual(os.listdir(self.path("far")), ["other"])


if __name__ == "__main__":
    hosts.main()
