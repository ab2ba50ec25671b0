#!/usr/bin/env python3
"""Case 10 for trees: sources that grow, shrink, change, vanish or are replaced while they are sent,
among others that stay. What stays arrives; of what changed either one of its states arrives, or it
is named; nothing is called verified that is not; the next run ends right.

    change_test.py PETREL PETREL_LAB [TEST...]

By the environment: PETREL_CHANGE_SEED of what is random, PETREL_CHANGE_ROUNDS (1).
"""
import os
import random
import shutil
import time

import hosts
from hosts import MIB

OK, VANISHED = 0, 24
SEED = int(os.environ.get("PETREL_CHANGE_SEED", random.randrange(1 << 30)))
ROUNDS = int(os.environ.get("PETREL_CHANGE_ROUNDS", 1))
FOLDERS, SMALL, LARGE = 12, 8, 8  # more large ones than are opened at once


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


class Changing(hosts.Case):
    def make(self):
        """Each folder holds small files and large ones."""
        paths = []
        for folder in range(FOLDERS):
            for i in range(SMALL + LARGE):
                path = f"{folder:02}/{'small' if i < SMALL else 'z-large'}{i:02}"
                self.write(f"{self.source}/tree/{path}", 2000 if i < SMALL else 700000, seed=i)
                paths.append(path)
        return paths

    def change(self, how, path, number):
        """Returns whether it is there afterwards."""
        if how == "grow":
            with open(path, "ab") as file:
                file.write(b"more" * number)
        elif how == "shrink":
            os.truncate(path, os.path.getsize(path) // 2)
        elif how == "overwrite":
            with open(path, "r+b") as file:
                file.seek(100)
                file.write(b"other bytes %d" % number)
        elif how == "vanish":
            os.remove(path)
        elif how == "replace":
            with open(path + ".new", "wb") as file:
                file.write(os.urandom(3000 + number))
            os.rename(path + ".new", path)
        elif how == "become a folder":
            os.remove(path)
            os.mkdir(path)
        elif how == "become a link":
            os.remove(path)
            os.symlink("nowhere", path)

    def disturb(self, process, draw, paths):
        """Changes random files until the copy ends. Returns all states that each changed one had."""
        states = {}
        hows = ["grow", "shrink", "overwrite", "vanish", "replace", "become a folder", "become a link"]
        root = self.path(self.source, "tree")
        todo = draw.sample(paths, len(paths) // 3)
        gone = f"{draw.randrange(FOLDERS):02}"
        for number, path in enumerate(todo):
            if process.poll() is not None:
                break
            full = os.path.join(root, path)
            states[path] = [read(full)]
            if number == len(todo) // 2:
                shutil.rmtree(os.path.join(root, gone))
                for other in paths:
                    if other.startswith(gone + "/"):
                        states.setdefault(other, [None])
            if os.path.lexists(full):
                self.change(draw.choice(hows), full, number)
                states[path].append(read(full) if os.path.isfile(full) else None)
            time.sleep(draw.uniform(0, 0.06))
        return states

    def check(self, result, before, states, to):
        failed = {event["path"].removeprefix("tree/"): event for event in result.events()
                  if event["event"] == "failed"}
        for path, content in before.items():
            there = read(self.path(to, "tree", path)) \
                if os.path.isfile(self.path(to, "tree", path)) else None
            if path not in states:
                self.assertTrue(there == content, f"{path} did not change and is not there")
                self.assertNotIn(path, failed)
                continue
            known = [content, *states[path]]
            grown = there is not None and any(s is not None and s.startswith(there) for s in known)
            folder = path.split("/")[0]
            self.assertTrue(there in known or (grown and path in failed) or
                            (there is None and (path in failed or folder in failed)),
                            f"{path}: arrived in a state that it never had")
        for path, event in failed.items():
            self.assertEqual(event["kind"], "changed", event)
            self.assertTrue(path in states or any(s.startswith(path + "/") for s in states), event)
        self.assertEqual(result.code, VANISHED if failed else OK, result.stderr)
        self.assertEqual(result.events()[-1]["verified"], not failed)
        for event in failed.values():
            self.assertIn(event["path"], result.stderr)

    def rounds(self, push):
        self.source = "near" if push else "far"
        to = "far" if push else "near"
        words = [self.path("near/tree"), self.remote("far")] if push else \
            [self.remote("far/tree"), self.path("near")]
        for number in range(ROUNDS):
            draw = random.Random(SEED + number)
            with self.subTest(seed=SEED + number):
                paths = self.make()
                before = {path: read(self.path(self.source, "tree", path)) for path in paths}
                process = self.start("copy", "--json", "-v", "--limit=160Mbit", *words)
                self.assertTrue(hosts.wait_until(lambda: os.path.exists(self.path(to, "tree")), 30))
                states = self.disturb(process, draw, paths)
                result = self.finish(process)
                self.check(result, before, states, to)
                shutil.rmtree(self.path(to, "tree"))
                self.copy(*words)
                self.same_tree(f"{self.source}/tree", f"{to}/tree")
                for folder in ("near/tree", "far/tree"):
                    shutil.rmtree(self.path(folder))

    def test_case_10_push(self):
        self.rounds(True)

    def test_case_10_pull(self):
        self.rounds(False)


if __name__ == "__main__":
    hosts.main()
