#!/usr/bin/env python3
"""petrel install and uninstall, and copies to a host that has no petrel yet.

    install_test.py PETREL PETREL_LAB [TEST...]
"""
import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import stat
import subprocess
import termios
import time

import hosts
from hosts import CONFIG, FAR_HOME, HOST, MIB, PETREL

OK, USAGE, INTERRUPTED, VERIFY, NO_REMOTE = 0, 1, 20, 41, 42
NO_SPACE, PERMISSION, NOT_FOUND, EXISTS, SSH = 43, 44, 47, 48, 255
STATIC = os.path.join(os.path.dirname(PETREL), "petrel-static")
BASIC_TOOLS = ("sh", "cat", "mkdir", "mv", "chmod", "uname", "wc", "rm", "rmdir")


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Script(hosts.Case):
    """What runs over there, with a stand-in for ssh: a script that runs its last argument."""

    def setUp(self):
        super().setUp()
        self.folder_there = self.path("far/.cache/petrel")
        self.there = os.path.join(self.folder_there, "petrel")

    def stand_in(self, before="", shell="sh", path=None, prefix=""):
        """`before` is what the program's bytes go through on their way, with its pipe."""
        return self.write("ssh", mode=0o755, text=f"""#!/bin/sh
for command; do :; done
{before} env -u XDG_CACHE_HOME HOME={self.path("far")} {'PATH=' + path if path else ''} {prefix} \\
    {shell} -c "$command"
""")

    def act(self, command, code=OK, **keywords):
        result = self.petrel(command, "-e", self.stand_in(**keywords), "there", code=code,
                             config=False)
        if code != OK:
            own = result.stderr.splitlines()
            self.assertEqual(len(own), 1, result.stderr)
            self.assertTrue(own[0].startswith("petrel: "), own)
        return result

    def nothing_is_there(self):
        self.assertFalse(os.path.exists(self.folder_there))

    def old_is_there(self):
        self.assertEqual(read(self.there), b"old")
        self.assertEqual(os.listdir(self.folder_there), ["petrel"])

    def put_old(self):
        os.makedirs(self.folder_there, exist_ok=True)
        with open(self.there, "wb") as file:
            file.write(b"old")

    def test_install_again_and_uninstall(self):
        result = self.act("install")
        self.assertRegex(result.stdout, r"^petrel \S+ \([0-9.]+ MB\) is on there in "
                                        r"~/.cache/petrel/petrel, checked\n$")
        self.assertEqual(read(self.there), read(STATIC))
        self.assertEqual(stat.S_IMODE(os.stat(self.there).st_mode), 0o755)
        self.assertEqual(stat.S_IMODE(os.stat(self.folder_there).st_mode), 0o700)
        number = os.stat(self.there).st_ino
        self.assertIn("already, checked", self.act("install").stdout)
        self.assertEqual(os.stat(self.there).st_ino, number)
        self.assertEqual(os.listdir(self.folder_there), ["petrel"])
        self.assertIn("gone from there", self.act("uninstall").stdout)
        self.nothing_is_there()
        self.assertIn("no petrel on there", self.act("uninstall").stdout)

    def test_uninstall_leaves_what_is_not_its_own(self):
        self.act("install")
        self.write("far/.cache/petrel/other", 3)
        self.write("far/.cache/petrel/.petrel-install-1", 3)
        self.act("uninstall")
        self.assertEqual(os.listdir(self.folder_there), ["other"])

    def test_another_version_is_replaced(self):
        self.put_old()
        os.chmod(self.there, 0o755)
        self.act("install")
        self.assertEqual(read(self.there), read(STATIC))
        os.chmod(self.there, 0o600) # the right bytes, but they cannot run
        self.act("install")
        self.assertEqual(stat.S_IMODE(os.stat(self.there).st_mode), 0o755)

    def test_any_login_shell(self):
        for shell in ("bash", "csh", "tcsh", "fish", "zsh", "ksh"):
            if shutil.which(shell):
                self.act("install", shell=shell)
                self.assertEqual(read(self.there), read(STATIC), shell)
                self.act("uninstall", shell=shell)
                self.nothing_is_there()

    def test_basic_tools_suffice(self):
        tools = self.path("tools")
        os.mkdir(tools)
        for name in BASIC_TOOLS:
            os.symlink(shutil.which(name), os.path.join(tools, name))
        for _ in range(2):
            result = self.act("install", path=tools)
        self.assertIn("already", result.stdout)
        self.assertEqual(read(self.there), read(STATIC))
        self.act("uninstall", path=tools)
        self.nothing_is_there()

    def test_busybox(self):
        busybox = shutil.which("busybox")
        if busybox is None:
            self.skipTest("no busybox here")
        tools = self.path("tools")
        os.mkdir(tools)
        for name in (*BASIC_TOOLS, "sha256sum"):
            os.symlink(busybox, os.path.join(tools, name))
        for _ in range(2):
            result = self.act("install", path=tools)
        self.assertIn("already", result.stdout)

    def test_a_truncated_upload_is_refused(self):
        cut = "head -c 1000003 |"
        self.assertIn("only 1000000 of", self.act("install", VERIFY, before=cut).stderr)
        self.nothing_is_there()
        self.put_old()
        self.act("install", VERIFY, before=cut)
        self.old_is_there()

    def test_a_changed_byte_is_refused(self):
        flip = self.write("flip", text="import sys\ndata = bytearray(sys.stdin.buffer.read())\n"
                                       "data[9000000] ^= 1\nsys.stdout.buffer.write(data)\n")
        self.put_old()
        result = self.act("install", VERIFY, before=f"python3 {flip} |")
        self.assertIn("other bytes came", result.stderr)
        self.old_is_there()

    def test_interrupted_in_the_middle(self):
        gate = self.path("gate")
        os.mkfifo(gate)
        script = self.stand_in(before=f"{{ head -c 1000000; cat {gate}; }} |")
        process = self.start("install", "-e", script, "there", config=False)
        self.assertTrue(hosts.wait_until(lambda: os.path.isdir(self.folder_there) and
                                         os.listdir(self.folder_there), 20))
        process.send_signal(signal.SIGINT)
        process.wait(10)
        os.close(os.open(gate, os.O_WRONLY)) # the connection's end arrives over there
        result = self.finish(process)
        self.assertEqual(result.code, INTERRUPTED, result.stderr)
        self.assertEqual(result.stderr, "petrel: interrupted\n")
        self.assertTrue(hosts.wait_until(lambda: not os.path.exists(self.folder_there), 10))

    def test_a_read_only_cache(self):
        prefix = shlex.join(hosts.unprivileged())
        os.mkdir(self.path("far/.cache"), 0o555)
        result = self.act("install", PERMISSION, prefix=prefix)
        self.assertIn(".cache/petrel", result.stderr)
        self.assertIn("Permission denied", result.stderr)
        os.chmod(self.path("far/.cache"), 0o755)
        self.put_old()
        os.chmod(self.folder_there, 0o555)
        for command in ("install", "uninstall"):
            result = self.act(command, PERMISSION, prefix=prefix)
            self.assertIn("Permission denied", result.stderr)
        self.old_is_there()
        os.chmod(self.folder_there, 0o755)

    def test_no_space(self):
        cache = self.path("far/.cache")
        os.mkdir(cache)
        mount = f"mount -t tmpfs -o size=3m small {cache}"
        if subprocess.run(["unshare", "-m", "sh", "-c", mount],
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a small file system here")
        left = self.path("left")
        inner = f'{mount} && "$@"; ls -A {cache} >{left}'
        result = self.act("install", NO_SPACE,
                          prefix=f"unshare -m sh -c {shlex.quote(inner)} sh")
        self.assertIn("No space left", result.stderr)
        self.assertEqual(read(left), b"")

    def test_something_else_is_in_the_way(self):
        self.write("far/.cache", 3)
        self.act("install", EXISTS)
        os.remove(self.path("far/.cache"))
        os.makedirs(self.there)
        result = self.act("install", EXISTS)
        self.assertIn("is a folder", result.stderr)

    def test_a_machine_of_another_kind(self):
        tools = self.path("tools")
        os.mkdir(tools)
        uname = self.write("tools/uname", text="#!/bin/sh\necho Darwin arm64\n", mode=0o755)
        result = self.act("install", NO_REMOTE, path=f"{os.path.dirname(uname)}:$PATH")
        self.assertIn("Darwin arm64", result.stderr)
        self.nothing_is_there()

    def test_no_shell_over_there(self):
        result = self.act("install", SSH, shell="echo this is an appliance; :")
        self.assertIn("this is an appliance", result.stderr)
        self.act("install", SSH, shell="sh -c 'exit 3'")

    def test_nothing_to_send(self):
        alone = shutil.copy(PETREL, self.path("petrel"))
        done = subprocess.run([alone, "install", "-e", self.stand_in(), "there"],
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, NOT_FOUND)
        self.assertIn("came without petrel-static", done.stderr)
        self.nothing_is_there()

    def test_installed_places(self):
        """As make install lays it out; and a static petrel sends itself."""
        os.makedirs(self.path("usr/bin"))
        os.makedirs(self.path("usr/libexec/petrel"))
        shutil.copy(PETREL, self.path("usr/bin/petrel"))
        shutil.copy(STATIC, self.path("usr/libexec/petrel/petrel-static"))
        for program in ("usr/bin/petrel", "usr/libexec/petrel/petrel-static"):
            subprocess.run([self.path(program), "install", "-q", "-e", self.stand_in(), "there"],
                           check=True)
            self.assertEqual(read(self.there), read(STATIC))
            self.act("uninstall")

    def test_operands(self):
        for words in ((), ("a", "b"), ("a:path",), ("./a",), ("-4", "-6", "a"), ("-P", "x", "a"),
                      ("scp://a/path",), ("",)):
            result = self.petrel("install", *words, code=USAGE, config=False)
            self.assertEqual(len(result.stderr.splitlines()), 1, words)
        show = self.write("show", text='#!/bin/sh\nshift $(($# - 2))\necho "$1"\n', mode=0o755)
        for word, host in (("a", "a"), ("u@a", "u@a"), ("a:", "a"), ("::1", "::1"),
                           ("[::1]", "::1"), ("u@[::1]:", "u@::1"), ("scp://u@a:22/", "u@a")):
            result = self.petrel("install", "-e", show, word, code=SSH, config=False)
            self.assertIn(f"said instead: {host};", result.stderr)


class Copy(hosts.Case):
    """Through the real ssh, to a host whose home is empty."""

    def setUp(self):
        super().setUp()
        self.there = os.path.join(FAR_HOME, ".cache/petrel/petrel")
        self.source = self.write("near/file", MIB)

    def tearDown(self):
        def gone():
            for entry in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if os.readlink(f"/proc/{entry}/exe").startswith(FAR_HOME):
                        return False
                except OSError:
                    pass
            return True
        self.assertTrue(hosts.wait_until(gone, 5), "still running over there")
        shutil.rmtree(os.path.join(FAR_HOME, ".cache"), ignore_errors=True)
        super().tearDown()

    def plain(self, *words, **keywords):
        """A copy that has to find petrel over there by itself."""
        return self.copy("-F", CONFIG, *words, config=False, **keywords)

    def test_install_then_copy_then_uninstall(self):
        result = self.petrel("install", HOST)
        self.assertIn(f"is on {HOST} in ~/.cache/petrel/petrel, checked", result.stdout)
        self.assertIn("already, checked", self.petrel("install", HOST).stdout)
        self.plain(self.source, self.remote("far/new"))
        self.same_file("near/file", "far/new")
        self.plain(self.remote("far/new"), self.path("near/back"))
        self.same_file("near/file", "near/back")
        self.petrel("uninstall", HOST)
        self.assertEqual(os.listdir(os.path.join(FAR_HOME, ".cache")), [])
        self.plain(self.source, self.remote("far/new"), code=NO_REMOTE)

    def test_in_one_go(self):
        result = self.plain("--install", self.source, self.remote("far/new"))
        self.same_file("near/file", "far/new")
        self.assertIn("~/.cache/petrel/petrel, checked", result.stderr)
        result = self.plain("--install", "--json", self.source, self.remote("far/again"))
        self.assertNotIn("checked", result.stderr)
        self.assertTrue(result.events()[-1]["verified"])

    def test_another_version_over_there(self):
        place = os.path.join(FAR_HOME, ".cache", "petrel")
        os.makedirs(place)
        answer = "PETREL-REMOTE version=9.9 protocol=7-8 port=60000 address=none"
        with open(os.path.join(place, "petrel"), "w") as file:
            file.write(f"#!/bin/sh\nread line\necho {answer}\n")
        os.chmod(file.name, 0o755)
        result = self.plain(self.source, self.remote("far/new"), code=NO_REMOTE)
        self.assertIn(f"petrel install {HOST}", result.stderr)
        self.plain("--install", self.source, self.remote("far/new"))
        self.same_file("near/file", "far/new")

    def test_in_one_go_says_nothing_on_stdout(self):
        result = self.plain("--install", "--json", "-q", self.source, self.remote("far/new"))
        self.assertTrue(result.events()[-1]["verified"])
        self.assertEqual(result.stderr, "")

    def test_the_refusal_names_the_command(self):
        result = self.plain("-o", "ServerAliveInterval 5", self.source, self.remote("far/new"),
                            code=NO_REMOTE)
        command = f"petrel install -F {CONFIG} -o 'ServerAliveInterval 5' {HOST} "
        self.assertIn(f"send it there with: {command}", result.stderr)
        self.assertEqual(os.listdir(FAR_HOME), [])
        self.assertEqual(os.listdir(self.path("far")), [])

    def on_terminal(self, answers, code, *words):
        """The copy with a terminal of its own; each question is answered by the next answer."""
        terminal, slave = pty.openpty()
        process = self.start("copy", "-F", CONFIG, *words, self.source, self.remote("far/new"),
                             config=False, stdin=slave, stderr=slave, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        screen, answers, deadline = "", list(answers), time.monotonic() + 30
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                screen += os.read(terminal, 4096).decode(errors="replace")
            except OSError: # all who had it open are gone
                break
            if answers and screen.endswith("[Y/n] "):
                os.write(terminal, answers.pop(0).encode())
        os.close(terminal)
        result = self.finish(process)
        self.assertEqual(result.code, code, screen)
        self.assertEqual(answers, [], screen)
        return screen

    def test_the_question(self):
        screen = self.on_terminal(["n\n"], NO_REMOTE)
        self.assertRegex(screen, rf"petrel is not on {HOST}\. Send it \([0-9.]+ MB to "
                                 r"~/\.cache/petrel\)\? \[Y/n\] ")
        self.assertIn("send it there with: petrel install", screen)
        self.on_terminal(["what\n", "N\n"], NO_REMOTE)
        self.on_terminal(["\x04"], NO_REMOTE)
        self.assertIn("interrupted", self.on_terminal(["\x03"], INTERRUPTED))
        self.assertNotIn("[Y/n]", self.on_terminal([], NO_REMOTE, "-B"))
        self.assertEqual(os.listdir(FAR_HOME), [])
        self.assertEqual(os.listdir(self.path("far")), [])
        self.assertIn("checked", self.on_terminal(["y\n"], OK))
        self.same_file("near/file", "far/new")

    def test_enter_means_yes(self):
        self.on_terminal(["\n"], OK)
        self.same_file("near/file", "far/new")

    def test_ssh_refused(self):
        result = self.petrel("install", "-P", "1", HOST, code=SSH)
        self.assertIn("petrel: ssh could not start a session", result.stderr)


if __name__ == "__main__":
    hosts.main()
