#!/usr/bin/env python3
"""petrel ls, here and on a host (at a listening petrel: serve_test.py).

    ls_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import socket
import subprocess

import hosts
from hosts import CONFIG, FAR_HOME, HOST, PETREL, unprivileged

OK, USAGE, PARTIAL, PERMISSION, NOT_FOUND = 0, 1, 23, 44, 47
WHEN = 1_000_000_000_123_456_789


class List(hosts.Case):
    def ls(self, *words, code=OK, **keywords):
        remote = any(word.startswith(f"{HOST}:") for word in words)
        options = ["-F", CONFIG, "--remote-petrel", PETREL] if remote else []
        done = subprocess.run([PETREL, "ls", *options, *words], text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def events(self, *words, **keywords):
        events = [json.loads(line) for line in self.ls("--json", *words, **keywords).splitlines()]
        self.assertEqual(events[-1]["event"], "summary")
        return events

    def make_tree(self):
        self.write("far/tree/one", 10, mode=0o640)
        self.write("far/tree/sub/deep/two", 1234567, mode=0o4755)
        self.write("far/tree/.hidden", 0)
        self.write("far/tree/new\nline", 0)
        self.write("far/tree/.petrel-0123456789abcdef", 5)
        os.symlink("sub/deep", self.path("far/tree/link"))
        os.symlink("nowhere", self.path("far/tree/sub/dangling"))
        os.mkfifo(self.path("far/tree/pipe"), 0o600)
        for name in ("one", "sub/deep/two", "pipe", "sub"):
            os.utime(self.path("far/tree", name), ns=(WHEN, WHEN))
        self.halves_may_stay = True  # the name of one is a part of the test
        return [self.path("far/tree"), self.remote("far/tree")]

    def test_names_are_those_of_a_copy(self):
        names = [".hidden", "link", "new\\nline", "one", "pipe", "sub/"]
        for place in self.make_tree():
            self.assertEqual(self.ls(place).splitlines(), names)
            self.assertEqual(self.ls(place + "/").splitlines(), names)
            self.assertEqual(self.ls(f"{place}/link").splitlines(), ["two"])
            self.assertEqual(self.ls("-R", f"{place}/sub").splitlines(),
                             ["dangling", "deep/", "deep/two"])
        self.assertEqual(self.ls(cwd=self.path("far/tree")).splitlines(), names)
        path = self.path("far/tree")
        self.assertEqual(self.ls(f"{path}/one", f"{path}/sub").splitlines(),
                         [f"{path}/one", f"{path}/sub/dangling", f"{path}/sub/deep/"])
        self.assertEqual(self.ls(f"{path}/sub/dangling").splitlines(), [f"{path}/sub/dangling"])

    def test_the_long_form(self):
        for place in self.make_tree():
            lines = {line[48:]: line[:47] for line in self.ls("-lR", place).splitlines()}
            self.assertEqual(lines["one"], "-rw-r-----" + "10".rjust(16) + " 2001-09-09 01:46:40Z")
            self.assertEqual(lines["sub/deep/two"],
                             "-rwsr-xr-x" + "1234567".rjust(16) + " 2001-09-09 01:46:40Z")
            self.assertEqual(lines["pipe"], "prw-------" + "-".rjust(16) + " 2001-09-09 01:46:40Z")
            self.assertRegex(lines["sub/"], "^drwx.{6} +- 2001-09-09 01:46:40Z$")
            self.assertRegex(lines["link -> sub/deep"], "^lrwxrwxrwx +8 ")

    def test_events(self):
        near, far = (self.events(place) for place in self.make_tree())
        self.assertEqual(near, far)
        by_path = {event["path"]: event for event in near[:-1]}
        self.assertEqual(by_path["one"], {"event": "entry", "schema": 1, "type": "file", "path": "one",
                                          "time": "1000000000.123456789", "mode": "0640", "size": 10})
        self.assertEqual(by_path["link"]["target"], "sub/deep")
        self.assertEqual(by_path["new\nline"]["type"], "file")
        self.assertEqual([by_path[name]["type"] for name in ("pipe", "sub")], ["pipe", "directory"])
        self.assertEqual(near[-1], {"event": "summary", "schema": 1, "exit_code": 0, "problems": 0})

    def test_paths_over_there(self):
        self.make_tree()
        far = self.path("far/tree")
        self.assertEqual(self.ls(self.remote("far/tree/o*")).splitlines(), [f"{far}/one"])
        self.assertEqual(self.ls(self.remote("far/tree/s*"), self.remote("far/tree/one")).splitlines(),
                         [f"{far}/sub/dangling", f"{far}/sub/deep/", f"{far}/one"])
        os.makedirs(f"{FAR_HOME}/inhome/below")
        self.addCleanup(os.removedirs, f"{FAR_HOME}/inhome/below")
        self.assertIn("inhome/", self.ls(f"{HOST}:").splitlines())
        self.assertEqual(self.ls(f"{HOST}:inhome"), "below/\n")
        self.assertEqual(self.ls(f"{HOST}:~/inhome"), "below/\n")

    def test_what_cannot_be_listed(self):
        for place in self.make_tree():
            self.assertEqual(self.ls(f"{place}/none", code=NOT_FOUND), "")
            lost = self.events(f"{place}/none", code=NOT_FOUND)
            self.assertEqual((lost[-2]["event"], lost[-2]["kind"]), ("error", "not-found"))
            some = self.events(f"{place}/none", f"{place}/one", code=PARTIAL)
            self.assertEqual([event["event"] for event in some], ["failed", "entry", "summary"])
        self.ls(self.remote("far/tree/*.none"), code=NOT_FOUND)
        self.ls("-k", code=USAGE)
        self.ls(self.path("far"), self.remote("far"), code=USAGE)
        os.chmod(self.path("far/tree/sub"), 0o700)
        for words, code in ((["sub"], PERMISSION), (["-R", "."], PARTIAL)):
            done = subprocess.run([*unprivileged(PETREL, "ls", *words)], cwd=self.path("far/tree"),
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertRegex(done.stderr, "sub: .*Permission denied")

    def test_a_large_directory_and_sockets(self):
        os.mkdir(self.path("far/many"))
        for i in range(3000):
            open(self.path(f"far/many/{i:05}"), "w").close()
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(self.path("far/many"))
            listener.bind("zz")
            os.chdir("/")
            names = self.ls(self.remote("far/many")).splitlines()
        self.assertEqual(names, [f"{i:05}" for i in range(3000)] + ["zz"])


if __name__ == "__main__":
    hosts.main()
