#!/usr/bin/env python3
"""What is remembered of a path: kept by a copy, used by the next, shown and forgotten.

    paths_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import subprocess

import hosts
from hosts import HOST, MIB, PETREL

RATE = 150e6


class Paths(hosts.Case):
    def paths(self, *words):
        done = subprocess.run([PETREL, "paths", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def listed(self):
        answer = json.loads(self.paths("--json").stdout)
        self.assertEqual(answer["schema"], 1)
        return answer["paths"]

    def timed(self, *words, path=("unused",)):
        """Seconds of a copy, in which what was remembered came to one of these ends."""
        summary = self.copy("--json", *words).events()[-1]
        self.assertIn(summary["remembered_path"], path)
        return summary["transfer_seconds"]

    def test_kept_used_shown_and_forgotten(self):
        big, small = self.write("near/big", 64 * MIB), self.write("near/small", 3 * MIB)
        cold = self.timed("--no-memory", small, self.remote("far/cold"))
        self.assertEqual(self.listed(), [])
        self.timed(big, self.remote("far"))
        record, = self.listed()
        self.assertEqual((record["host"], record["direction"], record["used"]), (HOST, "to", True))
        self.assertTrue(0.5 * RATE < record["rate_bps"] < 1.4 * RATE, record)
        self.assertTrue(0.07 < record["rtt_seconds"] < 0.13, record)
        self.assertIn(HOST, self.paths().stdout)
        warm = self.timed(small, self.remote("far/warm"), path=("tried", "held"))
        print(f"3 MiB: {cold:.2f} s cold, {warm:.2f} s with what was remembered")
        self.timed("--no-memory", small, self.remote("far/again"))
        self.assertEqual(self.listed()[0]["rate_bps"], record["rate_bps"])
        self.paths("--clear", "elsewhere")
        self.assertEqual(len(self.listed()), 1)
        self.paths("--clear", HOST)
        self.assertEqual(self.listed(), [])
        self.assertIn("nothing is remembered", self.paths().stderr)

    def test_a_pull_is_remembered_too(self):
        self.write("far/big", 64 * MIB)
        self.timed(self.remote("far/big"), self.near)
        record, = self.listed()
        self.assertEqual((record["host"], record["direction"]), (HOST, "from"))
        self.assertTrue(0.5 * RATE < record["rate_bps"] < 1.4 * RATE, record)
        self.write("far/small", 3 * MIB)
        self.timed(self.remote("far/small"), self.near, path=("tried", "held"))
        self.paths("--clear")
        self.assertEqual(self.listed(), [])

    def test_a_state_folder_that_cannot_be_written_is_no_error(self):
        source = self.write("near/file", MIB)
        blocked = self.write("blocked", 1)
        os.environ["XDG_STATE_HOME"] = blocked
        self.copy(source, self.remote("far"))
        self.same_file("near/file", "far/file")

    def test_usage(self):
        done = subprocess.run([PETREL, "paths", HOST], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--clear {HOST}", done.stderr)


if __name__ == "__main__":
    hosts.main(("--rtt", "100ms", "--rate", "150mbit"))
