#!/usr/bin/env python3
"""petrel manifest, verify and clean, here and on a host; copies that write a manifest.

    manifest_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import re
import signal
import subprocess

import hosts
from hosts import CONFIG, HOST, MIB, PETREL

OK, INTERRUPTED, PARTIAL, VERIFY, NOT_FOUND, USAGE, PEER_LOST = 0, 20, 23, 41, 47, 1, 30


class Case(hosts.Case):
    def tool(self, *words, code=0, far_petrel=PETREL, **keywords):
        """A command that is no copy, with ssh's options where a host is named."""
        remote = any(word.startswith(f"{HOST}:") for word in words)
        options = ["-F", CONFIG, "--remote-petrel", far_petrel] if remote else []
        done = subprocess.run([PETREL, words[0], *options, *words[1:]], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              **keywords)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done

    def events(self, *words, **keywords):
        events = [json.loads(line) for line in self.tool(*words, **keywords).stdout.splitlines()]
        self.assertEqual({event["schema"] for event in events}, {1})
        self.assertEqual([event["event"] for event in events].index("summary"), len(events) - 1)
        return events

    def make_tree(self, root):
        self.write(f"{root}/one", 10)
        self.write(f"{root}/sub/large", 3 * MIB + 1)
        self.write(f"{root}/sub/new\nline", 0)
        self.write(f"{root}/a b", 7, mode=0o640)
        os.mkdir(self.path(root, "empty"))
        os.symlink("sub/large", self.path(root, "link"))


class Manifest(Case):
    def test_same_on_both_ends(self):
        self.make_tree("near/tree")
        self.copy(self.path("near/tree"), self.remote("far"))
        near = self.tool("manifest", self.path("near/tree"))
        far = self.tool("manifest", self.remote("far/tree"))
        self.assertEqual(near.stdout, far.stdout)
        self.assertTrue(near.stdout.startswith("petrel-manifest 1\n"))
        digest = self.tool("manifest", "--hash", self.remote("far/tree")).stdout.strip()
        self.assertRegex(digest, "^[0-9a-f]{64}$")
        self.assertIn(digest, near.stderr)
        text = self.write("text", text=near.stdout)
        hashed = subprocess.run(["b3sum", "--no-names", text], stdout=subprocess.PIPE, text=True)
        self.assertEqual(hashed.stdout.strip(), digest)

    def test_b3sum_reads_its_lines(self):
        self.make_tree("near/tree")
        text = self.tool("manifest", self.path("near/tree")).stdout
        lines = [line for line in text.splitlines() if re.match(r"\\?[0-9a-f]{64}  ", line)]
        self.assertEqual(len(lines), 4)
        done = subprocess.run(["b3sum", "--check"], input="\n".join(lines) + "\n", text=True,
                              cwd=self.path("near"), stdout=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout.count(": OK")), (0, 4), done.stdout)

    def test_events(self):
        self.make_tree("near/tree")
        self.copy(self.path("near/tree"), self.remote("far"))
        near = self.events("manifest", "--json", self.path("near/tree"))
        self.assertEqual(near, self.events("manifest", "--json", self.remote("far/tree")))
        self.assertEqual([entry["path"] for entry in near[:-1]],
                         ["tree", "tree/a b", "tree/empty", "tree/link", "tree/one", "tree/sub",
                          "tree/sub/large", "tree/sub/new\nline"])
        self.assertEqual((near[3]["type"], near[3]["target"]), ("link", "sub/large"))
        self.assertEqual((near[6]["type"], near[6]["size"]), ("file", 3 * MIB + 1))
        digest = self.tool("manifest", "--hash", self.path("near/tree")).stdout.strip()
        self.assertEqual(near[-1]["blake3"], digest)
        lost = self.events("manifest", "--json", self.remote("far/none"), code=NOT_FOUND)
        self.assertEqual((lost[-2]["kind"], lost[-1]["exit_code"]), ("not-found", NOT_FOUND))

    def test_a_host_that_says_something_else(self):
        """No answer of a host makes us wait, or print what moves the cursor."""
        for said, code in (("", PEER_LOST), ("o 3\\nabc", PEER_LOST), ("o 70000\\n", PEER_LOST),
                           ("o -1\\n", PEER_LOST), ("q 1\\nx", PEER_LOST),
                           ("x 3\\n999", PEER_LOST), ("x 1\\n0", OK)):
            with self.subTest(said):
                answer = "PETREL-REMOTE version=9 protocol=1-1 port=0 address=none job=files ways=udp"
                script = self.write("fake", mode=0o755, text=f"#!/bin/sh\nread -r line\n"
                                    f"printf '{answer}\\n{said}'\n")
                self.tool("manifest", self.remote("far"), code=code, far_petrel=script)

    def test_bad_input(self):
        self.tool("manifest", self.path("near/none"), code=NOT_FOUND)
        self.tool("manifest", self.remote("far/none"), code=NOT_FOUND)
        self.tool("manifest", code=USAGE)
        self.tool("verify", self.path("near/none"), code=NOT_FOUND)
        self.tool("verify", self.write("nonsense", text="x\n"), code=USAGE)
        self.tool("verify", self.path("nonsense"), self.remote("far"), code=USAGE)


class Verify(Case):
    def setUp(self):
        super().setUp()
        self.make_tree("near/tree")
        self.manifest = self.path("manifest")
        self.copy("--manifest", self.manifest, self.path("near/tree"), self.remote("far"))

    def test_a_copy_is_as_its_manifest_says(self):
        with open(self.manifest) as file:
            self.assertEqual(file.read(),
                             self.tool("manifest", self.path("near/tree")).stdout)
        self.tool("verify", self.manifest, self.remote("far"))
        self.tool("verify", self.manifest, self.path("near"))
        with open(self.manifest) as file:
            self.tool("verify", "-", self.path("far"), stdin=file)

    def test_of_a_pull_and_of_what_was_skipped(self):
        self.copy(self.remote("far/tree"), self.path("back") + "/", "--mkpath")
        self.copy("--manifest", self.path("pulled"), self.remote("far/tree"),
                  self.path("back") + "/")  # all skipped: read for it
        with open(self.path("pulled")) as a, open(self.manifest) as b:
            self.assertEqual(a.read(), b.read())

    def test_files_with_several_names(self):
        os.link(self.path("near/tree/one"), self.path("near/tree/two"))
        os.link(self.path("near/tree/sub/large"), self.path("near/tree/another"))
        self.copy("-H", "--manifest", self.path("linked"), self.path("near/tree"),
                  self.remote("far"))
        with open(self.path("linked")) as file:
            self.assertEqual(file.read(), self.tool("manifest", self.remote("far/tree")).stdout)

    def test_what_does_not_go_together(self):
        self.fails(USAGE, "standard output takes", "--json", "--manifest=-", self.path("near/tree"),
                   self.remote("far"))
        self.fails(USAGE, "make no sense", "--manifest=m", "-", self.remote("far/x"))
        self.fails(USAGE, "make no sense", "--inplace", "-", self.remote("far/x"))

    def test_each_difference_is_named(self):
        with open(self.path("far/tree/sub/large"), "r+b") as file:
            file.seek(2 * MIB)
            file.write(b"other")
        os.remove(self.path("far/tree/one"))
        self.write("far/tree/empty/extra", 3)
        os.chmod(self.path("far/tree/a b"), 0o600)
        os.remove(self.path("far/tree/link"))
        os.symlink("one", self.path("far/tree/link"))
        done = self.tool("verify", self.manifest, self.remote("far"), code=VERIFY)
        for line in ("content: tree/sub/large", "missing: tree/one", "extra: tree/empty/extra",
                     "mode: tree/a b (0600)", "target: tree/link (one)"):
            self.assertIn(line + "\n", done.stdout)
        self.assertIn("differences", done.stderr)
        events = self.events("verify", "--json", self.manifest, self.remote("far"), code=VERIFY)
        self.assertIn({"event": "difference", "schema": 1, "kind": "target", "path": "tree/link",
                       "text": "one"}, events)
        self.assertEqual((events[-1]["differences"], events[-1]["exit_code"]),
                         (len(events) - 1, VERIFY))
        done = self.tool("verify", "--content", self.manifest, self.remote("far"), code=VERIFY)
        self.assertNotIn("mode:", done.stdout)


class Clean(Case):
    def leave_half(self):
        source = self.write("near/file", 40 * MIB)
        process = self.start("copy", "--limit", "100Mbit", source, self.remote("far/d/"),
                             "--mkpath")
        folder = self.path("far/d")
        self.assertTrue(hosts.wait_until(lambda: os.path.isdir(folder) and any(
            name.endswith(".journal") and os.path.getsize(os.path.join(folder, name)) > 200
            for name in os.listdir(folder)), 30))
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).code, INTERRUPTED)
        # While the other end is there yet, what it wrote is in use.
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 20))

    def test_what_an_interrupted_copy_leaves(self):
        self.leave_half()
        self.write("far/other", 10)
        listed = self.tool("clean", "-n", self.remote("far"))
        self.assertIn("stale: d/.petrel-", listed.stdout)
        self.assertEqual(len(os.listdir(self.path("far/d"))), 2)
        events = self.events("clean", "-n", "--json", self.remote("far"))
        self.assertEqual([event.get("state") for event in events], ["left", None])
        done = self.tool("clean", self.remote("far"))
        self.assertIn("removed: d/.petrel-", done.stdout)
        self.assertEqual(os.listdir(self.path("far/d")), [])
        self.assertIn("nothing", self.tool("clean", self.path("far")).stderr)
        self.assertTrue(os.path.exists(self.path("far/other")))

    def test_what_is_in_use_stays(self):
        source = self.write("near/file", 40 * MIB)
        process = self.start("copy", "--limit", "100Mbit", source, self.remote("far"))
        self.assertTrue(hosts.wait_until(
            lambda: any(name.endswith(".journal") for name in os.listdir(self.path("far"))), 30))
        done = self.tool("clean", self.path("far"))
        self.assertIn("in use: ", done.stdout)
        result = self.finish(process)
        self.assertEqual(result.code, OK, result.stderr)
        self.same_file("near/file", "far/file")


if __name__ == "__main__":
    hosts.main()
