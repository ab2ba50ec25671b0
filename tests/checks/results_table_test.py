#!/usr/bin/env python3
"""scripts/results-table: what it writes it takes for right, and any other table for wrong."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "tests/e2e/lab_results.jsonl.xz"
PAGE = """# Performance
before
<!-- results of: rift falcon -->
<!-- end of results -->
after
"""


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="petrel-results-table-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("docs", "results"):
            (self.root / name).mkdir()
        self.page = self.root / "docs/performance.md"
        self.page.write_text(PAGE)

    def script(self, code, *words):
        done = subprocess.run([ROOT / "scripts/results-table", *words, self.root], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_what_it_writes_is_right_until_it_is_changed(self):
        shutil.copy(RESULTS, self.root / "results/rift-2026-01-01-000000.jsonl.xz")
        self.assertIn("are not those of results/", self.script(1, "--check"))
        self.script(0)
        self.script(0, "--check")
        text = self.page.read_text()
        self.assertTrue(text.startswith("# Performance\nbefore\n") and text.endswith("after\n"), text)
        self.assertIn("| 100mbit-100ms-1% | 11.36 | 0.23 |", text)
        self.page.write_text(re.sub(r"\| 11\.36 \|", "| 11.37 |", text))
        self.assertIn("are not those of results/", self.script(1, "--check"))
        self.script(0)
        self.assertEqual(self.page.read_text(), text)

    def test_results_of_other_matrices_are_none(self):
        shutil.copy(RESULTS, self.root / "results/rift-10g-2026-01-01-000000.jsonl.xz")
        self.assertIn("no results are kept", self.script(77, "--check"))

    def test_a_page_without_marks(self):
        self.page.write_text("# Performance\n")
        self.assertIn("no marks", self.script(1, "--check"))


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    unittest.main()
