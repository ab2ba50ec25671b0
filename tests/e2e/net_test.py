#!/usr/bin/env python3
"""Sessions on real sockets across two namespaces: families, packet sizes, changing addresses,
refusing firewalls, lanes.

    net_test.py MEM_TO_MEM [TEST...]

Exits with 77 where namespaces cannot be made. Every test makes its own.
"""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

PROGRAM = ""
NEAR4, FAR4, NEAR6, FAR6 = "10.179.0.1", "10.179.0.2", "fd79::1", "fd79::2"


def run(*words, **keywords):
    return subprocess.run(words, check=True, **keywords)


class Spaces:
    """Two namespaces with a veth pair between them."""

    def __init__(self, mtu=1500):
        self.near, self.far = f"ptrlnet{os.getpid()}a", f"ptrlnet{os.getpid()}b"
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

    def ip(self, space, *words):
        run("ip", "-n", space, *words)


class Copy:
    """A copy from the near end to the far end, in the background."""

    def __init__(self, spaces, address=FAR4, client=(), server=(), both=()):
        self.server = subprocess.Popen(
            ["ip", "netns", "exec", spaces.far, PROGRAM, "serve", *server, *both],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        port = self.server.stdout.readline().strip()
        self.client = subprocess.Popen(
            ["ip", "netns", "exec", spaces.near, PROGRAM, "connect", address, port, *client, *both],
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

    def fail(self, timeout=60):
        _, err = self.client.communicate(timeout=timeout)
        self.server.kill()
        self.server.communicate()
        if self.client.returncode == 0:
            raise AssertionError("the copy should have failed")
        return err


class Net(unittest.TestCase):
    def good(self, ends):
        sender, receiver = ends
        self.assertTrue(sender["verified"])
        self.assertEqual(sender["bytes"], receiver["bytes"])
        self.assertEqual(receiver["forged"], 0)
        return sender

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

    def test_without_segmentation(self):
        with Spaces() as spaces:
            sender = self.good(Copy(spaces, client=["--size", "50M", "--plain"]).finish())
            self.assertFalse(sender["segmentation"])

    def test_trains_that_vanish_are_given_up(self):
        with Spaces() as spaces:
            # A train passes the far end's first hook as one packet.
            spaces.nft(spaces.far, "add table ip t",
                       "add chain ip t c { type filter hook prerouting priority -300 ; }",
                       "add rule ip t c ip length > 1500 drop")
            sender = self.good(Copy(spaces, client=["--size", "20M"]).finish())
            self.assertFalse(sender["segmentation"])

    def test_answers_come_from_the_address_that_was_asked(self):
        with Spaces() as spaces:
            spaces.ip(spaces.far, "address", "add", "10.179.0.7/24", "dev", "v0")
            self.good(Copy(spaces, "10.179.0.7", client=["--size", "20M"]).finish())

    def test_small_packets_where_large_ones_vanish(self):
        with Spaces() as spaces:
            spaces.nft(spaces.far, "add table ip t",
                       "add chain ip t c { type filter hook prerouting priority -300 ; }",
                       "add rule ip t c ip length > 1410 drop")
            sender = self.good(Copy(spaces, client=["--size", "20M", "--plain"]).finish())
            self.assertEqual(sender["datagram"], 1372)

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

    def test_the_client_moves_to_another_address(self):
        with Spaces() as spaces:
            copy = Copy(spaces, client=["--size", "100M", "--limit", "200Mbit"])
            copy.wait_until_started()
            time.sleep(1)
            spaces.ip(spaces.near, "address", "add", "10.179.0.9/24", "dev", "v0")
            spaces.ip(spaces.near, "address", "del", NEAR4 + "/24", "dev", "v0")
            spaces.ip(spaces.near, "address", "replace", "10.179.0.9/24", "dev", "v0")
            self.good(copy.finish())

    def test_the_link_is_gone_for_a_while(self):
        with Spaces() as spaces:
            copy = Copy(spaces, client=["--size", "100M", "--limit", "200Mbit"])
            copy.wait_until_started()
            time.sleep(1)
            spaces.ip(spaces.near, "link", "set", "v0", "down")
            time.sleep(4)
            spaces.ip(spaces.near, "link", "set", "v0", "up")
            self.good(copy.finish())

    def test_a_lost_peer_is_noticed(self):
        with Spaces() as spaces:
            copy = Copy(spaces, client=["--size", "1G", "--limit", "100Mbit"],
                        both=["--timeout", "8s"])
            copy.wait_until_started()
            copy.server.kill()
            error = copy.fail()
            self.assertIn("nothing was heard", error)


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
    unittest.main()
