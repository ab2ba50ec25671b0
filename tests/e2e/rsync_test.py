#!/usr/bin/env python3
"""The table of docs/man/petrel-rsync.7: each row is tried with rsync and with petrel, side by side, on
the same source and the same destination.

    rsync_test.py PETREL PETREL_LAB [TEST...]

A row of the page begins with a comment, .\\" row NAME, and is what test_NAME tries here.
"""
import os
import re
import shutil
import socket
import stat
import subprocess
import unittest

import hosts
from hosts import MIB

USAGE, PARTIAL, LIMIT, NOT_FOUND, EXISTS = 1, 23, 25, 47, 48
PAGE = os.path.join(hosts.ROOT, "docs", "man", "petrel-rsync.7")


class Rows(unittest.TestCase):
    def test_each_row_is_tested(self):
        with open(PAGE, encoding="utf-8") as page:
            rows = re.findall(r'^\.\\" row (\w+)$', page.read(), re.M)
        self.assertGreater(len(rows), 20)
        tests = [name[len("test_"):] for name in dir(Differences) if name.startswith("test_")]
        self.assertEqual(sorted(rows), sorted(tests))


@unittest.skipIf(shutil.which("rsync") is None, "no rsync here")
class Differences(hosts.Case):
    """near/ is the source; theirs/ and far/ are the destinations, equal before."""

    def both(self, source, options=("-rlpt",), shared=(), own=(), to="", codes=(0, 0)):
        """Runs rsync with `options` and `shared` to theirs/`to`, petrel with `shared` and `own` to
        far/`to`. Returns what each said."""
        shutil.rmtree(self.path("theirs"), ignore_errors=True)
        subprocess.run(["cp", "-a", self.path("far"), self.path("theirs")], check=True)
        sources = [os.path.join(self.near, s) for s in ([source] if isinstance(source, str) else source)]
        theirs = subprocess.run(["rsync", *options, *shared, *sources, self.path("theirs", to)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(theirs.returncode, codes[0], theirs.stdout)
        ours = self.copy(*shared, *own, *sources, self.remote(f"far/{to}"), code=codes[1])
        return theirs.stdout, ours.stderr

    def read(self, path):
        with open(self.path(path), encoding="ascii") as file:
            return file.read()

    def text(self, path, text="x"):
        return self.write(path, text=text)

    def mode(self, path):
        return os.lstat(self.path(path)).st_mode & 0o7777

    # ---- what is copied ----

    def test_folders(self):
        self.text("near/t/f")
        self.both("t", options=())
        self.assertEqual(os.listdir(self.path("theirs")), [])
        self.assertEqual(self.read("far/t/f"), "x")

    def test_modes_and_times(self):
        os.utime(self.text("near/f"), (1000, 1000))
        os.chmod(self.path("near/f"), 0o660)
        self.both("f", options=())
        theirs, ours = os.stat(self.path("theirs/f")), os.stat(self.path("far/f"))
        self.assertNotEqual(theirs.st_mtime, 1000)
        self.assertEqual((ours.st_mtime, ours.st_mode & 0o777), (1000, 0o660))

    def test_links(self):
        self.text("near/t/f")
        os.symlink("f", self.path("near/t/l"))
        said, _ = self.both("t", options=("-r",))
        self.assertIn("skipping non-regular file", said)
        self.assertFalse(os.path.lexists(self.path("theirs/t/l")))
        self.assertEqual(os.readlink(self.path("far/t/l")), "f")

    def test_link_named(self):
        self.text("near/f")
        os.symlink("f", self.path("near/l"))
        self.both("l")
        self.assertTrue(os.path.islink(self.path("theirs/l")))
        self.assertFalse(os.path.islink(self.path("far/l")))
        self.assertEqual(self.read("far/l"), "x")

    def test_specials(self):
        self.text("near/f")
        self.text("far/old")
        os.mkfifo(self.path("near/pipe"))
        theirs, ours = self.both(".", shared=("--delete",), codes=(0, PARTIAL))
        self.assertIn("skipping non-regular file", theirs)
        self.assertIn("a named pipe", ours)
        self.assertIn("nothing was deleted", ours)
        self.assertFalse(os.path.exists(self.path("theirs/old")))
        self.assertTrue(os.path.exists(self.path("far/old")))

    def test_set_ids(self):
        os.chmod(self.text("near/t/f"), 0o4755)
        self.text("near/t/d/x")
        os.chmod(self.path("near/t/d"), 0o2755)
        self.both("t")
        self.assertEqual((self.mode("theirs/t/f"), self.mode("theirs/t/d")), (0o4755, 0o2755))
        self.assertEqual((self.mode("far/t/f"), self.mode("far/t/d")), (0o755, 0o755))

    def test_names_of_petrel(self):
        name = ".petrel-0123456789abcdef"
        self.text(f"near/t/{name}")
        _, ours = self.both("t")
        self.assertTrue(os.path.exists(self.path("theirs/t", name)))
        self.assertEqual(os.listdir(self.path("far/t")), [])
        self.assertIn("1 file was not sent, for the name", ours)
        for folder in ("near", "theirs"):  # the tests look for half files
            os.remove(self.path(folder, "t", name))

    def test_one_name_twice(self):
        self.text("near/a/x", "a")
        self.text("near/b/x", "b")
        _, ours = self.both(["a/x", "b/x"], codes=(0, USAGE))
        self.assertEqual(self.read("theirs/x"), "a")
        self.assertEqual(os.listdir(self.path("far")), [])
        self.assertIn("two sources are both named", ours)

    def test_listed_folder(self):
        self.text("near/s/o/x")
        self.text("near/list", "o/\n")
        for options in ((), ("-r",)):
            self.both("s", options=("-lt",), own=(),
                      shared=(*options, f"--files-from={self.path('near/list')}"))
            self.assertTrue(os.path.exists(self.path("theirs/o/x")))
            self.assertEqual(os.path.exists(self.path("far/o/x")), options == ("-r",))

    # ---- where it lands ----

    def test_contents(self):
        self.text("near/s/f")
        os.utime(self.path("near/s"), (1000, 1000))
        os.chmod(self.path("near/s"), 0o750)
        os.chmod(self.path("far"), 0o755)
        self.both("s/")
        self.assertEqual((self.mode("theirs"), os.stat(self.path("theirs")).st_mtime), (0o750, 1000))
        self.assertEqual(self.mode("far"), 0o755)
        self.assertNotEqual(os.stat(self.path("far")).st_mtime, 1000)

    def test_missing_folder_for_files(self):
        self.text("near/x")
        self.text("near/y")
        for sources, to in ((["x"], "new/"), (["x", "y"], "new")):
            _, ours = self.both(sources, to=to, codes=(0, NOT_FOUND))
            self.assertEqual(sorted(os.listdir(self.path("theirs/new"))), sources)
            self.assertIn("--mkpath", ours)
            self.assertEqual(os.listdir(self.path("far")), [])

    def test_file_where_a_folder_comes(self):
        self.text("near/s/x/f")
        self.text("near/s/y")
        self.text("far/x", "in the way")
        _, ours = self.both("s/", codes=(0, PARTIAL))
        self.assertEqual(self.read("theirs/x/f"), "x")
        self.assertEqual(self.read("far/x"), "in the way")
        self.assertIn("is where a directory should be and is left alone", ours)
        self.assertEqual(self.read("far/y"), "x")

    def test_link_where_a_folder_comes(self):
        self.text("near/s/x/f")
        self.text("near/s/y")
        os.mkdir(self.path("far/elsewhere"))
        os.symlink("elsewhere", self.path("far/x"))
        self.both("s/", codes=(0, PARTIAL))
        self.assertFalse(os.path.islink(self.path("theirs/x")))
        self.assertTrue(os.path.islink(self.path("far/x")))
        self.assertEqual(os.listdir(self.path("far/elsewhere")), [])

    def test_folder_where_a_file_comes(self):
        self.text("near/s/x")
        self.text("near/s/y")
        os.mkdir(self.path("far/x"))
        _, ours = self.both("s/", codes=(0, PARTIAL))
        self.assertTrue(os.path.isfile(self.path("theirs/x")))
        self.assertTrue(os.path.isdir(self.path("far/x")))
        self.assertIn("a directory is in the way and is left alone", ours)
        self.text("far/x/f")
        self.both("s/", shared=("--delete",), codes=(0, PARTIAL))
        self.assertTrue(os.path.isfile(self.path("theirs/x")))
        self.assertTrue(os.path.isfile(self.path("far/x/f")))

    def test_special_where_a_file_comes(self):
        self.text("near/s/x")
        self.text("near/s/y")
        os.mkfifo(self.path("far/x"))
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.getcwd()
            os.chdir(self.path("far"))  # a socket's name may be short only
            listener.bind("y")
            os.chdir(here)
            _, ours = self.both("s/", codes=(0, EXISTS))
        self.assertTrue(os.path.isfile(self.path("theirs/x")) and
                        os.path.isfile(self.path("theirs/y")))
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("far/x")).st_mode))
        self.assertTrue(stat.S_ISSOCK(os.stat(self.path("far/y")).st_mode))
        self.assertIn("a device, pipe or socket is in the way", ours)

    # ---- what is there already ----

    def test_nanoseconds(self):
        os.utime(self.text("near/f", "new"), ns=(10 ** 18, 10 ** 18 + 500))
        os.utime(self.text("far/f", "old"), ns=(10 ** 18, 10 ** 18 + 700))
        self.both("f")
        self.assertEqual(self.read("theirs/f"), "old")
        self.assertEqual(self.read("far/f"), "new")

    def test_touched(self):
        os.utime(self.text("near/f"), (1000, 1000))
        inode = os.stat(self.text("far/f")).st_ino
        theirs, ours = self.both("f", options=("-rlpti",), own=("--json", "-vv"))
        self.assertIn(">f", theirs)
        self.assertIn("f is already there", ours)
        self.assertEqual((os.stat(self.path("far/f")).st_ino, os.stat(self.path("far/f")).st_mtime),
                         (inode, 1000))

    def test_dry_run(self):
        os.utime(self.text("near/f"), (1000, 1000))
        self.text("far/f")
        theirs, ours = self.both("f", options=("-rlpti",), shared=("-n",))
        self.assertIn("f", theirs)
        self.assertNotIn("would send f", ours)
        self.assertIn("0 files", ours)

    def test_insertion(self):
        data = os.urandom(8 * MIB)
        for path, head in (("far/f", b""), ("near/f", b"inserted")):
            with open(self.path(path), "wb") as file:
                file.write(head + data)
        theirs, _ = self.both("f", options=("-rlpt", "--no-whole-file", "--stats"))
        self.assertLess(int(re.search(r"Literal data: ([\d,]+)", theirs).group(1).replace(",", "")),
                        MIB)
        with open(self.path("far/f"), "wb") as file:
            file.write(data)
        summary = self.copy("--json", self.path("near/f"), self.remote("far/f")).events()[-1]
        self.assertGreater(summary["payload_sent"], 8 * MIB)
        self.same_file("near/f", "far/f")

    def test_moved(self):
        self.write("far/d/old", 4 * MIB)
        self.text("near/d/x")
        shutil.copyfile(self.path("far/d/old"), self.path("near/d/new"))
        theirs, _ = self.both("d", options=("-rlpt", "--no-whole-file", "--stats"), to="")
        self.assertGreater(int(re.search(r"Literal data: ([\d,]+)", theirs).group(1).replace(",", "")),
                           4 * MIB - 1)
        os.remove(self.path("far/d/new"))
        summary = self.copy("--json", self.path("near/d"), self.remote("far")).events()[-1]
        self.assertLess(summary["payload_sent"], MIB)

    def test_inplace(self):
        self.text("near/f", "new")
        inode = os.stat(self.text("far/f", "older")).st_ino
        theirs, _ = self.both("f", shared=("--inplace",))
        self.assertEqual(self.read("far/f"), "new")
        self.assertNotEqual(os.stat(self.path("far/f")).st_ino, inode)
        self.text("far/f", "oldest")
        inode = os.stat(self.path("far/f")).st_ino
        subprocess.run(["rsync", "--inplace", self.path("near/f"), self.path("far/f")], check=True)
        self.assertEqual(os.stat(self.path("far/f")).st_ino, inode)

    # ---- deleting, rules, the end ----

    def test_max_delete(self):
        self.text("near/s/x")
        for name in ("a", "b"):
            self.text(f"far/{name}")
        self.both("s/", shared=("--delete", "--max-delete=1"), codes=(LIMIT, LIMIT))
        self.assertEqual(len(os.listdir(self.path("theirs"))), 2)
        self.assertEqual(sorted(os.listdir(self.path("far"))), ["a", "b", "x"])

    def test_after_a_failure(self):
        self.text("near/s/x")
        self.text("near/s/y")
        self.text("far/old")
        self.text("far/x/inside")
        # rsync calls off a deletion for what it could not read, not for what it could not write.
        self.both("s/", options=("-rlpt", "--delete-after"), shared=("--filter=P inside",),
                  own=("--delete",), codes=(PARTIAL, PARTIAL))
        self.assertFalse(os.path.exists(self.path("theirs/old")))
        self.assertTrue(os.path.exists(self.path("far/old")))

    def test_rules_in_folders(self):
        self.text("near/s/x")
        self.text("near/s/.rules", "- x\n")
        _, ours = self.both("s/", shared=("--filter=: .rules",), codes=(0, USAGE))
        self.assertEqual(os.listdir(self.path("theirs")), [".rules"])
        self.assertIn("each directory", ours)

    def test_one_reason(self):
        _, ours = self.both("none", codes=(PARTIAL, NOT_FOUND))
        self.assertIn("No such file", ours)


if __name__ == "__main__":
    hosts.main()
