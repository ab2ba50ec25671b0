#!/usr/bin/env python3
"""petrel stays inside the UDP ports that it is given or that the manual names.

    ports_test.py PETREL PETREL_LAB [TEST...]

Case 4 of the situations that users reported: the far host's firewall admits exactly the range, and
counts what else comes.
"""
import json
import os
import re
import subprocess

import hosts
from hosts import FAR_EXEC, HOST, MIB

LONG = "4Mbit" # longer than a copy waits for a port of a small range to become free
UNREACHABLE = 40
RULES = """table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        tcp dport 22022 accept
        ct state established tcp sport 0-65535 accept
        icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept
        meta l4proto udp counter name strays drop
    }
    counter strays { }
}
"""


def manual_line(tool):
    """The line of the manual for a firewall, without the prompt."""
    with open(os.path.join(hosts.ROOT, "docs", "man", "petrel.1")) as file:
        return re.search(rf"^\.Dl # ({tool} .*)$", file.read(), re.M).group(1)


class Ports(hosts.Case):
    def setUp(self):
        super().setUp()
        self.source = self.write("near/file", 3 * MIB)
        self.addCleanup(subprocess.run, [*FAR_EXEC, "nft", "delete", "table", "inet", "filter"],
                        stderr=subprocess.DEVNULL)
        subprocess.run([*FAR_EXEC, "nft", "-f", "-"], input=RULES, text=True, check=True)

    def admit(self, ports):
        line = manual_line("nft").replace("60000-61000", ports)
        subprocess.run([*FAR_EXEC, *line.split()], check=True)

    def strays(self):
        said = subprocess.run([*FAR_EXEC, "nft", "-j", "list", "counter", "inet", "filter",
                               "strays"], stdout=subprocess.PIPE, check=True, text=True).stdout
        return next(item["counter"]["packets"] for item in json.loads(said)["nftables"]
                    if "counter" in item)

    def at_once(self, count, *words, limit="20Mbit"):
        """Copies side by side, slow enough to meet; their results."""
        processes = [self.start("--json", "--limit", limit, *words, self.source,
                                self.remote(f"far/{i}")) for i in range(count)]
        return [self.finish(process) for process in processes]

    def all_arrive(self, results):
        for i, result in enumerate(results):
            self.assertEqual(result.code, 0, result.stderr)
            self.same_file("near/file", f"far/{i}")

    def test_case_04_the_documented_ports(self):
        self.admit("60000-61000")
        self.copy(self.source, self.remote("far/one"))
        self.same_file("near/file", "far/one")
        lanes = self.copy("--json", "--lanes=16", self.source, self.remote("far/lanes"))
        self.assertEqual(lanes.events()[-1]["lanes"], 16)
        self.same_file("near/file", "far/lanes")
        self.copy(self.remote("far/lanes"), self.path("near/back"), "--lanes=16")
        self.all_arrive(self.at_once(3))
        self.assertEqual(self.strays(), 0)

    def test_case_04_given_ports(self):
        self.admit("50001-50003")
        given = "--udp-ports=50001-50003"
        self.copy(given, "--lanes=16", self.source, self.remote("far/lanes"))
        self.all_arrive(self.at_once(3, given))
        self.copy(given, self.remote("far/lanes"), self.path("near/back"))
        self.assertEqual(self.strays(), 0)

    def test_case_04_one_port(self):
        self.admit("50007-50007")
        given = "--udp-ports=50007"
        self.copy(given, "--lanes=16", self.source, self.remote("far/lanes"))
        self.same_file("near/file", "far/lanes")
        self.copy("--udp-ports=50007-50007", self.source, self.remote("far/again"))
        self.assertEqual(self.strays(), 0)

    def test_case_04_a_range_that_is_used_up(self):
        self.admit("50001-50002")
        results = self.at_once(3, "--udp-ports=50001-50002", "--udp=only", limit=LONG)
        codes = sorted(result.code for result in results)
        self.assertEqual(codes, [0, 0, UNREACHABLE], [result.stderr for result in results])
        refused = next(result for result in results if result.code)
        for part in (HOST, "50001 to 50002 are in use", "--udp-ports"):
            self.assertIn(part, refused.stderr)
        self.assertEqual(refused.events()[-2]["kind"], "unreachable")
        self.assertEqual(self.strays(), 0)

    def test_case_04_a_used_up_range_leaves_the_way_through_ssh(self):
        self.admit("50001-50002")
        results = self.at_once(3, "--udp-ports=50001-50002", limit=LONG)
        self.assertEqual([result.code for result in results], [0, 0, 0],
                         [result.stderr for result in results])
        through_ssh = [result for result in results if "not accelerated" in result.stderr]
        self.assertEqual(len(through_ssh), 1)
        self.assertIn("50001 to 50002", through_ssh[0].stderr)

    def test_manual_lines(self):
        """The same range in each firewall's own words."""
        for tool in ("ufw", "firewall-cmd", "nft"):
            self.assertRegex(manual_line(tool), "60000[:-]61000", tool)


if __name__ == "__main__":
    hosts.main()
