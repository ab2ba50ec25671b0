#!/usr/bin/env python3
"""petrel bench between two hosts: what it measures is what the link carries, TCP stands beside it,
and what cannot be measured is said.

    bench_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import signal
import subprocess
import time

import hosts
from hosts import CONFIG, FAR_EXEC, HOST, MIB, PETREL

RATE = 50e6


class Bench(hosts.Case):
    def run_bench(self, *words, code=0):
        done = subprocess.run([PETREL, "bench", "-F", CONFIG, "--remote-petrel", PETREL, *words, HOST],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=hosts.TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def bench(self, *words, code=0):
        answer = json.loads(self.run_bench("--json", *words, code=code).stdout)
        self.assertEqual((answer["schema"], answer["host"], answer["exit_code"]), (1, HOST, code))
        return answer

    def check_petrel(self, figures, size=None):
        sender, receiver = figures["sender"], figures["receiver"]
        self.assertTrue(sender["verified"])
        self.assertEqual(sender["bytes"], receiver["bytes"])
        if size is not None:
            self.assertEqual(sender["bytes"], size)
        for end in (sender, receiver):
            self.assertGreater(end["cpu_seconds"], 0)
            self.assertGreater(end["peak_memory_bytes"], MIB)
        self.assertLess(figures["sustained_bps"], RATE)
        self.assertGreater(figures["end_to_end_bps"], RATE / 4)

    def test_petrel_and_tcp(self):
        answer = self.bench("--time", "1500ms", "--share")
        self.assertEqual(answer["direction"], "to")
        self.check_petrel(answer["petrel"])
        known = answer["near"]["congestion"].split()
        names = [(one["congestion"], one["streams"]) for one in answer["tcp"]]
        self.assertEqual(names, [("cubic", 1), ("bbr", 1), ("bbr", 8)])
        for one in answer["tcp"]:
            if one["congestion"] in known:
                self.assertTrue(one["available"], one)
                self.assertTrue(RATE / 20 < one["sustained_bps"] < RATE, one)
                self.assertAlmostEqual(
                    one["petrel_is"], answer["petrel"]["sustained_bps"] / one["sustained_bps"], 2)
            else:
                self.assertFalse(one["available"])
                self.assertIn(one["congestion"], one["reason"])
        self.check_share(answer["share"])

    def check_share(self, share):
        """Both rates are of one time, so that together they cannot pass the link's."""
        self.assertTrue(share["sender"]["verified"])
        for one in (share["receiver"], share["tcp"]):
            self.assertGreater(one["bytes"], 0, share)
        both = share["sustained_bps"] + share["tcp"]["sustained_bps"]
        self.assertTrue(RATE / 4 < both < RATE, share)

    def test_share_back(self):
        self.check_share(self.bench("--time", "1500ms", "--share", "--no-tcp", "--reverse")["share"])

    def test_back_with_a_size(self):
        answer = self.bench("--reverse", "--size", "5M", "--no-tcp", "--lanes", "2",
                            "--disk", self.near)
        self.assertEqual((answer["direction"], answer["tcp"]), ("from", []))
        self.check_petrel(answer["petrel"], 5 * MIB)
        self.assertEqual(answer["petrel"]["sender"]["lanes"], 2)
        self.assertEqual(os.listdir(self.near), [])

    def test_a_fixed_rate_for_people(self):
        done = self.run_bench("--policy=fixed:8Mbit", "--time", "1s", "--no-tcp")
        self.assertRegex(done.stdout, r"(?m)^petrel +\d")
        self.assertIn("every block verified", done.stdout)
        self.assertNotIn("TCP", done.stdout)
        rate = [line.split()[1:3] for line in done.stdout.splitlines() if line.startswith("petrel ")]
        amount = float(rate[0][0]) * {"kB/s": 1e3, "MB/s": 1e6}[rate[0][1]]
        self.assertTrue(0.3e6 < amount < 1.1e6, done.stdout)

    def test_tcp_ports_are_closed(self):
        rules = "table inet planted {\nchain c {\ntype filter hook input priority 0;\n" \
            "tcp dport 60000-61000 reject with tcp reset\n}\n}\n"
        subprocess.run([*FAR_EXEC, "nft", "-f", "-"], input=rules, text=True, check=True)
        self.addCleanup(subprocess.run, [*FAR_EXEC, "nft", "delete", "table", "inet", "planted"])
        answer = self.bench("--time", "300ms")
        self.assertEqual([one["available"] for one in answer["tcp"]], [False] * 3)
        self.assertIn("open TCP 60000-61000", answer["tcp"][0]["reason"])
        self.assertIn("as above", answer["tcp"][1]["reason"])

    def test_a_disk_that_is_not_there(self):
        done = self.run_bench("--time", "1s", "--disk", self.path("far/none/x"), code=47)
        self.assertIn("No such file", done.stderr)

    def test_case_01_udp_is_dropped(self):
        rules = "table inet planted {\nchain c {\ntype filter hook input priority 0;\n" \
            "meta l4proto udp drop\n}\n}\n"
        subprocess.run([*FAR_EXEC, "nft", "-f", "-"], input=rules, text=True, check=True)
        self.addCleanup(subprocess.run, [*FAR_EXEC, "nft", "delete", "table", "inet", "planted"])
        done = self.run_bench("--time", "1s", code=40)
        self.assertIn(f"petrel doctor {HOST}", done.stderr)
        self.assertEqual(done.stdout, "")

    def begin(self, says, *words):
        """A bench that has come to the run that it names."""
        process = subprocess.Popen([PETREL, "bench", "-F", CONFIG, "--remote-petrel", PETREL, *words,
                                    HOST], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if says in line:
                break
        time.sleep(0.5)
        return process

    def test_interrupted(self):
        for says, words in (("memory blocks", ["--time", "30s"]),
                            ("TCP cubic", ["--size", "1M", "--time", "30s"])):
            process = self.begin(says, *words)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            result = self.finish(process)
            self.assertEqual(result.code, 20, result.stderr)
            self.assertLess(time.monotonic() - began, 10)

    def test_case_07_a_killed_bench_leaves_nothing(self):
        process = self.begin("memory blocks", "--time", "30s")
        process.kill()
        process.communicate()
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 10))

    def test_usage(self):
        for words, says in ((["--size", "0"], "5G"), (["--lanes", "17"], "1 to 16"),
                            (["--policy", "loud"], "auto"), (["--time", "x"], "5s")):
            self.assertIn(says, self.run_bench(*words, code=1).stderr)


if __name__ == "__main__":
    hosts.main(("--rtt", "10ms", "--rate", "50mbit"))
