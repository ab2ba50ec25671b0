#!/usr/bin/env python3
"""docs/security.md names tests that exist: each `file: test, test` of its tables is looked up."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/security.md"


def named_tests(text):
    """(file, test) of each test that a text names."""
    for file, names in re.findall(r"`([\w.-]+\.(?:py|c)): ([\w, ]+)`", text):
        for name in names.split(","):
            yield file, name.strip()


def missing(text):
    found = []
    for file, name in named_tests(text):
        sources = [path.read_text() for path in ROOT.glob(f"tests/**/{file}")]
        defined = rf"\b(?:def {name}\(|static void {name}\()"
        if not any(re.search(defined, source, re.M) for source in sources):
            found.append(f"{file}: {name}")
    return found


class SecurityPage(unittest.TestCase):
    def test_the_tests_exist(self):
        text = PAGE.read_text()
        self.assertGreater(len(list(named_tests(text))), 40)
        self.assertEqual(missing(text), [])

    def test_one_that_is_gone_is_found(self):
        text = "`hostile_test.py: test_paths_that_lead_out, test_gone` `nothing_test.py: test_x`"
        self.assertEqual(missing(text), ["hostile_test.py: test_gone", "nothing_test.py: test_x"])

    def test_the_fuzz_targets_exist(self):
        names = re.search(r"`tests/fuzz`: ([\w, ]+?) and others", PAGE.read_text()).group(1)
        for name in names.split(", "):
            self.assertTrue((ROOT / f"tests/fuzz/fuzz_{name}.c").exists(), name)

    def test_every_promise_names_a_test(self):
        rows = [line for line in PAGE.read_text().split("## What is promised")[1].splitlines()
                if line.startswith("| ") and not line.startswith(("| promise", "|---"))]
        self.assertGreater(len(rows), 15)
        for row in rows:
            self.assertRegex(row, r"`[\w.-]+: \w+|`tests/fuzz`")


if __name__ == "__main__":
    unittest.main()
