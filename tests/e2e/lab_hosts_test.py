"""petrel-lab matrix between two hosts that are reached by ssh, with losses that nftables adds at the
receiver: they and all folders are gone afterwards, also after an interruption, and a script that made the
hosts is told so."""
import glob
import json
import os
import signal
import subprocess
import time
import unittest

import hosts

MATRIX = """
programs: {programs}
repetitions: {repetitions}
size: 4MiB
time-limit: 60s
cell: lossy
  loss: 5%
"""


class Hosts(hosts.Case):
    @classmethod
    def setUpClass(cls):
        """A second sshd, on this host, like the one on the far host."""
        if not hosts.is_root():
            raise unittest.SkipTest("nftables and a second sshd need root")
        config = os.path.join(hosts.TEMP, "near_sshd_config")
        with open(os.path.join(hosts.TEMP, "sshd_config"), encoding="utf-8") as one, \
                open(config, "w", encoding="utf-8") as other:
            other.write(one.read().replace("sshd.pid", "near_sshd.pid"))
        cls.sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", config], stderr=subprocess.DEVNULL)
        hosts.wait_until(lambda: os.path.exists(os.path.join(hosts.TEMP, "near_sshd.pid")), 20)

    @classmethod
    def tearDownClass(cls):
        cls.sshd.terminate()
        cls.sshd.wait()

    def setUp(self):
        super().setUp()
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        near, far = os.environ["PETREL_LAB_NEAR"], os.environ["PETREL_LAB_FAR"]
        self.hosts = f"{user}@{near},{user}@{far}"
        # Without the connection that all tests here share: each host is to be reached by itself.
        with open(hosts.CONFIG, encoding="utf-8") as one:
            lines = [line for line in one if "ControlPath" not in line]
        self.config = self.write("ssh_config", text="".join(lines))
        self.out = self.path("out.jsonl")
        self.before = self.folders()

    def folders(self):
        return set(glob.glob("/tmp/petrel-host-*") + glob.glob("/dev/shm/petrel-host-*"))

    def rules(self):
        return subprocess.run([*hosts.FAR_EXEC, "nft", "list", "ruleset"], capture_output=True,
                              text=True).stdout

    def lab_words(self, repetitions, programs="petrel"):
        matrix = self.write("m.matrix", text=MATRIX.format(repetitions=repetitions, programs=programs))
        return [os.environ["PETREL_LAB"], "matrix", matrix, "--out", self.out, "--attempts", "1", "--ssh-config", self.config,
                "--petrel", hosts.PETREL]

    def runs(self):
        if not os.path.exists(self.out):
            return []
        with open(self.out, encoding="utf-8") as file:
            return [one for one in map(json.loads, file) if one["kind"] == "run"]

    def gone(self):
        self.assertTrue(hosts.wait_until(lambda: self.folders() == self.before, 20), self.folders())
        self.assertTrue(hosts.wait_until(lambda: "petrel_lab" not in self.rules(), 20), self.rules())

    def test_a_matrix_with_losses(self):
        done = subprocess.run([*self.lab_words(1, "petrel, bbr"), "--hosts", self.hosts], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        runs = self.runs()
        self.assertEqual([run["program"] for run in runs], ["petrel", "bbr"])
        for run in runs:
            self.assertNotIn("failed", run)
        self.assertTrue(runs[0]["sha256_equal"])
        self.assertGreater(runs[0]["loss_percent"], 2)
        self.assertLess(runs[0]["loss_percent"], 30) # and what a loaded machine drops besides
        self.assertGreater(runs[0]["far"]["rss_mb"], 1)
        with open(self.out, encoding="utf-8") as file:
            begin, calibration = json.loads(file.readline()), json.loads(file.readline())
        self.assertEqual((begin["loss_tool"], begin["place"]), ("nftables at the receiver", "hosts"))
        self.assertEqual(len(begin["hosts"]), 2)
        self.assertGreater(calibration["udp_loss_percent"], 2)
        self.gone()

    def test_interrupted_the_script_that_made_the_hosts_is_told(self):
        log = self.path("log")
        script = self.write("make", mode=0o755, text="#!/bin/sh\n"
                            f"echo \"${{1:-up}}\" >>{log}\n[ \"$1\" = down ] || echo {self.hosts.replace(',', ' ')}\n")
        process = subprocess.Popen([*self.lab_words(50), "--hosts-from", script, "--no-calibration"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertTrue(hosts.wait_until(lambda: self.runs() or process.poll() is not None, 90))
        self.assertIn("petrel_lab", self.rules())
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 143, said)
        self.gone()
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), "up\ndown\n")

    def test_a_host_that_is_none(self):
        began = time.monotonic()
        log = self.path("log")
        script = self.write("make", mode=0o755, text=f"#!/bin/sh\necho \"${{1:-up}}\" >>{log}\necho only-one\n")
        for words, says in ((["--hosts", "a"], "--hosts takes two"), (["--hosts-from", script], "two hosts were")):
            done = subprocess.run([*self.lab_words(1), *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), "up\ndown\n")
        self.assertLess(time.monotonic() - began, 60)


if __name__ == "__main__":
    hosts.main()
