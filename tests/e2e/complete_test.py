#!/usr/bin/env python3
"""Completion in real shells on a terminal: bash always, zsh and fish where they are installed.

    complete_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import pty
import select
import shutil
import signal
import subprocess
import time
import unittest

import hosts
from hosts import CONFIG, FAR_HOME, HOST, PETREL, ROOT, TEMP

COMPLETIONS = os.path.join(ROOT, "completions")
SHOW = "\x14"  # control-T: the shell writes its line into a file


def read_text(path):
    with open(path) as file:
        return file.read()


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, words, folder, environment):
        self.file = os.path.join(folder, "line")
        self.process, self.fd = pty.fork()
        if self.process == 0:
            try:
                os.chdir(folder)
                os.execvpe(words[0], words, dict(environment, LINE_FILE=self.file, TERM="vt100"))
            finally:
                os._exit(127)
        self.said = b""

    def type(self, text):
        os.write(self.fd, text.encode())

    def drain(self, seconds):
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                self.said += os.read(self.fd, 65536)
            except OSError:
                return

    def shown(self):
        """The line in the file, without its newline; waits for it."""
        deadline = time.monotonic() + 40
        while True:
            self.drain(0.05)
            if os.path.exists(self.file) and read_text(self.file).endswith("\n"):
                return read_text(self.file)[:-1]
            if time.monotonic() > deadline:
                raise AssertionError(f"no answer: {self.said[-2000:]}")

    def prepare(self, *commands):
        """Runs these in the shell, and waits until it is through with them."""
        for command in (*commands, "echo ready >$LINE_FILE"):
            self.type(command + "\n")
        self.shown()

    def line(self, text):
        """What the line is after the text, of which the end is a tab, was typed."""
        os.unlink(self.file)
        self.type("\x15" + text + SHOW)
        return self.shown()

    def close(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.fd)


class Base(hosts.Case):
    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        bin_folder = self.path("bin")
        os.makedirs(f"{self.home}/.ssh")
        os.mkdir(bin_folder)
        os.symlink(PETREL, f"{bin_folder}/petrel")
        self.write("home/.ssh/config", text="Host alpha.example.org *.pattern\n"
                   "Include more/*\n")
        self.write("home/.ssh/more/one", text="Host beta.example.org\n")
        self.write("home/.ssh/known_hosts",
                   text="[gamma.example.org]:2022,10.1.2.3 ssh-ed25519 AAAA\n|1|hash= ssh-rsa A\n")
        # ssh itself does not obey HOME: the far host is reached by -F, as in every test.
        self.config = self.write("F", text=read_text(CONFIG))
        self.environment = dict(os.environ, HOME=self.home, PATH=f"{bin_folder}:{os.environ['PATH']}")
        for name in ("near/zebra.txt", "near/zoo/x", "near/with blank (1).txt", "near/.hidden"):
            self.write(name)

    def answer(self, *words, mode="plain"):
        done = subprocess.run([PETREL, "--complete", mode, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=self.near,
                              env=self.environment, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line.split("\t")[0] for line in done.stdout.splitlines()]


class Answers(Base):
    def test_commands_options_and_values(self):
        self.assertEqual(self.answer("doc"), ["doctor"])
        self.assertIn("copy", self.answer(""))
        self.assertEqual(self.answer("--udp-p"), ["--udp-ports="])
        self.assertEqual(self.answer("--udp="), ["--udp=auto", "--udp=only", "--udp=never"])
        self.assertEqual(self.answer("x", "--policy", "f"), ["fair", "fixed:"])
        self.assertEqual(self.answer("doctor", "--no-d"), ["--no-disk"])
        self.assertEqual(self.answer("bench", "--policy=b"), ["--policy=background"])
        self.assertEqual(self.answer("--", "--udp"), [])
        self.assertEqual(self.answer("version", ""), [])

    def test_every_option_of_every_command(self):
        for command in ("copy", "bench", "doctor", "install", "paths", "config", "ls", "manifest", "verify",
                        "clean"):
            text = subprocess.check_output([PETREL, command, "--help"], text=True)
            known = {word.split("=")[0].split("[")[0] for line in text.splitlines()
                     for word in line.split()[:2] if line.startswith("  ")
                     and word.startswith("--")}
            offered = {word.rstrip("=") for word in self.answer(command, "--")}
            self.assertEqual(known, offered, command)
            self.assertGreater(len(offered), 2)

    def test_hosts(self):
        found = self.answer("f", "")
        for host in ("alpha.example.org:", "beta.example.org:", "gamma.example.org:", "10.1.2.3:"):
            self.assertIn(host, found)
        self.assertFalse([word for word in found if "|" in word or "*" in word])
        self.assertEqual(self.answer("doctor", "me@al"), ["me@alpha.example.org"])
        self.assertEqual(self.answer("me@be"), ["me@beta.example.org:"])
        self.assertEqual(self.answer("-J", "gam"), ["gamma.example.org"])

    def test_files_here(self):
        self.assertEqual(sorted(self.answer("-F", "z")), ["zebra.txt", "zoo/"])
        self.assertEqual(self.answer("zoo/"), ["zoo/x"])
        self.assertEqual(self.answer(".h"), [".hidden"])
        self.assertEqual(self.answer("--exclude-from=ze"), ["--exclude-from=zebra.txt"])
        self.assertEqual(self.answer(r"with\ b", mode="bash"), [r"with\ blank\ \(1\).txt"])
        self.assertEqual(self.answer("~/.ssh/kn"), ["~/.ssh/known_hosts"])

    def test_paths_over_there(self):
        for name in ("deep/one/x", "deep/two.txt", "deep/with blank.txt"):
            self.write("far/" + name)
        os.symlink("one", self.path("far/deep/alink"))
        self.write("far/deep/tab\tname")
        base = f"{HOST}:{self.path('far')}"
        self.assertEqual(self.answer("-F", self.config, f"{base}/de"), [f"{base}/deep/"])
        self.assertEqual(sorted(self.answer("-F", self.config, f"{base}/deep/")),
                         [f"{base}/deep/{name}" for name in
                          ("alink/", "one/", "two.txt", "with blank.txt")])
        self.assertEqual(self.answer("-F", self.config, f"{base}/deep/wi", mode="bash"),
                         [rf"{base}/deep/with\ blank.txt"])
        self.assertEqual(self.answer("-F", self.config, f"{base}/nothing/"), [])
        self.assertEqual(self.answer("clean", "-F", self.config, f"{base}/de"), [f"{base}/deep/"])
        os.mkdir(f"{FAR_HOME}/inhome")
        self.addCleanup(os.rmdir, f"{FAR_HOME}/inhome")
        self.assertEqual(self.answer("-F", self.config, f"{HOST}:inh"), [f"{HOST}:inhome/"])
        self.assertEqual(self.answer("-F", self.config, f"{HOST}:~/inh"), [f"{HOST}:~/inhome/"])

    def test_nobody_is_asked(self):
        """A login that needs a password gives no names, at once, and asks nobody."""
        config = self.write("keyless", text="".join(
            line for line in read_text(self.config).splitlines(True) if "IdentityFile" not in line and
            "ControlPath" not in line).replace("IdentitiesOnly yes", "IdentityFile /dev/null"))
        asked = self.path("asked")
        script = self.write("ask", text=f"#!/bin/sh\ntouch {asked}\n", mode=0o755)
        self.environment.update(SSH_ASKPASS=script, SSH_ASKPASS_REQUIRE="force", DISPLAY=":9")
        began = time.monotonic()
        self.assertEqual(self.answer("-F", config, f"{HOST}:/"), [])
        self.assertLess(time.monotonic() - began, 30)
        self.assertFalse(os.path.exists(asked))

    def test_a_connection_is_kept_for_the_next(self):
        config = self.write("unshared", text="".join(
            line for line in read_text(self.config).splitlines(True) if "ControlPath" not in line))
        runtime = self.path("run")
        os.mkdir(runtime, 0o700)
        self.environment["XDG_RUNTIME_DIR"] = runtime

        def logins():
            with open(os.path.join(TEMP, "sshd.log")) as log:
                return log.read().count("Accepted publickey")

        before = logins()
        for _ in range(3):
            self.assertIn(f"{HOST}:/usr/", self.answer("-F", config, f"{HOST}:/us"))
        self.assertEqual(logins(), before + 1)
        socket, = os.listdir(f"{runtime}/petrel-ssh")
        subprocess.run(["ssh", "-F", config, "-S", f"{runtime}/petrel-ssh/{socket}", "-O", "exit",
                        HOST], check=True, stderr=subprocess.DEVNULL)


class Shells(Base):
    def check(self, terminal):
        try:
            for typed, line in (
                    ("petrel doct", "petrel doctor "),
                    ("petrel --polic", "petrel --policy="),
                    ("petrel --policy=back", "petrel --policy=background "),
                    ("petrel --udp-ports 7 zeb", "petrel --udp-ports 7 zebra.txt "),
                    ("petrel zo", "petrel zoo/"),
                    ("petrel zebra.txt alph", "petrel zebra.txt alpha.example.org:"),
                    ("petrel wit", "petrel with\\ blank\\ \\(1\\).txt "),
                    (f"petrel -F {self.config} {HOST}:{self.path('far')}/dee",
                     f"petrel -F {self.config} {HOST}:{self.path('far')}/deep/"),
                    (f"petrel -F {self.config} {HOST}:{self.path('far')}/deep/tw",
                     f"petrel -F {self.config} {HOST}:{self.path('far')}/deep/two\\ words.txt ")):
                self.assertEqual(terminal.line(typed + "\t"), line)
        finally:
            terminal.close()

    def setUp(self):
        super().setUp()
        self.write("far/deep/two words.txt")

    def test_bash(self):
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], self.near, self.environment)
        terminal.prepare(f". {COMPLETIONS}/petrel.bash",
                         "show() { printf '%s\\n' \"$READLINE_LINE\" >$LINE_FILE; }",
                         "bind -x '\"\\C-t\": show'")
        self.check(terminal)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh(self):
        terminal = Terminal(["zsh", "-f", "-i"], self.near, self.environment)
        terminal.prepare(f"fpath=({COMPLETIONS} $fpath); autoload -U compinit; compinit -u -D",
                         "show() { print -r -- \"$BUFFER\" >$LINE_FILE }; zle -N show",
                         "bindkey -e; bindkey '^T' show; unsetopt list_beep")
        self.check(terminal)

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish(self):
        environment = dict(self.environment, XDG_CONFIG_HOME=self.path("fishy"),
                           XDG_DATA_HOME=self.path("fishy"))

        def offered(line):
            done = subprocess.run(
                ["fish", "--no-config", "-c",
                 f"source {COMPLETIONS}/petrel.fish; complete -C '{line}'"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.near,
                env=environment, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [one.split("\t")[0] for one in done.stdout.splitlines()]

        self.assertEqual(offered("petrel doct"), ["doctor"])
        self.assertEqual(offered("petrel --udp="), ["--udp=auto", "--udp=never", "--udp=only"])
        self.assertEqual(offered("petrel zebra.txt alph"), ["alpha.example.org:"])
        far = f"{HOST}:{self.path('far')}/deep/"
        self.assertEqual(offered(f"petrel -F {self.config} {far}tw"), [f"{far}two words.txt"])


if __name__ == "__main__":
    hosts.main()
