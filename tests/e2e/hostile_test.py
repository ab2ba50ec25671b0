#!/usr/bin/env python3
"""The other end as an enemy (hostile.c): nothing outside the destination is touched, memory stays
flat, what was not asked for is refused by name, and both ends come to an end.

    hostile_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import resource
import shlex
import shutil
import stat
import threading

import hosts
from hosts import HOSTILE, MIB


PROTOCOL, PARTIAL, VERIFY, REFUSED = 12, 23, 41, 45


class Hostile(hosts.Case):
    def setUp(self):
        if not os.path.exists(HOSTILE):
            self.skipTest("built without hooks")
        super().setUp()
        self.write("outside/keep", 10)
        os.mkdir(self.path("near/dst"))
        os.makedirs(self.path("near/src/d"))
        self.outside = hosts.tree(self.path("outside"))
        self.home = sorted(os.listdir(self.path("near")))

    def tearDown(self):
        untouched = hosts.tree(self.path("outside")) == self.outside
        evil = [name for _, folders, files in os.walk(self.folder) for name in folders + files
                if name in ("evil", "authorized_keys", ".ssh")]
        super().tearDown()
        self.assertTrue(untouched, "something outside the destination was touched")
        self.assertEqual(evil, [])
        self.assertFalse(os.path.exists("/tmp/petrel-evil"))

    def pull(self, how, code, says=(), source="d"):
        """An honest client fetches from a far end that lies."""
        far = shlex.join(["env", f"PETREL_HOSTILE={how}", HOSTILE])
        result = self.copy(self.remote(source), self.path("near/dst"), far_petrel=far, code=code)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, result.stderr)
        self.assertEqual(sorted(os.listdir(self.path("near"))), self.home)
        return result

    def push(self, how, code, says=()):
        """A client that lies sends to an honest far end."""
        process = self.start("copy", self.path("near/src/d"), self.remote("far"), program=HOSTILE,
                             env=dict(os.environ, PETREL_HOSTILE=how))
        result = self.finish(process)
        self.assertEqual(result.code, code, result.stderr)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, result.stderr)

    def both(self, how, code, says):
        self.pull(how, code, says)
        self.push(how, code, says)

    def test_paths_that_lead_out(self):
        for how in ("dots", "dots-inside", "absolute", "long-path"):
            self.both(how, PROTOCOL, "path that is not allowed")

    def test_a_link_and_then_a_file_through_it(self):
        self.pull("through-a-link", PARTIAL, "d/link")
        self.assertTrue(os.path.exists(self.path("near/dst/d/good")))
        self.push("through-a-link", PARTIAL, "d/link")
        # Once more, with the link already there.
        shutil.rmtree(self.path("near/dst/d"))
        os.mkdir(self.path("near/dst/d"))
        os.symlink("../../../outside", self.path("near/dst/d/link"))
        self.pull("through-a-link", PARTIAL, ["link/through", "link/folder"])
        self.assertTrue(os.path.exists(self.path("near/dst/d/good")))

    def test_what_nobody_asked_for(self):
        self.both("other-name", REFUSED, "not agreed on")
        self.pull("told-name", REFUSED, '".ssh", which was not asked for')
        self.pull("told-dots", PROTOCOL, '".."')
        self.pull("told-path", PROTOCOL, "no name that a destination can take")
        self.pull("told-contents", REFUSED, "which was not asked for")
        self.both("other-kind", REFUSED, "something else under a name")

    def test_kinds_and_garbage(self):
        self.both("unknown-kind", PROTOCOL, "unknown kind")
        self.both("garbage", PROTOCOL, "")

    def test_a_name_twice(self):
        self.pull("twice", PARTIAL, "d/x")
        with open(self.path("near/dst/d/x")) as file:
            self.assertIn(file.read(), ("first", "second"))
        self.both("large-twice", PROTOCOL, "blocks that another has")

    def test_sizes(self):
        self.both("huge", PROTOCOL, "contradicts itself")
        self.both("no-room", PROTOCOL, "before its files were whole")
        self.both("unfinished", PROTOCOL, "before its files were whole")

    def test_blocks_that_contradict_their_entry(self):
        self.both("short-block", PROTOCOL, "another length")
        self.both("other-size", PROTOCOL, "contradicts its entry")
        self.pull("other-hash", VERIFY, "differ from their hash")
        self.pull("wrong-hash", VERIFY, "differ from their hash")
        self.assertEqual([name for _, _, files in os.walk(self.path("near/dst")) for name in files],
                         [])

    def test_set_ids_are_dropped(self):
        self.pull("set-ids", 0, "lost their set-user-id")
        mode = os.stat(self.path("near/dst/d/suid")).st_mode
        self.assertEqual(stat.S_IMODE(mode) & 0o7000, 0)

    def test_petrels_own_names(self):
        self.both("own-name", REFUSED, ".petrel-0123456789abcdef")

    def test_entries_without_end(self):
        """A hundred and fifty thousand: memory does not follow."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        result = self.pull("endless", 0)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(max(peak, before), 400 * 1024, result.stderr)

    def test_a_folder_swapped_for_a_link_in_mid_copy(self):
        """By a local user, while files arrive in it."""
        for i in range(600):
            self.write(f"far/d/in/{i}", 2000, seed=i)
        os.makedirs(self.path("near/dst/d/in"))
        stop = threading.Event()

        def swap():
            folder, away = self.path("near/dst/d/in"), self.path("near/away")
            while not stop.is_set():
                try:
                    os.rename(folder, away)
                    os.symlink(self.path("outside"), folder)
                    os.unlink(folder)
                    os.rename(away, folder)
                except OSError:
                    pass
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            self.finish(self.start("copy", self.remote("far/d"),
                                   self.path("near/dst")))
        finally:
            stop.set()
            thread.join()
        # What was in hand when its folder was elsewhere may be left there.
        os.system(f"rm -rf '{self.path('near/away')}'; find '{self.path('near')}' -name '.petrel-*' "
                  "-delete")

    def test_receivers_that_lie(self):
        self.write("near/src/d/file", 100)
        self.write("near/src/d/large", 3 * MIB)
        far = "env PETREL_HOSTILE={} " + HOSTILE
        for how, says in (("sink-verdicts", "answer"), ("sink-odd-verdict", ""),
                          ("sink-blocks", "answer"), ("sink-done", ""), ("sink-notes", "enough")):
            result = self.finish(self.start("copy", self.path("near/src/d"), self.remote("far"),
                                            far_petrel=far.format(how)))
            self.assertNotEqual(result.code, 0, how)
            self.assertIn(says, result.stderr)
            self.assertNotIn("verified", result.stderr)
        result = self.finish(self.start("copy", self.path("near/src/d"), self.remote("far"),
                                        far_petrel=far.format("sink-escapes"),
                                        prefix=["timeout", "-s", "INT", "5"]))
        self.assertNotEqual(result.code, 0)
        self.assertNotIn("\x1b", result.stderr)
        self.assertNotIn("\npetrel: ok", result.stderr)


if __name__ == "__main__":
    hosts.main()
