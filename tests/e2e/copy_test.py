#!/usr/bin/env python3
"""petrel copy between two hosts: what arrives, and where.

    copy_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shutil
import subprocess
import unittest

import hosts
from hosts import CONFIG, HOST, MIB, PETREL, TEMP


class Files(hosts.Case):
    def test_push_a_file(self):
        source = self.write("near/file", 3 * MIB + 7, mode=0o640)
        os.utime(source, ns=(10 ** 18, 10 ** 18 + 123456789))
        result = self.copy(source, self.remote("far/file"))
        self.same_file("near/file", "far/file")
        status = os.stat(self.path("far/file"))
        self.assertEqual(status.st_mode & 0o7777, 0o640)
        self.assertEqual(status.st_mtime_ns, 10 ** 18 + 123456789)
        hashed = subprocess.run(["b3sum", "--no-names", source], stdout=subprocess.PIPE, text=True)
        self.assertIn(f"{hashed.stdout.strip()}  file", result.stderr)
        self.assertIn("verified", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_pull_a_file(self):
        source = self.write("far/file", 2 * MIB + 1, mode=0o600)
        result = self.copy(self.remote("far/file"), self.path("near/file"))
        self.same_file("far/file", "near/file")
        self.assertEqual(os.stat(self.path("near/file")).st_mode & 0o7777, 0o600)
        hashed = subprocess.run(["b3sum", "--no-names", source], stdout=subprocess.PIPE, text=True)
        self.assertIn(hashed.stdout.strip(), result.stderr)

    def test_sizes_at_the_edges(self):
        sizes = [0, 1, 1023, 1024, 1025, 524288, 524289, MIB - 1, MIB, MIB + 1, 2 * MIB]
        for i, size in enumerate(sizes):
            self.write(f"near/s/{size}", size, seed=i)
        self.copy(self.path("near/s"), self.remote("far"))
        self.same_tree("near/s", "far/s")
        self.copy(self.remote("far/s"), self.path("near/back"), "--mkpath")
        self.same_tree("near/s", "near/back/s")

    def make_tree(self, root):
        self.write(f"{root}/one", 10)
        self.write(f"{root}/sub/two", 700000, mode=0o755)
        self.write(f"{root}/sub/deep/er/three", 0)
        self.write(f"{root}/sub/-dash and space\n", 5)
        self.write(f"{root}/read-only/file", 5, mode=0o400)
        os.mkdir(self.path(root, "empty"))
        os.chmod(self.path(root, "empty"), 0o711)
        os.symlink("sub/two", self.path(root, "link"))
        os.symlink("../../nowhere", self.path(root, "broken"))
        os.symlink("/", self.path(root, "sub", "absolute"))
        os.chmod(self.path(root, "read-only"), 0o555)
        for name in ("sub/deep/er", "sub/deep", "sub", "empty", "one", "."):
            os.utime(self.path(root, name), ns=(10 ** 18, 10 ** 18 + len(name)))

    def test_push_and_pull_a_tree(self):
        self.make_tree("near/tree")
        self.copy(self.path("near/tree"), self.remote("far"))
        self.same_tree("near/tree", "far/tree")
        self.copy(self.remote("far/tree"), self.path("near/back") + "/", "--mkpath")
        self.same_tree("far/tree", "near/back/tree")

    def test_again_is_skipped(self):
        self.make_tree("near/tree")
        self.copy(self.path("near/tree"), self.remote("far"))
        result = self.copy("--json", self.path("near/tree"), self.remote("far"))
        summary = result.events()[-1]
        self.assertEqual(summary["verified_bytes"], 0)
        self.assertEqual(summary["files_done"], 0)
        self.assertEqual(summary["files_skipped"], 5)
        pushed = sorted((event["path"], event["size"]) for event in result.events()
                        if event["event"] == "skipped")
        self.assertEqual(len(pushed), 5)
        result = self.copy("--json", "-vv", self.remote("far/tree"), self.path("near"))
        self.assertEqual(sorted((event["path"], event["size"]) for event in result.events()
                                if event["event"] == "skipped"), pushed)
        self.assertEqual(result.stderr.count(" is already there\n"), 5)
        result = self.copy("-vv", self.path("near/tree"), self.remote("far"))
        self.assertIn("tree/one is already there", result.stderr)

    def test_changed_files_come_anew(self):
        self.write("near/tree/a", 2 * MIB)
        self.copy(self.path("near/tree"), self.remote("far"))
        self.write("near/tree/a", 2 * MIB, seed=1)
        self.copy(self.path("near/tree"), self.remote("far"))
        self.same_tree("near/tree", "far/tree")

    def test_many_small_files(self):
        for i in range(3000):
            self.write(f"near/many/{i % 30}/{i}", i % 300, seed=i)
        self.copy(self.path("near/many"), self.remote("far"))
        self.same_tree("near/many", "far/many")

    def test_names_of_petrels_own(self):
        self.write("near/d/.petrel-0123456789abcdef", 10)
        self.write("near/d/sub/.petrel-0123456789abcdee", 10)
        self.write("near/d/.petrel-0123456789abcdeg", 10) # no hexadecimal digit
        result = self.copy(self.path("near/d"), self.remote("back/"), "--mkpath")
        self.assertIn("petrel: 2 files were not sent, for the names, .petrel-", result.stderr)
        self.assertEqual(sorted(os.listdir(self.path("back/d"))),
                         [".petrel-0123456789abcdeg", "sub"])
        for folder in ("near/d", "back"): # the tests look for half files
            shutil.rmtree(self.path(folder))

    def test_set_group_id_of_folders(self):
        self.write("near/d/sub/x", 10)
        os.chmod(self.path("near/d"), 0o2755)
        os.chmod(self.path("near/d/sub"), 0o2755)
        result = self.copy(self.path("near/d"), self.remote("far"))
        self.assertIn("2 directories lost their set-group-id bit", result.stderr)
        self.assertEqual(os.stat(self.path("far/d/sub")).st_mode & 0o7777, 0o755)
        os.mkdir(self.path("inherits"))
        os.chmod(self.path("inherits"), 0o2755)
        result = self.copy(self.path("near/d"), self.remote("inherits"))
        self.assertNotIn("lost", result.stderr)
        self.assertEqual(os.stat(self.path("inherits/d/sub")).st_mode & 0o7777, 0o2755)

    def test_follow_links(self):
        self.write("near/target/file", 10)
        os.mkdir(self.path("near/tree"))
        os.symlink("../target", self.path("near/tree/link"))
        self.copy("-L", self.path("near/tree"), self.remote("far"))
        self.assertFalse(os.path.islink(self.path("far/tree/link")))
        self.same_file("near/target/file", "far/tree/link/file")

    def test_a_link_as_operand_is_followed(self):
        self.write("near/file", 10)
        os.symlink("file", self.path("near/link"))
        self.copy(self.path("near/link"), self.remote("far"))
        self.same_file("near/file", "far/link")
        self.assertFalse(os.path.islink(self.path("far/link")))


class Operands(hosts.Case):
    def test_several_sources(self):
        a, b = self.write("near/a", 10), self.write("near/b", 20)
        self.copy(a, b, self.remote("far"))
        self.same_content("near", "far")
        self.copy(self.remote("far/a"), self.remote("far/b"), self.path("back"), "--mkpath")
        self.same_file("near/a", "back/a")
        self.same_file("near/b", "back/b")

    def test_wildcards_are_expanded_over_there(self):
        for name in ("a.log", "b.log", "c.txt", ".hidden.log", "dir/x.log"):
            self.write(f"far/{name}", 10)
        self.copy(self.remote("far/*.log"), self.path("near"))
        self.assertEqual(sorted(os.listdir(self.path("near"))), ["a.log", "b.log"])
        self.copy(self.remote("far/[c-d]*"), self.path("near"))
        self.assertEqual(sorted(os.listdir(self.path("near/dir"))), ["x.log"])
        self.same_file("far/c.txt", "near/c.txt")

    def test_a_wildcard_without_match(self):
        self.fails(47, ["matches nothing", "*.none"], self.remote("far/*.none"), self.path("near"))
        self.assertEqual(os.listdir(self.path("near")), [])

    def test_no_shell_sees_remote_names(self):
        name = "a b;touch $(x) 'q' \"w\" \\"
        self.write(f"near/{name}", 10)
        self.copy(self.path("near", name), self.remote(f"far/{name}"))
        self.same_content("near", "far")
        self.copy(self.remote(f"far/{name}"), self.path("back/") + "/", "--mkpath")
        self.same_file(f"near/{name}", f"back/{name}")

    def test_home(self):
        home = self.path("far")
        petrel = f"env HOME={home} {PETREL}"
        source = self.write("near/file", 10)
        self.copy(source, f"{HOST}:", far_petrel=petrel)
        self.same_file("near/file", "far/file")
        self.copy(source, f"{HOST}:~/named", far_petrel=petrel)
        self.same_file("near/file", "far/named")
        self.copy(f"{HOST}:~/named", self.path("near/"), far_petrel=petrel)
        self.same_file("far/named", "near/named")
        for number, whole in enumerate((f"{HOST}:", f"{HOST}:~", f"{HOST}:~/")):
            self.copy(whole, self.path(f"home{number}"), far_petrel=petrel)
            self.same_content("far", f"home{number}")

    def test_ipv6(self):
        far6 = os.environ.get("PETREL_LAB_FAR_V6")
        if not far6:
            self.skipTest("the link has no IPv6")
        source = self.write("near/file", 100000)
        self.copy("-o", "HostKeyAlias=far", source, f"[{far6}]:{self.path('far')}")
        self.same_content("near", "far")

    def test_url(self):
        source = self.write("near/file", 10)
        user = os.environ.get("USER") or subprocess.getoutput("id -un")
        self.copy(source, f"scp://{user}@{HOST}:22022/{self.path('far/file')}")
        self.same_content("near", "far")

    def test_a_colon_in_a_local_name(self):
        self.write("near/a:b", 10)
        self.copy("./a:b", self.remote("far"), cwd=self.path("near"))
        self.same_content("near", "far")

    def test_names_that_are_no_text(self):
        name = os.fsdecode(b"caf\xe9 \xff\xfe")
        self.write(f"near/{name}", 10)
        result = self.copy("--json", "-v", self.path("near", name), self.remote("far"))
        self.same_content("near", "far")
        result.events()

    def test_a_dash_begins_a_name(self):
        self.write("near/-x", 10)
        self.copy("--", "-x", self.remote("far"), cwd=self.path("near"))
        self.same_content("near", "far")


class Landing(hosts.Case):
    """Where things land never depends on what exists: design of rsync's rule."""

    def test_a_folder_with_and_without_slash(self):
        self.write("near/dir/x", 10)
        self.copy(self.path("near/dir"), self.remote("far/one"), "--mkpath")
        self.same_file("near/dir/x", "far/one/dir/x")
        self.copy(self.path("near/dir") + "/", self.remote("far/two"), "--mkpath")
        self.same_file("near/dir/x", "far/two/x")
        self.copy(self.path("near/dir") + "/", self.remote("far/two"))
        self.assertEqual(os.listdir(self.path("far/two")), ["x"])
        self.copy(self.path("near/dir"), self.remote("far/one"))
        self.assertEqual(os.listdir(self.path("far/one")), ["dir"])

    def test_pulled_folder_with_and_without_slash(self):
        self.write("far/dir/x", 10)
        self.copy(self.remote("far/dir"), self.path("near"))
        self.same_file("far/dir/x", "near/dir/x")
        self.copy(self.remote("far/dir/"), self.path("near"))
        self.same_file("far/dir/x", "near/x")

    def test_a_file_onto_a_file(self):
        source = self.write("near/new", 10)
        self.write("far/old", 10, seed=1)
        self.copy(source, self.remote("far/old"))
        self.same_file("near/new", "far/old")

    def test_a_file_into_a_folder(self):
        source = self.write("near/file", 10)
        self.copy(source, self.remote("far"))
        self.same_file("near/file", "far/file")
        os.remove(self.path("far/file"))
        self.copy(source, self.remote("far/"))
        self.same_file("near/file", "far/file")

    def test_missing_parents(self):
        source = self.write("near/file", 10)
        self.fails(47, "--mkpath", source, self.remote("far/no/such/file"))
        self.fails(47, "--mkpath", source, self.remote("far/none/"))
        self.assertEqual(os.listdir(self.path("far")), [])
        self.copy("--mkpath", source, self.remote("far/no/such/file"))
        self.same_file("near/file", "far/no/such/file")
        self.copy("--mkpath", source, self.remote("far/none/"))
        self.same_file("near/file", "far/none/file")

    def test_an_old_file_is_replaced_whole(self):
        source = self.write("near/file", 10)
        self.write("far/file", 3 * MIB, seed=1)
        os.link(self.path("far/file"), self.path("far/other-name"))
        self.copy(source, self.remote("far/file"))
        self.assertEqual(os.path.getsize(self.path("far/file")), 10)
        self.assertEqual(os.path.getsize(self.path("far/other-name")), 3 * MIB)


class Options(hosts.Case):
    def test_dry_run(self):
        source = self.write("near/file", 2 * MIB)
        result = self.copy("-n", source, self.remote("far"))
        self.assertIn("would", result.stderr)
        self.assertNotIn("verified", result.stderr)
        self.assertEqual(os.listdir(self.path("far")), [])
        events = self.copy("-n", "--json", source, self.remote("far")).events()
        self.assertEqual(events[-1]["exit_code"], 0)
        self.assertFalse(events[-1]["verified"])

    def test_quiet(self):
        result = self.copy("-q", self.write("near/file", 10), self.remote("far"))
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_verbose_names_each_file(self):
        names = [f"{i:03}" for i in range(80)]
        for name in names:
            self.write(f"near/d/{name}", 5)
        pushed = self.copy("-v", self.path("near/d"), self.remote("far")).stderr
        pulled = self.copy("-v", self.remote("far/d"), self.path("back"), "--mkpath").stderr
        for name in names:
            self.assertIn(f"petrel: d/{name}\n", pushed)
            self.assertIn(f"petrel: d/{name}\n", pulled)

    def test_limit(self):
        source = self.write("near/file", 600000)
        result = self.copy("--json", "--limit", "8Mbit", source, self.remote("far"))
        summary = result.events()[-1]
        self.assertGreater(summary["transfer_seconds"], 0.4)
        self.assertGreater(summary["limited_seconds"]["limit"], 0.2)
        result = self.copy("--json", "--limit", "1MB", self.remote("far/file"), self.path("back"))
        self.assertGreater(result.events()[-1]["transfer_seconds"], 0.4)

    def test_policy(self):
        source = self.write("near/file", 600000)
        result = self.copy("--json", "--policy", "fixed:8Mbit", source, self.remote("far"))
        self.assertGreater(result.events()[-1]["limited_seconds"]["limit"], 0.2)
        result = self.copy("--json", "--policy=fixed:1MB", self.remote("far/file"),
                           self.path("back"))
        self.assertGreater(result.events()[-1]["transfer_seconds"], 0.4)
        for policy in ("auto", "fair", "background"):
            self.copy("--policy", policy, self.remote("far/file"), self.path(policy))
            self.same_file("near/file", policy)
        self.fails(1, "fixed:200Mbit", "--policy", "fixed:fast", source, self.remote("far"))

    def test_lanes(self):
        source = self.write("near/file", 4 * MIB)
        result = self.copy("--json", "--lanes", "4", source, self.remote("far"))
        self.assertEqual(result.events()[-1]["lanes"], 4)
        self.same_content("near", "far")
        result = self.copy("--json", "--lanes=4", self.remote("far/file"), self.path("back"))
        self.assertEqual(result.events()[-1]["lanes"], 4)
        self.same_file("near/file", "back")

    def test_ports(self):
        source = self.write("near/file", 10)
        self.copy("--udp-ports", "61234", source, self.remote("far"))
        self.same_content("near", "far")

    def test_json(self):
        self.write("near/d/a", 2 * MIB)
        self.write("near/d/b", 10)
        result = self.copy("--json", "-v", self.path("near/d"), self.remote("far"))
        events = result.events()
        self.assertEqual(events[0]["event"], "start")
        self.assertEqual(events[-1]["event"], "summary")
        self.assertTrue(events[-1]["verified"])
        self.assertEqual(events[-1]["exit_code"], 0)
        files = {event["path"]: event for event in events if event["event"] == "file"}
        self.assertEqual(sorted(files), ["d/a", "d/b"])
        self.assertEqual(files["d/a"]["size"], 2 * MIB)
        hashed = subprocess.run(["b3sum", "--no-names", self.path("near/d/a")],
                                stdout=subprocess.PIPE, text=True)
        self.assertEqual(files["d/a"]["blake3"], hashed.stdout.strip())

    def test_json_to_a_file(self):
        source = self.write("near/file", 10)
        log = self.path("log")
        result = self.copy(f"--json={log}", source, self.remote("far"))
        self.assertEqual(result.stdout, "")
        self.assertIn("verified", result.stderr)
        with open(log) as file:
            lines = file.read().splitlines()
        self.assertIn('"event":"summary"', lines[-1].replace(" ", ""))

    def test_json_of_a_failure(self):
        result = self.copy("--json", self.path("near/none"), self.remote("far"), code=47)
        events = result.events()
        self.assertEqual(events[-2]["event"], "error")
        self.assertEqual(events[-2]["kind"], "not-found")
        self.assertEqual(events[-1]["exit_code"], 47)

    def test_the_word_copy_may_be_left_out(self):
        self.write("near/file", 10)
        self.petrel(self.path("near/file"), self.remote("far"))
        self.same_content("near", "far")

    def test_a_connection_of_its_own(self):
        """Without the tests' shared connection, and becoming the master of one that stays."""
        source = self.write("near/file", 10)
        self.copy("-o", "ControlPath=none", source, self.remote("far"))
        path = os.path.join(TEMP, "persist")
        master = ["-o", f"ControlPath={path}", "-o", "ControlMaster=auto", "-o",
                  "ControlPersist=60"]
        self.copy(*master, source, self.remote("far/again"))
        subprocess.run(["ssh", "-F", CONFIG, *master[:2], "-O", "exit", HOST],
                       stderr=subprocess.DEVNULL)
        self.same_file("near/file", "far/again")

    def test_ssh_by_command(self):
        source = self.write("near/file", 10)
        self.petrel("-e", f"ssh -F {CONFIG}", "--remote-petrel", PETREL, source,
                    self.remote("far"), config=False)
        self.same_content("near", "far")


class Figures(hosts.Case):
    """What the summary says of the path is what the emulated path counted itself."""

    def check(self, *words, forward):
        hosts.link("stats", "--reset")
        result = self.copy("--json", *words)
        summary = result.events()[-1]
        counted = hosts.link("stats")["forward" if forward else "back"]
        lost = counted["dropped_loss"] + counted["dropped_queue"]
        sent = counted["udp"]["packets"]
        self.assertAlmostEqual(summary["packets_lost"] * 100 / summary["packets_sent"],
                               lost * 100 / sent, delta=0.2)
        # Each lost packet goes again; what goes for other reasons too is little.
        resent = summary["payload_resent"] * 100 / summary["payload_sent"]
        self.assertAlmostEqual(resent, lost * 100 / sent, delta=0.3)
        return result

    def test_loss_and_resent_share(self):
        self.write("near/file", 16 * MIB)
        # A queue long enough that all that is lost is lost by chance: a short copy on a short queue
        # is mostly start-up, where a second copy of a piece may arrive before the first is missed.
        hosts.link("set", "--loss", "2%", "--loss-back", "2%", "--rate", "200mbit", "--queue",
                   "2mb")
        try:
            self.check(self.path("near/file"), self.remote("far/file"), forward=True)
            self.check(self.remote("far/file"), self.path("back"), forward=False)
        finally:
            hosts.link("set", "--loss", "0%", "--loss-back", "0%", "--rate", "10gbit",
                       "--queue", "1bdp")
        self.same_file("near/file", "back")


if __name__ == "__main__":
    hosts.main()
