#!/usr/bin/env python3
"""petrel copy where UDP does not get through, or not at once: by the way through ssh, and back.

    fallback_test.py PETREL PETREL_LAB [TEST...]

Cases 1, 2, 3 and 20 of the situations that users reported carry their numbers in the names.
"""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import hosts
from hosts import CONFIG, FAR_EXEC, HOST, MIB, PETREL

UNREACHABLE, LOST, PROTOCOL, CRYPTO = 40, 30, 12, 46
PORTS = "60000-61000"
SLOW = ("--limit", "80Mbit")


@unittest.skipUnless(shutil.which("nft"), "nftables is not installed")
class Case(hosts.Case):
    """Rules of one table on either host; they go when the test ends."""

    def setUp(self):
        super().setUp()
        self.source = self.write("near/file", 3 * MIB + 11)

    def tearDown(self):
        for run in ([], FAR_EXEC):
            subprocess.run([*run, "nft", "delete", "table", "inet", "petrel_test"],
                           stderr=subprocess.DEVNULL)
        super().tearDown()

    def rules(self, *rules, far=True, hook="input", policy="accept"):
        lines = [f"type filter hook {hook} priority 0; policy {policy};", *rules]
        text = "table inet petrel_test {\n chain c {\n" + "\n".join(lines) + "\n }\n}\n"
        run = FAR_EXEC if far else []
        done = subprocess.run([*run, "nft", "-f", "-"], input=text, text=True,
                              stderr=subprocess.PIPE)
        if done.returncode and "Operation not permitted" in done.stderr:
            self.skipTest("no packet filter can be set here")
        self.assertEqual(done.returncode, 0, done.stderr)

    def lift(self, far=True):
        subprocess.run([*(FAR_EXEC if far else []), "nft", "delete", "table", "inet",
                        "petrel_test"], check=True)

    def no_udp_was_sent(self):
        """Under a rule of the near host that counts."""
        shown = subprocess.run(["nft", "list", "ruleset"], stdout=subprocess.PIPE, text=True)
        self.assertIn("packets 0", shown.stdout)

    def ways(self, result):
        return [event for event in result.events() if event["event"] == "way"]

    def expect_ssh(self, result, *says):
        """It went through ssh, and one line tells why and what to do."""
        lines = [line for line in result.stderr.splitlines() if "through ssh" in line]
        self.assertEqual(len(lines), 1, result.stderr)
        for part in ("not accelerated", *says):
            self.assertIn(part, lines[0])


class Blocked(Case):
    def test_case_01_all_udp_dropped(self):
        self.rules("meta l4proto udp drop")
        result = self.copy(self.source, self.remote("far"))
        self.same_content("near", "far")
        self.expect_ssh(result, "no answer from UDP", f"{HOST}:60", PORTS, "--udp-ports")
        self.assertIn("verified", result.stderr)
        self.assertLess(result.seconds, 10)

    def test_case_01_the_way_back_is_dropped(self):
        self.rules("meta l4proto udp drop", far=False)
        result = self.copy(self.remote("near/file"), self.path("far/file"))
        self.same_content("near", "far")
        self.expect_ssh(result, "no answer from UDP")

    def test_case_01_the_event_for_programs(self):
        self.rules("meta l4proto udp drop")
        way, = self.ways(self.copy("--json", self.source, self.remote("far")))
        self.assertEqual(way["way"], "ssh")
        self.assertIn("no answer from UDP", way["cause"])
        self.assertIn(PORTS, way["text"])

    def test_case_02_refused_by_icmp(self):
        for kind, says in (("reject", "port unreachable"),
                           ("reject with icmpx type admin-prohibited",
                            "administratively prohibited")):
            self.rules(f"meta l4proto udp {kind}")
            result = self.copy("--checksum", self.source, self.remote("far"))
            self.lift()
            self.same_content("near", "far")
            self.expect_ssh(result, f"{HOST}:60", PORTS,
                            f"rejected by a firewall (ICMP {says} from {HOST})")

    def test_case_02_refused_by_a_rule_of_the_far_end(self):
        self.rules("udp sport 60000-61000 drop", hook="output")
        result = self.copy(self.source, self.remote("far"))
        self.same_content("near", "far")
        self.expect_ssh(result, f"{HOST}:60", "refuses what it sends", PORTS, "its own firewall")

    def test_case_02_refused_by_a_local_rule(self):
        self.rules("udp dport 60000-61000 drop", far=False, hook="output")
        result = self.copy(self.source, self.remote("far"))
        self.same_content("near", "far")
        self.expect_ssh(result, "no UDP leaves this machine", "local firewall rule", PORTS,
                        "firewall of this machine")

    def test_case_02_no_busy_loop(self):
        """Some seconds of refused packets beside a slow copy cost little time of a processor."""
        self.rules("udp dport 60000-61000 drop", far=False, hook="output")
        source = self.write("near/slow", 9 * MIB)
        before = os.times()
        result = self.copy("--limit", "20Mbit", source, self.remote("far"))
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - \
            before.children_system
        self.assertGreater(result.seconds, 3)
        self.assertLess(used, 0.4 * result.seconds)

    def test_case_03_only_a_jump_host_reaches_it(self):
        jump = ["-o", "ControlPath=none", "-o", f"ProxyCommand=ssh -F {CONFIG} -W %h:%p {HOST}"]
        self.rules("meta l4proto udp counter drop", far=False, hook="output")
        result = self.copy(*jump, self.source, self.remote("far"))
        self.same_content("near", "far")
        self.expect_ssh(result, "jump host", "public address")
        self.no_udp_was_sent()
        only = self.fails(UNREACHABLE, ["jump host", "without --udp=only"], "--udp=only", *jump,
                          self.source, self.remote("far"))
        self.assertNotIn("open UDP ports", only.stderr) # which would not help

    def test_case_20_it_ends_whatever_there_was_to_copy(self):
        self.rules("meta l4proto udp drop")
        os.mkdir(self.path("near/empty"))
        self.write("near/nothing", 0, text="")
        for i in range(300):
            self.write(f"near/small/{i}", i, seed=i)
        self.copy(self.path("near") + "/", self.remote("far"))
        self.same_content("near", "far")
        again = self.copy("--json", self.path("near") + "/", self.remote("far"))
        self.assertEqual(again.events()[-1]["verified_bytes"], 0)

    def test_case_20_the_far_end_stops_in_the_middle(self):
        self.halves_may_stay = True
        self.rules("meta l4proto udp drop")
        source = self.write("near/large", 30 * MIB)
        process = self.start(*SLOW, "--retry-for=0", source, self.remote("far"))
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
        killed = [p for p in hosts.own_processes() if p != process.pid]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        result = self.finish(process, time.monotonic())
        self.assertEqual(result.code, LOST, result.stderr)
        self.copy(source, self.remote("far"))
        self.same_file("near/large", "far/large")

    def test_case_20_ssh_ends_in_the_middle(self):
        """The copy starts again by itself and goes on, whichever way the end shows."""
        source = self.write("near/large", 20 * MIB)
        process = self.start(*SLOW, "--udp=never", "-o", "ControlPath=none", source,
                             self.remote("far"))
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            connections = [int(word) for word in file.read().split()]
        self.assertEqual(len(connections), 1)
        os.kill(connections[0], signal.SIGKILL)
        result = self.finish(process, time.monotonic())
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/large", "far/large")

    def test_interrupt_on_the_way_through_ssh(self):
        self.rules("meta l4proto udp drop")
        source = self.write("near/large", 30 * MIB)
        process = self.start(*SLOW, source, self.remote("far"))
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
        process.send_signal(signal.SIGINT)
        result = self.finish(process, time.monotonic())
        self.assertEqual(result.code, 20, result.stderr)
        self.copy(source, self.remote("far"))
        self.same_file("near/large", "far/large")

    def test_ctrl_c_reaches_ssh_as_well(self):
        """A terminal sends it to both: the end of ssh is no news then."""
        self.rules("meta l4proto udp drop")
        source = self.write("near/large", 30 * MIB)
        for words in ([], ["--udp=never"]):
            process = self.start(*SLOW, *words, "-o", "ControlPath=none", source,
                                 self.remote("far"), start_new_session=True)
            self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
            time.sleep(0.5)
            began = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            result = self.finish(process, began)
            self.assertEqual(result.code, 20, result.stderr)
            self.assertLess(result.seconds, 3)
            self.assertEqual(result.stderr.splitlines()[-1], "petrel: interrupted")
            self.assertNotIn("trying again for", result.stderr)
            self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 10))
        self.copy(source, self.remote("far"))
        self.same_file("near/large", "far/large")

    def test_as_fast_as_scp(self):
        """On a path that limits both; the shares are generous."""
        source = self.write("near/large", 24 * MIB)
        hosts.link("set", "--rate", "100Mbit")
        self.addCleanup(hosts.link, "set", "--rate", "none")
        began = time.monotonic()
        subprocess.run(["scp", "-q", "-F", CONFIG, source, self.remote("far/scp")], check=True)
        scp = time.monotonic() - began
        result = self.copy("--udp=never", source, self.remote("far/petrel"))
        self.same_file("near/large", "far/petrel")
        self.assertLess(result.seconds, scp / 0.8 + 1)

    def test_never(self):
        self.rules("meta l4proto udp counter drop", far=False, hook="output")
        result = self.copy("--udp=never", self.source, self.remote("far"))
        self.same_content("near", "far")
        self.assertNotIn("accelerated", result.stderr)
        self.no_udp_was_sent()


class Slow(Case):
    def test_a_slow_first_answer(self):
        """600 ms and loss: the handshake takes its time, and UDP is taken all the same."""
        hosts.link("set", "--rtt", "600ms", "--loss", "10%", "--loss-back", "10%")
        self.addCleanup(hosts.link, "set", "--rtt", "2ms", "--loss", "0%", "--loss-back", "0%")
        result = self.copy("--json", self.source, self.remote("far"))
        self.same_content("near", "far")
        self.assertEqual(self.ways(result), [])


class Families(Case):
    """A name with an address of either family; one of them is dead."""

    def setUp(self):
        super().setUp()
        self.far6 = os.environ.get("PETREL_LAB_FAR_V6")
        if not self.far6:
            self.skipTest("the link has no IPv6")

    def by_name(self, *words):
        names = self.write("hosts", text=f"{HOST} far-by-name\n{self.far6} far-by-name\n")
        mounts = ["unshare", "--mount", "sh", "-c",
                  f"mount --bind {names} /etc/hosts && exec \"$@\"", "sh"]
        if subprocess.run([*mounts, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no file system can be mounted here")
        return self.petrel("--json", "-o", "HostKeyAlias=far-by-name", "-o", "ControlPath=none",
                           self.source, f"far-by-name:{self.path('far')}", prefix=mounts)

    def expect_udp(self, result):
        self.same_content("near", "far")
        self.assertEqual(self.ways(result), [])
        self.assertLess(result.seconds, 10)

    def test_both_live(self):
        self.expect_udp(self.by_name())

    def test_ipv4_is_dead(self):
        self.rules("meta nfproto ipv4 meta l4proto udp drop")
        self.expect_udp(self.by_name())

    def test_ipv6_is_dead(self):
        self.rules("meta nfproto ipv6 meta l4proto udp drop")
        self.expect_udp(self.by_name())


class InTheMiddle(Case):
    def run_slowly(self, megabytes, *words):
        self.write("near/file", megabytes * MIB)
        process = self.start("--json", *SLOW, *words, self.path("near/file"), self.remote("far"),
                             bufsize=1)
        return process

    def moving(self, process):
        """Its events up to the first that tells of verified bytes."""
        for line in process.stdout:
            if re.search(r'"verified_bytes": *[1-9]', line):
                return
        self.fail("it never moved")

    def test_udp_begins_to_pass(self):
        self.rules("meta l4proto udp drop")
        process = self.run_slowly(60)
        self.moving(process)
        self.lift()
        result = self.finish(process, time.monotonic())
        self.assertEqual(result.code, 0, result.stderr)
        self.same_content("near", "far")
        self.assertIn("accelerated from here on", result.stderr)

    def test_udp_stops_passing_and_passes_again(self):
        process = self.run_slowly(100)
        self.moving(process)
        self.rules("meta l4proto udp drop")
        time.sleep(4.5)
        self.lift()
        result = self.finish(process, time.monotonic())
        self.assertEqual(result.code, 0, result.stderr)
        self.same_content("near", "far")
        self.assertIn("fell silent: continuing through ssh", result.stderr)
        self.assertIn("accelerated from here on", result.stderr)


class PartOfTheRange(Case):
    """The firewall lets some ports of the range through, not the first."""

    def listening(self):
        ports = set()
        for name in ("udp", "udp6"):
            table = subprocess.check_output([*FAR_EXEC, "cat", f"/proc/net/{name}"], text=True)
            ports |= {int(line.split()[1].rsplit(":", 1)[1], 16)
                      for line in table.splitlines()[1:]}
        return {port for port in ports if 60000 <= port <= 61000}

    def test_an_open_port_is_found_and_no_other_kept(self):
        self.rules("udp dport 60000-60002 drop", "udp dport 60004-61000 drop")
        self.write("near/file", 12 * MIB)
        for words in ([], ["--udp=only"], ["--lanes=3", "--udp-ports=60000-60003"]):
            process = self.start("--json", *SLOW, *words, self.source, self.remote("far"))
            self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
            self.assertEqual(self.listening(), {60003})
            result = self.finish(process)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(self.ways(result), [])
            self.same_content("near", "far")
            os.unlink(self.path("far/file"))

    def test_several_copies_in_a_small_range(self):
        """Each looks at all ports for a while, and takes one in the end."""
        self.rules("udp dport 60000 drop")
        running = [self.start("--json", "--udp-ports=60000-60002", self.source,
                              self.remote(f"far/{number}")) for number in range(3)]
        results = [self.finish(process) for process in running]
        for number, result in enumerate(results):
            self.assertEqual(result.code, 0, result.stderr)
            self.same_file("near/file", f"far/{number}")

    def test_none_is_open(self):
        self.rules("meta l4proto udp drop")
        result = self.copy(self.source, self.remote("far"))
        self.expect_ssh(result, f"{HOST}:60000 nor from 8 further ports there")


class OnlyUdp(Case):
    """It falls silent for good, and nothing else is allowed."""

    @unittest.skipUnless(os.path.exists(hosts.HOOKS), "built without test_hooks")
    def test_what_fell_silent_and_what_to_open(self):
        self.halves_may_stay = True
        environment = dict(os.environ, PETREL_TEST_IDLE="7s")
        self.write("near/file", 60 * MIB)
        running = []
        for number, retries in enumerate(("0", "12s")):
            os.mkdir(self.path(f"far/{number}"))
            running.append(self.start(*SLOW, "--udp=only", "--retry-for", retries,
                                      self.path("near/file"), self.remote(f"far/{number}"),
                                      program=hosts.HOOKS, env=environment))
        for number in range(2):
            self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path(f"far/{number}")), 20))
        self.rules("meta l4proto udp drop")
        at_once, later = [self.finish(process) for process in running]
        for result in (at_once, later):
            self.assertEqual(result.code, LOST, result.stderr)
            last = result.stderr.splitlines()[-1]
            self.assertRegex(last, f"UDP {HOST}:600")
            self.assertIn(f"open UDP ports {PORTS}", last)
            self.assertIn("run the same again", last)
        self.assertIn("fell silent", at_once.stderr)
        self.assertIn("while ssh gets through", at_once.stderr)
        self.assertIn("trying again for up to 12", later.stderr)


class Punching(Case):
    CONNTRACK = ("ct state established accept", "iif lo accept", "tcp dport 22022 accept")

    def test_replies_alone_may_enter(self):
        """The server's filter lets in what it takes for replies: no port is open."""
        self.rules(*self.CONNTRACK, policy="drop")
        self.write("near/file", 12 * MIB)
        result = self.copy("--json", "--lanes=2", *SLOW, self.source, self.remote("far"))
        self.same_content("near", "far")
        self.assertEqual(self.ways(result), [])
        self.assertEqual(result.events()[-1]["lanes"], 2)

    def test_replies_alone_may_enter_and_ssh_may_carry_nothing(self):
        self.rules(*self.CONNTRACK, policy="drop")
        result = self.copy("--json", "--udp=only", self.source, self.remote("far"))
        self.same_content("near", "far")
        self.assertEqual(self.ways(result), [])

    def test_behind_masquerade(self):
        self.rules(*self.CONNTRACK, policy="drop")
        text = ("table inet petrel_test {\n chain c {\n type nat hook postrouting priority 100;\n"
                "meta l4proto udp masquerade\n }\n}\n")
        subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
        result = self.copy("--json", self.source, self.remote("far"))
        self.same_content("near", "far")
        self.assertEqual(self.ways(result), [])


class Unanswered(Case):
    """What ends after ten seconds without an answer, all at once."""

    def far_petrel(self, name, script):
        path = self.write(name, text="#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return path

    def stopped(self):
        """A far end that has opened its port and said so; then it is stopped."""
        fifo, pid = self.path("fifo"), self.path("pid")
        # A job in the background reads from nowhere: hand it the true input.
        return self.far_petrel("stopped", f'exec 3<&0; mkfifo {fifo}; {PETREL} "$@" <&3 >{fifo} & '
                               f'p=$!; exec 4<{fifo}; read -r line <&4; kill -STOP $p; '
                               f'echo $p >{pid}; echo "$line"; wait $p')

    def other_secret(self):
        return self.far_petrel("other", 'read -r line; { echo "$line" | '
                               f"sed 's/secret=..../secret=0000/'; cat; }} | {PETREL} \"$@\"")

    def test_case_01_forbidden_to_fall_back_and_bad_far_ends(self):
        self.rules("meta l4proto udp drop")
        target = self.remote("far")
        processes = {
            "only": self.start("--udp=only", self.source, target),
            "stopped": self.start(self.source, target, far_petrel=self.stopped()),
            "other": self.start(self.source, target, far_petrel=self.other_secret())}
        processes["stopped"].wait(40)
        with open(self.path("pid")) as file:
            os.kill(int(file.read()), signal.SIGKILL)
        results = {name: self.finish(process) for name, process in processes.items()}
        for name, code, says in (("only", UNREACHABLE, ["no answer from UDP", f"{HOST}:60", PORTS]),
                                 ("stopped", LOST, ["silent"]),
                                 ("other", CRYPTO, ["does not hold the secret"])):
            with self.subTest(name):
                self.assertEqual(results[name].code, code, results[name].stderr)
                for part in says:
                    self.assertIn(part, results[name].stderr)
        self.assertNotIn("continuing", results["only"].stderr)
        self.assertEqual(os.listdir(self.path("far")), [])

    def test_garbage_behind_the_answer(self):
        """What is no frame spoils the way through ssh, not the copy by UDP."""
        script = self.far_petrel("noisy", f"{PETREL} \"$@\" | {{ read -r line; echo \"$line\"; "
                                 "printf 'good bye\\377\\377\\377'; cat; }")
        self.copy(self.source, self.remote("far"), far_petrel=script)
        self.same_content("near", "far")


if __name__ == "__main__":
    hosts.main()
