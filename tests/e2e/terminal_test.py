#!/usr/bin/env python3
"""petrel copy on a terminal: the progress line, prompts, Ctrl-C.

    terminal_test.py PETREL PETREL_LAB [TEST...]
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import hosts
from hosts import CONFIG, HOST, MIB, PETREL

DRAWN = re.compile(rb"\r([^\r\n]*)\x1b\[K")


class Terminal:
    """A program with a pseudo-terminal of its own."""

    def __init__(self, words, width=80, environment=None):
        self.output, self.code = b"", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            time.sleep(0.05)  # for the width to be set
            os.execve(words[0], words, {**os.environ, "TERM": "xterm", **(environment or {})})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    def read_until(self, condition, seconds=hosts.TIMEOUT):
        """Reads until the condition on the output holds, or the program ends: whether it held."""
        deadline = time.monotonic() + seconds
        while not condition(self.output):
            ready, _, _ = select.select([self.fd], [], [], 0.1)
            if ready:
                try:
                    self.output += os.read(self.fd, 65536)
                except OSError:  # the other side is closed
                    return condition(self.output)
            if time.monotonic() > deadline:
                return False
        return True

    def type(self, text):
        os.write(self.fd, text)

    def finish(self):
        ended = not self.read_until(lambda output: False)
        if self.code is None:
            if not hosts.wait_until(self.poll, 5):
                os.kill(self.pid, signal.SIGKILL)
                self.poll()
            os.close(self.fd)
        return ended and self.code

    def poll(self):
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return pid != 0

    def lines(self):
        """What was drawn over and over."""
        return [line for line in DRAWN.findall(self.output) if line]


class Progress(hosts.Case):
    def start_copy(self, *options, size=3 * MIB, width=80, environment=None, push=True):
        source = self.write("near/file" if push else "far/file", size)
        words = [source, self.remote("far")] if push else [self.remote("far/file"),
                                                           self.path("near")]
        return Terminal([PETREL, "copy", "-F", CONFIG, "--remote-petrel", PETREL, "--limit",
                         "20Mbit", *options, *words], width, environment)

    def test_what_is_drawn(self):
        for push in (True, False):
            terminal = self.start_copy(push=push)
            self.assertEqual(terminal.finish(), 0, terminal.output)
            lines = terminal.lines()
            self.assertGreater(len(lines), 3)
            self.assertTrue(any(re.search(rb"\d MB of 3.15 MB  \d+%  .*B/s  .*RTT", line)
                                for line in lines), lines)
            self.assertTrue(any(b"ETA" in line for line in lines), lines)
            # The line is gone before anything that stays is printed.
            last = terminal.output.rsplit(b"\r\x1b[K", 1)[1]
            self.assertIn(b"verified in", last)
            self.assertNotIn(b"ETA", last)
            os.remove(self.path("far/file"))

    def test_what_is_waited_for(self):
        """A login that does not end is told after seconds, but not into ssh's own question."""
        asks = self.write("asks", mode=0o755, text="""#!/bin/sh
case " $* " in *" -G "*) exit 1;; esac
exec 3<>/dev/tty
printf 'continue (yes/no)? ' >&3
exec sleep 100
""")
        asked = self.start_copy("-S", asks)
        silent = self.start_copy("-o", "ControlPath=none", "-o", "ProxyCommand=sleep 100")
        said = f"still waiting for {HOST} to answer through ssh".encode()
        self.assertTrue(asked.read_until(lambda output: b"(yes/no)? " in output))
        self.assertTrue(silent.read_until(lambda output: said in output), silent.output)
        asked.read_until(lambda output: False, 3)
        self.assertNotIn(b"waiting", asked.output)
        for terminal in (silent, asked):
            terminal.type(b"\x03")
            self.assertEqual(terminal.finish(), 20, terminal.output)
            self.assertLess(terminal.output.count(said), 2)

    def test_how_long_nobody_has_answered(self):
        """Also while ssh tries to start the other end again."""
        terminal = self.start_copy("--no-reuse", "-o", "ControlPath=none", size=8 * MIB)
        self.assertTrue(terminal.read_until(lambda output: b"ETA" in output))
        for process in hosts.own_processes() - {terminal.pid}:
            os.kill(process, signal.SIGKILL)
        self.addCleanup(hosts.link, "set", "--loss", "0%", "--loss-back", "0%")
        self.assertTrue(terminal.read_until(lambda output: b"trying again" in output))
        hosts.link("set", "--loss", "100%", "--loss-back", "100%")
        self.assertTrue(terminal.read_until(
            lambda output: re.search(rb"no answer for [67]", output), 20), terminal.output[-300:])
        hosts.link("set", "--loss", "0%", "--loss-back", "0%")
        self.assertEqual(terminal.finish(), 0, terminal.output[-300:])

    def test_any_width(self):
        for width in (1, 2, 7, 20, 33, 50, 300):
            terminal = self.start_copy(size=600000, width=width)
            self.assertEqual(terminal.finish(), 0, terminal.output)
            for line in terminal.lines():
                self.assertLess(len(line), width)
            os.remove(self.path("far/file"))

    def test_no_colour(self):
        for environment in ({"NO_COLOR": "1"}, {}):
            terminal = self.start_copy(size=600000, environment=environment)
            self.assertEqual(terminal.finish(), 0, terminal.output)
            self.assertIsNone(re.search(rb"\x1b\[[0-9;]*m", terminal.output))
            os.remove(self.path("far/file"))

    def test_nothing_on_a_dumb_terminal_or_with_q(self):
        terminal = self.start_copy(size=600000, environment={"TERM": "dumb"})
        self.assertEqual(terminal.finish(), 0, terminal.output)
        self.assertNotIn(b"\x1b", terminal.output)
        os.remove(self.path("far/file"))
        terminal = self.start_copy("-q", size=600000)
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual(terminal.output, b"")

    def test_nothing_without_a_terminal(self):
        source = self.write("near/file", 600000)
        result = self.copy("--limit", "10Mbit", source, self.remote("far"))
        self.assertNotIn("\r", result.stderr)
        self.assertNotIn("\033", result.stderr)

    def test_only_after_the_prompts(self):
        prompt = self.write("ssh", mode=0o755, text="""#!/bin/sh
case " $* " in *" -G "*) exec ssh "$@";; esac
printf 'password: ' >/dev/tty
read -r answer </dev/tty
[ "$answer" = open ] || exit 255
exec ssh "$@"
""")
        terminal = self.start_copy("-S", prompt, size=600000)
        self.assertTrue(terminal.read_until(lambda output: b"password: " in output))
        time.sleep(0.5)
        terminal.read_until(lambda output: False, 0.3)
        self.assertEqual(terminal.output, b"password: ")
        terminal.type(b"open\n")
        self.assertEqual(terminal.finish(), 0, terminal.output)
        self.assertGreater(len(terminal.lines()), 0)

    def test_silence_is_told(self):
        self.silence_is_told("--loss", "100%", "--loss-back", "100%")

    def test_a_path_that_is_dead_one_way_only_is_told(self):
        """The far end's own packets still come in."""
        self.silence_is_told("--loss", "100%")

    def silence_is_told(self, *outage):
        terminal = self.start_copy(size=6 * MIB)
        self.assertTrue(terminal.read_until(lambda output: b"ETA" in output))
        hosts.link("set", *outage)
        try:
            told = terminal.read_until(
                lambda output: b"no answer for 3 s  waiting; Ctrl-C ends it" in output, 20)
        finally:
            hosts.link("set", "--loss", "0%", "--loss-back", "0%")
        self.assertTrue(told, terminal.output)
        self.assertEqual(terminal.finish(), 0, terminal.output)
        self.same_file("near/file", "far/file")

    def test_control_c(self):
        terminal = self.start_copy(size=8 * MIB)
        self.assertTrue(terminal.read_until(lambda output: b"ETA" in output))
        began = time.monotonic()
        terminal.type(b"\x03")
        self.assertEqual(terminal.finish(), 20, terminal.output)
        self.assertLess(time.monotonic() - began, 3)
        self.assertIn(b"petrel: interrupted", terminal.output)
        self.assertTrue(hosts.wait_until(lambda: not hosts.own_processes(), 2))
        self.assertEqual(os.listdir(self.path("far")), [])

    def test_control_c_at_a_prompt(self):
        prompt = self.write("ssh", mode=0o755, text="""#!/bin/sh
case " $* " in *" -G "*) exec ssh "$@";; esac
printf 'password: ' >/dev/tty
read -r answer </dev/tty
""")
        terminal = self.start_copy("-S", prompt)
        self.assertTrue(terminal.read_until(lambda output: b"password: " in output))
        terminal.type(b"\x03")
        self.assertEqual(terminal.finish(), 20, terminal.output)

    def test_verbose_lines_stand_clear_of_the_progress(self):
        for i in range(5):
            self.write(f"near/d/{i}", 300000)
        terminal = Terminal([PETREL, "copy", "-v", "-F", CONFIG, "--remote-petrel", PETREL,
                             "--limit", "8Mbit", self.path("near/d"), f"{HOST}:{self.path('far')}"])
        self.assertEqual(terminal.finish(), 0, terminal.output)
        visible = re.sub(rb"\r[^\r\n]*\x1b\[K", b"", terminal.output).replace(b"\r\n", b"\n")
        for line in visible.splitlines():
            self.assertTrue(line.startswith(b"petrel: "), line)


if __name__ == "__main__":
    hosts.main()
