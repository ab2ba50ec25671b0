#!/usr/bin/env python3
"""What is kept of a file besides its bytes, and which files are left alone: -a, owners, -X, -A,
--no-perms, --no-times, -u, --ignore-existing, --existing.

    keep_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shlex
import shutil
import stat
import struct
import subprocess
import unittest

import hosts
from hosts import MIB, PETREL

LOST = 50


def root(test):
    return unittest.skipUnless(os.environ.get("PETREL_HOSTS_UID") == "0", "not root")(test)


def acl(entries):
    """An access control list as the kernel has it: version, then tag, permissions, id of each."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


SOME_ACL = acl([(1, 7, 0xffffffff), (2, 6, 12345), (4, 5, 0xffffffff), (16, 7, 0xffffffff),
                (32, 0, 0xffffffff)])


class Case(hosts.Case):
    def mode(self, path):
        return stat.S_IMODE(os.lstat(self.path(path)).st_mode)

    def owner(self, path):
        status = os.lstat(self.path(path))
        return status.st_uid, status.st_gid


class Owners(Case):
    def make(self):
        self.write("near/d/small", 10)
        self.write("near/d/large", 2 * MIB)
        os.mkdir(self.path("near/d/sub"))
        os.symlink("small", self.path("near/d/link"))
        for name in ("small", "large", "sub", "link", ""):
            os.lchown(self.path("near/d", name), 12345, 54321)
        os.chmod(self.path("near/d/small"), 0o6755)
        os.chmod(self.path("near/d/sub"), 0o2775)

    @root
    def test_archive_as_root(self):
        self.make()
        self.copy("-a", self.path("near/d"), self.remote("far"))
        self.same_tree("near/d", "far/d")
        for name in ("d", "d/small", "d/large", "d/sub", "d/link"):
            self.assertEqual(self.owner(f"far/{name}"), (12345, 54321), name)
        self.assertEqual(self.mode("far/d/small"), 0o6755)
        self.assertEqual(self.mode("far/d/sub"), 0o2775)
        self.copy("-a", self.remote("far/d"), self.path("back"), "--mkpath")
        self.assertEqual(self.owner("back/d/large"), (12345, 54321))
        # What is there already and skipped gets its owner, too.
        os.chown(self.path("far/d/large"), 1, 1)
        again = self.copy("-a", "--json", self.path("near/d"), self.remote("far"))
        self.assertEqual(again.events()[-1]["files_done"], 0)
        self.assertEqual(self.owner("far/d/large"), (12345, 54321))

    @root
    def test_only_one_of_them(self):
        self.make()
        self.copy("--owner", self.path("near/d"), self.remote("far"))
        self.assertEqual(self.owner("far/d/small"), (12345, 0))
        self.assertEqual(self.mode("far/d/small"), 0o4755)
        self.copy("-a", "--no-owner", self.path("near/d"), self.remote("far/two"), "--mkpath")
        self.assertEqual(self.owner("far/two/d/small"), (0, 54321))
        self.copy(self.path("near/d"), self.remote("far/three"), "--mkpath")
        self.assertEqual(self.owner("far/three/d/small"), (0, 0))
        self.assertEqual(self.mode("far/three/d/small"), 0o755)

    @root
    def test_names_go_before_numbers(self):
        source = self.write("near/file", 10)
        os.chown(source, 65534, 65534)  # nobody, nogroup
        self.copy("-a", source, self.remote("far/name"))
        self.assertEqual(self.owner("far/name"), (65534, 65534))
        self.copy("-a", "--numeric-ids", source, self.remote("far/number"))
        self.assertEqual(self.owner("far/number"), (65534, 65534))

    @root
    def test_case_16_an_ordinary_user_cannot_give_files_away(self):
        self.make()
        os.chmod(self.path("far"), 0o777)
        far = shlex.join(hosts.unprivileged(PETREL))
        silent = self.copy("-a", self.path("near/d"), self.remote("far"), far_petrel=far)
        self.assertNotIn("owner", silent.stderr.replace("kept only with the owner", ""))
        self.same_file("near/d/large", "far/d/large")
        shutil.rmtree(self.path("far/d"))
        told = self.copy("--owner", "--json", self.path("near/d"), self.remote("far"),
                         far_petrel=far, code=LOST)
        lost = [event["text"] for event in told.events() if event["event"] == "lost"]
        self.assertEqual(len(lost), 1)
        self.assertIn("5 do not have the owner", lost[0])
        self.assertTrue(told.events()[-1]["verified"])


class Extended(Case):
    def setUp(self):
        super().setUp()
        probe = self.write("near/probe", 1)
        try:
            os.setxattr(probe, "user.probe", b"x")
        except OSError:
            self.skipTest("no extended attributes here")
        os.remove(probe)

    def make(self):
        for name, size in (("small", 10), ("large", 2 * MIB), ("sub/x", 1)):
            self.write(f"near/d/{name}", size)
        for name in ("small", "large", "sub", ""):
            os.setxattr(self.path("near/d", name), "user.one", f"value of {name}".encode())
            os.setxattr(self.path("near/d", name), "user.empty", b"")

    def test_kept_with_x_only(self):
        self.make()
        self.copy("-X", self.path("near/d"), self.remote("far"))
        for name in ("small", "large", "sub", ""):
            self.assertEqual(os.getxattr(self.path("far/d", name), "user.one"),
                             f"value of {name}".encode())
            self.assertEqual(os.getxattr(self.path("far/d", name), "user.empty"), b"")
        self.copy(self.path("near/d"), self.remote("far/two"), "--mkpath")
        self.assertEqual(os.listxattr(self.path("far/two/d/small")), [])

    def test_of_what_is_there_already(self):
        self.make()
        self.copy("-X", self.path("near/d"), self.remote("far"))
        os.setxattr(self.path("near/d/small"), "user.one", b"new")
        os.setxattr(self.path("far/d/large"), "user.other", b"not from here")
        again = self.copy("-X", "--json", self.path("near/d"), self.remote("far"))
        self.assertEqual(again.events()[-1]["files_done"], 0)
        self.assertEqual(os.getxattr(self.path("far/d/small"), "user.one"), b"new")
        self.assertEqual(sorted(os.listxattr(self.path("far/d/large"))), ["user.empty", "user.one"])

    def test_acls(self):
        self.make()
        name = "system.posix_acl_access"
        try:
            os.setxattr(self.path("near/d/small"), name, SOME_ACL)
        except OSError:
            self.skipTest("no access control lists here")
        os.setxattr(self.path("near/d/sub"), "system.posix_acl_default", SOME_ACL)
        self.copy("-A", self.path("near/d"), self.remote("far"))
        self.assertEqual(os.getxattr(self.path("far/d/small"), name), SOME_ACL)
        self.assertEqual(os.getxattr(self.path("far/d/sub"), "system.posix_acl_default"), SOME_ACL)
        self.assertEqual(self.mode("near/d/small"), self.mode("far/d/small"))
        self.assertNotIn("user.one", os.listxattr(self.path("far/d/small")))
        self.copy("-X", self.path("near/d"), self.remote("far/two"), "--mkpath")
        self.assertNotIn(name, os.listxattr(self.path("far/two/d/small")))

    @root
    def test_case_16_a_destination_without_them(self):
        self.make()
        os.mkdir(self.path("ram"))
        if subprocess.run(["mount", "-t", "ramfs", "none", self.path("ram")],
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no file system without extended attributes")
        try:
            result = self.copy("-X", self.remote("near/d"), self.path("ram"), code=LOST)
            self.assertIn("4 lost extended attributes", result.stderr)
            self.same_file("near/d/large", "ram/d/large")
        finally:
            subprocess.run(["umount", self.path("ram")], check=True)


class Less(Case):
    """--no-perms and --no-times."""

    def test_no_perms(self):
        self.write("near/d/new", 10, mode=0o777)
        self.write("near/d/old", 10, mode=0o777)
        os.chmod(self.path("near/d"), 0o700)
        self.write("far/d/old", 5, mode=0o604)
        os.chmod(self.path("far/d"), 0o751)
        self.copy("--no-perms", self.path("near/d"), self.remote("far"))
        self.assertEqual(self.mode("far/d/old"), 0o604)
        self.assertEqual(self.mode("far/d/new"), 0o755)
        self.assertEqual(self.mode("far/d"), 0o751)
        self.copy("--no-perms", self.path("near/d"), self.remote("far"))
        self.assertEqual(self.mode("far/d/old"), 0o604)
        self.copy(self.path("near/d"), self.remote("far"))
        self.assertEqual(self.mode("far/d/old"), 0o777)

    def test_no_times(self):
        source = self.write("near/d/file", 10)
        os.utime(source, (10 ** 9, 10 ** 9))
        os.utime(self.path("near/d"), (10 ** 9, 10 ** 9))
        self.copy("--no-times", self.path("near/d"), self.remote("far"))
        for name in ("far/d", "far/d/file"):
            self.assertGreater(os.stat(self.path(name)).st_mtime, 1.5 * 10 ** 9)


class LeftAlone(Case):
    def setUp(self):
        super().setUp()
        for name, when in (("older", 10 ** 9 + 5), ("newer", 10 ** 9 - 5), ("only-near", 10 ** 9)):
            os.utime(self.write(f"near/d/{name}", 20, seed=1), (when, when))
        for name in ("older", "newer"):
            os.utime(self.write(f"far/d/{name}", 10), (10 ** 9, 10 ** 9))
        self.write("far/d/only-far", 10)

    def sizes(self):
        return {name: os.path.getsize(self.path("far/d", name))
                for name in sorted(os.listdir(self.path("far/d")))}

    def both(self, *options):
        """A dry run names what the run that follows does."""
        words = ["--json", *options, self.path("near/d"), self.remote("far")]
        dry = [e["path"] for e in self.copy("-n", *words).events() if e["event"] == "file"]
        done = [e["path"] for e in self.copy(*words).events() if e["event"] == "file"]
        self.assertEqual(sorted(dry), sorted(done))
        return sorted(done)

    def test_update(self):
        self.assertEqual(self.both("-u"), ["d/older", "d/only-near"])
        self.assertEqual(self.sizes(), {"newer": 10, "older": 20, "only-far": 10, "only-near": 20})

    def test_ignore_existing(self):
        self.assertEqual(self.both("--ignore-existing"), ["d/only-near"])
        self.assertEqual(self.sizes(), {"newer": 10, "older": 10, "only-far": 10, "only-near": 20})

    def test_existing(self):
        os.makedirs(self.path("near/d/new/folder"))
        self.write("near/d/new/folder/file", 5)
        self.assertEqual(self.both("--existing"), ["d/newer", "d/older"])
        self.assertEqual(self.sizes(), {"newer": 20, "older": 20, "only-far": 10})
        self.copy("--existing", self.path("near/d"), self.remote("far/none"), "--mkpath")
        self.assertEqual([f for _, _, files in os.walk(self.path("far/none")) for f in files], [])

    def test_the_same_as_rsync(self):
        if shutil.which("rsync") is None:
            self.skipTest("no rsync here")
        os.makedirs(self.path("near/d/new"))
        for options in (["-u"], ["--ignore-existing"], ["--existing"], ["-u", "--existing"]):
            shutil.rmtree(self.path("theirs"), ignore_errors=True)
            shutil.copytree(self.path("far"), self.path("theirs"))
            shutil.rmtree(self.path("ours"), ignore_errors=True)
            shutil.copytree(self.path("far"), self.path("ours"))
            self.copy(*options, self.path("near/d"), self.remote("ours"))
            subprocess.run(["rsync", "-rlpt", *options, self.path("near/d"), self.path("theirs")],
                           check=True)
            ours, theirs = hosts.tree(self.path("ours/d")), hosts.tree(self.path("theirs/d"))
            self.assertEqual({name: facts[2] for name, facts in ours.items()},
                             {name: facts[2] for name, facts in theirs.items()}, options)


if __name__ == "__main__":
    hosts.main()
