#!/usr/bin/env python3
"""The connection of ssh that petrel keeps for a minute: used where it helps, in nobody's way.

    reuse_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import shutil
import signal
import socket
import stat
import subprocess
import time

import hosts
from hosts import CONFIG, FAR_EXEC, FAR_HOME, HOST, PETREL, TEMP

INTERRUPTED, NO_REMOTE, SSH = 20, 42, 255


class Reuse(hosts.Case):
    def setUp(self):
        super().setUp()
        self.source = self.write("near/file", 100000)
        self.runtime = self.path("run")
        os.mkdir(self.runtime, 0o700)
        self.sockets = os.path.join(self.runtime, "petrel-ssh")
        with open(CONFIG) as file:
            lines = [line for line in file if "ControlPath" not in line]
        self.config = self.write("config", text="".join(lines))
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.runtime)
        self.count = 0

    def tearDown(self):
        for pid in self.masters():
            os.kill(pid, signal.SIGKILL)
        super().tearDown()

    def masters(self):
        """Ids of ssh masters with a socket below our folder: their titles name it."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    title = file.read().decode(errors="replace")
            except OSError:
                continue
            if title.startswith("ssh: /") and self.folder in title:
                found.append(int(entry))
        return found

    def plain(self, *words, **keywords):
        keywords.setdefault("env", self.environment)
        return self.start("-F", self.config, "--remote-petrel", PETREL, *words, config=False,
                          **keywords)

    def arrives(self, *words, **keywords):
        self.count += 1
        began = time.monotonic()
        result = self.finish(self.plain("-B", *words, self.source,
                                        self.remote(f"far/{self.count}"), **keywords), began)
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/file", f"far/{self.count}")
        return result

    def logins(self):
        with open(os.path.join(TEMP, "sshd.log")) as file:
            return file.read().count("Accepted publickey")

    def socket(self):
        names = os.listdir(self.sockets)
        self.assertEqual(len(names), 1, names)
        return os.path.join(self.sockets, names[0])

    def test_the_second_copy_needs_no_login(self):
        before = self.logins()
        for _ in range(3):
            self.assertNotIn("ssh", self.arrives().stderr)
        self.assertEqual(self.logins(), before + 1)
        self.assertEqual(stat.S_IMODE(os.stat(self.sockets).st_mode), 0o700)
        self.assertRegex(os.path.basename(self.socket()), "^[0-9a-f]{16}$")
        self.assertEqual(len(self.masters()), 1)

    def test_no_reuse(self):
        before = self.logins()
        self.arrives("--no-reuse")
        self.assertFalse(os.path.exists(self.sockets))
        self.arrives()
        self.arrives("--no-reuse")
        self.assertEqual(self.logins(), before + 3)

    def test_other_options_mean_another_connection(self):
        before = self.logins()
        self.arrives()
        self.arrives("-o", "Ciphers=aes256-gcm@openssh.com")
        self.arrives()
        self.assertEqual(self.logins(), before + 2)

    def test_the_users_own_master(self):
        """In the configuration, or by -o: then petrel keeps out."""
        path = self.path("own-%C")
        with open(self.config, "a") as file:
            file.write(f"    ControlMaster auto\n    ControlPath {path}\n    ControlPersist 5\n")
        self.arrives()
        self.assertFalse(os.path.exists(self.sockets))
        self.arrives("-o", "ControlPath=none")
        self.assertFalse(os.path.exists(self.sockets))
        subprocess.run(["ssh", "-F", self.config, "-O", "exit", HOST], stderr=subprocess.DEVNULL)

    def test_a_master_that_was_killed(self):
        self.arrives()
        path = self.socket()
        for pid in self.masters():
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(os.path.exists(path))
        self.arrives()
        self.assertEqual(self.socket(), path)
        self.assertEqual(len(self.masters()), 1)

    def test_a_master_killed_in_mid_copy(self):
        self.write("near/big", 8 << 20)
        process = self.plain("-B", "--limit", "16Mbit", self.path("near/big"),
                             self.remote("far/big"))
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
        for pid in self.masters():
            os.kill(pid, signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.same_file("near/big", "far/big")

    def test_a_socket_that_answers_with_nonsense(self):
        """And one that takes connections and says nothing, as a master whose path is gone."""
        self.arrives()
        path = self.socket()
        for pid in self.masters():
            os.kill(pid, signal.SIGKILL)
        os.remove(path)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            self.assertLess(self.arrives().seconds, 20)
        os.path.exists(path) and os.remove(path)

    def test_a_master_whose_path_is_gone(self):
        """It takes the session and nothing comes: petrel goes round it within seconds."""
        self.arrives()
        first = self.masters()
        os.kill(first[0], signal.SIGSTOP)
        try:
            self.assertLess(self.arrives().seconds, 20)
        finally:
            os.kill(first[0], signal.SIGCONT)
        self.arrives()

    def test_a_start_that_takes_its_time(self):
        """The master has opened the session: then it is not the master that is slow."""
        self.arrives()
        before = self.logins()
        count = self.path("count")
        slow = self.write("slow", mode=0o755,
                          text=f"#!/bin/sh\necho >>{count}\nsleep 10\nexec {PETREL} \"$@\"\n")
        self.arrives("--remote-petrel", slow)
        self.assertEqual(os.path.getsize(count), 1)
        self.assertEqual(self.logins(), before)

    def test_a_petrel_that_a_signal_ends(self):
        """ssh ends with 255 then, as if it had failed itself: with a master it is known better."""
        for _ in range(2):
            result = self.finish(self.plain("-B", "--remote-petrel", "kill -9 $$ #", self.source,
                                            self.remote("far/x")))
            self.assertEqual(result.code, NO_REMOTE, result.stderr)
            self.assertIn("petrel was ended by a signal on", result.stderr)
            self.assertIn(f"{HOST} 'kill -9 $$ # version'", result.stderr)
        result = self.finish(self.plain("-B", "--no-reuse", "--remote-petrel", "kill -9 $$ #",
                                        self.source, self.remote("far/x")))
        self.assertEqual(result.code, SSH, result.stderr)
        self.assertIn("if a signal ended petrel there", result.stderr)

    def test_a_server_that_admits_one_session(self):
        """What the master refuses gets a connection of its own, and nobody is told."""
        self.arrives()
        there = [self.path(f"holder{number}") for number in range(10)] # sshd's limit of sessions
        holders = [subprocess.Popen(["ssh", "-F", self.config, "-S", self.socket(), HOST,
                                     f"touch {name}; sleep 60"], stdin=subprocess.PIPE)
                   for name in there]
        self.assertTrue(hosts.wait_until(lambda: all(map(os.path.exists, there)), 20))
        logins = self.logins()
        result = self.arrives()
        self.assertNotIn("mux", result.stderr)
        self.assertNotIn("ControlSocket", result.stderr)
        self.assertEqual(self.logins(), logins + 1)
        for holder in holders:
            holder.terminate()
            holder.communicate()

    def test_several_at_once(self):
        processes = [self.plain("-B", self.source, self.remote(f"far/at-once-{i}"))
                     for i in range(4)]
        for i, process in enumerate(processes):
            result = self.finish(process)
            self.assertEqual(result.code, 0, result.stderr)
            self.same_file("near/file", f"far/at-once-{i}")
            self.assertNotIn("ControlSocket", result.stderr)
        self.arrives()

    def test_who_reads_our_output_does_not_wait_for_the_master(self):
        words = [PETREL, "-F", self.config, "--remote-petrel", PETREL, "-B", self.source,
                 self.remote("far/new")]
        began = time.monotonic()
        done = subprocess.run(words, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - began, 20)
        master, = self.masters()
        for number in os.listdir(f"/proc/{master}/fd"):
            self.assertNotIn("pipe:", os.readlink(f"/proc/{master}/fd/{number}")
                             if int(number) < 3 else "")

    def test_the_master_survives_an_interrupt(self):
        """Ctrl-C goes to all that run in the foreground: the master does not."""
        self.write("near/big", 8 << 20)
        process = self.plain("-B", "--limit", "2Mbit", self.path("near/big"),
                             self.remote("far/big"), start_new_session=True)
        self.assertTrue(hosts.wait_until(lambda: os.listdir(self.path("far")), 20))
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.finish(process).code, INTERRUPTED)
        self.assertEqual(len(self.masters()), 1)
        before = self.logins()
        self.arrives()
        self.assertEqual(self.logins(), before)

    def test_folders_that_are_not_private(self):
        """A path too long, a folder that others may write: then nothing is kept."""
        os.mkdir(self.sockets, 0o700)
        os.chmod(self.sockets, 0o755)
        cache = self.path("cache")
        os.mkdir(cache)
        os.chmod(cache, 0o777)
        self.environment["XDG_CACHE_HOME"] = cache
        self.arrives()
        self.assertEqual(os.listdir(self.sockets), [])
        self.assertEqual(os.listdir(cache), [])
        os.chmod(self.sockets, 0o700)
        self.environment["XDG_RUNTIME_DIR"] = self.path("r" * 80)
        os.mkdir(self.path("r" * 80), 0o700)
        self.arrives()
        self.assertEqual(self.masters(), [])
        os.chmod(cache, 0o755)
        self.arrives()
        self.assertEqual(os.listdir(cache), ["petrel-ssh"])

    def test_a_jump_host_that_fails(self):
        """ssh hides what the jump says while it keeps a connection: so that is said."""
        words = ["-B", "-o", "ProxyCommand=echo no way >&2; exit 1", self.source,
                 self.remote("far/x")]
        result = self.finish(self.plain(*words))
        self.assertEqual(result.code, SSH)
        self.assertIn("--no-reuse shows what the jump host says", result.stderr)
        result = self.finish(self.plain("--no-reuse", *words))
        self.assertEqual(result.code, SSH)
        self.assertIn("no way", result.stderr)
        self.assertNotIn("--no-reuse", result.stderr)

    def test_install_uses_it(self):
        if not os.path.exists(os.path.join(os.path.dirname(PETREL), "petrel-static")):
            self.skipTest("built without petrel-static")
        result = self.finish(self.start("-B", "-F", self.config, self.source, self.remote("far/x"),
                                        config=False, env=self.environment))
        self.assertEqual(result.code, NO_REMOTE)
        before = self.logins()
        for command in ("install", "uninstall"):
            done = subprocess.run([PETREL, command, "-q", "-F", self.config, HOST],
                                  env=self.environment)
            self.assertEqual(done.returncode, 0)
        self.assertEqual(self.logins(), before)
        shutil.rmtree(os.path.join(FAR_HOME, ".cache"))


if __name__ == "__main__":
    hosts.main()
