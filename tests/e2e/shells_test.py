#!/usr/bin/env python3
"""petrel started through login shells of every kind, and through what their start-up files print.

    shells_test.py PETREL PETREL_LAB [TEST...]

Case 6 of the situations that users reported (start-up files, other shells), and case 5 (petrel
where the PATH does not lead). sshd itself starts the shells: the far host's account gets them.
"""
import contextlib
import os
import pwd
import shutil
import subprocess
import time

import hosts
from hosts import CONFIG, FAR_HOME, HOST, MIB, PETREL, TEMP

NO_REMOTE, PROTOCOL = 42, 12
BOUND = 30 # seconds in which all is said, whatever a shell does
PASSWD = os.path.join(TEMP, "etc", "passwd")
# Each as a word of its own, the last as hosts know BusyBox: by the name it is called.
SHELLS = {"bash": ["bash"], "dash": ["dash"], "fish": ["fish"], "csh": ["csh"], "tcsh": ["tcsh"],
          "zsh": ["zsh"], "ksh": ["ksh"], "busybox ash": ["busybox"]}
START_FILES = {"bash": ".bashrc", "fish": ".config/fish/config.fish", "csh": ".cshrc",
               "tcsh": ".cshrc", "zsh": ".zshenv"}


def find_shell(name):
    """Where sshd can start it, or None."""
    program = shutil.which(SHELLS[name][0])
    if name != "busybox ash" or program is None:
        return program
    link = os.path.join(TEMP, "ash")
    if not os.path.islink(link):
        os.symlink(program, link)
    return link


class Shells(hosts.Case):
    def setUp(self):
        super().setUp()
        self.source = self.write("near/file", 100000)
        self.count = 0
        with open(PASSWD) as file:
            self.accounts = file.read()
        if not self.accounts_hold():
            self.skipTest("the far host's accounts cannot be changed here")

    def tearDown(self):
        self.set_accounts(self.accounts)
        for name in os.listdir(FAR_HOME):
            path = os.path.join(FAR_HOME, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        super().tearDown()

    def set_accounts(self, text):
        """In place: the far host sees this very file, mounted over its own."""
        with open(PASSWD, "r+") as file:
            file.write(text)
            file.truncate()

    def accounts_hold(self):
        """Whether the far host sees our accounts: without a mount it has the real ones."""
        command = subprocess.run(["ssh", "-F", CONFIG, HOST, "cat /etc/passwd"], text=True,
                                 stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        return command.stdout == self.accounts

    def login_shell(self, program):
        uid = int(os.environ["PETREL_HOSTS_UID"])
        user = pwd.getpwuid(uid).pw_name
        lines = []
        for line in self.accounts.splitlines():
            words = line.split(":")
            if words[0] == user:
                words[6] = program
            lines.append(":".join(words))
        self.set_accounts("\n".join(lines) + "\n")

    def each_shell(self, *names):
        """Names of the shells that are here, each the account's in its turn."""
        found = {name: find_shell(name) for name in names or SHELLS}
        missing = [name for name in found if found[name] is None]
        if missing:
            print(f"shells_test: not tried, for they are not here: {', '.join(missing)}")
        for name, program in found.items():
            if program is not None:
                self.login_shell(program)
                yield name

    def start_file(self, shell, text):
        path = os.path.join(FAR_HOME, START_FILES[shell])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def own(self, *words, **keywords):
        """A copy with a connection of its own, so that the account's shell is looked up anew."""
        result = self.copy("-B", "-o", "ControlPath=none", *words, **keywords)
        self.assertLess(result.seconds, BOUND)
        return result

    def arrives(self, **keywords):
        self.count += 1
        name = f"far/{self.count}"
        result = self.own(self.source, self.remote(name), **keywords)
        self.same_file("near/file", name)
        return result

    @contextlib.contextmanager
    def petrel_at(self, folder):
        """petrel in a folder of the far home, which no PATH names."""
        os.makedirs(os.path.join(FAR_HOME, folder))
        place = os.path.join(FAR_HOME, folder, "petrel")
        with open(place, "w") as file:
            file.write(f"#!/bin/sh\ntouch {FAR_HOME}/was-run\nexec {PETREL} \"$@\"\n")
        os.chmod(place, 0o755)
        yield
        shutil.rmtree(os.path.join(FAR_HOME, folder))

    def test_case_06_login_shells(self):
        """Those that read no start-up file; the others come next."""
        for _ in self.each_shell(*[name for name in SHELLS if name not in START_FILES]):
            self.arrives()

    def test_case_06_start_up_files_of_every_shell(self):
        """A line, a megabyte, bytes of all kinds, and something before the answer in its line."""
        noise = self.write("noise", MIB)
        with open(noise, "ab") as file:
            file.write(b"\0\0PETREL-REMOTE\0\377PETREL-ERROR\n\r\0 PETREL-")
        for name in self.each_shell(*START_FILES):
            self.start_file(name, f"echo Welcome to this host\ncat {noise}\n")
            self.arrives()

    def test_case_06_one_by_one(self):
        noise = self.write("noise", text="All work and no play makes Jack a dull boy. \n" * 24000)
        self.login_shell(find_shell("bash"))
        for line in ("echo Welcome to this host", "printf 'Password check: ok; PETREL-'",
                     f"cat {noise}", "printf '\\0\\1\\377\\033[2J'"):
            self.start_file("bash", f"{line}\n")
            self.arrives()

    def test_case_06_megabytes(self):
        """Read by the block, whatever they are, up to a limit that is named."""
        self.login_shell(find_shell("bash"))
        noise = self.write("noise", 3 * MIB)
        for line in (f"cat {noise}", "head -c 7000000 /dev/zero"):
            self.start_file("bash", f"{line}\n")
            self.arrives()
        self.start_file("bash", "head -c 20000000 /dev/zero\n")
        self.fails(NO_REMOTE, [HOST, "8 MiB", "(unprintable)", "start-up files"], "-B", "-o",
                   "ControlPath=none", self.source, self.remote("far"))

    def test_case_06_an_empty_path(self):
        self.login_shell(find_shell("bash"))
        self.start_file("bash", "PATH=\nexport PATH\n")
        with self.petrel_at(".local/bin"):
            self.own("-F", CONFIG, self.source, self.remote("far/file"), config=False)
        self.same_file("near/file", "far/file")

    def test_case_06_on_stderr(self):
        self.login_shell(find_shell("bash"))
        self.start_file("bash", "printf 'stty: not \\033[1ma tty\\n' >&2\n")
        result = self.arrives()
        self.assertIn("stty: not ?[1ma tty\n", result.stderr)
        self.assertNotIn("\033", result.stderr)

    def test_case_06_a_start_file_that_ends_the_shell(self):
        self.login_shell(find_shell("bash"))
        self.start_file("bash", "echo This account is closed.\nexit 1\n")
        self.fails(NO_REMOTE, ["This account is closed", HOST], "-B", "-o", "ControlPath=none",
                   self.source, self.remote("far"))
        self.start_file("bash", "echo Go away >&2\nexit 1\n")
        self.fails(NO_REMOTE, ["Go away", HOST, "try: ssh -F"], "-B", "-o", "ControlPath=none",
                   self.source, self.remote("far"))

    def test_case_06_start_up_files_without_end(self):
        """One eats the start line, one never ends, and nobody sends a start line: side by side."""
        words = ["-B", "-o", "ControlPath=none", self.source, self.remote("far")]
        self.login_shell(find_shell("bash"))
        began = time.monotonic()
        nobody = subprocess.Popen([PETREL, "remote"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.start_file("bash", f"touch {self.path('begun')}\necho one moment\nexec sleep 100\n")
        endless = self.start(*words)
        self.assertTrue(hosts.wait_until(lambda: os.path.exists(self.path("begun")), 20))
        self.start_file("bash", "read -r line\necho \"you said: $line\"\nexit\n")
        result = self.finish(self.start(*words), began)
        self.assertEqual(result.code, NO_REMOTE)
        self.assertIn("repeats what was sent", result.stderr)
        self.assertNotIn("secret=", result.stderr)
        self.start_file("bash", "read -r line\n")
        eaten = self.finish(self.start(*words), began)
        self.assertEqual(eaten.code, PROTOCOL)
        self.assertIn("no start line came", eaten.stderr)
        self.assertIn(b"PETREL-ERROR protocol no start line", nobody.communicate(timeout=BOUND)[0])
        result = self.finish(endless, began)
        self.assertEqual(result.code, NO_REMOTE)
        self.assertIn("one moment", result.stderr)
        self.assertLess(result.seconds, BOUND)

    def test_case_06_a_banner(self):
        """What sshd shows before the login comes on ssh's stderr."""
        banner = self.write("banner", text="Authorised use only.\n\nPETREL-ERROR io no\n" * 200)
        with self.second_sshd(f"Banner {banner}\nPrintMotd yes\n") as words:
            self.arrives_by(words)

    @contextlib.contextmanager
    def second_sshd(self, lines, port=22023):
        """A far sshd with further lines in its configuration."""
        with open(os.path.join(TEMP, "sshd_config")) as file:
            text = file.read().replace("Port 22022", f"Port {port}")
        pid_file = self.path("sshd.pid")
        text = "\n".join(line for line in text.splitlines() if not line.startswith("PidFile"))
        config = self.write("sshd_config", text=f"{text}\nPidFile {pid_file}\n{lines}\n")
        sshd = subprocess.Popen([*hosts.FAR_EXEC, shutil.which("sshd") or "/usr/sbin/sshd", "-D",
                                 "-f", config, "-E", self.path("sshd.log")])
        try:
            self.assertTrue(hosts.wait_until(lambda: os.path.exists(pid_file), 10))
            yield ["-P", str(port)]
        finally:
            sshd.terminate()
            sshd.wait()

    def arrives_by(self, words):
        self.count += 1
        self.own(*words, self.source, self.remote(f"far/{self.count}"))
        self.same_file("near/file", f"far/{self.count}")

    def test_case_05_usual_places(self):
        for folder in (".local/bin", "bin", ".cache/petrel"):
            with self.petrel_at(folder):
                self.own("-F", CONFIG, self.source, self.remote("far/new"), config=False)
                self.same_file("near/file", "far/new")
                self.assertTrue(os.path.exists(os.path.join(FAR_HOME, "was-run")), folder)
                os.remove(os.path.join(FAR_HOME, "was-run"))
                os.remove(self.path("far/new"))

    def test_case_05_a_bad_one_hides_no_good_one(self):
        """What petrel install began to write, what is another processor's, what is somebody else's:
        also where the login shell is another."""
        with open(PETREL, "rb") as file:
            good = file.read()
        foreign = bytearray(good[:4096])
        foreign[18:20] = b"\xf3\x00" # e_machine of the ELF header
        bad = {"half": good[:len(good) // 3], "foreign": bytes(foreign), "empty": b"",
               "zeros": bytes(4096), "other": b"#!/bin/sh\necho I am another petrel\n"}
        where = os.path.join(FAR_HOME, ".cache/petrel/petrel")
        os.makedirs(os.path.dirname(where))

        def arrives_past(name, why):
            with open(where, "wb") as file:
                file.write(bad[name])
            os.chmod(where, 0o755)
            with self.petrel_at(".local/bin"):
                self.count += 1
                self.own("-F", CONFIG, self.source, self.remote(f"far/{self.count}"), config=False)
                self.same_file("near/file", f"far/{self.count}")
                self.assertTrue(os.path.exists(os.path.join(FAR_HOME, "was-run")), why)
                os.remove(os.path.join(FAR_HOME, "was-run"))

        for name in bad:
            arrives_past(name, name)
        for shell in self.each_shell("fish", "csh"):
            arrives_past("half", shell)

    def test_case_05_missing(self):
        """Told by the search itself, whatever the shell's own syntax."""
        for name in self.each_shell("bash", "fish", "csh"):
            result = self.own("-F", CONFIG, self.source, self.remote("far/new"), config=False,
                              code=NO_REMOTE)
            for part in (f"{HOST}: no petrel for ", f"{FAR_HOME}/.local/bin", "install"):
                self.assertIn(part, result.stderr, name)

    def test_a_password_that_sudo_wants(self):
        """As sudo says it without a terminal, and as it asks when told to read standard input."""
        refusal = self.write("refusal", mode=0o755, text="""#!/bin/sh
echo "sudo: a terminal is required to read the password; either use the -S option" >&2
echo "sudo: a password is required" >&2
exit 1
""")
        result = self.fails(NO_REMOTE, ["sudo: a password is required", "NOPASSWD"], "-B",
                            self.source, self.remote("far"), far_petrel=f"{refusal} petrel")
        prompt = self.write("prompt", mode=0o755, text="""#!/bin/sh
printf '[sudo] password for ann: ' >&2
read -r line
echo "Sorry, try again." >&2
printf '[sudo] password for ann: ' >&2
read -r line
""")
        result = self.fails(NO_REMOTE, ["[sudo] password for ann:", "NOPASSWD"], "-B",
                            self.source, self.remote("far"), far_petrel=f"{prompt} -S petrel")
        self.assertLess(result.seconds, BOUND)


class Garbage(hosts.Case):
    """In place of one of the two lines that start a session."""

    def setUp(self):
        super().setUp()
        self.source = self.write("near/file", 10)

    def remote_says(self, data, code=PROTOCOL):
        done = subprocess.run([PETREL, "remote"], input=data, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, code, data[:60])
        self.assertTrue(done.stdout.startswith(b"PETREL-ERROR "), done.stdout)
        self.assertEqual(done.stdout.count(b"\n"), 1)

    def test_start_lines(self):
        good = b"petrel-start secret=" + b"0" * 64 + b" session=" + b"1" * 32 + b" role=send"
        for data in (b"", b"\n", b"x", b"petrel-start", b"petrel-start \n", good + b"\n",
                     good + b" ports=0-5\n", good + b" ports=9-8\n", good + b" ports=1-70000\n",
                     good.replace(b"0" * 64, b"0" * 63) + b" ports=1-2\n",
                     good.replace(b"send", b"both") + b" ports=1-2\n", os.urandom(MIB),
                     b"\0" * 5000, b"petrel-start " + b"x" * MIB):
            self.remote_says(data)

    def test_answers(self):
        answer = "PETREL-REMOTE version=1 protocol=1-1 port=60001 address=none"
        for text, code, says in (
                ("PETREL-REMOTE", NO_REMOTE, "PETREL-REMOTE"),
                ("PETREL-REMOTE ", NO_REMOTE, "PETREL-REMOTE"),
                ("PETREL-REMOTE port=0", PROTOCOL, "no port"),
                ("PETREL-REMOTE port=99999", PROTOCOL, "no port"),
                ("PETREL-REMOTE port=-1 address=none", PROTOCOL, "no port"),
                ("PETREL-ERROR ", PROTOCOL, "it failed"),
                ("PETREL-ERROR none of your business", PROTOCOL, "of your business"),
                (answer[:40], NO_REMOTE, "PETREL-REMOTE version")):
            line = text if text == answer[:40] else text + "\\n"
            script = self.write("script", mode=0o755,
                                text=f"#!/bin/sh\nread line\nprintf '{line}'\n")
            self.fails(code, says, "-B", self.source, self.remote("far"), far_petrel=script)


if __name__ == "__main__":
    hosts.main()
