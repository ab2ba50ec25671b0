#!/usr/bin/env python3
"""-z: blocks made smaller on the way.

    squeeze_test.py PETREL PETREL_LAB [TEST...]
"""
import os
import random

import hosts
from hosts import MIB

USAGE = 1


class Squeezed(hosts.Case):
    def make(self, folder):
        """Text in large and small files, random bytes, and both in one file."""
        choice = random.Random(1)
        words = [bytes(choice.choices(range(97, 123), k=6)) for _ in range(500)]
        text = b" ".join(choice.choices(words, k=900000))
        random_bytes = os.urandom(3 * MIB + 17)
        for name, content in (("text", text), ("random", random_bytes), ("zeros", bytes(MIB - 1)),
                              ("mixed", text[:2 * MIB] + random_bytes + text[:MIB - 5]),
                              ("almost", random_bytes[:MIB - 1])):
            path = self.path(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        for i in range(300):
            with open(self.path(folder, f"small{i}"), "wb") as file:
                file.write(text[i * 700:i * 700 + 3000])
        return sum(os.path.getsize(os.path.join(self.path(folder), name))
                   for name in os.listdir(self.path(folder)))

    def same_tree(self, a, b):
        names = sorted(os.listdir(self.path(a)))
        self.assertEqual(names, sorted(os.listdir(self.path(b))))
        for name in names:
            self.same_file(f"{a}/{name}", f"{b}/{name}")

    def test_push(self):
        size = self.make("near/tree")
        sent = {}
        for way in (None, "-z", "-z=auto", "-z=never", "-z=9", "--compress=1"):
            words = [way] if way else []
            result = self.copy(*words, "--json", self.path("near/tree/"),
                               self.remote(f"far/{way}"))
            self.same_tree("near/tree", f"far/{way}")
            summary = result.events()[-1]
            self.assertTrue(summary["verified"])
            self.assertEqual(summary["verified_bytes"], size)
            sent[way] = summary["payload_sent"]
        self.assertGreaterEqual(sent[None], size)
        self.assertGreaterEqual(sent["-z=never"], size)
        for way in ("-z=9", "--compress=1"):
            self.assertLess(sent[way], size * 0.75, sent)

    def test_pull(self):
        size = self.make("far/tree")
        result = self.copy("-z=3", "--json", self.remote("far/tree/"), self.path("near/copy"))
        self.same_tree("far/tree", "near/copy")
        self.assertLess(result.events()[-1]["payload_sent"], size * 0.75)

    def test_changed(self):
        """Offers and deliveries are squeezed as well, and blocks that are kept stay kept."""
        self.make("near/tree")
        self.copy("-z=3", self.path("near/tree"), self.remote("far"))
        with open(self.path("near/tree/mixed"), "r+b") as file:
            file.seek(3 * MIB)
            file.write(b"changed" * 100)
        for i in range(0, 300, 7):
            self.write(f"near/tree/small{i}", 1000)
        result = self.copy("-z=3", "--json", self.path("near/tree"), self.remote("far"))
        self.same_tree("near/tree", "far/tree")
        self.assertLess(result.events()[-1]["payload_sent"], 3 * MIB)

    def test_pipes_are_not_compressed_and_it_is_said(self):
        source = self.write("near/file", text="again and again\n" * 100000)
        said = "-z: standard input and output are not compressed"
        with open(source, "rb") as standard:
            pushed = self.copy("-z", "-", self.remote("far/file"), stdin=standard)
        self.assertIn(said, pushed.stderr)
        self.same_file("near/file", "far/file")
        self.assertIn(said, self.copy("-z", self.remote("far/file"), "-").stderr)
        self.assertNotIn("-z:", self.copy("-z", source, self.remote("far")).stderr)

    def test_words(self):
        source = self.write("near/file", 10)
        for level in ("0", "20", "fast"):
            self.fails(USAGE, "a level from 1 to 19", f"-z={level}", source, self.remote("far"))


if __name__ == "__main__":
    hosts.main()
