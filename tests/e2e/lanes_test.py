#!/usr/bin/env python3
"""Lanes that open by themselves where each flow is held down by itself.

    lanes_test.py PETREL PETREL_LAB [TEST...]
"""
import hosts
from hosts import MIB

FLOW = 25e6  # bits a second of each flow, as IP packets; the link carries four of them


class Lanes(hosts.Case):
    def copied(self, *words):
        """Rate and lanes of a copy."""
        summary = self.copy("--json", "--no-memory", *words).events()[-1]
        rate = summary["verified_bytes"] * 8 / summary["transfer_seconds"]
        print(f"{' '.join(words[:-2])} {rate / 1e6:.0f} Mbit/s, {summary['lanes']} lanes")
        return rate, summary["lanes"]

    def check_grown(self, rate, lanes):
        """More lanes come, and carry more than one of them would."""
        self.assertGreaterEqual(lanes, 2)
        self.assertGreater(rate, 1.2 * FLOW)

    def test_one_lane_gets_what_a_flow_gets(self):
        rate, lanes = self.copied("--lanes", "1", self.write("near/file", 8 * MIB),
                                  self.remote("far"))
        self.assertEqual(lanes, 1)
        self.assertLess(rate, 1.2 * FLOW)  # the bucket is full at first

    def test_more_are_opened_where_a_flow_is_capped(self):
        self.check_grown(*self.copied(self.write("near/file", 48 * MIB), self.remote("far")))

    def test_more_are_opened_by_who_receives(self):
        self.write("far/file", 48 * MIB)
        self.check_grown(*self.copied(self.remote("far/file"), self.near))


if __name__ == "__main__":
    hosts.main(("--rtt", "20ms", "--rate", "100mbit", "--flow-policer", "25mbit:256K",
                "--flow-policer-back", "25mbit:256K"))
