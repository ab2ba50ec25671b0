#!/usr/bin/env python3
"""Copies whose client is killed, whose SSH connection breaks, whose path or address changes, whose
ends sleep: they go on, or nothing of them stays.

    survive_test.py PETREL PETREL_LAB [--kills=N] [TEST...]

--kills: how many moments to kill the client at (8 by default; 50 is the long form).
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import hosts
from hosts import CONFIG, FAR_EXEC, HOST, MIB, PETREL

KILLS = 8
for word in [word for word in sys.argv if word.startswith("--kills=")]:
    KILLS = int(word.split("=")[1])
    if "--inside" in sys.argv:
        sys.argv.remove(word)

LOST = 30
GONE_SECONDS = 10 # after the kill; what waits for a disk that others keep busy cannot be ended
HALF = re.compile(r"\.petrel-[0-9a-f]{16}(\.journal)?$")


def processes(*parts):
    """Command lines with all these parts in them, ours and the checking one excepted, by id."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid() or not hosts.is_ours(entry):
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(part in line for part in parts):
            found[int(entry)] = line
    return found


def waits_for_disk(process):
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "D":
                    return True
    except OSError:
        pass
    return False


def open_ports():
    """UDP ports of the far host that belong to somebody."""
    ports = set()
    for name in ("udp", "udp6"):
        table = subprocess.check_output([*FAR_EXEC, "cat", f"/proc/net/{name}"], text=True)
        ports |= {int(line.split()[1].rsplit(":", 1)[1], 16) for line in table.splitlines()[1:]}
    return ports


class Survive(hosts.Case):
    def start_copy(self, *words, size=4 * MIB, limit="16Mbit", **keywords):
        """A push that takes some seconds."""
        self.write("near/file", size)
        return self.start("--limit", limit, *words, self.path("near/file"), self.remote("far"),
                          **keywords)

    def flows(self, folder="far"):
        """Waits until a file has begun to arrive."""
        return self.assertTrue(hosts.wait_until(
            lambda: any(HALF.match(name) for name in os.listdir(self.path(folder))), 20))

    def arrives(self, process):
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/file", "far/file")
        return result


class Killed(Survive):
    def gone(self):
        """Whether every process of ours ended in time."""
        deadline = time.monotonic() + GONE_SECONDS
        while True:
            left = {**processes(PETREL, " remote"), **{one: PETREL for one in
                                                      hosts.own_processes()}}
            if not left:
                return {}
            if time.monotonic() > deadline and not any(waits_for_disk(one) for one in left):
                return left
            time.sleep(0.05)

    def check_litter(self, folder):
        """Whole files, and half ones under the documented name."""
        for name in os.listdir(folder):
            if name == "file":
                self.assertEqual(os.path.getsize(os.path.join(folder, name)), 2 * MIB)
            elif name == "small":
                continue
            else:
                self.assertRegex(name, HALF)

    def test_case_07_kill_the_client_at_random_moments(self):
        """With and without a shared connection, in both directions, from the first moment on."""
        random.seed(7)
        self.write("near/file", 2 * MIB)
        self.write("far/file", 2 * MIB)
        for number in range(200):
            self.write(f"near/small/{number}", 2000)
        before = open_ports()
        running = []
        for number in range(KILLS):
            folder = self.path(f"to{number}")
            os.mkdir(folder)
            words = ["--limit", "8Mbit"]
            if number % 2:
                words += ["-o", "ControlPath=none"]
            if number % 3 < 2:
                words += [self.path("near/file"), self.path("near/small"),
                          self.remote(f"to{number}")]
            else:
                words += [self.remote("far/file"), folder]
            process = self.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Stratified: some before ssh is in, some in the handshake, most in the copy.
            moment = time.monotonic() + 2.5 * (number + random.random()) / KILLS
            running.append((moment, process))
            if len(running) == 4 or number == KILLS - 1:
                for at, one in sorted(running, key=lambda each: each[0]):
                    time.sleep(max(0.0, at - time.monotonic()))
                    one.kill()
                    one.wait()
                running = []
                self.assertEqual(self.gone(), {})
        self.assertEqual(open_ports() - before, set())
        for number in range(KILLS):
            self.check_litter(self.path(f"to{number}"))
            shutil.rmtree(self.path(f"to{number}"))


class Channel(Survive):
    """The SSH connection ends before the copy does."""

    def ssh_of(self, process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            return [int(word) for word in file.read().split()]

    def test_the_copy_outlives_its_ssh(self):
        process = self.start_copy("-o", "ControlPath=none")
        self.flows()
        for ssh in self.ssh_of(process):
            os.kill(ssh, signal.SIGKILL)
        self.arrives(process)

    def test_and_a_pull_does(self):
        self.write("far/file", 4 * MIB)
        process = self.start("-o", "ControlPath=none", "--limit", "16Mbit",
                             self.remote("far/file"), self.path("near"))
        self.flows("near")
        for ssh in self.ssh_of(process):
            os.kill(ssh, signal.SIGKILL)
        self.arrives(process)


class Again(Survive):
    """The other end is lost and has to be started anew."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.lose, False)

    def lose(self, lost=True):
        """The path passes nothing any more, or all again."""
        share = "100%" if lost else "0%"
        hosts.link("set", "--loss", share, "--loss-back", share)

    def kill_far(self):
        far = processes(PETREL, " remote")
        far = [one for one in far if one in hosts.own_processes()]
        self.assertTrue(far)
        for one in far:
            os.kill(one, signal.SIGKILL)

    def clean(self, folder):
        """What a killed receiver leaves is there for the next run; none follows."""
        for name in os.listdir(self.path(folder)):
            if HALF.match(name):
                os.unlink(self.path(folder, name))

    def test_the_far_end_is_killed(self):
        events = self.path("events")
        self.write("near/small/a", 10)
        process = self.start_copy(f"--json={events}", self.path("near/small"))
        self.flows()
        self.kill_far()
        result = self.arrives(process)
        self.assertIn("trying again for up to 10", result.stderr)
        self.assertIn(f"{HOST} answers again", result.stderr)
        self.assertIn("verified", result.stderr)
        with open(events) as file:
            self.assertIn("answers again", file.read())

    def test_the_far_end_of_a_pull_is_killed(self):
        self.write("far/file", 4 * MIB)
        process = self.start("-q", "--limit", "16Mbit", self.remote("far/file"), self.path("near"))
        self.flows("near")
        self.kill_far()
        self.assertEqual(self.arrives(process).stderr, "")

    def test_the_path_is_gone_for_a_while(self):
        process = self.start_copy()
        self.flows()
        self.lose()
        time.sleep(4)
        self.lose(False)
        self.assertNotIn("trying again", self.arrives(process).stderr)

    def test_the_path_is_gone_until_the_far_end_is(self):
        """The end over there cannot say that it ends."""
        process = self.start_copy("--no-reuse", "-o", "ControlPath=none")
        self.flows()
        self.lose()
        self.kill_far()
        time.sleep(3)
        self.lose(False)
        self.assertIn("answers again", self.arrives(process).stderr)

    def test_the_time_is_over(self):
        process = self.start_copy("--no-reuse", "-o", "ControlPath=none", "-o", "ConnectTimeout=2",
                                  "--retry-for", "4s")
        self.flows()
        connections = processes("ssh ", f"-F {CONFIG} ", "petrel remote")
        self.assertEqual(len(connections), 1, connections)
        for ssh in connections:
            os.kill(ssh, signal.SIGKILL)
        self.lose()
        began = time.monotonic()
        result = self.finish(process)
        self.assertEqual(result.code, LOST, result.stderr)
        self.assertIn(f"no answer from {HOST} for", result.stderr)
        self.assertIn("run the same again", result.stderr)
        self.assertLess(time.monotonic() - began, 30)
        self.lose(False) # now it hears that its channel has ended
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 15))
        self.clean("far")

    def test_a_login_that_needs_a_password(self):
        keys = os.path.join(os.path.dirname(CONFIG), "user_key.pub")
        process = self.start_copy("--no-reuse", "-o", "ControlPath=none")
        self.flows()
        os.rename(keys, keys + ".away")
        self.addCleanup(os.rename, keys + ".away", keys)
        self.kill_far()
        result = self.finish(process)
        self.assertEqual(result.code, LOST, result.stderr)
        self.assertIn("a new login was refused where nobody can type a password", result.stderr)
        self.assertIn("Permission denied", result.stderr)
        self.assertIn("run the same again", result.stderr)
        self.clean("far")


class Narrow(Survive):
    def test_case_14_socket_buffers_of_a_default_system(self):
        """1 Gbit and 100 ms with 208 KiB: it flows, and what would help is said once."""
        if not os.path.exists(hosts.HOOKS):
            self.skipTest("built without test_hooks")
        hosts.link("set", "--rtt", "100ms", "--rate", "1gbit")
        self.addCleanup(hosts.link, "set", "--rtt", "2ms", "--rate", "none")
        self.write("near/file", 64 * MIB)
        process = subprocess.Popen(
            [hosts.HOOKS, f"--json={self.path('events')}", "-F", CONFIG, "--remote-petrel",
             f"env PETREL_TEST_BUFFER=212992 {hosts.HOOKS}", self.path("near/file"),
             self.remote("far")], env=dict(os.environ, PETREL_TEST_BUFFER="212992"), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        result = self.arrives(process)
        self.assertEqual(result.stderr.count("sudo sysctl -w net.core.rmem_max=67108864 "
                                             "net.core.wmem_max=16777216"), 1, result.stderr)
        with open(self.path("events")) as file:
            summary = json.loads(file.readlines()[-1])
        mbit = 64 * MIB * 8 / summary["transfer_seconds"] / 1e6
        print(f"with small buffers: {mbit:.0f} Mbit/s")
        self.assertGreater(mbit, 100) # 850 of them on an idle machine, for so small a file


if __name__ == "__main__":
    hosts.main()
