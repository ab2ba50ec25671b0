#!/usr/bin/env python3
"""Standard input and output of unknown length.

    stream_test.py PETREL PETREL_LAB [TEST...]
"""
import hashlib
import os
import subprocess
import time

import hosts
from hosts import MIB

USAGE, IO, EXISTS, LOST = 1, 11, 48, 30


class Streams(hosts.Case):
    def hash(self, path):
        return subprocess.check_output(["b3sum", "--no-names", self.path(path)], text=True).strip()

    def test_from_standard_input(self):
        for size in (0, 1, 1000, MIB - 1, MIB, MIB + 1, 2 * MIB, 5 * MIB + 77, 40 * MIB):
            source = self.write("near/file", size)
            with open(source) as standard:
                result = self.copy("--json", "-", self.remote(f"far/{size}"), stdin=standard)
            self.same_file("near/file", f"far/{size}")
            events = result.events()
            done = [event for event in events if event["event"] == "file"][0]
            self.assertEqual((done["size"], done["blake3"]), (size, self.hash("near/file")))
            self.assertTrue(events[-1]["verified"])
            self.assertIn("standard input cannot be gone on with", result.stderr)

    def test_a_slow_writer(self):
        process = self.start("copy", "-q", "-", self.remote("far/slow"), stdin=subprocess.PIPE)
        data = os.urandom(300000)
        for at in range(0, len(data), 50000):
            process.stdin.buffer.write(data[at:at + 50000])
            process.stdin.flush()
            time.sleep(0.15)
        process.stdin.close()
        process.stdin = None
        self.assertEqual(self.finish(process).code, 0)
        with open(self.path("far/slow"), "rb") as file:
            self.assertTrue(file.read() == data)

    def test_to_standard_output(self):
        for size in (0, 1, 100000, MIB, 5 * MIB + 77, 60 * MIB):
            self.write("far/file", size)
            out = self.path("near/out")
            with open(out, "wb") as standard:
                result = self.copy(self.remote("far/file"), "-", stdout=standard)
            self.same_file("far/file", "near/out")
            self.assertIn(self.hash("far/file"), result.stderr)

    def test_a_slow_reader(self):
        self.write("far/file", 30 * MIB)
        process = self.start("copy", "-q", self.remote("far/file"), "-", text=False,
                             stdout=subprocess.PIPE)
        seen = hashlib.sha256()
        for _ in range(4):
            time.sleep(0.3)
            seen.update(process.stdout.read(MIB))
        seen.update(process.stdout.read())
        process.wait()
        with open(self.path("far/file"), "rb") as file:
            self.assertEqual(seen.hexdigest(), hashlib.sha256(file.read()).hexdigest())
        self.assertEqual(process.returncode, 0)
        process.stdout.close()
        process.stderr.close()

    def test_a_reader_that_goes_away(self):
        self.write("far/file", 30 * MIB)
        process = self.start("copy", self.remote("far/file"), "-", text=False,
                             stdout=subprocess.PIPE)
        process.stdout.read(MIB)
        process.stdout.close()
        process.wait(30)
        self.assertIn(b"standard output cannot be written to", process.stderr.read())
        process.stderr.close()
        self.assertNotEqual(process.returncode, 0)

    def test_interrupted(self):
        process = self.start("copy", "-", self.remote("far/file"), stdin=subprocess.PIPE)
        process.stdin.buffer.write(os.urandom(3 * MIB))
        process.stdin.flush()
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
        process.send_signal(2)
        process.wait(20)
        self.assertEqual(process.returncode, 20)
        process.stdin.close()
        process.stdin = None
        self.finish(process)
        self.assertEqual(os.listdir(self.path("far")), [])

    def test_what_makes_no_sense(self):
        source = self.write("near/file", 10)
        self.fails(USAGE, "one file only", "-", source, self.remote("far/x"))
        self.fails(USAGE, "name the file", "-", self.remote("far/"))
        self.fails(EXISTS, "name the file", "-q", "-", self.remote("far"))
        self.fails(USAGE, "--json=FILE", "--json", self.remote("near/file"), "-")
        self.fails(USAGE, "make no sense", "-n", "-", self.remote("far/x"))
        self.fails(USAGE, "one file, and no directory", "-q", self.remote("near"), "-")
        self.write("near/-", 10)
        self.copy("./-", self.remote("far/x"), cwd=self.path("near"))
        self.same_file("near/-", "far/x")


if __name__ == "__main__":
    hosts.main()
