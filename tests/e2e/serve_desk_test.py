#!/usr/bin/env python3
"""petrel serve while it runs: what confines it, petrel status, limit and pause, metrics, reloads, its
log.

    serve_desk_test.py PETREL PETREL_LAB [TEST...]
"""
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest

import hosts
from hosts import FAR_EXEC, HOST, MIB, PETREL, wait_until

_spec = importlib.util.spec_from_file_location(
    "serve_test", os.path.join(os.path.dirname(os.path.abspath(__file__)), "serve_test.py"))
serve_test = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(serve_test)
PERMISSION, USAGE, NOT_FOUND = 44, 1, 47
METRICS = "127.0.0.1:9117"


class Case(serve_test.Case):
    def serve(self, *words):
        super().serve("--control", self.path("srv/control"), *words)

    def ask(self, *words, code=0):
        return self.job(words[0], "--control", self.path("srv/control"), *words[1:], code=code)

    def status(self):
        return json.loads(self.ask("status", "--json").stdout)

    def clients(self):
        return self.status()["clients"]

    def jobs(self):
        return [line.split("petrel serve: ", 1)[1] for line in self.said().splitlines()
                if "petrel serve: job=" in line]

    def begin(self, size=20 * MIB, limit="20Mbit"):
        """A copy to the server that takes eight seconds, enough for a busy machine to look at it;
        once the server shows it."""
        self.meet()
        source = self.write("near/big", size)
        process = self.start("copy", "--limit", limit, source, self.url("data/"))
        self.assertTrue(wait_until(lambda: any(c["bytes_done"] > 0 for c in self.clients()), 20))
        return process


class Desk(Case):
    def test_status_and_the_log(self):
        process = self.begin()
        text = self.ask("status").stdout
        self.assertRegex(text, r"up \S+, 1 of at most 64 clients")
        self.assertRegex(text, r"job \d+  \S+@\S*  \S+:\d+  to-server data/?  .* of 21\.0 MB")
        client = self.clients()[0]
        self.assertEqual((client["direction"], client["bytes_total"]), ("to-server", 20 * MIB))
        self.assertGreater(client["buffer_bytes"], 0)
        self.finish(process)
        self.assertTrue(wait_until(lambda: not self.clients(), 10))
        self.assertTrue(wait_until(lambda: len(self.jobs()) == 2, 10), self.said())
        line = self.jobs()[-1]
        self.assertRegex(line, r"^job=\d+ result=ok direction=to-server path=data/? who=\S+ "
                               r"key=SHA256:\S{43} peer=\S+ files=1 failed=0 bytes=20971520 "
                               r"seconds=[\d.]+ rate=\d+$")

    def test_pause_and_resume(self):
        process = self.begin()
        self.assertIn("paused", self.ask("pause").stdout)
        time.sleep(3)  # what had been granted arrives
        before = self.clients()[0]["bytes_done"]
        time.sleep(2)
        self.assertEqual(self.clients()[0]["bytes_done"], before)
        self.assertIs(self.status()["paused"], True)
        self.ask("resume")
        self.assertEqual(self.finish(process).code, 0)

    def test_a_client_whose_copy_is_paused_is_told(self):
        self.meet()
        self.write("far/big", 20 * MIB)
        self.write("near/big", 20 * MIB)
        for words, says in (((self.url("data/big"), self.path("near/back")), "sent"),
                            ((self.path("near/big"), self.url("data/there")), "taken")):
            events = self.path(f"near/events-{says}")
            process = self.start("copy", "--limit", "20Mbit", f"--json={events}", *words)
            self.assertTrue(wait_until(lambda: any(c["bytes_done"] > 0 for c in self.clients()), 20))
            self.ask("pause")
            told = rf"{HOST} is alive but has {says} nothing for (1[5-9]|2\d)\.\d+ s: paused, limited or busy there"
            try:
                self.assertTrue(wait_until(lambda: self.notes(events, told), 40), self.lines(events))
                self.assertTrue(wait_until(lambda: self.idle(events) >= 15, 10), self.lines(events))
            finally:
                self.ask("resume")
            result = self.finish(process)
            self.assertEqual(result.code, 0)
            self.assertRegex(result.stderr, told)
            self.assertTrue(self.notes(events, r"^goes on, after \d"), self.lines(events))
            self.assertFalse(self.notes(events, "no answer"), self.lines(events))

    def idle(self, path):
        return max(one.get("idle_seconds", 0) for one in self.lines(path))

    def lines(self, path):
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def notes(self, path, form):
        return [one for one in self.lines(path)
                if one["event"] == "note" and re.search(form, one["text"])]

    def test_silence_is_told(self):
        """Without a terminal, too: of a path by which nothing comes any more."""
        self.meet()
        self.write("far/big", 20 * MIB)
        events = self.path("near/events")
        process = self.start("copy", "--limit", "20Mbit", f"--json={events}", self.url("data/big"), self.near)
        self.assertTrue(wait_until(lambda: any(c["bytes_done"] > 0 for c in self.clients()), 20))
        hosts.link("set", "--loss", "100%", "--loss-back", "100%")
        try:
            self.assertTrue(wait_until(lambda: self.notes(events, "no answer"), 40), self.lines(events))
        finally:
            hosts.link("set", "--loss", "0%", "--loss-back", "0%")
        result = self.finish(process)
        self.assertEqual(result.code, 0)
        self.assertRegex(result.stderr, rf"no answer from {HOST} for (1[5-9]|2\d)\.\d+ s, waiting; "
                                        "Ctrl-C ends the copy and keeps what has arrived")
        self.assertTrue(self.notes(events, rf"{HOST} answers again, after \d"), self.lines(events))
        self.assertTrue(any(one.get("silent_seconds", 0) >= 10 for one in self.lines(events)))
        self.assertFalse(self.notes(events, "alive"), self.lines(events))

    def test_a_copy_that_stands_still_has_no_rate(self):
        self.meet()
        self.write("far/big", 20 * MIB)
        process = self.start("copy", "--limit", "20Mbit", self.url("data/big"), self.near)
        self.assertTrue(wait_until(lambda: any(c["rate_bps"] > 0 for c in self.clients()), 20))
        self.ask("pause")
        self.assertTrue(wait_until(lambda: self.clients()[0]["rate_bps"] < 1000, 30),
                        self.clients())
        self.ask("resume")
        self.assertEqual(self.finish(process).code, 0)

    def test_whose_limit_it_was(self):
        self.meet()
        self.write("far/big", 6 * MIB)
        self.ask("limit", "16Mbit")
        theirs = self.copy(self.url("data/big"), self.path("near/a"))
        self.assertIn("limited by the other end's limit", theirs.stderr)
        theirs = self.copy(self.path("near/a"), self.url("data/c"))
        self.assertIn("limited by the peer's disk or its limit", theirs.stderr)
        self.ask("limit", "none")
        ours = self.copy("--limit", "16Mbit", self.url("data/big"), self.path("near/b"))
        self.assertIn("limited by --limit", ours.stderr)

    def test_a_limit_holds_both_ways(self):
        self.meet()
        self.ask("limit", "16Mbit")
        self.assertEqual(self.status()["limit_bps"], 16000000)
        source = self.write("near/big", 10 * MIB)
        for words in ((source, self.url("data/")), (self.url("data/big"), self.path("near/back"))):
            began = time.monotonic()
            self.copy(*words)
            # Of ten blocks four are granted at first.
            self.assertGreater(time.monotonic() - began, 2.5)
        self.ask("limit", "none")
        began = time.monotonic()
        self.copy(self.url("data/big"), self.path("near/again"))
        self.assertLess(time.monotonic() - began, 4 + 10)

    def test_mistakes(self):
        self.assertIn("bits or bytes", self.ask("limit", "5", code=USAGE).stderr)
        self.job("status", "--control", self.path("srv/none"), code=NOT_FOUND)
        refused = subprocess.run([PETREL, "serve", "--root", f"x={self.near}", "--port", "4799",
                                  "--control", self.path("srv/control"),
                                  "--authorized-keys", self.keys], text=True,
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertIn("another petrel serve listens", refused.stderr)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            refused = subprocess.run(
                [PETREL, "serve", "--root", f"x={self.near}", "--port", "4799", "--control", "none",
                 "--metrics", f"127.0.0.1:{taken.getsockname()[1]}", "--authorized-keys", self.keys],
                text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if "built without libmicrohttpd" not in refused.stderr:
            self.assertRegex(refused.stderr, "metrics cannot be served at .*: Address already in use")
        refused = subprocess.run([PETREL, "serve", "--root", f"x={self.near}:rw", "--authorized-keys",
                                  self.keys], text=True, stdin=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
        self.assertIn("said by :ro or :wo", refused.stderr)
        self.assertEqual(os.stat(self.path("srv/control")).st_mode & 0o777, 0o600)

    def test_metrics(self):
        self.stop(code=0)
        self.serve("--metrics", METRICS)
        self.meet()
        fetch = "import urllib.request as r; print(r.urlopen('http://%s/metrics').read().decode())"
        if "built without libmicrohttpd" in self.said():
            self.skipTest("no libmicrohttpd here")
        text = subprocess.check_output([*FAR_EXEC, "python3", "-c", fetch % METRICS], text=True)
        self.assertRegex(text, r"(?m)^petrel_jobs_total\{result=\"ok\"\} 1$")
        self.assertRegex(text, r"(?m)^petrel_sent_bytes_total 10$")

    def test_reload(self):
        self.meet()
        self.authorise()
        os.kill(self.main_process(), signal.SIGHUP)
        self.assertTrue(wait_until(lambda: "nobody is authorised, for there is no key in" in self.said(), 10))
        self.copy(self.url("data/met"), self.path("near/x"), code=PERMISSION)
        self.authorise("reed-only " + self.public("cl"))
        os.kill(self.main_process(), signal.SIGHUP)
        self.assertTrue(wait_until(lambda: 'authorized_keys:1: there is no option "reed-only"'
                                   in self.said(), 10))
        self.authorise(self.public("cl"))
        os.kill(self.main_process(), signal.SIGHUP)
        self.assertTrue(wait_until(lambda: "was read again: 1 key is authorised; roots" in self.said(), 10))
        self.copy(self.url("data/met"), self.path("near/x"))

    def test_no_flood_of_refusals_in_the_log(self):
        self.meet()
        self.authorise()
        os.kill(self.main_process(), signal.SIGHUP)
        self.assertTrue(wait_until(lambda: "nobody is authorised, for there is no key in" in self.said(), 10))
        self.copy(self.url("data/met"), self.path("near/x"), code=PERMISSION)
        self.assertTrue(wait_until(lambda: re.search(
            r"refused peer=\S+ why=\"[^\"]*the key SHA256:\S+ is not authorised", self.said()), 10),
            self.said())


class Confined(Case):
    def test_what_the_processes_have_left(self):
        """By the kernel's own account, of the door and of a session."""
        line = re.search(r"petrel serve: (confined by.*|not confined.*)", self.said()).group(1)
        process = self.begin()
        for one in self.server_processes():
            with open(f"/proc/{one}/status") as file:
                status = file.read()
            if "seccomp" in line:
                self.assertRegex(status, r"(?m)^Seccomp:\s+2$")
                self.assertRegex(status, r"(?m)^NoNewPrivs:\s+1$")
        session = self.guests()[0]
        with open(f"/proc/{session}/limits") as file:
            limits = file.read()
        self.assertRegex(limits, r"(?m)^Max data size +536870912 +536870912")
        self.assertRegex(limits, r"(?m)^Max core file size +0 +0")
        self.assertEqual(self.finish(process).code, 0)

    def test_a_root_that_is_read_only_is_so_for_the_kernel(self):
        """The check of the program is one, Landlock another: here the second, by a link from one root
        into the other, which the first does not know of."""
        if "Landlock" not in self.said():
            self.skipTest("no Landlock here")
        self.write("read/file", 100)
        os.symlink("../read", self.path("far/way"))
        self.meet()
        source = self.write("near/file", 200)
        self.assertNotEqual(self.copy_code(source, self.url("data/way/file")), 0)
        self.assertEqual(os.path.getsize(self.path("read/file")), 100)

    def copy_code(self, *words):
        return self.finish(self.start("copy", *words)).code


if __name__ == "__main__":
    hosts.main()
