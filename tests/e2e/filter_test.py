#!/usr/bin/env python3
"""Filter rules with the real program: what is left out, both ways, and what is said of bad rules.

    filter_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shutil
import subprocess
import unittest

import hosts

USAGE = 1


class Filters(hosts.Case):
    def make(self, root):
        for name in ("a.c", "a.o", "keep/b.o", "keep/b.c", "cache/c.c", "deep/er/x.tmp", "deep/er/x"):
            self.write(f"{root}/{name}", 10)
        self.write(f"{root}/keep/large.o", hosts.MIB)

    def names(self, root):
        root = self.path(root)
        return sorted(os.path.relpath(os.path.join(folder, name), root)
                      for folder, _, files in os.walk(root) for name in files)

    def test_both_ways(self):
        self.make("near/src")
        rules = ["--exclude", "*.o", "--exclude=/src/cache/", "--filter=- x.tmp"]
        left = ["a.c", "deep/er/x", "keep/b.c"]
        summary = self.copy("--json", *rules, self.path("near/src"),
                            self.remote("far")).events()[-1]
        self.assertEqual(self.names("far/src"), left)
        self.assertEqual(summary["files_done"], 3)
        self.assertFalse(os.path.exists(self.path("far/src/cache")))
        self.make("far/whole")
        self.copy("--include", "b.o", *rules, self.remote("far/whole/"), self.path("back"))
        self.assertEqual(self.names("back"), sorted([*left, "keep/b.o", "cache/c.c"]))

    def test_an_update_and_a_dry_run(self):
        self.make("near/src")
        self.write("far/src/cache/c.c", 5)
        dry = self.copy("-n", "--exclude=cache", "--exclude=*.o", self.path("near/src"),
                        self.remote("far"))
        self.assertNotIn("cache", dry.stderr)
        self.assertIn("src/keep/b.c", dry.stderr)
        self.copy("--exclude=cache", "--exclude=*.o", self.path("near/src"), self.remote("far"))
        self.assertEqual(os.path.getsize(self.path("far/src/cache/c.c")), 5)

    def test_rules_from_files(self):
        self.make("near/src")
        self.write("near/rules", text="# comment\n\n; another\n+ keep/b.o\n- *.o\nmerge "
                   + self.path("near/more"))
        self.write("near/more", text="- cache/\r\n- *.tmp\r\n")
        self.copy("--filter=merge " + self.path("near/rules"), self.path("near/src"),
                  self.remote("far"))
        self.assertEqual(self.names("far/src"), ["a.c", "deep/er/x", "keep/b.c", "keep/b.o"])
        self.write("near/nul", text="*.o\0cache\0")
        self.copy("-0", "--exclude-from", self.path("near/nul"), self.path("near/src"),
                  self.remote("far/two"), "--mkpath")
        self.assertNotIn("cache/c.c", self.names("far/two/src"))
        self.assertIn("deep/er/x.tmp", self.names("far/two/src"))

    def test_bad_rules(self):
        source = self.write("near/file", 10)
        for rule, says in (("x", "no filter rule"), (": .rsync-filter", "each directory"),
                           ("-/ x", "modifier"), ("- ", "too soon")):
            self.fails(USAGE, says, "--filter", rule, source, self.remote("far"))
        self.fails(47, "cannot be read", "--exclude-from=" + self.path("none"), source,
                   self.remote("far"))
        loop = self.write("near/loop", text="merge " + self.path("near/loop"))
        self.fails(USAGE, "name each other", "--filter", "merge " + loop, source,
                   self.remote("far"))


class Lists(hosts.Case):
    """--files-from."""

    def make(self, root):
        for name in ("a/b/c", "a/b/d", "a/e", "top", "other/x", "new\nline"):
            self.write(f"{root}/{name}", 10)

    def names(self, root):
        return sorted(name for name in hosts.tree(self.path(root)))

    def test_both_ways(self):
        self.make("near/src")
        self.write("near/list", text="# these\na/b/c\r\n/top\n\n./a/e\ntop\n")
        self.copy("--files-from", self.path("near/list"), self.path("near/src"), self.remote("far"))
        names = [".", "a", "a/b", "a/b/c", "a/e", "top"]
        self.assertEqual(self.names("far"), names)
        self.same_file("near/src/a/b/c", "far/a/b/c")
        self.copy("--files-from", self.path("near/list"), self.remote("near/src"),
                  self.path("back"))
        self.assertEqual(self.names("back"), names)

    def test_nul_standard_input_and_many(self):
        for i in range(1000):
            self.write(f"near/src/{i % 50}/{i}", 3)
        self.make("near/src")
        listed = "\0".join(["new\nline", "a/b", *[f"{i % 50}/{i}" for i in range(0, 1000, 2)]])
        list_ = self.write("near/list", text=listed)
        for words in ((self.path("near/src"), self.remote("far")),
                      (self.remote("near/src"), self.path("back"))):
            with open(list_) as standard:
                self.copy("-0r", "--files-from=-", *words, stdin=standard)
        self.assertEqual(self.names("far"), self.names("back"))
        self.same_tree("near/src/a/b", "back/a/b")
        self.assertEqual(len(self.names("back")), 500 + 25 + 6)
        self.assertFalse(os.path.exists(self.path("back/1/1")))
        self.same_file("near/src/new\nline", "back/new\nline")

    @unittest.skipIf(shutil.which("rsync") is None, "no rsync here")
    def test_the_same_as_rsync(self):
        self.make("near/src")
        self.write("near/list", text="a/b\ntop\nother/\na\n")
        for words in (("-lt",), ("-lt", "-r"), ("-lt", "-r", "--exclude=d")):
            for where in ("far", "theirs"):
                shutil.rmtree(self.path(where), ignore_errors=True)
                os.mkdir(self.path(where))
            ours = [word for word in words if word != "-lt"]
            self.copy(*ours, "--files-from", self.path("near/list"), self.path("near/src"),
                      self.remote("far"))
            subprocess.run(["rsync", *words, "--files-from", self.path("near/list"),
                            self.path("near/src"), self.path("theirs")], check=True)
            theirs = [name for name in self.names("theirs") if "-r" in words or name != "other/x"]
            self.assertEqual(self.names("far"), theirs, words)

    def test_bad_lists(self):
        self.make("near/src")
        source = self.path("near/src")
        self.write("near/list", text="../secret\n")
        list_ = self.path("near/list")
        self.fails(USAGE, "leads out", "--files-from", list_, source, self.remote("far"))
        self.fails(USAGE, "one source", "--files-from", list_, source, list_, self.remote("far"))
        self.write("near/list", text="top\n")
        self.fails(USAGE, "exclude each other", "--delete", "--files-from", list_, source,
                   self.remote("far"))
        self.fails(47, "cannot be read", "--files-from", self.path("none"), source,
                   self.remote("far"))
        self.write("near/list", text="top\nnone\n")
        result = self.copy("--files-from", list_, source, self.remote("far"), code=23)
        self.assertIn("none", result.stderr)
        self.same_file("near/src/top", "far/top")


if __name__ == "__main__":
    hosts.main()
