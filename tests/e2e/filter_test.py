#!/usr/bin/env python3
"""Filter rules with the real program: what is left out, both ways, and what is said of bad rules.

    filter_test.py PETREL PETREL_LAB [TEST...]
"""
import os

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


if __name__ == "__main__":
    hosts.main()
