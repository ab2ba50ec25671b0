#!/usr/bin/env python3
"""Every command that README.md shows in a sh block, run or checked; none is passed over.

    readme_test.py PETREL PETREL_LAB [TEST...]

petrel itself is run: `host` is the far host of scripts/with-hosts, with a home folder of its own,
and what lands is compared with what the rules say. What would take minutes or change this machine
is checked by other means, see RULES. A command that no rule knows fails.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

import hosts
from hosts import BUILD, CONFIG, FAR_EXEC, FAR_HOME, HOST, PETREL, ROOT, TEMP

README = pathlib.Path(ROOT, "README.md")
PORTS = (60000, 61000)


def blocks(text):
    """(language, lines) of each fenced block."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        yield match.group(1), match.group(2).splitlines()


def commands(text):
    """The words of each command in the sh blocks, without what a && joins and # says."""
    for language, lines in blocks(text):
        for line in lines if language == "sh" else []:
            command = []
            for word in shlex.split(line, comments=True) + ["&&"]:
                if word != "&&":
                    command.append(word)
                elif command:
                    yield line, command
                    command = []


class Text(unittest.TestCase):
    def test_blocks_are_of_a_known_kind(self):
        self.assertLessEqual({language for language, _ in blocks(README.read_text())},
                             {"sh", "text"})

    def test_links_and_ports(self):
        for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
            if "://" not in target:
                self.assertTrue(os.path.exists(os.path.join(ROOT, target)), target)
        self.assertIn("{}-{}".format(*PORTS), subprocess.check_output([PETREL, "--help"], text=True))


class Commands(unittest.TestCase):
    def setUp(self):
        self.here = tempfile.mkdtemp(dir=TEMP, prefix="readme")
        programs = os.path.join(self.here, "bin")
        self.near = os.path.join(self.here, "near")
        for folder in (programs, self.near, f"{self.near}/here", f"{FAR_HOME}/logs",
                       f"{FAR_HOME}/shelf", f"{FAR_HOME}/.local/bin"):
            os.makedirs(folder, exist_ok=True)
        for i, name in enumerate(["report.pdf", "a.txt", "b.txt", "big.iso", "photos/1.jpg",
                                  "photos/away/2.jpg"]):
            self.write(os.path.join(self.near, name), 5000 + 300000 * i)
        for name in ("report.pdf", "a.txt", "b.txt", "logs/1.log", "logs/2.log"):
            self.write(os.path.join(FAR_HOME, name), 3000)
        os.symlink(PETREL, f"{FAR_HOME}/.local/bin/petrel")
        os.symlink(PETREL, f"{programs}/petrel")
        self.write_ssh(f"{programs}/ssh")
        self.environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}",
                                XDG_CONFIG_HOME=f"{self.here}/near_config")
        self.server_environment = dict(self.environment,
                                       XDG_CONFIG_HOME=f"{self.here}/server_config")
        for folder in ("srv/in", "srv/out", "server_config/petrel"):
            os.makedirs(f"{self.here}/{folder}")

    def tearDown(self):
        shutil.rmtree(self.here)

    @staticmethod
    def write(path, size):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(os.urandom(size))

    def write_ssh(self, path):
        """ssh as a user has it: it knows `host`, where a login begins in the home folder."""
        config = os.path.join(self.here, "ssh_config")
        with open(CONFIG) as base, open(config, "w") as out:
            out.write(f"Host host\n    HostName {HOST}\n{base.read()}")
        with open(path, "w") as file:
            file.write("#!/bin/bash\n"
                       'begin=\'cd "$HOME" && PATH="$HOME/.local/bin:$PATH" && export PATH && \'\n'
                       '[[ " $* " == *" -G "* ]] || set -- "${@:1:$#-1}" "$begin${!#}"\n'
                       f'exec {shutil.which("ssh")} -F {config} "$@"\n')
        os.chmod(path, 0o755)

    def succeeds(self, *words, **keywords):
        result = subprocess.run(words, stdin=keywords.pop("stdin", subprocess.DEVNULL), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                                **keywords)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stdout}")
        return result.stdout

    NOT_COPIES = ("install", "uninstall", "doctor", "bench", "manifest", "verify", "clean", "ls",
                  "estimate")

    # ---- one rule for each kind of command: true when it knows the command ----

    def run_petrel(self, words):
        if words[0] != "petrel" or ">" in words:
            return False
        quick = ["--time", "500ms"] if words[1] == "bench" else []
        self.succeeds(*words, *quick, cwd=self.near, env=self.environment)
        if words[1] not in self.NOT_COPIES and "-n" not in words:
            self.look_at_landing(words)
        return True

    def run_key(self, words):
        """Each end's own; the client's goes where README says that it is to stand."""
        if words[:2] != ["petrel", "key"]:
            return False
        if "--fingerprint" in words:
            self.succeeds(*words, env=self.server_environment)
            return True
        line = subprocess.check_output(words, text=True, env=self.environment)
        with open(f"{self.here}/server_config/petrel/authorized_keys", "w") as file:
            file.write(line)
        return True

    def run_serve(self, words):
        """On the far host, whose /srv is a folder of ours, up to the test's end."""
        if words[:2] != ["petrel", "serve"]:
            return False
        words = [word.replace("=/srv/", f"={self.here}/srv/") for word in words]
        log = open(f"{self.here}/log", "w+")
        self.addCleanup(log.close)
        server = subprocess.Popen([*FAR_EXEC, *words], stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=log, env=self.server_environment)
        self.addCleanup(self.end_server, server)
        self.assertTrue(hosts.wait_until(lambda: self.said(log) or server.poll() is not None, 20))
        self.assertIsNone(server.poll(), self.said(log))
        return True

    def end_server(self, server):
        for process in hosts.own_processes():
            with open(f"/proc/{process}/cmdline") as file:
                if "serve" in file.read().split("\0"):
                    os.kill(process, signal.SIGTERM)
        server.wait(60)

    @staticmethod
    def said(log):
        log.seek(0)
        text = log.read()
        return text if "listening on" in text else ""

    def run_with_server(self, words):
        """The question about the fingerprint, which needs a terminal, is answered by an option."""
        if not any("petrel://server" in word for word in words):
            return False
        home = f"{self.here}/srv/out/photos"
        fetches = words[1].startswith("petrel://")
        if fetches:
            shutil.move(f"{self.near}/photos", home)
        host = f"[{HOST}]" if ":" in HOST else HOST
        words = [word.replace("//server/", f"//{host}/") for word in words]
        self.succeeds(words[0], "--accept-new", *words[1:], cwd=self.near, env=self.environment)
        pairs = ((home, f"{self.near}/photos") if fetches else
                 (f"{self.near}/big.iso", f"{self.here}/srv/in/big.iso"))
        self.assertEqual(self.content(pairs[0]), self.content(pairs[1]))
        return True

    def run_shell(self, words):
        """What is joined by a pipe, or goes into a file that a later command reads."""
        if not {"|", ">"} & set(words):
            return False
        self.succeeds("bash", "-o", "pipefail", "-c", " ".join(words), cwd=self.near,
                      env=self.environment)
        return True

    def look_at_landing(self, words):
        """That each source is where README says that it lands."""
        operands = [word for word in words[1:] if re.search(r":(?!//)|[./]|^photos$", word)
                    and not word.startswith("-")]
        operands = [word.replace("host:", f"{FAR_HOME}/") for word in operands]
        operands = [os.path.join(self.near, word) for word in operands]
        sources, target = operands[:-1], operands[-1]
        self.assertTrue(sources, words)
        for source in sources:
            for path in map(str, pathlib.Path("/").glob(source[1:])):
                name = os.path.basename(path)
                inside = os.path.isdir(target) and not source.endswith("/")
                landed = os.path.join(target, name) if inside else target
                self.assertEqual(self.content(path), self.content(landed), f"{words}: {landed}")

    @staticmethod
    def content(path):
        if os.path.isfile(path):
            return pathlib.Path(path).read_bytes()
        return {name: found for name, found in hosts.tree(path).items() if name != "."}

    def read_make(self, words):
        """make's targets exist; variables set before it are ones that the target's script reads."""
        settings = []
        while words and re.match(r"[A-Z_]+=", words[0]):
            settings.append(words.pop(0).split("=")[0])
        if words[:1] == ["sudo"]:
            words = words[1:]
        if words[:1] != ["make"]:
            return False
        self.succeeds("make", "-n", "-C", ROOT, *words[1:])
        for name in settings:
            self.assertIn(name, pathlib.Path(ROOT, "scripts", words[1]).read_text())
        if words[1:] == ["install"]:
            self.install()
        return True

    def install(self):
        root = os.path.join(self.here, "root")
        self.succeeds("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root)
        found = {path.name for path in pathlib.Path(root).rglob("*") if path.is_file()}
        self.assertLessEqual({"petrel", "petrel.1"}, found)

    def read_firewall(self, words):
        """The firewalls' own programs are not all here: their words, and petrel's default ports."""
        first, last = PORTS
        known = [f"sudo ufw allow {first}:{last}/udp",
                 f"sudo firewall-cmd --permanent --add-port={first}-{last}/udp",
                 "sudo firewall-cmd --reload"]
        return " ".join(words) in known

    def check_nft(self, words):
        if words[:3] != ["sudo", "nft", "insert"]:
            return False
        self.assertIn("{}-{}".format(*PORTS), words)
        tables = ("add table inet filter\n"
                  "add chain inet filter input { type filter hook input priority 0; }\n")
        rule = os.path.join(self.here, "rule")
        with open(rule, "w") as file:
            file.write(tables + " ".join(words[2:]) + "\n")
        self.succeeds("nft", "-c", "-f", rule)
        return True

    def run_lab(self, words):
        """What the matrix would run, without running it; a report of nothing says so."""
        if os.path.basename(words[0]) != "petrel-lab":
            return False
        if words[1] == "matrix":
            self.succeeds(os.environ["PETREL_LAB"], *words[1:], "--list")
        else:
            self.assertEqual(words[1:], ["report"])
        return True

    RULES = (run_key, run_serve, run_with_server, run_petrel, run_shell, read_make, read_firewall,
             check_nft, run_lab)

    def test_every_command(self):
        count = 0
        for line, words in commands(README.read_text()):
            with self.subTest(line):
                self.assertTrue(any(rule(self, list(words)) for rule in self.RULES),
                                "no rule knows this command")
            count += 1
        self.assertGreater(count, 15)


if __name__ == "__main__":
    hosts.main()
