#!/usr/bin/env python3
"""Sessions on real sockets across two namespaces: families, packet sizes, changing addresses,
refusing firewalls, lanes.

    net_test.py MEM_TO_MEM [TEST...]

Exits with 77 where namespaces cannot be made. Every test makes its own.
"""
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = COUNT_CALLS = ""
NEAR4, FAR4, NEAR6, FAR6 = "10.179.0.1", "10.179.0.2", "fd79::1", "fd79::2"


def run(*words, **keywords):
    return subprocess.run(words, check=True, **keywords)


class Spaces:
    """Two namespaces with a veth pair between them."""

    made = itertools.count()

    def __init__(self, mtu=1500):
        name = f"ptrlnet{os.getpid()}x{next(self.made)}"
        self.near, self.far = name + "a", name + "b"
        for space in (self.near, self.far):
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", self.near, "link", "add", "v0", "mtu", str(mtu), "type", "veth",
            "peer", "name", "v0", "mtu", str(mtu), "netns", self.far)
        for space, v4, v6 in ((self.near, NEAR4, NEAR6), (self.far, FAR4, FAR6)):
            run("ip", "-n", space, "address", "add", v4 + "/24", "dev", "v0")
            run("ip", "-n", space, "address", "add", v6 + "/64", "dev", "v0", "nodad")
            run("ip", "-n", space, "link", "set", "v0", "up")

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        for space in (self.near, self.far):
            run("ip", "netns", "del", space)

    def nft(self, space, *rules):
        for rule in rules:
            run("ip", "netns", "exec", space, "nft", *rule.split())

    def swallow(self, largest):
        """The far end's network takes no IP packet above that size, and tells nobody."""
        self.nft(self.far, "add table ip t",
                 "add chain ip t c { type filter hook prerouting priority -300 ; }",
                 f"add rule ip t c ip length > {largest} drop")

    def ip(self, space, *words):
        run("ip", "-n", space, *words)


class Natted(Spaces):
    """A third namespace between the two, which gives what the near one sends another port."""

    def __init__(self):
        super().__init__()
        self.near, self.outer = self.near + "n", self.near
        run("ip", "netns", "add", self.near)
        run("ip", "-n", self.near, "link", "add", "v0", "type", "veth", "peer", "name", "v1",
            "netns", self.outer)
        run("ip", "-n", self.near, "address", "add", "10.180.0.2/24", "dev", "v0")
        run("ip", "-n", self.outer, "address", "add", "10.180.0.1/24", "dev", "v1")
        run("ip", "-n", self.near, "link", "set", "v0", "up")
        run("ip", "-n", self.outer, "link", "set", "v1", "up")
        run("ip", "-n", self.near, "route", "add", "default", "via", "10.180.0.1")
        run("ip", "netns", "exec", self.outer, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        self.nft(self.outer, "add table ip t",
                 "add chain ip t c { type nat hook postrouting priority 100 ; }",
                 "add rule ip t c oifname v0 masquerade fully-random",
                 # What belongs to no mapping of the inner host's is nobody's.
                 "add chain ip t d { type filter hook input priority 0 ; }",
                 "add rule ip t d meta l4proto udp drop")

    def __exit__(self, *ignored):
        super().__exit__()
        run("ip", "netns", "del", self.outer)

    def rebind(self, _):
        """The NAT forgets its mappings, as it does when its address goes; the next get new ports.
        """
        run("ip", "-n", self.outer, "address", "del", NEAR4 + "/24", "dev", "v0")
        run("ip", "-n", self.outer, "address", "add", NEAR4 + "/24", "dev", "v0")


class Twofold(Spaces):
    """A second pair of interfaces between the two, w0."""

    def __init__(self):
        super().__init__()
        run("ip", "-n", self.near, "link", "add", "w0", "type", "veth", "peer", "name", "w0",
            "netns", self.far)
        for space, address in ((self.near, "10.181.0.1"), (self.far, "10.181.0.2")):
            run("ip", "-n", space, "address", "add", address + "/24", "dev", "w0")
            run("ip", "-n", space, "link", "set", "w0", "up")

    def change_over(self):
        """The near host's way to the far one is another interface now, with another address."""
        run("ip", "-n", self.near, "route", "add", FAR4 + "/32", "via", "10.181.0.2", "dev", "w0")

    def unplug(self, _):
        run("ip", "-n", self.near, "link", "set", "v0", "down")
        self.change_over()

    def fall_silent(self, _):
        """Like a radio out of reach: the interface stays up, and nothing passes."""
        for space in (self.near, self.far):
            self.nft(space, "add table netdev t",
                     "add chain netdev t c { type filter hook ingress device v0 priority 0 ; }",
                     "add rule netdev t c drop")
        self.change_over()


class Traffic:
    """What comes in at a namespace's interfaces, sampled; or, about, at its UDP sockets."""

    STEP = 0.02

    def __init__(self, space, counts_datagrams=False):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", space, sys.executable, "-c", f"""
import time
while True:
    with open("/proc/net/{'snmp' if counts_datagrams else 'dev'}") as file:
        lines = [line.split() for line in file if line.split()[0] in ("v0:", "w0:", "Udp:")]
    if lines[0][0] == "Udp:":
        print(time.monotonic(), int(lines[1][1]) * 1400, flush=True)
    else:
        print(time.monotonic(), sum(int(line[1]) for line in lines), flush=True)
    time.sleep({self.STEP})
"""], stdout=subprocess.PIPE, text=True)
        self.samples = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            if len(words) == 2 and line.endswith("\n"): # it was not killed in the middle of it
                self.samples.append((float(words[0]), int(words[1])))

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def gap(self, begin, mbit):
        """How long after `begin` it took until this rate was met again for a tenth of a second."""
        later = [sample for sample in self.samples if sample[0] >= begin]
        for index, (at, count) in enumerate(later):
            for end, more in later[index:]:
                if end - at >= 0.1:
                    if (more - count) * 8 / (end - at) >= mbit * 1e6:
                        return at - begin
                    break
        return float("inf")

    def pause(self):
        """The longest time in which less than twenty full packets came, before the last did."""
        (last, count), pause = self.samples[0], 0
        for at, more in self.samples:
            if more - count >= 30000:
                last, count, pause = at, more, max(pause, at - last)
        return pause


class Copy:
    """A copy from the near end to the far end, in the background."""

    def __init__(self, spaces, address=FAR4, client=(), server=(), both=(), prefixes=((), ())):
        self.server = subprocess.Popen(
            ["ip", "netns", "exec", spaces.far, *prefixes[1], PROGRAM, "serve", *server, *both],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        port = self.server.stdout.readline().strip()
        self.client = subprocess.Popen(
            ["ip", "netns", "exec", spaces.near, *prefixes[0], PROGRAM, "connect", address, port,
             *client, *both],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until_started(self):
        self.client.stdout.readline()

    def finish(self, timeout=60):
        out, err = self.client.communicate(timeout=timeout)
        if self.client.returncode != 0:
            self.server.kill()
        rest, server_err = self.server.communicate(timeout=timeout)
        if self.client.returncode != 0 or self.server.returncode != 0:
            raise AssertionError(f"client: {err}server: {server_err}")
        return json.loads(out.splitlines()[-1]), json.loads(rest.splitlines()[-1])

    def kill(self):
        for one in (self.client, self.server):
            if one.poll() is None:
                one.kill()

    def fail(self, timeout=60):
        _, err = self.client.communicate(timeout=timeout)
        self.server.kill()
        self.server.communicate()
        if self.client.returncode == 0:
            raise AssertionError("the copy should have failed")
        return err


class Net(unittest.TestCase):
    def good(self, ends, forges=False):
        sender, receiver = ends
        self.assertTrue(sender["verified"])
        self.assertEqual(sender["bytes"], receiver["bytes"])
        self.assertEqual(receiver["forged"] > 0, forges)
        return sender

    def together(self, *calls):
        """Calls that mostly wait, at once."""
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            for future in [pool.submit(*call) for call in calls]:
                future.result()

    def both_ways(self, make_spaces, event):
        def one(receive):
            with make_spaces() as spaces:
                self.goes_on(spaces, lambda copy: event(spaces, copy), receive)
        self.together((one, False), (one, True))

    def test_ipv4(self):
        with Spaces() as spaces:
            sender = self.good(Copy(spaces, client=["--size", "100M"]).finish())
            self.assertEqual(sender["datagram"], 1472)
            self.assertTrue(sender["segmentation"])

    def test_ipv6(self):
        with Spaces() as spaces:
            sender = self.good(Copy(spaces, FAR6, client=["--size", "100M"]).finish())
            self.assertEqual(sender["datagram"], 1452)

    def test_jumbo(self):
        with Spaces(mtu=9000) as spaces:
            sender = self.good(Copy(spaces, client=["--size", "100M"]).finish())
            self.assertEqual(sender["datagram"], 8972)

    def test_pull(self):
        with Spaces() as spaces:
            copy = Copy(spaces, client=["--receive"], server=["--send", "--size", "100M"])
            receiver, sender = copy.finish()
            self.good((sender, receiver))

    def test_four_lanes_on_four_threads(self):
        with Spaces() as spaces:
            sender = self.good(Copy(spaces, client=["--size", "300M", "--lanes", "4"],
                                    server=["--threads", "4"]).finish())
            self.assertEqual(sender["lanes"], 4)

    def counts(self, spaces, size):
        """(allocations, locks, packets, system calls to send and receive) of both ends."""
        totals = [0, 0, 0, 0]
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("near", "far")]
            words = [["env", "LD_PRELOAD=" + COUNT_CALLS, "PETREL_TEST_COUNTS=" + file]
                     for file in files]
            copy = Copy(spaces, client=["--size", size, "--lanes", "1"], prefixes=words)
            sender, receiver = copy.finish()
            self.good((sender, receiver))
            for file in files:
                with open(file) as counts:
                    totals[:2] = map(sum, zip(totals[:2], map(int, counts.read().split())))
        totals[2] = sender["packets_sent"]
        totals[3] = sender["send_calls"] + receiver["receive_calls"]
        return totals

    def test_nothing_is_allocated_or_locked_for_a_packet(self):
        with Spaces() as spaces:
            few, many = self.counts(spaces, "100M"), self.counts(spaces, "500M")
            allocations, locks, packets, calls = (b - a for a, b in zip(few, many))
            self.assertGreater(packets, 250_000)
            self.assertLess(allocations, packets / 100) # a block of 760 packets has a few
            self.assertLess(locks, packets / 100)
            self.assertLess(calls, packets / 5) # a train is one call

    def test_without_segmentation(self):
        with Spaces() as spaces:
            sender = self.good(Copy(spaces, client=["--size", "50M", "--plain"]).finish())
            self.assertFalse(sender["segmentation"])

    def test_trains_that_vanish_are_given_up(self):
        with Spaces() as spaces:
            # A train passes the far end's first hook as one packet.
            spaces.swallow(1500)
            sender = self.good(Copy(spaces, client=["--size", "20M"]).finish())
            self.assertFalse(sender["segmentation"])

    def survives(self, fault, receiver=False):
        """What the socket hook does at one end costs a moment; the sender's report."""
        words = ["--size", "15M", "--limit", "100Mbit"]
        plant = ["--fault", fault]
        with Spaces() as spaces:
            traffic = Traffic(spaces.far)
            try:
                copy = Copy(spaces, client=words + ([] if receiver else plant),
                            server=plant if receiver else [])
                ends = copy.finish()
            finally:
                traffic.stop()
        sender = self.good(ends, forges="forget:" in fault)
        print(f"{fault}: at most {traffic.pause():.2f} s without data")
        self.assertLess(traffic.pause(), 4) # within one, that is, on an idle machine
        self.assertFalse(ends[1]["coalescing"] if receiver else sender["segmentation"])

    def test_segmentation_fails(self):
        for cause in ("eio", "einval", "emsgsize"):
            self.together((self.survives, cause), (self.survives, cause + ":1000"))

    def test_trains_vanish_without_an_error(self):
        self.together((self.survives, "swallow"), (self.survives, "swallow:1000"))

    def test_joined_datagrams_come_uncut(self):
        self.together(*[(self.survives, fault, True) for fault in
                        ("forget:2", "forget:300", "forget")]) # the last: joins none at all

    def test_answers_come_from_the_address_that_was_asked(self):
        with Spaces() as spaces:
            spaces.ip(spaces.far, "address", "add", "10.179.0.7/24", "dev", "v0")
            self.good(Copy(spaces, "10.179.0.7", client=["--size", "20M"]).finish())

    def test_case_13_large_packets_vanish_from_the_start(self):
        for largest in (1400, 1280):
            with Spaces() as spaces:
                spaces.swallow(largest)
                sender = self.good(Copy(spaces, client=["--size", "20M", "--plain"]).finish())
                self.assertEqual(sender["datagram"], largest - 28)

    def test_case_13_large_packets_vanish_in_mid_copy(self):
        with Spaces() as spaces:
            ends = self.goes_on(spaces, lambda _: spaces.swallow(1400), False, seconds=8,
                                words=["--plain"])
            self.assertEqual(ends[0]["datagram"], 1372)

    def test_case_13_large_frames_on_one_side_only(self):
        with Spaces() as spaces:
            for near, far in ((9000, 1500), (1500, 9000)):
                spaces.ip(spaces.near, "link", "set", "v0", "mtu", str(near))
                spaces.ip(spaces.far, "link", "set", "v0", "mtu", str(far))
                for receive in (False, True):
                    words = ["--size", "20M"]
                    copy = Copy(spaces, client=["--receive"] if receive else words,
                                server=["--send", *words] if receive else [])
                    ends = copy.finish()
                    sender = self.good(reversed(ends) if receive else ends)
                    self.assertEqual(sender["datagram"], 1472)

    def test_a_firewall_rule_here_is_named(self):
        with Spaces() as spaces:
            spaces.nft(spaces.near, "add table ip t",
                       "add chain ip t c { type filter hook output priority 0 ; }",
                       "add rule ip t c meta l4proto udp drop")
            error = Copy(spaces, client=["--size", "1M", "--timeout", "2s"]).fail()
            self.assertIn("firewall rule refused to send to " + FAR4, error)

    def test_no_route_is_named(self):
        with Spaces() as spaces:
            error = Copy(spaces, "192.0.2.1", client=["--size", "1M", "--timeout", "1s"]).fail()
            self.assertIn("Network is unreachable", error)

    def goes_on(self, spaces, event, receive, seconds=4, words=()):
        """The data flows again soon after what `event` does in the middle of a copy. (Within a
        second, that is; a loaded machine may take longer.)"""
        ways = (["--receive"], ["--send", "--size", "25M", "--limit", "100Mbit"]) if receive \
            else (["--size", "25M", "--limit", "100Mbit"], [])
        copy = Copy(spaces, client=ways[0], server=ways[1], both=words)
        copy.wait_until_started()
        traffic = Traffic(spaces.near if receive else spaces.far, "--plain" in words)
        try:
            time.sleep(0.7)
            event(copy)
            at = time.monotonic()
            ends = copy.finish()
        finally:
            copy.kill()
            traffic.stop()
        self.good(reversed(ends) if receive else ends)
        gap = traffic.gap(at, 50)
        print(f"{self.id().split('.')[-1]}{' (pull)' if receive else ''}: on after {gap:.2f} s")
        self.assertLess(gap, seconds)
        return ends

    def test_a_nat_gives_another_port(self):
        self.both_ways(Natted, Natted.rebind)

    def test_the_client_moves_to_another_address(self):
        def move(spaces, _):
            spaces.ip(spaces.near, "address", "add", "10.179.0.9/24", "dev", "v0")
            spaces.ip(spaces.near, "address", "del", NEAR4 + "/24", "dev", "v0")
            spaces.ip(spaces.near, "address", "replace", "10.179.0.9/24", "dev", "v0")
        self.both_ways(Spaces, move)

    def test_the_client_moves_to_another_interface(self):
        self.both_ways(Twofold, Twofold.unplug)

    def test_the_interface_stays_and_nothing_passes(self):
        self.both_ways(Twofold, Twofold.fall_silent)

    def test_the_link_is_gone_for_a_while(self):
        def cut(spaces, _):
            spaces.ip(spaces.near, "link", "set", "v0", "down")
            time.sleep(3)
            spaces.ip(spaces.near, "link", "set", "v0", "up")
        self.both_ways(Spaces, cut)

    def test_both_ends_sleep(self):
        def sleep(copy):
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for end in (copy.client, copy.server):
                    end.send_signal(number)
                if number == signal.SIGSTOP:
                    time.sleep(10)
        with Spaces() as spaces:
            self.goes_on(spaces, sleep, False)

    def test_a_lost_peer_is_noticed(self):
        with Spaces() as spaces:
            copy = Copy(spaces, client=["--size", "1G", "--limit", "100Mbit"],
                        both=["--timeout", "8s"])
            copy.wait_until_started()
            copy.server.kill()
            error = copy.fail()
            silent = re.search(r"nothing came from there for ([\d.]+) s", error)
            self.assertGreaterEqual(float(silent[1]), 8, error)


def can_make_namespaces():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"):
        return False
    name = f"ptrlprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name])
    return made


if __name__ == "__main__":
    if not can_make_namespaces():
        sys.exit(77)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    COUNT_CALLS = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "tests", "e2e",
                               "libcount_calls.so")
    unittest.main()
