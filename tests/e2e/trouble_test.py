#!/usr/bin/env python3
"""petrel copy when things go wrong: one line with cause and next step, an exit code of its own,
both ends gone, and no half file under a final name.

    trouble_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time

import hosts
from hosts import ATTACK, CONFIG, FAR_EXEC, HOOKS, HOST, MIB, PETREL, TEMP

OK, USAGE, FILE_IO, PROTOCOL, INTERRUPTED, PARTIAL, VANISHED, LOST = 0, 1, 11, 12, 20, 23, 24, 30
UNREACHABLE, VERIFY, NO_REMOTE, NO_SPACE, PERMISSION, NOT_FOUND, EXISTS = 40, 41, 42, 43, 44, 47, 48
SSH = 255


def as_nobody(command):
    """The far petrel as a user whom modes bind."""
    return shlex.join(hosts.unprivileged(command))


class BadInput(hosts.Case):
    def test_missing_source(self):
        self.fails(NOT_FOUND, ["none", "No such file"], self.path("near/none"), self.remote("far"))
        self.fails(NOT_FOUND, ["none", "No such file"], self.remote("far/none"), self.path("near"))

    def test_one_of_several_sources_is_missing(self):
        source = self.write("near/file", 10)
        result = self.copy(source, self.path("near/none"), self.remote("far"), code=PARTIAL)
        self.assertIn("none", result.stderr)
        self.assertIn("not all verified", result.stderr)
        self.same_file("near/file", "far/file")

    def test_unreadable_source(self):
        self.write("far/d/secret", 10, mode=0)
        self.write("far/d/open", 10)
        self.fails(PERMISSION, ["secret", "Permission denied"], self.remote("far/d/secret"),
                   self.path("near"), far_petrel=as_nobody(PETREL))
        result = self.copy(self.remote("far/d"), self.path("near"), code=PARTIAL,
                           far_petrel=as_nobody(PETREL))
        self.assertIn("1 file failed", result.stderr)
        self.assertEqual(os.listdir(self.path("near/d")), ["open"])

    def test_a_wildcard_where_nothing_may_be_read(self):
        self.write("far/closed/file", 10)
        os.chmod(self.path("far/closed"), 0)
        for pattern in ("far/closed/*", "far/closed/*/x", "far/clos*/f*"):
            self.fails(PERMISSION, ["Permission denied", HOST], self.remote(pattern),
                       self.path("near"), far_petrel=as_nobody(PETREL))
        os.chmod(self.path("far/closed"), 0o755)
        self.fails(NOT_FOUND, "matches nothing", self.remote("far/closed/*.x"), self.path("near"),
                   far_petrel=as_nobody(PETREL))

    def test_many_files_that_fail_alike(self):
        for number in range(60):
            self.write(f"near/d/{number:02}", 3)
            self.write(f"far/d/{number:02}/x", 3)
        result = self.copy(self.path("near/d"), self.remote("far"), code=EXISTS)
        named = f"petrel: {HOST}: d/"
        self.assertEqual(result.stderr.count(named), 20, result.stderr)
        self.assertIn("... and 40 more of that kind (exists); -v names each", result.stderr)
        result = self.copy("-v", "--json", self.path("near/d"), self.remote("far"), code=EXISTS)
        self.assertEqual(result.stderr.count(named), 60)
        failed = [event for event in result.events() if event["event"] == "failed"]
        self.assertEqual(len(failed), 60)

    def test_no_room_for_temporary_files(self):
        self.write("far/d/x", 10)
        self.fails(FILE_IO, ["/nonexistent", "TMPDIR"], self.remote("far/d"), self.path("near"),
                   env=dict(os.environ, TMPDIR="/nonexistent"))

    def test_no_permission_to_write(self):
        source = self.write("near/file", 10)
        os.chmod(self.path("far"), 0o555)
        self.fails(PERMISSION, [HOST, self.path("far/x"), "Permission denied"], source,
                   self.remote("far/x"), far_petrel=as_nobody(PETREL))

    def test_a_file_where_a_folder_is_needed(self):
        source = self.write("near/file", 10)
        self.write("near/d/x", 10)
        self.write("far/file", 10)
        self.fails(EXISTS, ["far/file", "no directory"], source, self.remote("far/file/"))
        self.fails(EXISTS, ["far/file", "no directory"], self.path("near/d"),
                   self.remote("far/file"))
        self.fails(NOT_FOUND, "far/file/x", source, self.remote("far/file/x"))

    def test_a_folder_where_a_file_comes(self):
        source = self.write("near/file", 10)
        self.write("far/file/inside", 10)
        self.fails(EXISTS, "file", source, self.remote("far"))
        self.assertEqual(os.listdir(self.path("far/file")), ["inside"])

    def small_disk(self, size):
        """The far folder becomes a disk of that many MiB, for far petrels; or the test is skipped.
        Returns the words to put before a command that is to see it."""
        holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c",
             f"mount -t tmpfs -o size={size}m small {self.path('far')} && echo && exec sleep 300"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        if not hosts.is_root() or holder.stdout.read(1) != b"\n":
            self.skipTest("cannot mount a small file system here")
        return ["nsenter", "-t", str(holder.pid), "-m"]

    def on_disk(self, inside, *words):
        return subprocess.run([*inside, *words], check=True, stdout=subprocess.PIPE).stdout

    def test_case_11_it_is_told_before_the_start(self):
        inside = self.small_disk(30)
        far = shlex.join([*inside, PETREL])
        self.write("near/big", 60 * MIB)
        result = self.fails(NO_SPACE, [HOST, "room", "make room there"], self.path("near/big"),
                            self.remote("far"), far_petrel=far)
        self.assertNotIn("verified", result.stderr)
        self.assertEqual(self.on_disk(inside, "ls", "-A", self.path("far")), b"")
        for i in range(70):  # each of them has room
            self.write(f"near/d/f{i:02}", MIB)
        result = self.fails(NO_SPACE, [HOST, "the destination has room for 31.5 MB",
                                       "73.4 MB are to come"],
                            self.path("near/d"), self.remote("far"), far_petrel=far)
        self.assertNotIn("verified", result.stderr)

    def test_case_11_it_is_found_on_the_way(self):
        """The disk fills up while it is copied to: both ends say the same, the rerun goes on."""
        inside = self.small_disk(64)
        far = shlex.join([*inside, PETREL])
        for i in range(3):
            self.write(f"near/d/f{i}", 20 * MIB, seed=i)
        self.on_disk(inside, "mkdir", self.path("far/d"))  # what is there may need no room
        self.on_disk(inside, "truncate", "-s", "20M", self.path("far/filler"))
        self.on_disk(inside, "fallocate", "-l", "20M", self.path("far/filler"))
        result = self.copy(self.path("near/d"), self.remote("far"), far_petrel=far, code=NO_SPACE)
        own = [line for line in result.stderr.splitlines() if "room" in line]
        self.assertEqual(len(own), 1, result.stderr)
        self.assertIn("d/f2: there is no room for its 20971520 bytes; make room there", own[0])
        self.assertEqual(self.on_disk(inside, "ls", "-A", self.path("far/d")), b"f0\nf1\n")
        self.on_disk(inside, "rm", self.path("far/filler"))
        result = self.copy("--json", self.path("near/d"), self.remote("far"), far_petrel=far)
        summary = result.events()[-1]
        self.assertEqual((summary["files_done"], summary["files_skipped"]), (1, 2))

    def test_case_10_sources_that_change(self):
        """While it is sent a file is appended to, truncated, overwritten, deleted or renamed: it
        arrives as it was, or is named; the others arrive; nothing is called verified that is not."""
        def append(path):
            with open(path, "ab") as file:
                file.write(b"more")

        def truncate(path):
            os.truncate(path, MIB)

        def overwrite(path):
            with open(path, "r+b") as file:
                file.seek(60 * MIB)
                file.write(b"other bytes")

        def rename(path):
            os.rename(path, path + "-elsewhere")

        for change, code, arrives in ((append, VANISHED, True), (truncate, VANISHED, False),
                                      (overwrite, VANISHED, False), (os.remove, OK, True),
                                      (rename, OK, True)):
            with self.subTest(change.__name__):
                shutil.rmtree(self.path("near"))
                source = self.write("near/d/file", 64 * MIB, seed=1)
                self.write("near/d/other", 1000, seed=2)
                self.write("near/d/z", 2 * MIB, seed=3)
                with open(source, "rb") as file:
                    before = file.read()
                process = self.start("--json", "--limit", "200Mbit", self.path("near/d"),
                                     self.remote("far"))
                self.assertTrue(hosts.wait_until(lambda: os.path.isdir(self.path("far/d")) and any(
                    name.endswith(".journal") for name in os.listdir(self.path("far/d"))), 20))
                change(source)
                result = self.finish(process)
                self.assertEqual(result.code, code, result.stderr)
                for name in "other", "z":
                    self.same_file(f"near/d/{name}", f"far/d/{name}")
                self.assertEqual(os.path.exists(self.path("far/d/file")), arrives)
                if arrives:
                    with open(self.path("far/d/file"), "rb") as file:
                        self.assertTrue(file.read() == before)
                events = result.events()
                self.assertEqual(events[-1]["verified"], code == OK)
                failed = [event for event in events if event["event"] == "failed"]
                self.assertEqual([event["kind"] for event in failed],
                                 [] if code == OK else ["changed"])
                if os.path.exists(source):
                    self.copy(self.path("near/d"), self.remote("far"))
                    self.same_file("near/d/file", "far/d/file")
                shutil.rmtree(self.path("far/d"))

    def test_events_that_cannot_be_written(self):
        source = self.write("near/file", 10)
        result = self.copy("--json=/dev/full", source, self.remote("far"), code=FILE_IO)
        self.assertIn("--json could not all be written", result.stderr)
        self.same_file("near/file", "far/file")
        self.fails(NOT_FOUND, "/nonexistent/log", "--json=/nonexistent/log", source,
                   self.remote("far"))

    def test_operands(self):
        for words, says in (((["a:b", "c:d"]), "both sides are remote"),
                            ((["a", "b"]), "neither side is remote"),
                            ((["a:b", "c", "d"]), "some sources are local"),
                            ((["a:"]), "needs a source"),
                            ((["--lnaes", "2", "a", "b:"]), "--lanes"),
                            ((["--limit", "25M", "a", "b:"]), "25MB"),
                            ((["--", "-oProxyCommand=x:", "."]), "cannot begin with '-'")):
            self.fails(USAGE, says, *words)
        for words, says in ((["cpoy", "a", "b:"], "did you mean petrel copy?"),
                            (["-q", "instal", "b"], "did you mean petrel install?"),
                            (["-P", "22", "doctro", "b"], "did you mean petrel doctor?"),
                            (["-q", "install", "b"], "the command comes first: petrel install")):
            self.assertIn(says, self.petrel(*words, code=USAGE, config=False).stderr)
        for words in (["--retry-for", "4s"], ["-P", "22", "--retry-for", "4s"], ["-qP", "45"]):
            self.fails(USAGE, "neither side", *words, "a", "b") # a value is no command, mistyped or not
        self.write("near/instal", 1) # a file of that name is meant
        self.fails(USAGE, "neither side", "instal", "b", cwd=self.path("near"))

    def test_usage_errors_as_events(self):
        for words in (["copy", "--json", "a", "b"], ["--json", "cpoy", "a", "b:"],
                      ["copy", "--json", "--lanse", "2", "a", "b:"]):
            result = self.petrel(*words, code=USAGE, config=False)
            error, summary = result.events()
            self.assertEqual((error["event"], error["kind"]), ("error", "usage"))
            self.assertEqual((summary["event"], summary["exit_code"]), ("summary", USAGE))
            self.assertIn(error["text"], result.stderr)
            self.assertFalse(summary["verified"])
        log = self.path("log")
        self.petrel("copy", f"--json={log}", "a", "b", code=USAGE, config=False)
        with open(log) as file:
            self.assertEqual(len(file.read().splitlines()), 2)

    def test_which_side_failed(self):
        source = self.write("near/d/file", 10)
        self.write("near/d/other", 10)
        self.write("far/d/file/inside", 10)
        result = self.copy("--json", self.path("near/d"), self.remote("far"), code=PARTIAL)
        failed = next(event for event in result.events() if event["event"] == "failed")
        self.assertEqual((failed["path"], failed["side"]), ("d/file", "remote"))
        self.assertIn(f"petrel: {HOST}: d/file: ", result.stderr)
        os.mkfifo(self.path("near/d/pipe"))
        result = self.copy("--json", self.path("near/d"), self.remote("far"), code=PARTIAL)
        sides = {event["path"]: event["side"] for event in result.events()
                 if event["event"] == "failed"}
        self.assertEqual(sides, {"d/file": "remote", "d/pipe": "local"})
        self.fails(NOT_FOUND, [f"{HOST}: ", "far/none"], source, self.remote("far/none/x"))
        self.assertEqual(self.petrel(code=USAGE, config=False).stderr, "")


class Start(hosts.Case):
    def setUp(self):
        super().setUp()
        self.source = self.write("near/file", 10)

    def far_script(self, text):
        """A far petrel that is this shell script."""
        return self.write("script", text=f"#!/bin/sh\n{text}\n", mode=0o755)

    def test_unknown_host(self):
        self.fails(SSH, ["nowhere.invalid", "ssh"], self.source, "nowhere.invalid:x")

    def test_ssh_refused(self):
        self.fails(SSH, "ssh", "-P", "1", self.source, self.remote("far"))
        self.fails(SSH, "ssh", "-o", "ControlPath=none", "-o", "PubkeyAuthentication=no", "-B",
                   self.source, self.remote("far"))

    def test_no_ssh(self):
        self.fails(SSH, "/nonexistent/ssh", "-S", "/nonexistent/ssh", self.source,
                   self.remote("far"))
        self.fails(NO_REMOTE, "exit status 1", "-e", "false", self.source, self.remote("far"))

    def test_petrel_is_missing(self):
        self.fails(NO_REMOTE, ["/nonexistent", "--remote-petrel"], self.source, self.remote("far"),
                   far_petrel="/nonexistent")
        self.petrel("-F", CONFIG, self.source, self.remote("far"), code=NO_REMOTE, config=False)

    def test_another_version(self):
        answer = "PETREL-REMOTE version=9.9 protocol=7-8 port=60000 address=none"
        self.fails(NO_REMOTE, ["9.9", "protocol 7 to 8", "petrel install"], self.source,
                   self.remote("far"), far_petrel=self.far_script(f"read line; echo {answer}"))
        line = "petrel-start secret=%064d session=%032d role=send ports=1-2 protocol=7-8" % (0, 0)
        done = subprocess.run([PETREL, "remote"], input=line + "\n", stdout=subprocess.PIPE,
                              text=True)
        self.assertEqual(done.returncode, NO_REMOTE)
        self.assertIn("PETREL-ERROR version", done.stdout)

    def test_answers_that_are_none(self):
        self.fails(NO_REMOTE, "no such account", self.source, self.remote("far"),
                   far_petrel=self.far_script("echo no such account"))
        self.fails(PROTOCOL, "port", self.source, self.remote("far"),
                   far_petrel=self.far_script("read line; echo PETREL-REMOTE port=0"))
        self.fails(PERMISSION, "not today", self.source, self.remote("far"),
                   far_petrel=self.far_script("echo PETREL-ERROR permission not today"))
        self.fails(NO_REMOTE, "exit status 7", self.source, self.remote("far"),
                   far_petrel=self.far_script("exit 7"))

    def test_escapes_from_the_far_end(self):
        result = self.copy(self.source, self.remote("far"), code=NO_REMOTE,
                           far_petrel=self.far_script(r"printf 'a\033[31mb\n'"))
        self.assertNotIn("\033", result.stderr)

    def test_junk_before_the_answer(self):
        junk = "echo welcome; printf 'PETREL-'; head -c 20000 /dev/zero; printf '\\n%% '"
        self.copy(self.source, self.remote("far"),
                  far_petrel=self.far_script(f"{junk}; exec {PETREL} \"$@\""))
        self.same_file("near/file", "far/file")

    def test_junk_after_the_answer(self):
        noisy = f"{PETREL} \"$@\"; code=$?; head -c 300000 /dev/zero; exit $code"
        self.copy(self.source, self.remote("far"), far_petrel=self.far_script(noisy))
        self.same_file("near/file", "far/file")

    def test_the_far_end_dies_right_after_its_answer(self):
        answer = "PETREL-REMOTE version=1 protocol=1-1 port=60999 address=none"
        result = self.fails(LOST, "status 3", self.source, self.remote("far"),
                            far_petrel=self.far_script(f"read line; echo {answer}; exit 3"))
        self.assertLess(result.seconds, 9)

    def test_no_port_is_free(self):
        far = subprocess.Popen([*FAR_EXEC, "python3", "-c", """
import socket, sys
sockets = []
for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    one = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind((address, 60123))
    sockets.append(one)
print("ready", flush=True)
sys.stdin.read()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(far.stdout.readline(), "ready\n")
            self.fails(UNREACHABLE, ["60123", HOST], "--udp=only", "--udp-ports", "60123",
                       self.source, self.remote("far"))
        finally:
            far.communicate("")

    def test_no_udp_passes(self):
        rules = "table inet t {\nchain c {\ntype filter hook input priority 0;\n" \
            "udp dport 60777 drop\n}\n}\n"
        subprocess.run([*FAR_EXEC, "nft", "-f", "-"], input=rules, text=True, check=True)
        try:
            result = self.fails(UNREACHABLE, ["60777", "--udp-ports", "within 10 s"],
                                "--udp-ports", "60777", "--udp=only", self.source,
                                self.remote("far"))
            self.assertGreater(result.seconds, 9.9)
            self.assertLess(result.seconds, 12.5) # as it says, and ssh's own time
        finally:
            subprocess.run([*FAR_EXEC, "nft", "delete", "table", "inet", "t"], check=True)

    def test_odd_ssh_configurations(self):
        with open(CONFIG) as config:
            plain = config.read()
        odd = self.write("config", text=f"""Match exec "true"
    AddressFamily inet
    RequestTTY force
    RemoteCommand echo hijacked
    LocalCommand echo hijacked
    PermitLocalCommand yes
    SendEnv LANG
    LocalForward 22099 localhost:1
Host far-by-alias
    HostName {HOST}
{plain}""")
        self.petrel("-F", odd, "--remote-petrel", PETREL, self.source,
                    f"far-by-alias:{self.path('far')}", config=False)
        self.same_file("near/file", "far/file")

    def test_ssh_configurations_that_forbid_commands(self):
        """What would leave petrel without its ends, or not started at all."""
        with open(CONFIG) as config:
            plain = config.read()
        for option in ("StdinNull yes", "SessionType none", "ForkAfterAuthentication yes"):
            odd = self.write("config", text=f"{option}\n{plain}")
            if subprocess.run(["ssh", "-G", "-F", odd, "x", "true"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode:
                self.skipTest("this ssh has no such options")
            for words in (["--no-reuse"], []):
                self.petrel("-F", odd, "--remote-petrel", PETREL, *words, "--checksum",
                            self.source, self.remote("far"), config=False)
                self.same_file("near/file", "far/file")

    def test_a_jump_host_needs_a_public_address(self):
        jump = ["-o", "ControlPath=none", "-o", f"ProxyCommand=ssh -F {CONFIG} -W %h:%p {HOST}"]
        self.fails(UNREACHABLE, "jump host", "--udp=only", *jump, self.source, self.remote("far"))

    def test_closed_descriptors(self):
        words = [PETREL, "-F", CONFIG, "--remote-petrel", PETREL, self.source, self.remote("far")]
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], timeout=60)
        self.assertEqual(done.returncode, 0)
        self.same_file("near/file", "far/file")

    def test_the_secret_is_in_no_argument_and_no_environment(self):
        seen = self.path("seen")
        script = self.far_script(f"tr '\\0' ' ' </proc/$$/cmdline >{seen}; "
                                 f"tr '\\0' '\\n' </proc/$$/environ >>{seen}; "
                                 f"tr '\\0' ' ' </proc/$PPID/cmdline >>{seen}; "
                                 f"tee {seen}.line | {PETREL} \"$@\"")
        process = self.start("-v", self.source, self.remote("far"), far_petrel=script)
        ssh = set()
        while process.poll() is None:
            for entry in os.listdir("/proc"):
                try:
                    with open(f"/proc/{entry}/cmdline") as file:
                        ssh.add(file.read())
                except OSError:
                    pass
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        with open(f"{seen}.line", errors="replace") as file:
            secret = re.search("secret=([0-9a-f]{64}) ", file.read()).group(1)
        with open(seen) as file:
            for text in [file.read(), result.stderr, result.stdout, *ssh]:
                self.assertNotIn(secret, text)
                self.assertNotIn(secret[:16], text)


class Ends(hosts.Case):
    """Interrupted or killed in the middle."""

    def slow_copy(self, *words, **keywords):
        """A copy that would take half a minute, once its bytes flow."""
        if not words:
            self.write("near/file", 8 * MIB)
            self.write("near/small/a", 10)
            words = [self.path("near/file"), self.path("near/small"), self.remote("far")]
        process = self.start("--limit", "2Mbit", *words, **keywords)
        flowing = hosts.wait_until(lambda: any(
            name.startswith(".petrel-") for folder in ("far", "back")
            if os.path.isdir(self.path(folder)) for name in os.listdir(self.path(folder))), 20)
        self.assertTrue(flowing, "no byte came")
        return process

    def ends(self, process, code, seconds):
        began = time.monotonic()
        result = self.finish(process, began)
        self.assertEqual(result.code, code, result.stderr)
        self.assertLess(result.seconds, seconds)
        return result

    def test_interrupt_a_push(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.slow_copy()
            process.send_signal(number)
            result = self.ends(process, INTERRUPTED, 3)
            self.assertIn("petrel: interrupted\n", result.stderr)
            self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 2))
            self.assertFalse(os.path.exists(self.path("far/file")))

    def test_interrupt_a_pull(self):
        self.write("far/file", 8 * MIB)
        os.mkdir(self.path("back"))
        process = self.slow_copy(self.remote("far/file"), self.path("back"))
        process.send_signal(signal.SIGINT)
        self.ends(process, INTERRUPTED, 3)
        self.assertEqual(os.listdir(self.path("back")), [])

    def test_interrupt_a_push_of_many_files(self):
        """What the far end has in hand is not written to its end."""
        count = 20000 # more than arrive while the signal is on its way
        for number in range(count):
            self.write(f"near/many/{number}", 600)
        process = self.start("-q", self.path("near/many"), self.remote("far"))
        many = self.path("far/many")
        self.assertTrue(hosts.wait_until(
            lambda: os.path.isdir(many) and len(os.listdir(many)) > 200, 20))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 5))
        if process.returncode != 0:
            self.assertEqual(process.returncode, INTERRUPTED)
            left = os.listdir(many)
            self.assertLess(len(left), count)
            self.assertEqual([name for name in left if name.startswith(".petrel-")], [])

    def test_a_far_end_that_only_talks(self):
        self.source = self.write("near/file", 10)
        self.fails(NO_REMOTE, ["goes on saying other things", "y"], self.source,
                   self.remote("far"), far_petrel="yes #")

    def test_interrupt_while_ssh_waits(self):
        go = self.path("go")
        script = self.write("script", text=f"#!/bin/sh\ntouch {go}\nexec sleep 60\n", mode=0o755)
        process = self.start("-o", "ControlPath=none", self.write("near/file", 10),
                             self.remote("far"), far_petrel=script)
        self.assertTrue(hosts.wait_until(lambda: os.path.exists(go), 20))
        process.send_signal(signal.SIGINT)
        result = self.ends(process, INTERRUPTED, 3)
        self.assertIn("interrupted", result.stderr)

    def test_interrupt_a_handshake_that_gets_no_answer(self):
        answer = "PETREL-REMOTE version=1 protocol=1-1 port=60999 address=none"
        go = self.path("go")
        script = self.write("script", mode=0o755,
                            text=f"#!/bin/sh\nread line\necho {answer}\ntouch {go}\ncat\n")
        process = self.start(self.write("near/file", 10), self.remote("far"), far_petrel=script)
        self.assertTrue(hosts.wait_until(lambda: os.path.exists(go), 20))
        time.sleep(0.5) # it has taken the answer, most likely
        process.send_signal(signal.SIGINT)
        self.ends(process, INTERRUPTED, 3)

    def test_kill_the_client(self):
        process = self.slow_copy()
        process.kill()
        process.wait()
        process.communicate()
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 8))
        self.assertFalse(os.path.exists(self.path("far/file")))
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")) in ([], ["small"]),
                                         2), os.listdir(self.path("far")))

    def test_kill_the_client_before_the_handshake(self):
        go = self.path("go")
        script = self.write("script", mode=0o755, text=f"""#!/bin/sh
{PETREL} "$@" | while read -r line; do touch {go}; sleep 2; echo "$line"; done
""")
        process = self.start(self.write("near/file", 10), self.remote("far"), far_petrel=script)
        self.assertTrue(hosts.wait_until(lambda: os.path.exists(go), 20))
        process.kill()
        process.communicate()
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 10))

    def kill_far(self, process):
        far = hosts.own_processes() - {process.pid}
        self.assertEqual(len(far), 1)
        os.kill(far.pop(), signal.SIGKILL)

    def test_kill_the_far_end(self):
        self.write("near/file", 8 * MIB)
        process = self.slow_copy("--retry-for", "0", self.path("near/file"), self.remote("far"))
        self.kill_far(process)
        result = self.ends(process, LOST, 15)
        self.assertIn("SSH session ended", result.stderr)
        self.assertNotIn(" verified", result.stderr)
        shutil.rmtree(self.path("far")) # what a killed receiver leaves is there for the next run
        os.mkdir(self.path("far"))

    def test_kill_the_far_end_of_a_pull(self):
        self.write("far/file", 8 * MIB)
        os.mkdir(self.path("back"))
        process = self.slow_copy("--retry-for", "0", self.remote("far/file"), self.path("back"))
        self.kill_far(process)
        self.ends(process, LOST, 15)
        self.assertEqual(os.listdir(self.path("back")), [])


class Corruption(hosts.Case):
    """One byte flipped on its way: the hash must notice."""

    def setUp(self):
        super().setUp()
        if not os.path.exists(HOOKS):
            self.skipTest("built without test_hooks")

    def flipped(self, size, push, where, after=""):
        at_sender = where == "reader"
        environment, far = dict(os.environ), HOOKS
        if at_sender == push:
            environment["PETREL_TEST_FLIP"] = where + after
        else:
            far = f"env PETREL_TEST_FLIP={where}{after} {HOOKS}"
        source = self.write("near/file" if push else "far/file", size)
        words = [source, self.remote("far/new")] if push else [self.remote("far/file"),
                                                               self.path("near/new")]
        process = subprocess.Popen([HOOKS, "-F", CONFIG, "--remote-petrel", far, *words],
                                   env=environment, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        result = self.finish(process)
        self.assertEqual(result.code, VERIFY, result.stderr)
        self.assertFalse(os.path.exists(self.path("far/new")))
        self.assertFalse(os.path.exists(self.path("near/new")))

    def test_reader(self):
        for push in (True, False):
            self.flipped(3 * MIB + 5, push, "reader")
        self.flipped(3 * MIB + 5, True, "reader", ":2")
        self.flipped(1000, True, "reader")

    def test_pool(self):
        for push in (True, False):
            self.flipped(3 * MIB + 5, push, "pool")
        self.flipped(3 * MIB + 5, False, "pool", ":2")
        self.flipped(1000, True, "pool")

    def test_write(self):
        for push in (True, False):
            self.flipped(3 * MIB + 5, push, "write")
        self.flipped(1000, False, "write")

    def test_petrel_itself_has_no_such_hook(self):
        source = self.write("near/file", 10)
        self.copy(source, self.remote("far"), env=dict(os.environ, PETREL_TEST_FLIP="reader"))
        self.same_file("near/file", "far/file")


class Attack(hosts.Case):
    def came(self):
        """Datagrams that the far host took in or had no room for."""
        lines = [line.split() for line in subprocess.check_output(
            [*FAR_EXEC, "cat", "/proc/net/snmp"], text=True).splitlines()
            if line.startswith("Udp: ")]
        counted = dict(zip(*lines))
        return int(counted["InDatagrams"]) + int(counted["RcvbufErrors"])

    def test_datagrams_of_a_stranger(self):
        source, before = self.write("near/file", 24 * MIB), self.came()
        with subprocess.Popen([*FAR_EXEC, ATTACK, "link0", "60500", "60500", "100000", "60"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as attack:
            if attack.stdout.readline() != "ready\n":
                self.skipTest("no raw sockets here: " + attack.stderr.read())
            result = self.copy("--json", "--udp-ports", "60500", "--limit", "120Mbit", source,
                               self.remote("far"))
            attack.terminate()
            sent, seen = (int(word) for word in attack.stdout.read().split() if word.isdigit())
        self.same_file("near/file", "far/file")
        self.assertTrue(result.events()[-1]["verified"])
        self.assertGreater(seen, 1000)
        self.assertGreater(sent, 10000)
        self.assertGreater(self.came() - before, sent // 2)


if __name__ == "__main__":
    hosts.main()
