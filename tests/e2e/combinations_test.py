#!/usr/bin/env python3
"""Random combinations of what can stand between two machines: packet filters, address translation
that forgets, shells that chatter, port ranges, families, directions, --udp. Each ends with the
right file, or with a line that names the cause that was planted.

    combinations_test.py PETREL PETREL_LAB [TEST...]

PETREL_COMBINATIONS=N tries so many (12), from PETREL_SEED=S on (1): each has its seed in its name.
"""
import contextlib
import os
import random
import shutil
import subprocess
import time
import unittest

import hosts
from hosts import FAR_EXEC, FAR_HOME, HOST, MIB

COUNT = int(os.environ.get("PETREL_COMBINATIONS", "12"))
FIRST_SEED = int(os.environ.get("PETREL_SEED", "1"))
OK, LOST, UNREACHABLE = 0, 30, 40
FAR_V6 = os.environ.get("PETREL_LAB_FAR_V6", "")
RANGES = {"documented": (60000, 61000), "narrow": (60000, 60003), "other": (62000, 62010)}
SSH = "tcp dport 22022 accept"

# Packet filters: host, hook, policy, rules; whether UDP to the documented ports passes, whether UDP
# to others does, and what a line has to say of it when it does not.
FILTERS = {
    "none": (None, True, True, ""),
    "far drops UDP": (("far", "input", "accept", "meta l4proto udp drop"), False, False,
                      "no answer from UDP"),
    "far refuses UDP": (("far", "input", "accept", "meta l4proto udp reject"), False, False,
                        "UDP"),
    "a local rule": (("near", "output", "accept", "meta l4proto udp drop"), False, False,
                     "local firewall rule"),
    "answers are dropped": (("near", "input", "accept", "meta l4proto udp drop"), False, False,
                            "no answer from UDP"),
    "documented ports alone": (("far", "input", "drop", "iif lo accept", SSH,
                                "meta l4proto { icmp, ipv6-icmp } accept",
                                "udp dport 60000-61000 accept"), True, False, "no answer from UDP"),
    "replies alone": (("far", "input", "drop", "iif lo accept", SSH, "ct state established accept",
                       "meta l4proto { icmp, ipv6-icmp } accept"), True, True, ""),
}
# What the far account's start-up file prints, whatever was asked of the shell.
CHATTER = {"quiet": "", "a line": "echo welcome to this host\n",
           "a megabyte": "head -c 1000000 /dev/zero | tr '\\0' 'x'; echo\n",
           "binary": "head -c 3000 /dev/urandom\n", "no newline": "printf 'almost done... '\n",
           "on stderr": "echo 'warning: disk is old' >&2\n"}


class Combination:
    """One draw; a pure function of its seed."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed = seed
        self.filter = draw.choice(list(FILTERS))
        self.nat = draw.choice(["none", "masquerade", "rebinding"])
        self.chatter = draw.choice(list(CHATTER))
        self.ports = draw.choice(["documented", "documented", "narrow", "other", "used up"])
        self.family = draw.choice([4, 6]) if FAR_V6 else 4
        self.udp = draw.choice(["auto", "auto", "auto", "only", "never"])
        self.push = draw.random() < 0.5
        self.lanes = draw.choice(["auto", "1", "3"])

    def __str__(self):
        way = "push" if self.push else "pull"
        return (f"seed {self.seed}: {self.filter}, nat {self.nat}, {self.chatter}, ports "
                f"{self.ports}, IPv{self.family}, --udp={self.udp}, {way}, lanes {self.lanes}")

    def udp_passes(self):
        _, documented, others, _ = FILTERS[self.filter]
        return others if self.ports in ("other", "used up") else documented

    def expected(self):
        """What may come of it: pairs of exit code and what a line has to say."""
        says = FILTERS[self.filter][3]
        if self.ports == "used up" and self.udp != "never":
            code = OK if self.udp == "auto" else UNREACHABLE
            return [(code, "all UDP ports from 62100 to 62101")]
        if self.udp == "never":
            return [(OK, "")]
        if self.filter == "replies alone" and self.nat == "rebinding":
            # The far end's filter knows the port before or the one behind the translator, which
            # changes: UDP may pass, or not, or no longer.
            if self.udp == "auto":
                return [(OK, ""), (OK, "no answer from UDP"), (OK, "fell silent")]
            return [(OK, ""), (UNREACHABLE, "no answer from UDP"), (LOST, "no answer")]
        if self.udp_passes():
            return [(OK, "")]
        return [(OK, says)] if self.udp == "auto" else [(UNREACHABLE, says)]


def run(*words, far=False, **keywords):
    return subprocess.run([*(FAR_EXEC if far else []), *words], stderr=subprocess.PIPE, text=True,
                          **keywords)


@unittest.skipUnless(shutil.which("nft"), "nftables is not installed")
class Combinations(hosts.Case):
    def tearDown(self):
        for far in (False, True):
            run("nft", "delete", "table", "inet", "petrel_combination", far=far)
        for name in (".bashrc", ".profile", ".kshrc"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(FAR_HOME, name))
        super().tearDown()

    def table(self, chain, far):
        text = "table inet petrel_combination {\n chain c {\n" + "\n".join(chain) + "\n }\n}\n"
        done = run("nft", "-f", "-", far=far, input=text)
        if done.returncode and "Operation not permitted" in done.stderr:
            self.skipTest("no packet filter can be set here")
        self.assertEqual(done.returncode, 0, done.stderr)

    def plant_filter(self, combination):
        planted = FILTERS[combination.filter][0]
        if planted is not None:
            host, hook, policy, *rules = planted
            self.table([f"type filter hook {hook} priority 0; policy {policy};", *rules],
                       host == "far")
        return planted

    def plant_nat(self, combination, planted):
        """At the near host, unless its one table is taken by a filter; true when it is there."""
        if combination.nat == "none" or (planted is not None and planted[0] == "near"):
            return False
        other_port = " to :30000-39999 fully-random" if combination.nat == "rebinding" else ""
        self.table(["type nat hook postrouting priority 100;",
                    "meta l4proto udp masquerade" + other_port], False)
        return True

    def rebind(self):
        """The translator forgets: each flow gets another port."""
        done = run("conntrack", "-D", "-p", "udp", stdout=subprocess.DEVNULL)
        return done.returncode == 0

    @contextlib.contextmanager
    def used_up(self, combination):
        """Both ports of a range are somebody else's."""
        if combination.ports != "used up":
            yield
            return
        script = ("import socket, sys, time\n"
                  "held = []\n"
                  "for port in (62100, 62101):\n"
                  "    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
                  "    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)\n"
                  "    one.bind(('::', port)); held.append(one)\n"
                  "print('held', flush=True); time.sleep(120)\n")
        process = subprocess.Popen([*FAR_EXEC, "python3", "-c", script], stdout=subprocess.PIPE,
                                   text=True)
        try:
            process.stdout.readline()
            yield
        finally:
            process.kill()
            process.communicate()

    def try_one(self, combination):
        name = str(combination.seed)
        rebinds = combination.nat == "rebinding" and shutil.which("conntrack") is not None
        source = self.write(f"{'near' if combination.push else 'far'}/{name}",
                            (8 if rebinds else 2) * MIB + combination.seed, combination.seed)
        with open(os.path.join(FAR_HOME, ".bashrc"), "w") as file:
            file.write(CHATTER[combination.chatter])
        first, last = RANGES.get(combination.ports, (62100, 62101))
        host = HOST if combination.family == 4 else f"[{FAR_V6}]"
        far = f"{host}:{self.path('far', name)}"
        words = ["-o", "ControlPath=none", f"--udp={combination.udp}", f"--lanes={combination.lanes}",
                 f"--udp-ports={first}-{last}", *(["--limit=40Mbit"] if rebinds else []),
                 *([source, far] if combination.push else [far, self.path("near", name)])]
        planted = self.plant_filter(combination)
        translated = self.plant_nat(combination, planted)
        with self.used_up(combination):
            began = time.monotonic()
            process = self.start("copy", *words)
            if rebinds and translated:
                time.sleep(1.2)
                self.rebind()
            result = self.finish(process, began)
        slow = "not accelerated" in result.stderr
        self.assertTrue(any(result.code == code and says in result.stderr and
                            (code != OK or slow == (says != ""))
                            for code, says in combination.expected()),
                        f"{combination.expected()}: {result.code}, {result.stderr}")
        if result.code == OK:
            self.same_file(f"near/{name}", f"far/{name}")
            self.assertIn("in 1 file,", result.stderr)
        else:
            self.assertEqual(os.listdir(self.path("near" if not combination.push else "far")), [])

    def test_combinations(self):
        for seed in range(FIRST_SEED, FIRST_SEED + COUNT):
            combination = Combination(seed)
            with self.subTest(str(combination)):
                try:
                    self.try_one(combination)
                finally:
                    self.tearDown()
                    self.setUp()

    def test_draws_reach_every_value(self):
        """Two hundred draws hold each obstacle several times: none is there for show."""
        draws = [Combination(seed) for seed in range(1, 201)]
        for field, values in (("filter", FILTERS), ("chatter", CHATTER), ("nat", ["rebinding"]),
                              ("ports", [*RANGES, "used up"]), ("udp", ["auto", "only", "never"])):
            for value in values:
                self.assertGreater(sum(getattr(draw, field) == value for draw in draws), 5, value)


if __name__ == "__main__":
    hosts.main()
