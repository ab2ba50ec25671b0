#!/usr/bin/env python3
"""What is kept of a file besides its bytes, and which files are left alone: -a, owners, -X, -A,
--no-perms, --no-times, -u, --ignore-existing, --existing.

    keep_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shlex
import shutil
import socket
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
        self.assertNotIn("owner", silent.stderr.replace("it goes only with the owner", ""))
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


class Specials(Case):
    def make(self):
        self.write("near/d/file", 10)
        os.mkfifo(self.path("near/d/pipe"), 0o640)
        os.chmod(self.path("near/d/pipe"), 0o642)
        os.utime(self.path("near/d/pipe"), (10 ** 9, 10 ** 9))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("near/d/socket"))

    @root
    def test_as_root(self):
        self.make()
        os.mknod(self.path("near/d/null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(self.path("near/d/disk"), stat.S_IFBLK | 0o600, os.makedev(259, 70000))
        self.copy("-a", self.path("near/d"), self.remote("far"))
        self.same_tree("near/d", "far/d")
        self.assertEqual(os.stat(self.path("far/d/null")).st_rdev, os.makedev(1, 3))
        self.assertEqual(os.stat(self.path("far/d/disk")).st_rdev, os.makedev(259, 70000))
        again = os.lstat(self.path("far/d/null")).st_ino
        self.copy("-D", self.path("near/d"), self.remote("far"))
        self.assertEqual(os.lstat(self.path("far/d/null")).st_ino, again)
        os.remove(self.path("far/d/null"))
        self.write("far/d/null", 10)
        self.copy("-D", self.path("near/d"), self.remote("far"))
        self.assertTrue(stat.S_ISCHR(os.lstat(self.path("far/d/null")).st_mode))

    @root
    def test_case_16_devices_are_not_for_users(self):
        self.make()
        os.mknod(self.path("near/d/null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chmod(self.path("far"), 0o777)
        result = self.copy("-D", self.path("near/d"), self.remote("far"), code=LOST,
                           far_petrel=shlex.join(hosts.unprivileged(PETREL)))
        self.assertIn("1 devices, pipes or sockets could not be made", result.stderr)
        self.assertEqual(sorted(os.listdir(self.path("far/d"))), ["file", "pipe", "socket"])

    def test_not_unasked(self):
        self.make()
        result = self.copy(self.path("near/d"), self.remote("far"), code=23)
        self.assertIn("named pipe", result.stderr)
        self.assertEqual(os.listdir(self.path("far/d")), ["file"])
        self.copy("-a", "--no-D", self.path("near/d"), self.remote("far"), code=23)


class HardLinks(Case):
    def make(self, root):
        self.write(f"{root}/one", 10)
        self.write(f"{root}/sub/large", 2 * MIB)
        self.write(f"{root}/alone", 10)
        self.write(f"{root}/half", 10)
        os.link(self.path(root, "one"), self.path(root, "sub/two"))
        os.link(self.path(root, "one"), self.path(root, "a b"))
        os.link(self.path(root, "sub/large"), self.path(root, "large too"))
        os.link(self.path(root, "half"), self.path("outside-" + root.replace("/", "-")))

    def groups(self, root):
        """Names by inode, for files with more than one of them in the tree."""
        found = {}
        for folder, _, files in os.walk(self.path(root)):
            for name in files:
                path = os.path.join(folder, name)
                found.setdefault(os.lstat(path).st_ino, []).append(
                    os.path.relpath(path, self.path(root)))
        return sorted(sorted(names) for names in found.values() if len(names) > 1)

    def test_both_ways(self):
        self.make("near/d")
        groups = [["a b", "one", "sub/two"], ["large too", "sub/large"]]
        self.copy("-H", self.path("near/d"), self.remote("far"))
        self.same_tree("near/d", "far/d")
        self.assertEqual(self.groups("far/d"), groups)
        self.copy("-H", self.remote("far/d/"), self.path("back"))
        self.same_content("near/d", "back")
        self.assertEqual(self.groups("back"), groups)
        self.copy(self.path("near/d"), self.remote("far/not"), "--mkpath")
        self.assertEqual(self.groups("far/not"), [])

    def test_again_and_changed(self):
        self.make("near/d")
        self.copy("-H", self.path("near/d"), self.remote("far"))
        inode = os.stat(self.path("far/d/one")).st_ino
        again = self.copy("-H", "--json", self.path("near/d"), self.remote("far")).events()[-1]
        self.assertEqual((again["files_done"], again["payload_sent"] < 10000), (0, True))
        self.assertEqual(os.stat(self.path("far/d/sub/two")).st_ino, inode)
        os.link(self.path("near/d/alone"), self.path("near/d/zz"))
        os.remove(self.path("near/d/a b"))
        self.write("near/d/a b", 5)
        with open(self.path("near/d/one"), "w") as file:
            file.write("new content")
        self.copy("-H", "--delete", self.path("near/d"), self.remote("far"))
        self.same_tree("near/d", "far/d")
        self.assertEqual(self.groups("far/d"),
                         [["alone", "zz"], ["large too", "sub/large"], ["one", "sub/two"]])

    def test_between_operands(self):
        self.make("near/d")
        self.copy("-H", self.path("near/d/one"), self.path("near/d/sub"), self.path("near/d/a b"),
                  self.remote("far"))
        self.assertEqual(self.groups("far"), [["a b", "one", "sub/two"]])

    def test_many(self):
        self.write("near/d/0", 100)
        for i in range(1, 3000):
            os.link(self.path("near/d/0"), self.path(f"near/d/{i}"))
        summary = self.copy("-H", "--json", self.path("near/d"), self.remote("far")).events()[-1]
        self.assertEqual(os.stat(self.path("far/d/0")).st_nlink, 3000)
        self.assertEqual(summary["files_done"], 1)

    @root
    def test_case_16_where_they_cannot_be(self):
        """Another file system in the middle of the destination."""
        self.make("near/d")
        os.makedirs(self.path("dst/d/sub"))
        if subprocess.run(["mount", "-t", "ramfs", "none", self.path("dst/d/sub")],
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("nothing can be mounted here")
        try:
            result = self.copy("-H", self.remote("near/d"), self.path("dst"), code=LOST)
            self.assertIn("2 became files of their own", result.stderr)
            for name in ("one", "sub/two", "sub/large", "large too"):
                self.same_file(f"near/d/{name}", f"dst/d/{name}")
        finally:
            subprocess.run(["umount", self.path("dst/d/sub")], check=True)


class Holes(Case):
    def make(self, path, size, data):
        """A file of holes but for 4 KiB at each of `data`."""
        path = self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            for at in data:
                file.seek(at)
                file.write(os.urandom(4096))
            file.truncate(size)
        if os.stat(path).st_blocks * 512 > size // 2:
            self.skipTest("no holes here")
        return path

    def hash(self, path):
        return subprocess.check_output(["b3sum", "--no-names", self.path(path)], text=True).strip()

    def test_neither_read_nor_sent_nor_allocated(self):
        for name, size, data in (("middle", 300 * MIB + 5, [0, 100 * MIB, 299 * MIB]),
                                 ("end", 64 * MIB, [5 * MIB]), ("all", 40 * MIB + 1, []),
                                 ("small", 400000, [4096 * 50])):
            source = self.make(f"near/{name}", size, data)
            for words in ((source, self.remote(f"far/{name}")),
                          (self.remote(f"near/{name}"), self.path(f"back-{name}"))):
                result = self.copy("--sparse", "--json", *words)
                summary = result.events()[-1]
                self.assertLess(summary["payload_sent"], (len(data) + 1) * 1.1 * MIB)
            for target in (f"far/{name}", f"back-{name}"):
                self.assertEqual(os.path.getsize(self.path(target)), size)
                self.assertEqual(self.hash(target), self.hash(f"near/{name}"))
                self.assertLess(os.stat(self.path(target)).st_blocks * 512,
                                (len(data) + 1) * 16384, target)

    def test_an_older_version_is_there(self):
        source = self.make("near/f", 50 * MIB, [20 * MIB])
        self.write("far/f", 50 * MIB)
        self.copy("--sparse", source, self.remote("far/f"))
        self.assertEqual(self.hash("far/f"), self.hash("near/f"))

    def test_allocated_without_the_option(self):
        source = self.make("near/f", 30 * MIB, [])
        self.copy(source, self.remote("far/f"))
        self.assertEqual(self.hash("far/f"), self.hash("near/f"))


class Moved(Case):
    """--remove-source-files."""

    def left(self, root):
        return sorted(os.path.relpath(os.path.join(folder, name), self.path(root))
                      for folder, _, files in os.walk(self.path(root)) for name in files)

    def test_both_ways(self):
        for name in ("a", "d/b", "d/e/c"):
            self.write(f"near/src/{name}", 10)
        self.write("near/src/large", 3 * MIB)
        os.symlink("a", self.path("near/src/link"))
        os.link(self.path("near/src/a"), self.path("near/src/a too"))
        self.copy("-n", "--remove-source-files", self.path("near/src"), self.remote("far"))
        self.assertEqual(len(self.left("near/src")), 6)
        self.copy("-H", "--remove-source-files", self.path("near/src"), self.remote("far"))
        self.assertEqual(self.left("near/src"), [])
        self.assertTrue(os.path.isdir(self.path("near/src/d/e")))
        self.assertEqual(len(self.left("far/src")), 6)
        self.copy("--remove-source-files", self.remote("far/src"), self.path("back"), "--mkpath")
        self.assertEqual(self.left("far/src"), [])
        self.assertEqual(len(self.left("back/src")), 6)

    def test_what_failed_stays(self):
        self.write("near/src/a", 10)
        self.write("near/src/b", 10)
        self.write("near/src/b.c", 10)
        os.makedirs(self.path("far/src/b"))
        result = self.copy("--remove-source-files", self.path("near/src"), self.remote("far"),
                           code=23)
        self.assertIn("src/b", result.stderr)
        self.assertEqual(self.left("near/src"), ["b"])

    def test_what_was_there_already_goes_too(self):
        self.write("near/src/a", 10)
        self.write("near/src/b", 10)
        self.copy(self.path("near/src"), self.remote("far"))
        self.write("far/src/b", 20)
        self.copy("--remove-source-files", "-u", self.path("near/src"), self.remote("far"))
        self.assertEqual(self.left("near/src"), ["a", "b"])
        self.copy("--remove-source-files", self.path("near/src"), self.remote("far"))
        self.assertEqual(self.left("near/src"), [])

    def test_a_single_file(self):
        source = self.write("near/file", 10)
        self.copy("--remove-source-files", source, self.remote("far/other"))
        self.assertFalse(os.path.exists(source))
        self.assertEqual(os.listdir(self.path("far")), ["other"])


if __name__ == "__main__":
    hosts.main()
