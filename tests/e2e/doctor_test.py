#!/usr/bin/env python3
"""petrel doctor with faults planted on the path and on both hosts: the cause named is the cause
planted, and the rate that it foretells is the rate of the copy that follows.

    doctor_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import re
import shlex
import socket
import subprocess
import time

import hosts
from hosts import CONFIG, FAR_EXEC, FAR_HOME, HOOKS, HOST, MIB, PETREL, TEMP

FIRST, LAST = 60000, 60009
NEAR_EXEC = []  # the tests run there
# Without load these are 0; a busy machine may be late with packets.
NOISE = {"round trip", "receiving sockets"}
REPLIES_ALONE = "input: ct state established accept\niif lo accept\ntcp dport 22022 accept\ndrop"


def nft(where, rules):
    """Rules of one chain, such as "input: udp dport 1 drop"."""
    hook, rule = rules.split(": ", 1)
    text = (f"table inet planted {{\nchain c {{\ntype filter hook {hook} priority 0;\n{rule}\n}}\n}}\n")
    subprocess.run([*where, "nft", "-f", "-"], input=text, text=True, check=True)


class Doctor(hosts.Case):
    def tearDown(self):
        for where in (NEAR_EXEC, FAR_EXEC):
            subprocess.run([*where, "nft", "delete", "table", "inet", "planted"],
                           stderr=subprocess.DEVNULL)
        super().tearDown()

    def link(self, *words):
        """Changes the link for this test."""
        hosts.link("set", *words)
        self.addCleanup(hosts.link, "set", "--rtt", "2ms", "--rate", "none", "--loss", "0%",
                        "--loss-back", "0%", "--jitter", "0", "--path-mtu", "1500",
                        "--queue", "1bdp")

    def doctor(self, *words, code=0, far=PETREL, near=PETREL, env=None, host=HOST, seconds="200ms",
               disk=False, prefix=()):
        options = ["-F", CONFIG, "--json", "--time", seconds]
        if far is not None:
            options += ["--remote-petrel", far]
        if not any(word.startswith("--udp-ports") for word in words):
            options += ["--udp-ports", f"{FIRST}-{LAST}"]
        if not disk:
            options.append("--no-disk")
        began = time.monotonic()
        done = subprocess.run([*prefix, near, "doctor", *options, *words, host],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=hosts.TIMEOUT,
                              env={**os.environ, **(env or {})})
        self.seconds = time.monotonic() - began
        self.assertTrue(done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["schema"], 1)
        self.findings = {one["name"]: one for one in answer["findings"]}
        self.assertEqual(done.returncode, code, self.bad())
        self.assertEqual(answer["exit_code"], code)
        return answer

    def bad(self):
        return {name: (one["verdict"], one["text"], one["next"])
                for name, one in self.findings.items() if one["verdict"] != "ok"}

    def names(self, planted, says, verdict="slow", next_step="", also=()):
        """The planted cause, what to do, and no other cause."""
        bad = self.bad()
        self.assertIn(planted, bad, self.findings)
        self.assertEqual(bad[planted][0], verdict, bad)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, bad[planted][1])
        self.assertIn(next_step, bad[planted][2])
        self.assertEqual(set(bad) - NOISE - set(also) - {planted}, set(), bad)

    def blocked(self, says, next_step):
        """No UDP: the cause, exit code, and what SSH would carry."""
        answer = self.doctor(code=40)
        self.names(f"UDP {HOST}", says, "failed", next_step, also={"rate to expect there"})
        self.assertGreater(answer["expected_to_bps"], 1e6)
        self.assertIn("SSH", answer["limit_to"])


class Planted(Doctor):
    def test_nothing(self):
        answer = self.doctor(disk=True)
        self.assertEqual(set(self.bad()) - NOISE - {"disk here", "disk there"}, set(), self.bad())
        for name in ("SSH", "petrel there", f"UDP {HOST}", "round trip", "loss on the way there",
                     "loss on the way back", "packet size", "processor here", "processor there",
                     "offload here", "offload there", "socket buffers here",
                     "socket buffers there", "disk here", "disk there", "rate to expect there",
                     "rate to expect from there"):
            self.assertIn(name, self.findings)
        self.assertIn("10 of 10 ports", self.findings[f"UDP {HOST}"]["text"])
        for run in ("to", "from"):
            self.assertTrue(answer[run]["sender"]["verified"], answer[run])

    def test_case_19_people_read_lines(self):
        done = subprocess.run([PETREL, "doctor", "-F", CONFIG, "--remote-petrel", PETREL, "--no-disk",
                               "--time=100ms", HOST], stdout=subprocess.PIPE, text=True, check=True)
        lines = done.stdout.splitlines()
        self.assertGreater(len(lines), 12)
        for line in lines:
            self.assertRegex(line, r"^(ok|slow|failed|unknown| +) +\S")
        self.assertIn("1001 of 1001 ports", done.stdout)

    # ---- UDP

    def test_case_01_udp_dropped_at_the_server(self):
        nft(FAR_EXEC, "input: meta l4proto udp drop")
        self.blocked([f"UDP to ports {FIRST}-{LAST} of {HOST}", "nothing arrives there"],
                     f"ufw allow {FIRST}:{LAST}/udp")

    def test_answers_dropped_at_the_client(self):
        nft(NEAR_EXEC, "input: meta l4proto udp drop")
        self.blocked(["arrive there", "no answer comes back"], f"udp sport {FIRST}-{LAST} accept")

    def test_case_02_udp_refused_by_icmp(self):
        nft(FAR_EXEC, "input: meta l4proto udp reject with icmpx type admin-prohibited")
        self.blocked(["rejected", f"{HOST} sent ICMP", "prohibited"],
                     f"ufw allow {FIRST}:{LAST}/udp")

    def test_case_02_refused_by_a_local_rule(self):
        nft(NEAR_EXEC, "output: meta l4proto udp drop")
        self.blocked(["rule on this machine refuses", "Operation not permitted"], "output udp dport")

    def test_case_02_rejected_by_a_local_rule(self):
        for how in ("", " with icmpx type admin-prohibited"):
            nft(NEAR_EXEC, f"output: meta l4proto udp reject{how}")
            self.blocked("rule on this machine refuses", "output udp dport")
            subprocess.run(["nft", "delete", "table", "inet", "planted"], check=True)

    def test_case_02_a_rule_at_the_server_refuses_the_answers(self):
        nft(FAR_EXEC, "output: meta l4proto udp drop")
        self.blocked(["arrive there", "on that host refuses", "Operation not permitted"],
                     f"allow it on {HOST}: nft insert rule inet filter output udp sport {FIRST}")

    def test_case_04_one_port_is_open(self):
        nft(FAR_EXEC, f"input: udp dport {FIRST}-{FIRST + 6} drop\n"
            f"udp dport {FIRST + 8}-{LAST} drop")
        self.doctor()
        self.names(f"UDP {HOST}", f"only port {FIRST + 7}", "slow", f"--udp-ports {FIRST + 7}")

    def test_case_04_the_copy_goes_as_foretold(self):
        """Which port a copy finds, if it finds one, and the way and rate that follow from that."""
        self.link("--rate", "200mbit")
        source = self.write("near/file", 2 * MIB)
        for first, last in ((60000, 60049), (60000, 60004), (60001, 60090)):
            nft(FAR_EXEC, f"input: udp dport {first}-{last} drop")
            self.foretells_the_way(source, "60000-60100", True, f"{last + 1}-60100")
        nft(FAR_EXEC, "input: udp dport 60000-60060 drop\nudp dport 60064-60100 drop")
        self.foretells_the_way(source, "60000-60100", False, "60061-60063")

    def foretells_the_way(self, source, ports, finds, open_ports):
        answer = self.doctor("--udp-ports", ports, code=0 if finds else 40)
        self.names(f"UDP {HOST}", open_ports, "slow" if finds else "failed",
                   f"--udp-ports {open_ports}, or open", also={"rate to expect there"})
        self.assertEqual(answer["limit_to"] == "the SSH channel", not finds)
        self.assertEqual("to" in answer, finds)
        result = self.finish(self.start("copy", "--json", f"--udp-ports={ports}", source,
                                        self.remote(f"far/{open_ports}")))
        self.assertEqual(result.code, 0, result.stderr)
        ways = [event["way"] for event in result.events() if event["event"] == "way"]
        self.assertEqual(ways[-1:] == ["ssh"], not finds, ways)
        subprocess.run([*FAR_EXEC, "nft", "delete", "table", "inet", "planted"], check=True)

    def works_after_a_knock(self):
        answer = self.doctor()
        self.assertEqual(set(self.bad()) - NOISE, set(), self.bad())
        for part in ("10 of 10 ports", "knocked", "replies"):
            self.assertIn(part, self.findings[f"UDP {HOST}"]["text"])
        for run in ("to", "from"):
            self.assertTrue(answer[run]["sender"]["verified"], answer[run])
        self.assertIn("packet size", self.findings)

    def test_replies_alone_may_enter(self):
        nft(FAR_EXEC, REPLIES_ALONE)
        self.works_after_a_knock()

    def test_replies_alone_may_enter_behind_masquerade(self):
        nft(FAR_EXEC, REPLIES_ALONE)
        text = ("table inet planted {\nchain c {\ntype nat hook postrouting priority 100;\n"
                "meta l4proto udp masquerade\n}\n}\n")
        subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
        self.works_after_a_knock()

    def hold(self, ports):
        """Something of the far host's that has these ports."""
        script = ("import socket, sys\nheld = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) "
                  "for p in range(int(sys.argv[1]), int(sys.argv[2]) + 1)]\n"
                  "for i, s in enumerate(held): s.bind(('', int(sys.argv[1]) + i))\n"
                  "print('held', flush=True)\nsys.stdin.read()")
        process = subprocess.Popen([*FAR_EXEC, "python3", "-c", script, *map(str, ports)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        self.addCleanup(process.communicate)

    def test_all_ports_in_use(self):
        self.hold((FIRST, LAST))
        self.doctor(code=40)
        self.names("UDP ports", ["in use", str(FIRST)], "failed", "--udp-ports",
                   also={"rate to expect there"})

    def test_some_ports_in_use(self):
        self.hold((FIRST, FIRST + 1))
        self.doctor()
        self.assertEqual(set(self.bad()) - NOISE, set(), self.bad())
        self.assertIn(f"2 of {FIRST}-{LAST} are in use", self.findings["UDP ports"]["text"])
        self.assertIn("8 of 8", self.findings[f"UDP {HOST}"]["text"])

    def test_ipv6_dead_while_ipv4_works(self):
        far6 = os.environ["PETREL_LAB_FAR_V6"]
        names = self.write("hosts", text=f"{HOST} both\n{far6} both\n")
        prefix = ["unshare", "--mount", "sh", "-c",
                  f'mount --bind {names} /etc/hosts && exec "$@"', "sh"]
        if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount here")
        self.doctor(host="both", prefix=prefix)
        self.assertEqual(set(self.bad()) - NOISE, set(), self.bad())
        self.assertIn("10 of 10", self.findings[f"UDP [{far6}]"]["text"])
        nft(FAR_EXEC, "input: meta nfproto ipv6 meta l4proto udp drop")
        self.doctor(host="both", prefix=prefix)
        self.names(f"UDP [{far6}]", "nothing arrives there", "slow", f"petrel uses {HOST}")

    # ---- the path

    def test_loss_there(self):
        self.link("--loss", "5%")
        self.doctor(seconds="1s")
        self.names("loss on the way there", "% (", "slow", "petrel keeps its rate")

    def test_loss_back(self):
        self.link("--loss-back", "5%")
        self.doctor(seconds="1s")
        self.names("loss on the way back", "% (", "slow", "petrel keeps its rate")

    def test_case_13_a_hole_for_packets_over_1300(self):
        self.link("--path-mtu", "1300")
        self.doctor(seconds="500ms")
        self.names("packet size", ["1280 bytes", "1500", "black hole"], "slow", "tcp_mtu_probing")

    def test_case_13_a_hole_on_the_way_back_only(self):
        self.link("--path-mtu-back", "1450")
        self.doctor(seconds="500ms")
        self.names("packet size", ["1440 bytes", "black hole"], "slow", "MTU to 1440")

    def test_case_13_large_packets_dropped(self):
        """Fewer bytes than a session begins with: a copy goes through ssh."""
        nft(FAR_EXEC, "input: udp length > 1000 drop")
        answer = self.doctor(code=40)
        self.names("packet size", ["packets over about", "on the way there"], "failed",
                   "drops large UDP", also={"rate to expect there"})
        said = int(re.search(r"about (\d+) bytes", self.findings["packet size"]["text"])[1])
        self.assertTrue(960 <= said <= 1020, said)
        self.assertIn("SSH", answer["limit_to"])
        self.assertGreater(answer["expected_to_bps"], 1e6)

    def test_a_slow_path(self):
        self.link("--rate", "4mbit", "--rtt", "10ms", "--queue", "50p")
        answer = self.doctor(seconds="1200ms")
        self.names("rate to expect there", "limited by the path", "slow", "other traffic",
                   also={"rate to expect from there"})
        self.assertTrue(2.8e6 < answer["expected_to_bps"] < 5.2e6, answer["expected_to_bps"])
        self.assertEqual(answer["limit_to"], "the path")

    def test_a_long_path(self):
        self.link("--rtt", "350ms")
        self.doctor(seconds="500ms")
        self.names("round trip", "35", "slow", "in one run")

    def test_a_path_that_varies(self):
        self.link("--rtt", "120ms", "--jitter", "38ms")
        self.doctor(seconds="500ms")
        self.names("round trip", "deviation", "slow", "varies",
                   also={"rate to expect there", "rate to expect from there"})

    # ---- the hosts

    def test_case_14_a_weak_host_here(self):
        self.doctor(near=HOOKS, env={"PETREL_TEST_BUFFER": "212992", "PETREL_TEST_NO_AES": "1",
                                     "PETREL_TEST_NO_OFFLOAD": "1"})
        planted = {"socket buffers here", "processor here", "offload here"}
        self.names("socket buffers here", ["213 kB", "small"], "slow",
                   "sudo sysctl -w net.core.rmem_max=67108864 net.core.wmem_max=16777216", planted)
        self.names("processor here", ["no AES", "ChaCha20"], "slow", "virtual machine", planted)
        self.names("offload here", "no UDP GSO", "slow", "fails in use", planted)

    def test_case_14_a_weak_host_there(self):
        self.doctor(far=f"env PETREL_TEST_BUFFER=212992 PETREL_TEST_NO_AES=1 {HOOKS}")
        planted = {"socket buffers there", "processor there"}
        self.names("socket buffers there", "small", "slow", f"on {HOST}: sudo sysctl", planted)
        self.names("processor there", "no AES", "slow", "", planted)

    def test_a_slow_disk_there(self):
        self.link("--rate", "200mbit")
        answer = self.doctor("--destination", self.far, far=f"env PETREL_TEST_DISK=5MB {HOOKS}",
                             disk=True)
        self.names("disk there", [self.far, "slower than the path"], "slow", "faster",
                   also={"disk here"})
        self.assertEqual(answer["limit_to"], "the disk there")
        self.assertLess(answer["expected_to_bps"], 6e7)

    def test_a_slow_disk_here(self):
        self.link("--rate", "200mbit")
        answer = self.doctor("--source", self.write("near/big", 32 * MIB), near=HOOKS, disk=True,
                             env={"PETREL_TEST_DISK": "5MB"})
        self.names("disk here", ["near/big", "slower than the path"], "slow", also={"disk there"})
        self.assertEqual(answer["limit_to"], "the disk here")

    def test_disks_near_the_path_work_together(self):
        """A third session reads the source, from its beginning again and again, and writes there.
        The disk here is slower than the link, and far faster than half of what a busy machine makes
        of it."""
        self.link("--rate", "20mbit")
        source = self.write("near/file", 300001)
        answer = self.doctor("--source", source, "--destination", self.far, near=HOOKS, disk=True,
                             seconds="1s", env={"PETREL_TEST_DISK": "12Mbit"})
        self.assertIn("with_disks", answer, (answer["to"], answer["source"], answer["destination"]))
        self.assertTrue(answer["with_disks"]["sender"]["verified"], answer)
        self.assertGreater(answer["with_disks"]["sender"]["bytes"], 300001)
        self.assertTrue(3e6 < answer["expected_to_bps"] < 13e6, answer["expected_to_bps"])

    def test_no_such_destination(self):
        self.doctor("--destination", self.path("far/none/file"), disk=True, code=47)
        self.names("disk there", "No such file", "failed", "--destination", also={"disk here"})

    def test_a_destination_that_is_no_disk(self):
        self.doctor("--destination", "/proc/sys", disk=True, code=44)
        self.names("disk there", "/proc/sys is no place for files", "failed", "--destination",
                   also={"disk here"})

    # ---- getting there

    def test_case_05_petrel_is_missing(self):
        self.doctor(far="/nowhere/petrel", code=42)
        self.names("petrel there", "cannot be run", "failed",
                   f"petrel install -F {CONFIG} {HOST}")
        self.assertIn("processor here", self.findings)

    def test_a_startup_file_that_ends(self):
        names = [os.path.join(FAR_HOME, name) for name in (".bashrc", ".profile")]
        for name in names:
            with open(name, "w") as file:
                file.write("exit 0\n")
            self.addCleanup(os.remove, name)
        self.doctor(code=42, far=None)
        self.names("petrel there", "petrel did not start", "failed", "start-up file")

    def test_a_remote_command_that_hangs(self):
        self.doctor(code=42, far="sh -c 'echo hello; exec sleep 21'")
        self.names("petrel there", "hello", "failed", "--remote-petrel")
        self.assertNotIn("install", self.findings["petrel there"]["next"])
        self.assertRegex(self.findings["SSH"]["text"], "until the login was over")

    def fake(self, line):
        return self.write("fake", mode=0o755, text=f"#!/bin/sh\nread start\necho '{line}'\ncat\n")

    def test_another_version(self):
        self.doctor(code=42, far=self.fake(
            "PETREL-REMOTE version=9.1 protocol=7-9 port=60000 address=none job=measure"))
        self.names("petrel there", ["9.1", "protocol 7 to 9"], "failed", "petrel install")
        self.doctor(code=42, far=self.fake(
            "PETREL-REMOTE version=0.0.9 protocol=1-1 port=60000 address=none"))
        self.names("petrel there", ["0.0.9", "no measurements"], "failed", "petrel install")

    def test_ssh_is_refused(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        self.doctor("-P", str(port), "-o", "ControlPath=none", host="127.0.0.1", code=255)
        self.names("SSH", "ssh could not start a session", "failed",
                   f"ssh -p {port} -F {CONFIG} -o ControlPath=none 127.0.0.1 true")

    def test_the_far_end_stops_talking(self):
        self.doctor(code=30, far=self.write("dies", mode=0o755, text=(
            "#!/bin/sh\nread start\necho 'PETREL-REMOTE version=1 protocol=1-1 port=0 "
            "address=none job=measure'\nread ping\necho '{}'\nexit 0\n")))
        self.names(f"talk with {HOST}", "SSH session", "failed")


class Foretold(Doctor):
    def test_the_rate_foretold_is_the_rate_of_the_copy(self):
        """Of a path so slow that it is the limit of both, however busy the machine is."""
        self.link("--rate", "20mbit", "--rtt", "20ms", "--loss", "1%")
        answer = self.doctor("--destination", self.far, disk=True, seconds="2s")
        self.assertEqual(answer["limit_to"], "the path")
        source = self.write("near/file", 9 * MIB)
        began = time.monotonic()
        result = self.finish(self.start("copy", "--json", source, self.remote("far")), began)
        self.assertEqual(result.code, 0, result.stderr)
        summary = result.events()[-1]
        rate = 9 * MIB * 8 / summary["transfer_seconds"]
        share = answer["expected_to_bps"] / rate
        print(f"foretold {answer['expected_to_bps'] / 8e6:.2f} MB/s, came {rate / 8e6:.2f} MB/s: "
              f"{share:.2f}")
        self.assertTrue(0.7 < share < 1.3, share)


class BadInput(Doctor):
    def fails(self, *words):
        done = subprocess.run([PETREL, "doctor", *words], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_usage(self):
        self.assertIn("takes one host", self.fails())
        self.assertIn("takes one host", self.fails("a", "b"))
        self.assertIn("--time", self.fails("--time", "5h", HOST))
        self.assertIn("--udp-ports", self.fails("--udp-ports", "9-1", HOST))
        self.assertIn("-", self.fails("--", "-oProxyCommand=x"))

    def test_json_that_cannot_be_written(self):
        """Said before anything is measured: no program is started over there."""
        started = self.path("started")
        for command in ("doctor", "bench"):
            done = subprocess.run([PETREL, command, "-F", CONFIG, "--remote-petrel",
                                   f"touch {started}; {PETREL}", "--json=/nonexistent/x", HOST],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 47, done.stderr)
            self.assertIn("cannot write /nonexistent/x", done.stderr)
            self.assertFalse(os.path.exists(started))

    def test_json_to_standard_output_by_its_other_name(self):
        for words in (["doctor", "-F", CONFIG, "--remote-petrel", "/none", HOST],
                      ["bench", "-F", CONFIG, "--remote-petrel", "/none", HOST],
                      ["config", HOST], ["paths"],
                      ["copy", "--dry-run", "/nonexistent/file", f"{HOST}:/tmp"]):
            done = subprocess.run([PETREL, words[0], "--json=-", *words[1:]], cwd=self.near,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(os.listdir(self.near), [], words)
            for line in done.stdout.splitlines():
                self.assertEqual(json.loads(line)["schema"], 1)
            self.assertTrue(done.stdout, words)


if __name__ == "__main__":
    hosts.main(("--rtt", "2ms"))
