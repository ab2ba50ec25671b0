#!/usr/bin/env python3
"""Odd names, odd sources, odd destinations: each arrives, or is named with the reason, and the rest
goes on.

    names_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shlex
import socket
import stat

import hosts
from hosts import HOST

USAGE, PARTIAL, NOT_FOUND, EXISTS = 1, 23, 47, 48
ODD = ["new\nline", "-dash", "--delete", "a:b", "host:path", "trailing ", " leading", "tab\there", "*",
       "?", "[x]", "back\\slash", "quo'te", 'double"quote', "$HOME", "`id`", "a;b", "#hash", "~",
       "CASE", "case", "...", "..x", "e" * 255, os.fsdecode(b"\xff\xfe\xfd"), os.fsdecode(b"caf\xe9"),
       "caf\u00e9", "\u202egnp.exe", "\x01\x7f", ".hidden", "%s%n", "{a,b}"]


class Names(hosts.Case):
    """Case 17."""

    def make_odd(self, root):
        for i, name in enumerate(ODD):
            self.write(f"{root}/{name}", i + 1, seed=i)
            self.write(f"{root}/in/{name}/{name}"[:4000], i, seed=i)
        os.mkdir(self.path(root, "empty"))
        os.mkdir(self.path(root, "read-only"))
        self.write(f"{root}/read-only/file", 0, mode=0o400)
        self.write(f"{root}/nothing", 0)
        os.symlink("-dash", self.path(root, "link to\n-dash"))
        os.chmod(self.path(root, "read-only"), 0o555)

    def test_case_17_odd_names_in_a_tree(self):
        self.make_odd("near/tree")
        self.copy(self.path("near/tree"), self.remote("far/"))
        self.same_tree("near/tree", "far/tree")
        self.copy(self.remote("far/tree/"), self.path("back"))
        self.same_content("near/tree", "back")
        again = self.copy("--json", self.path("near/tree"), self.remote("far/"))
        self.assertEqual(again.events()[-1]["files_done"], 0)

    def test_case_17_odd_names_as_operands(self):
        for i, name in enumerate(ODD):
            self.write(f"near/{name}", i + 1, seed=i)
        self.copy("--", *[f"./{name}" for name in ODD], self.remote("far"), cwd=self.path("near"))
        self.same_content("near", "far")
        # Patterns name what exists under exactly that name first.
        os.mkdir(self.path("back"))
        self.copy("--", *[f"{HOST}:{self.path('far')}/{name}" for name in ODD], self.path("back"))
        self.same_content("near", "back")

    def test_case_17_odd_names_as_destinations(self):
        source = self.write("near/file", 10)
        names = ["new\nline", "-dash", "a:b", "trailing ", "*", "back\\slash", "$HOME", "~", "e" * 255,
                 os.fsdecode(b"\xff\xfe\xfd")]
        for name in names:
            self.copy(source, self.remote(f"far/{name}"))
            self.same_file("near/file", f"far/{name}")
        self.assertEqual(sorted(os.listdir(self.path("far"))), sorted(names))

    def test_case_17_a_destination_that_ends_in_a_slash(self):
        source = self.write("near/file", 10)
        self.copy(source, self.remote("far//"))
        self.same_content("near", "far")
        self.copy(self.path("near//"), self.remote("far///"))
        self.same_content("near", "far")

    def test_case_17_the_source_is_a_dot(self):
        self.write("near/a/b", 10)
        for i, dot in enumerate((".", "./", "././.", "a/..")):
            self.copy(dot, self.remote(f"far/{i}"), cwd=self.path("near"))
            self.same_content("near", f"far/{i}")
        for i, dots in enumerate(("..", "../", "../.", "../../near/")):
            self.copy(dots, self.remote(f"far/above{i}"), cwd=self.path("near/a"))
            self.same_content("near", f"far/above{i}")
        self.copy(self.remote("near/a/.."), self.path("back"))
        self.same_content("near", "back")

    def test_the_root_as_a_source(self):
        """Its contents, as far as the filter lets them."""
        self.write("near/x", 10)
        parts = self.path("near").split("/")
        above = [f"--include={'/'.join(parts[:n])}/" for n in range(2, len(parts))]
        self.copy(*above, f"--include={self.path('near')}/***", "--exclude=*", "/",
                  self.remote("far"))
        self.same_file("near/x", "far" + self.path("near/x"))

    def test_names_that_are_too_long_for_the_destination(self):
        deep = "d" * 200
        folder = self.path("near/tree")
        os.mkdir(folder)
        self.write("near/tree/short", 10)
        handle = os.open(folder, os.O_RDONLY)
        for _ in range(25):  # longer than a path may be
            os.mkdir(deep, dir_fd=handle)
            below = os.open(deep, os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        os.close(handle)
        result = self.copy(self.path("near/tree"), self.remote("far"), code=PARTIAL)
        self.assertIn("too long", result.stderr)
        self.same_file("near/tree/short", "far/tree/short")
        os.system(f"rm -rf '{folder}' '{self.path('far/tree')}'")


class OddPlaces(hosts.Case):
    def test_a_dangling_link_as_destination(self):
        source = self.write("near/file", 10)
        os.symlink("nowhere", self.path("far/link"))
        self.copy(source, self.remote("far/link"))
        self.same_file("near/file", "far/link")
        self.assertFalse(os.path.islink(self.path("far/link")))
        self.assertFalse(os.path.exists(self.path("far/nowhere")))

    def test_a_pipe_as_destination(self):
        source = self.write("near/file", 10)
        os.mkfifo(self.path("far/pipe"))
        self.fails(EXISTS, "pipe", source, self.remote("far/pipe"))
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("far/pipe")).st_mode))

    def test_a_folder_where_a_file_is_needed(self):
        self.write("near/tree/x", 10)
        self.write("near/tree/y", 10)
        os.makedirs(self.path("far/tree/x/inside"))
        result = self.copy(self.path("near/tree"), self.remote("far"), code=PARTIAL)
        self.assertIn("a directory is in the way", result.stderr)
        self.same_file("near/tree/y", "far/tree/y")
        self.assertTrue(os.path.isdir(self.path("far/tree/x/inside")))

    def test_a_file_where_a_folder_is_needed(self):
        self.write("near/tree/d/x", 10)
        self.write("near/tree/y", 10)
        self.write("far/tree/d", 3)
        result = self.copy(self.path("near/tree"), self.remote("far"), code=PARTIAL)
        self.assertIn("tree/d", result.stderr)
        self.same_file("near/tree/y", "far/tree/y")
        self.assertEqual(os.path.getsize(self.path("far/tree/d")), 3)

    def test_one_that_cannot_be_read_among_a_thousand(self):
        for i in range(1000):
            self.write(f"far/tree/{i:04}", 20, seed=i)
        os.chmod(self.path("far/tree/0500"), 0)
        os.chmod(self.path("near"), 0o777)
        far = shlex.join(hosts.unprivileged(hosts.PETREL))
        result = self.copy("--json", self.remote("far/tree"), self.path("near"), code=PARTIAL,
                           far_petrel=far)
        summary = result.events()[-1]
        self.assertEqual((summary["files_done"], summary["files_failed"]), (999, 1))
        failed = [event for event in result.events() if event["event"] == "failed"]
        self.assertEqual([os.path.basename(event["path"]) for event in failed], ["0500"])

    def test_a_directory_that_cannot_be_read_among_a_thousand_files(self):
        for i in range(1000):
            self.write(f"far/tree/{i % 20:02}/{i:04}", 20, seed=i)
        os.chmod(self.path("far/tree/07"), 0)
        os.chmod(self.path("near"), 0o777)
        far = shlex.join(hosts.unprivileged(hosts.PETREL))
        for words in ([], ["--delete"]):
            result = self.copy("--json", *words, self.remote("far/tree"), self.path("near"),
                               code=PARTIAL, far_petrel=far)
            summary = result.events()[-1]
            self.assertEqual(summary["files_done"] + summary["files_skipped"], 950)
            failed = [event for event in result.events() if event["event"] == "failed"]
            self.assertEqual([(event["path"], event["kind"]) for event in failed],
                             [("tree/07", "permission")])
        os.chmod(self.path("far/tree/07"), 0o755)
        self.copy(self.remote("far/tree"), self.path("near"), far_petrel=far)
        self.same_tree("far/tree", "near/tree")

    def test_a_socket_as_destination(self):
        source = self.write("near/file", 10)
        here = os.getcwd()
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(self.path("far"))  # its name may be short only
            listener.bind("socket")
            os.chdir(here)
            self.fails(EXISTS, "no plain file", source, self.remote("far/socket"))
            self.write("near/tree/socket", 10)
            self.write("near/tree/other", 10)
            result = self.copy(self.path("near/tree/"), self.remote("far"), code=PARTIAL)
        self.assertIn("socket: a device, pipe or socket is in the way", result.stderr)
        self.assertTrue(stat.S_ISSOCK(os.stat(self.path("far/socket")).st_mode))
        self.same_file("near/tree/other", "far/other")

    def test_a_dangling_link_where_a_folder_comes(self):
        self.write("near/tree/d/x", 10)
        self.write("near/tree/y", 10)
        os.symlink("nowhere", self.path("far/link"))
        os.makedirs(self.path("far/tree"))
        os.symlink("nowhere", self.path("far/tree/d"))
        result = self.copy(self.path("near/tree"), self.remote("far"), code=PARTIAL)
        self.assertIn("tree/d: a link is where a directory should be", result.stderr)
        self.same_file("near/tree/y", "far/tree/y")
        self.copy(self.path("near/tree/"), self.remote("far/link"), code=NOT_FOUND)
        self.assertFalse(os.path.exists(self.path("far/nowhere")))

    def test_what_is_no_file(self):
        """Pipes, sockets: named, and the rest goes on."""
        self.write("near/tree/file", 10)
        os.mkfifo(self.path("near/tree/pipe"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("near/tree/socket"))
            result = self.copy(self.path("near/tree"), self.remote("far"), code=PARTIAL)
        self.assertIn("a named pipe", result.stderr)
        self.assertIn("a socket", result.stderr)
        self.same_file("near/tree/file", "far/tree/file")
        self.fails(USAGE, "neither a file nor a directory", self.path("near/tree/pipe"),
                   self.remote("far"))


if __name__ == "__main__":
    hosts.main()
