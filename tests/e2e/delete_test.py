#!/usr/bin/env python3
"""--delete with the real program, and that a dry run says what the next run does.

    delete_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shutil
import subprocess
import unittest

import hosts

PARTIAL, LIMIT = 23, 25


class Delete(hosts.Case):
    def make(self):
        for name in ("a", "d/b", "d/e/f"):
            self.write(f"near/src/{name}", 10)
        shutil.copytree(self.path("near/src"), self.path("far/src"))
        for name in ("old", "d/old", "gone/deep/x", "d/keep.o"):
            self.write(f"far/src/{name}", 5)
        self.write("far/beside", 5)

    def named(self, result, event):
        return sorted(e["path"] for e in result.events() if e["event"] == event)

    def test_push(self):
        self.make()
        words = ["--json", "--delete", "--exclude=*.o", self.path("near/src"), self.remote("far")]
        dry = self.copy("-n", *words)
        self.assertTrue(os.path.exists(self.path("far/src/old")))
        done = self.copy("-v", *words)
        gone = ["src/d/old", "src/gone", "src/gone/deep", "src/gone/deep/x", "src/old"]
        self.assertEqual(self.named(dry, "deleted"), gone)
        self.assertEqual(self.named(done, "deleted"), gone)
        self.assertEqual(self.named(dry, "file"), self.named(done, "file"))
        self.assertEqual(done.events()[-1]["deleted"], 5)
        self.assertTrue(os.path.exists(self.path("far/src/d/keep.o")))
        self.assertTrue(os.path.exists(self.path("far/beside")))
        self.copy("--delete-excluded", "--exclude=*.o", self.path("near/src"), self.remote("far"))
        self.same_tree("near/src", "far/src")

    def test_pull(self):
        self.make()
        result = self.copy("--delete", self.remote("near/src/"), self.path("far/src"))
        self.assertIn("6 deleted", result.stderr)
        self.same_content("near/src", "far/src")

    def test_a_limit(self):
        self.make()
        result = self.copy("--delete", "--max-delete=5", self.path("near/src"), self.remote("far"),
                           code=LIMIT)
        self.assertIn("6 would be deleted", result.stderr)
        self.assertTrue(os.path.exists(self.path("far/src/old")))
        self.copy("--delete", "--max-delete=6", self.path("near/src"), self.remote("far"))
        self.same_tree("near/src", "far/src")

    def test_nothing_goes_after_a_failure(self):
        self.make()
        os.mkfifo(self.path("near/src/pipe"))
        result = self.copy("--delete", self.path("near/src"), self.remote("far"), code=PARTIAL)
        self.assertIn("nothing was deleted", result.stderr)
        self.assertTrue(os.path.exists(self.path("far/src/old")))

    @unittest.skipIf(shutil.which("rsync") is None, "no rsync here")
    def test_the_same_as_rsync(self):
        self.make()
        shutil.copytree(self.path("far"), self.path("theirs"))
        rules = ["--exclude=*.o", "--filter=P gone/deep/", "--include=/src/d/", "--exclude=/src/*/e"]
        self.copy("--delete", *rules, self.path("near/src"), self.remote("far"))
        subprocess.run(["rsync", "-rlpt", "--delete", *rules, self.path("near/src"),
                        self.path("theirs")], check=True, stderr=subprocess.DEVNULL)
        self.assertEqual(sorted(hosts.tree(self.path("far"))), sorted(hosts.tree(self.path("theirs"))))


if __name__ == "__main__":
    hosts.main()
