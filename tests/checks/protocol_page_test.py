#!/usr/bin/env python3
"""docs/protocol.md has the numbers of the code: frames, messages, kinds of failure, packet sizes,
and the words of the lines that start a session through SSH.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def source(path):
    return (ROOT / "src" / path).read_text()


class Protocol(unittest.TestCase):
    PAGE = (ROOT / "docs/protocol.md").read_text()

    def rows(self, title):
        """(number, name) of the table rows under a heading."""
        text = self.PAGE.split(f"## {title}", 1)[1].split("\n## ", 1)[0]
        return [(int(number, 0), name) for number, name in
                re.findall(r"^\| (0x\w+|\d+) \| ([\w-]+) \|", text, re.M)]

    @staticmethod
    def enum(path, prefix):
        """(number, name) of an enum's values with numbers of their own."""
        return [(int(number, 0), name) for name, number in
                re.findall(rf"\b{prefix}_(\w+) = (0x\w+|\d+)", source(path))]

    def test_frames(self):
        self.assertEqual(self.rows("Frames of control packets"),
                         self.enum("transport/frame.h", "FRAME"))

    def test_messages(self):
        self.assertEqual(self.rows("The control stream"),
                         self.enum("transfer/messages.h", "MESSAGE"))

    def test_kinds_of_failure(self):
        names = re.findall(r'\[ERROR_(\w+)\] = "([\w-]+)"', source("base/error.c"))
        listed = re.search(r"enum error_kind \{(.*?)\};", source("base/error.h"), re.S).group(1)
        order = re.findall(r"^    ERROR_(\w+)", listed, re.M)
        expected = [(order.index(name), text) for name, text in names if text != "none"]
        self.assertEqual(self.rows("Kinds of failure"), sorted(expected))

    def test_packet_sizes(self):
        sizes = re.search(r"ip_sizes\[\] = \{(.*?)\}", source("transport/mtu.c"), re.S).group(1)
        page = " ".join(self.PAGE.split())
        sizes = re.findall(r"\d+", sizes)
        self.assertIn(", ".join(sizes[:-1]) + " and " + sizes[-1], page)

    def test_start_lines(self):
        code = source("cli/start/bootstrap.c")
        page = self.PAGE.split("## Start through SSH")[1].split("\n## ")[0]
        for word in ["petrel-start ", "PETREL-REMOTE ", "PETREL-ERROR "]:
            self.assertIn(f'"{word}"', code)
            self.assertIn(word, page)
        keys = re.findall(r'(\w+)=%', code)
        self.assertGreater(len(keys), 10)
        for key in keys:
            self.assertIn(f"{key}=", page)

    def test_measurements(self):
        code = source("cli/measure/measure_words.c")
        page = self.PAGE.split("## Measurements")[1].split("\n## ")[0]
        for name in re.findall(r'\[MEASURE_\w+\] = "(\w+)"', code):
            self.assertRegex(page, rf"(?m)^\| {name} \|")
        table = re.search(r"request_fields\[\] = \{(.*?)FIELDS_END", code, re.S).group(1)
        fields = re.findall(r"ROW\((\w+),", table)
        self.assertGreater(len(fields), 15)
        for name in fields:
            self.assertIn(f"`{name}`", page)


if __name__ == "__main__":
    unittest.main()
