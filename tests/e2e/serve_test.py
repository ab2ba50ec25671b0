#!/usr/bin/env python3
"""petrel serve: copies and jobs between two hosts that share no account, by keys.

    serve_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import unittest

import hosts
from hosts import FAR_EXEC, HOST, MIB, PETREL, wait_until

LOST, PERMISSION, REFUSED_KEY, UNREACHABLE, VERIFY, NOT_FOUND = 30, 44, 46, 40, 41, 47
SLOW = ("--limit", "80Mbit")
URL = f"petrel://[{HOST}]" if ":" in HOST else f"petrel://{HOST}"


class Case(hosts.Case):
    """A server on the far host offers far/ as "data", another folder for reading and one for
    writing."""

    def setUp(self):
        super().setUp()
        for name in ("cl", "srv", "other"):
            os.mkdir(self.path(name))
        for name in ("read", "write"):
            os.mkdir(self.path(name))
        self.server = None
        self.keys = self.path("srv/authorized_keys")
        self.identity("cl")
        self.authorise(self.public("cl"))
        self.serve()

    def tearDown(self):
        self.stop(signal.SIGKILL)
        subprocess.run([*FAR_EXEC, "nft", "delete", "table", "inet", "petrel_test"],
                       stderr=subprocess.DEVNULL)
        super().tearDown()

    def identity(self, who):
        os.environ["XDG_CONFIG_HOME"] = self.path(who)

    def public(self, who):
        return subprocess.check_output(
            [PETREL, "key", "-q"], text=True,
            env=dict(os.environ, XDG_CONFIG_HOME=self.path(who))).strip()

    def authorise(self, *lines):
        with open(self.keys, "w") as file:
            file.write("".join(line + "\n" for line in lines))
        os.chmod(self.keys, 0o600)

    def serve(self, *words):
        self.log = open(self.path("srv/log"), "a+")
        before = self.said().count("listening on")
        self.server = subprocess.Popen(
            [*FAR_EXEC, PETREL, "serve", "--authorized-keys", self.keys,
             "--root", f"data={self.path('far')}", "--root", f"r={self.path('read')}:ro",
             "--root", f"w={self.path('write')}:wo", *words],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/",
            env=dict(os.environ, XDG_CONFIG_HOME=self.path("srv")))
        self.assertTrue(wait_until(lambda: self.said().count("listening on") > before, 20),
                        self.said())

    def stop(self, number=signal.SIGTERM, code=None):
        if self.server is None:
            return
        process = self.main_process()
        if process:
            os.kill(process, number)
        self.server.wait(60)
        if code is not None:
            self.assertEqual(self.server.returncode, code, self.said())
        self.server = None
        self.log.close()

    def main_process(self):
        """Of the server's: the one whose parent is none of them."""
        ours = self.server_processes()
        for process, parent in ours.items():
            if parent not in ours:
                return process
        return None

    def server_processes(self):
        found = {}
        for process in hosts.own_processes():
            try:
                with open(f"/proc/{process}/cmdline") as file:
                    words = file.read().split("\0")
                with open(f"/proc/{process}/stat") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if "serve" in words:
                found[process] = parent
        return found

    def guests(self):
        return [one for one in self.server_processes() if one != self.main_process()]

    def said(self):
        with open(self.path("srv/log")) as file:
            return file.read()

    def reload(self):
        before = self.said().count("was read again")
        os.kill(self.main_process(), signal.SIGHUP)
        self.assertTrue(wait_until(lambda: self.said().count("was read again") > before, 20))

    def url(self, path):
        return f"{URL}/{path}"

    def meet(self):
        """Once and for all in a test."""
        self.write("far/met", 10)
        self.copy("--accept-new", self.url("data/met"), self.near)

    def job(self, *words, **keywords):
        return self.petrel(*words, config=False, **keywords)

    def events_of(self, result, kind):
        return [event for event in result.events() if event["event"] == kind]


class Copies(Case):
    def test_both_ways(self):
        self.write("near/tree/large", 5 * MIB + 77)
        for i in range(300):
            self.write(f"near/tree/small/{i}", 100 + i, seed=i)
        os.symlink("../large", self.path("near/tree/small/link"))
        self.copy("--accept-new", self.path("near/tree"), self.url("data/"))
        self.same_tree("near/tree", "far/tree")
        self.copy(self.url("data/tree/"), self.path("near/back"))
        self.same_tree("near/tree", "near/back")
        again = self.copy(self.path("near/tree"), self.url("data"))
        self.assertIn("nothing to copy", again.stderr)
        self.copy(self.url("data/tree/small/1?"), self.url("data/tree/large"),
                  self.path("near/picked/"), "--mkpath")
        self.assertEqual(len(os.listdir(self.path("near/picked"))), 11)
        self.same_file("near/tree/large", "near/picked/large")
        self.copy(self.url("r"), self.near)
        self.assertTrue(os.path.isdir(self.path("near/r")))
        self.assertIn("data/tree/", self.said())

    def test_pipes_lanes_and_limits(self):
        self.meet()
        source = self.write("near/file", 8 * MIB + 3)
        with open(source, "rb") as file:
            self.copy("-", self.url("data/piped"), stdin=file)
        self.same_file("near/file", "far/piped")
        with open(self.path("near/out"), "wb") as file:
            self.copy(self.url("data/piped"), "-", stdout=file)
        self.same_file("near/file", "near/out")
        # Further lanes come from other ports, and reach the same process all the same.
        self.copy("--lanes=4", source, self.url("data/by4"))
        self.same_file("near/file", "far/by4")
        began = time.monotonic()
        self.copy(*SLOW, self.url("data/by4"), self.path("near/slow"))
        # The wish reached the sender: 80 Mbit/s.
        self.assertGreater(time.monotonic() - began, 0.8 * 8 * MIB * 8 / 80e6)
        self.same_file("near/file", "near/slow")

    def test_two_clients_at_once(self):
        self.meet()
        self.write("near/a", 6 * MIB, seed=1)
        self.write("far/b", 6 * MIB, seed=2)
        up = self.start("copy", *SLOW, self.path("near/a"), self.url("data/a"))
        down = self.start("copy", *SLOW, self.url("data/b"), self.path("near/b"))
        self.assertTrue(wait_until(lambda: len(self.guests()) == 2, 20))
        for process in self.server_processes():
            with open(f"/proc/{process}/status") as file:
                confined = "Seccomp:\t2" in file.read()
            self.assertTrue(confined or "not by seccomp" in self.said() or
                            "not confined" in self.said(), self.said())
        for process in (up, down):
            result = self.finish(process)
            self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/a", "far/a")
        self.same_file("near/b", "far/b")

    def test_jobs_on_files(self):
        self.write("far/tree/file", 2000)
        self.write("far/tree/sub/other", 3 * MIB)
        listed = self.job("manifest", "--accept-new", self.url("data/tree"))
        self.assertIn("tree/sub/other", listed.stdout)
        here = self.petrel("manifest", self.path("far/tree"), config=False)
        self.assertEqual(listed.stdout, here.stdout)
        manifest = self.write("near/list", text=listed.stdout)
        self.job("verify", manifest, self.url("data/"))
        self.write("far/tree/file", 2000, seed=5)
        differs = self.job("verify", manifest, self.url("data/"), code=VERIFY)
        self.assertIn("tree/file", differs.stdout)
        self.job("clean", self.url("data/tree"))
        refused = self.job("clean", self.url("r/"), code=PERMISSION)
        self.assertIn("may not be written to", refused.stderr)
        refused = self.job("manifest", self.url("w/"), code=PERMISSION)
        self.assertIn("may not be read", refused.stderr)
        refused = self.job("manifest", self.url("data/../read"), code=PERMISSION)
        self.assertIn('no ".."', refused.stderr)

    def test_lists(self):
        self.write("far/tree/file", 2000)
        self.write("far/tree/sub/other", 10)
        self.write("write/hidden", 10)
        os.symlink("../read", self.path("far/out"))
        self.assertEqual(self.job("ls", "--accept-new", URL).stdout, "data/\nr/\nw/\n")
        self.assertEqual(self.job("ls", self.url("data/tree")).stdout, "file\nsub/\n")
        self.assertEqual(self.job("ls", "-R", self.url("data/t*"), self.url("r")).stdout,
                         "data/tree/file\ndata/tree/sub/\ndata/tree/sub/other\n")
        long = self.job("ls", "-l", self.url("")).stdout.splitlines()
        self.assertRegex(long[1], r"^d[r-][w-].* \d{4}-\d\d-\d\d \S+Z r/ \(read-only\)$")
        self.assertRegex(long[2], r"^d\?{9} +- +\? w/ \(write-only\)$")
        roots = self.events_of(self.job("ls", "--json", URL), "root")
        self.assertEqual([(root["name"], root["rights"]) for root in roots],
                         [("data", "read-write"), ("r", "read-only"), ("w", "write-only")])
        self.assertIn("out -> ../read\n", self.job("ls", "-l", self.url("data")).stdout)
        for path in ("w", "w/hidden", "data/out", "data/../read", "nowhere", "*"):
            for words in ([], ["-l"], ["-R"], ["--json"]):
                refused = self.job("ls", *words, self.url(path), code=PERMISSION)
                self.assertNotIn("hidden", refused.stdout)
        self.job("ls", self.url("data/nothing"), code=NOT_FOUND)
        self.authorise(f'roots="r,w",read-only {self.public("cl")}')
        self.reload()
        roots = self.events_of(self.job("ls", "--json", URL), "root")
        self.assertEqual([(root["name"], root["rights"]) for root in roots],
                         [("r", "read-only"), ("w", "none")])
        self.assertIn("path=\"ls ", self.said())

    def test_completion_of_paths(self):
        self.write("far/tree/with blank", 10)
        self.write("far/tree/new\nline", 10)

        def answer(word, code=0):
            done = subprocess.run([PETREL, "--complete", "plain", "ls", word], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout.splitlines()

        self.assertEqual(answer(f"{URL}/"), [])  # not met yet, and nobody is asked
        self.meet()
        self.assertEqual(answer(f"{URL}/"), [f"{URL}/data/", f"{URL}/r/", f"{URL}/w/"])
        self.assertEqual(answer(f"{URL}/da"), [f"{URL}/data/"])
        self.assertEqual(answer(f"{URL}/data/tr"), [f"{URL}/data/tree/"])
        self.assertEqual(answer(f"{URL}/data/tree/"), [f"{URL}/data/tree/with blank"])
        self.assertEqual(answer(f"{URL}/w/"), [])
        self.assertEqual(answer(URL), [])
        self.identity("other")
        self.assertEqual(answer(f"{URL}/"), [])
        self.assertEqual(os.listdir(self.path("other")), [], "a key was made")

    def test_options_of_ours_that_are_mistakes(self):
        self.meet()
        self.fails(1, ("-P", "petrel://"), "-P", "4717", self.url("data/met"), self.near)
        missing = self.path("cl/mistyped")
        self.fails(NOT_FOUND, f"petrel key --identity={missing} makes one", "--identity", missing,
                   self.url("data/met"), self.near)
        self.assertFalse(os.path.exists(missing))

    def test_a_server_without_its_list_of_keys_says_what_goes_there(self):
        missing = self.path("srv/none")
        words = [PETREL, "serve", "--root", f"x={self.near}", "--port", "4799", "--control", "none",
                 "--authorized-keys", missing]
        refused = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 timeout=30, env=dict(os.environ, XDG_CONFIG_HOME=self.path("srv")))
        self.assertEqual(refused.returncode, NOT_FOUND, refused.stderr)
        self.assertIn(f"there is no {missing}: who may come in stands there, a line for each, as petrel key "
                      "prints it on the client", refused.stderr)

    def test_where_nothing_listens(self):
        for words in (("ls", f"{URL}:4799/data"), ("copy", f"{URL}:4799/data/met", self.near)):
            self.assertIn("does petrel serve run there, and is the port open?",
                          self.job(*words, code=UNREACHABLE).stderr)

    def test_a_server_makes_no_key_under_a_name_that_was_given(self):
        """Its clients would refuse the new one."""
        missing = self.path("srv/mistyped")
        words = [PETREL, "serve", "--root", f"x={self.near}", "--port", "4799", "--control", "none",
                 "--authorized-keys", self.keys, "--identity", missing]
        refused = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 timeout=30)
        self.assertEqual(refused.returncode, NOT_FOUND, refused.stderr)
        self.assertIn(f"there is no identity {missing}; petrel key --identity={missing} makes one",
                      refused.stderr)
        self.assertFalse(os.path.exists(missing))


class Keys(Case):
    def test_a_server_is_met_once_and_never_changes(self):
        self.write("far/file", 1000)
        refused = self.copy(self.url("data/file"), self.near, code=REFUSED_KEY)
        self.assertRegex(refused.stderr, r"not met before.*SHA256:.*--accept-new")
        self.assertEqual(os.listdir(self.near), [])
        self.assertTrue(wait_until(lambda: "does not take this server's key" in self.said(), 20),
                        self.said())
        self.assertNotIn("alert", self.said())
        self.copy("--accept-new", self.url("data/file"), self.near)
        self.copy(self.url("data/file"), self.path("near/again"))  # unasked
        self.stop()
        shutil.rmtree(self.path("srv/petrel"))
        self.serve()
        for words in ([], ["--udp=never"]):
            changed = self.copy("--accept-new", *words, self.url("data/file"),
                                self.path("near/no"), code=REFUSED_KEY)
            self.assertIn("HAS CHANGED", changed.stderr)
            self.assertEqual(len(re.findall("SHA256:", changed.stderr)), 2)
        self.assertFalse(os.path.exists(self.path("near/no")))

    def test_who_is_not_authorised_learns_no_more(self):
        self.meet()
        self.write("far/file", 1000)
        known = self.path("cl/petrel/known_hosts")
        self.identity("other")
        stranger = self.public("other")
        expired = f"expires=2001-01-01 {stranger}"
        said = set()
        for lines in ([], [expired]):
            self.authorise(self.public("cl"), *lines)
            self.reload()
            for path in ("data/file", "nowhere"):
                for words in ([], ["--udp=never"]):
                    refused = self.copy(*words, "--known-hosts", known, self.url(path), self.near,
                                        code=PERMISSION)
                    said.add(refused.stderr)
        self.assertEqual(len(said), 1, said)
        self.assertIn("not authorised", said.pop())
        self.assertRegex(self.said(), "SHA256:.* is not authorised")
        self.assertRegex(self.said(), "SHA256:.* has expired")

    def test_rights_of_roots_and_keys(self):
        self.meet()
        self.write("far/file", 1000)
        self.write("read/file", 1000)
        source = self.write("near/file", 1000, seed=1)
        self.copy(self.url("r/file"), self.path("near/fetched"))
        self.copy(source, self.url("w/"))
        self.same_file("near/file", "write/file")
        for says, words in ((("r/x", "may not be written"), (source, self.url("r/x"))),
                            (("w/file", "may not be read"), (self.url("w/file"), self.near)),
                            (("nowhere", "no such root"), (self.url("nowhere/x"), self.near)),
                            (("a root has to be named: petrel://host/name/path",), (source, self.url("")))):
            self.fails(PERMISSION, says, *words)
        key = self.public("cl")
        for options, says, words in (
                ("read-only", "with this key", (source, self.url("data/x"))),
                ("write-only", "with this key", (self.url("data/file"), self.near)),
                ('roots="r,w"', "no such root", (self.url("data/file"), self.near))):
            self.authorise(f"{options} {key}")
            self.reload()
            self.fails(PERMISSION, says, *words)
        self.assertEqual(sorted(os.listdir(self.path("read"))), ["file"])

    def test_jobs_that_come_to_nothing_are_not_logged_as_good(self):
        self.meet()
        for code, words in ((PERMISSION, ("clean", "r")), (PERMISSION, ("manifest", "w")),
                            (NOT_FOUND, ("manifest", "data/nothing"))):
            self.job(words[0], self.url(words[1]), code=code)
            said = f'path="{" ".join(words)}"'
            self.assertTrue(wait_until(lambda: said in self.said(), 20), self.said())
            line = [one for one in self.said().splitlines() if said in one][-1]
            self.assertNotIn("result=ok", line)
            self.assertIn("error=", line)

    def test_nothing_leads_out_of_a_root(self):
        self.meet()
        secret = self.write("secret/file", 1000)
        os.symlink("../secret", self.path("far/out"))
        os.symlink(secret, self.path("far/leak"))
        os.symlink("..", self.path("far/up"))
        source = self.write("near/file", 1000)
        for path in ("data/../secret/file", "data/out/file", "data/leak", "data/up/secret/file",
                     "data/*/file", "../secret/file", f"data/{secret}"):
            for words in ((self.url(path), self.path("near/got")),
                          (source, self.url(path)), (source, self.url(f"{path}/x"))):
                if "*" in path and words[0] == source:
                    continue
                result = self.finish(self.start("copy", *words))
                self.assertNotEqual(result.code, 0, (words, result.stderr))
        self.assertFalse(os.path.exists(self.path("near/got")))
        for path in ("data/out/file", "data/leak"):
            self.fails(PERMISSION, "leads out of the root", self.url(path), self.near)
            self.assertIn("leads out", self.job("ls", self.url(path), code=PERMISSION).stderr)
        self.fails(PERMISSION, "leads out of the root", source, self.url("data/out/x"))
        self.assertEqual(os.listdir(self.path("secret")), ["file"])
        # A link is a link, in a tree; what it leads to stays where it is.
        self.copy(self.url("data/"), self.path("near/tree"))
        self.assertEqual(os.readlink(self.path("near/tree/out")), "../secret")
        self.fails(PERMISSION, "not followed", "-L", self.url("data/"), self.path("near/more"))

    def test_who_may_only_write_is_told_nothing(self):
        self.meet()
        source = self.write("near/file", 3 * MIB)
        self.copy(source, self.url("w/file"))
        again = self.copy("--json", source, self.url("w/file"))
        summary = self.events_of(again, "summary")[0]
        self.assertEqual(summary["kept_bytes"], 0, summary)
        self.same_file("near/file", "write/file")
        for option in ("-n", "-u", "--existing", "--delete"):
            self.fails(PERMISSION, "only be written", option, self.near + "/", self.url("w/"))


class Trouble(Case):
    def begin(self, *words):
        process = self.start("copy", *SLOW, *words)
        self.assertTrue(wait_until(self.guests, 20), self.said())
        return process

    def test_who_finds_no_place_is_in_the_log(self):
        self.stop()
        self.serve("--max-clients", "1")
        self.meet()
        self.assertTrue(wait_until(lambda: not self.guests(), 20))
        first = self.begin(self.write("near/file", 90 * MIB), self.url("data/file"))
        self.copy(self.url("data/met"), self.path("near/late"), "--retry-for", "0", code=LOST)
        self.assertIn("as many clients are here as --max-clients allows", self.said())
        self.assertEqual(self.finish(first).code, 0)

    def test_single_files_are_fetched_and_updated(self):
        """One that goes in blocks, and a small one of which an older form is here."""
        self.meet()
        for name, size in (("large", 34 * MIB), ("small", 3 * MIB)):
            self.write(f"far/{name}", size)
            if name == "small":
                self.write(f"near/{name}", 100000)
                os.utime(self.path(f"near/{name}"), (1e9, 1e9))
            self.copy(self.url(f"data/{name}"), self.near)
            self.same_file(f"near/{name}", f"far/{name}")

    @unittest.skipIf(os.geteuid() != 0, "only root could plant them")
    def test_a_guest_plants_no_rights(self):
        self.meet()
        near = self.write("near/program", 1000)
        os.chown(near, 65534, 65534)
        os.chmod(near, 0o6755)
        os.setxattr(near, "trusted.petrel", b"x")
        os.setxattr(near, "user.petrel", b"x")
        self.copy("-aX", near, self.url("data/program"))
        far = self.path("far/program")
        status = os.stat(far)
        self.assertEqual((status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)),
                         (0, 0, 0o755))
        self.assertEqual(os.listxattr(far), ["user.petrel"])

    def test_a_client_that_was_killed_goes_on(self):
        self.meet()
        self.halves_may_stay = True
        source = self.write("near/file", 30 * MIB)
        process = self.begin(source, self.url("data/file"))
        time.sleep(1.5)
        process.kill()
        process.communicate()
        again = self.copy("--json", source, self.url("data/file"))
        self.same_file("near/file", "far/file")
        self.assertGreater(self.events_of(again, "summary")[0]["kept_bytes"], MIB)

    def test_a_guests_process_that_was_killed_is_begun_anew(self):
        self.meet()
        self.write("far/file", 12 * MIB)
        process = self.begin(self.url("data/file"), self.path("near/file"))
        time.sleep(1)
        for guest in self.guests():
            os.kill(guest, signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("petrel was ended by a signal", result.stderr)
        self.same_file("near/file", "far/file")
        self.assertIsNotNone(self.main_process())

    def test_a_server_that_was_killed_and_restarted(self):
        self.meet()
        source = self.write("near/file", 12 * MIB)
        process = self.begin(source, self.url("data/file"))
        time.sleep(1)
        self.stop(signal.SIGKILL)
        self.serve()
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/file", "far/file")

    def test_a_server_that_is_asked_to_end_lets_its_guests_end(self):
        self.meet()
        source = self.write("near/file", 8 * MIB)
        process = self.begin(source, self.url("data/file"))
        os.kill(self.main_process(), signal.SIGTERM)
        self.assertTrue(wait_until(lambda: "waiting for 1 client to end" in self.said(), 20))
        late = self.finish(self.start("copy", self.url("data/met"), self.path("near/late")))
        self.assertEqual(late.code, UNREACHABLE, late.stderr)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/file", "far/file")
        self.assertEqual(self.server.wait(20), 0)

    def drop(self, what):
        """The server's machine drops these packets from now on."""
        rules = "table inet petrel_test {\n chain c {\n type filter hook input priority 0;\n" \
                f" {what} drop\n }}\n}}\n"
        done = subprocess.run([*FAR_EXEC, "nft", "-f", "-"], input=rules, text=True,
                              stderr=subprocess.PIPE)
        if done.returncode:
            self.skipTest("no packet filter can be set here")

    @unittest.skipUnless(shutil.which("nft"), "nftables is not installed")
    def test_where_udp_falls_silent_it_goes_on_by_tcp(self):
        self.meet()
        self.write("near/up", 24 * MIB)
        self.write("far/down", 24 * MIB)
        copies = [self.start("copy", "--json", *SLOW, *words) for words in (
            (self.path("near/up"), self.url("data/up")),
            (self.url("data/down"), self.path("near/down")))]
        self.assertTrue(wait_until(lambda: len(self.guests()) == 2, 20))
        time.sleep(1)
        self.drop("meta l4proto udp")
        for process in copies:  # 90 s would be too late
            result = self.finish(process)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("UDP fell silent, while TCP gets through", result.stderr)
            self.assertEqual([event["way"] for event in self.events_of(result, "way")], ["tcp"])
            self.assertGreater(self.events_of(result, "summary")[0]["kept_bytes"], 0)
        self.same_file("near/up", "far/up")
        self.same_file("far/down", "near/down")

    @unittest.skipUnless(shutil.which("nft"), "nftables is not installed")
    def test_a_path_that_passes_nothing_for_a_while_is_waited_for(self):
        self.meet()
        source = self.write("near/file", 24 * MIB)
        process = self.begin(source, self.url("data/file"))
        time.sleep(0.5)
        self.drop("ip daddr 0.0.0.0/0" if ":" not in HOST else "ip6 daddr ::/0")
        time.sleep(14)
        subprocess.run([*FAR_EXEC, "nft", "delete", "table", "inet", "petrel_test"], check=True)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertNotIn("trying again", result.stderr)
        self.same_file("near/file", "far/file")

    @unittest.skipUnless(shutil.which("nft"), "nftables is not installed")
    def test_where_udp_is_dropped_it_goes_by_tcp(self):
        self.meet()
        self.drop("meta l4proto udp")
        source = self.write("near/file", 3 * MIB + 5)
        up = self.copy(source, self.url("data/file"))
        self.assertRegex(up.stderr, r"no answer from UDP .*:4717 .*continuing by TCP")
        self.same_file("near/file", "far/file")
        down = self.copy("--json", self.url("data/file"), self.path("near/back"))
        self.assertEqual([event["way"] for event in self.events_of(down, "way")], ["tcp"])
        self.same_file("near/file", "near/back")
        self.fails(UNREACHABLE, "no answer from UDP", "--udp=only", source, self.url("data/no"))

    def test_nobody_listens(self):
        self.meet()
        self.stop()
        self.fails(UNREACHABLE, ("UDP", "TCP port 4717", "refused"), self.url("data/met"),
                   self.path("near/x"))
        self.fails(1, "petrel://host[:port]/name/path", self.url("data/met"), "petrel://", )

    def test_a_flood_of_beginnings(self):
        """Forged first packets do not keep a client out, nor fill the server with processes."""
        self.meet()
        source = self.write("near/file", 6 * MIB)
        running = self.begin(source, self.url("data/file"))
        family = socket.AF_INET6 if ":" in HOST else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as stranger:
            hello = bytes.fromhex("0013") + b"ptrl" + bytes.fromhex("0101020401") + os.urandom(3) \
                + b"\0" + bytes.fromhex("00000060") + bytes.fromhex("05c0")
            answered = 0
            for i in range(3000):
                packet = b"\x08" + bytes(8) + os.urandom(8) + bytes(32) + bytes(5 + 4 + 4) \
                    + len(hello).to_bytes(2, "big") + hello
                stranger.sendto(packet.ljust(1200, b"\0"), (HOST, 4717))
                if i == 1500:
                    began = time.monotonic()
                    self.copy(self.url("data/met"), self.path("near/met2"))
                    self.assertLess(time.monotonic() - began, 20)
                    self.assertLess(len(self.guests()), 30)
            stranger.setblocking(False)
            try:
                while True:
                    answered += len(stranger.recv(2048))
            except BlockingIOError:
                pass
        self.assertGreater(answered, 0)
        self.assertLess(answered, 3 * 3000 * 1200)
        result = self.finish(running)
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/file", "far/file")
        self.assertTrue(wait_until(lambda: not self.guests(), 30), "strangers stay")


if __name__ == "__main__":
    hosts.main()
