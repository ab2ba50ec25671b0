#!/usr/bin/env python3
"""petrel key: the identity that petrel serve's clients and servers have.

    key_test.py PETREL
"""
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest

PETREL = ""
LINE = re.compile(r"petrel-ed25519 ([A-Za-z0-9+/]{43}) (\S+@\S*)\n")


class Key(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="petrel-key-")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "config/petrel/identity")

    def key(self, *words, code=0):
        environment = dict(os.environ, XDG_CONFIG_HOME=os.path.join(self.folder.name, "config"))
        result = subprocess.run([PETREL, "key", *words], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_it_is_made_once(self):
        first = self.key()
        self.assertRegex(first.stdout, LINE)
        self.assertIn(f"made a key in {self.path}", first.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.path)).st_mode), 0o700)
        second = self.key()
        self.assertEqual((second.stdout, second.stderr), (first.stdout, ""))
        print_ = self.key("--fingerprint").stdout
        self.assertRegex(print_, r"^SHA256:[A-Za-z0-9+/]{43} \S+\n$")
        self.assertEqual(self.key("-l").stdout, print_)
        with open(self.path) as file:
            secret = re.search(r"petrel-ed25519-secret (\S{43}) ", file.read()).group(1)
        self.assertNotIn(secret, first.stdout + first.stderr + print_)

    def test_another_file(self):
        other = os.path.join(self.folder.name, "server/identity")
        made = self.key("-q", "--identity", other)
        self.assertEqual(made.stderr, "")
        self.assertNotEqual(self.key().stdout, made.stdout)
        self.assertEqual(self.key(f"--identity={other}").stdout, made.stdout)

    def test_what_others_may_read_is_refused(self):
        self.key()
        for mode in (0o640, 0o604, 0o660):
            os.chmod(self.path, mode)
            refused = self.key(code=44)
            self.assertIn(f"chmod 600 {self.path}", refused.stderr)
            self.assertEqual(refused.stdout, "")

    def test_damage_is_named_and_never_overwritten(self):
        self.key()
        with open(self.path) as file:
            lines = file.read()
        with open(self.path, "w") as file:
            file.write(lines.replace("secret ", "secret x"))
        self.assertIn(f"{self.path}:2: the secret key is damaged", self.key(code=1).stderr)
        with open(self.path, "w") as file:
            file.write("")
        self.assertIn("holds no key", self.key(code=1).stderr)
        self.assertEqual(os.path.getsize(self.path), 0)

    def test_mistakes(self):
        self.assertIn("takes no operand", self.key("host", code=1).stderr)
        self.assertIn("fingerprint", self.key("--fingerpint", code=1).stderr)
        self.assertFalse(os.path.exists(self.path))
        self.assertIn("--identity", self.key("--help").stdout)
        refused = self.key("--identity=/proc/petrel/identity", code=47)
        self.assertIn("/proc/petrel", refused.stderr)


if __name__ == "__main__":
    PETREL = sys.argv.pop(1)
    unittest.main()
