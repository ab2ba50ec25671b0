"""petrel-lab report: the page, from results of a small run that stand beside this file, complete in itself and
true to them; then opened in a real browser, as on a phone in the dark, where its calculator has to say what
the model says."""
import html.parser
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULTS = os.path.join(HERE, "lab_results.jsonl.xz")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE_WIDTH = 360
# Around the page: a phone's width, and what only a browser knows of it, written where --dump-dom shows it.
PHONE = """<!doctype html><body><iframe id="phone" src="report.html" width="%d" height="700"></iframe>
<script>
document.getElementById("phone").onload = () => {
  const page = document.getElementById("phone").contentDocument, view = page.defaultView;
  const rows = () => [...page.querySelectorAll("#answer tr")].map(row => [...row.cells].map(cell => cell.textContent));
  const facts = { width: page.documentElement.scrollWidth, back: view.getComputedStyle(page.body).backgroundColor,
    ink: view.getComputedStyle(page.body).color, rows: rows() };
  const loss = page.getElementById("loss");
  loss.value = "lots"; loss.dispatchEvent(new Event("input", { bubbles: true }));
  facts.fault = !page.getElementById("fault").hidden && rows().length === 0;
  loss.value = "0%%"; loss.dispatchEvent(new Event("input", { bubbles: true }));
  facts.clean = rows();
  view.location.hash = page.querySelector("td a").getAttribute("href");
  setTimeout(() => { facts.opened = page.getElementById("raw").open;
    document.body.dataset.facts = JSON.stringify(facts); }, 200);
};
</script>""" % PHONE_WIDTH


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.hrefs, self.outside = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            if name in ("href", "src") and value.startswith("#"):
                self.hrefs.append(value[1:])
            elif name in ("href", "src"):
                self.outside.append(value)


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="petrel-report-test-")
        cls.page = os.path.join(cls.folder, "report.html")
        subprocess.run([LAB, "report", RESULTS, "--out", cls.page], check=True, stderr=subprocess.PIPE)
        with open(cls.page, encoding="utf-8") as file:
            cls.text = file.read()
        with lzma.open(RESULTS, "rt") as lines:
            text = lines.read()
        cls.lines = [json.loads(line) for line in text.splitlines()]
        cls.kept = os.path.join(cls.folder, "kept.jsonl")
        with open(cls.kept, "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_it_needs_nothing_else_and_every_link_leads_somewhere(self):
        links = Links(self.text)
        self.assertEqual(links.outside, [])
        self.assertNotIn("@import", self.text)
        self.assertGreater(len(links.hrefs), 50)
        self.assertEqual(set(links.hrefs) - links.ids, set())

    def test_numbers_lead_to_their_lines(self):
        runs = [line for line in self.lines if line["kind"] == "run" and line["program"] == "petrel"
                and line["matrix"] == "rift"]
        raw = dict(re.findall(r'<pre id="(r\d+)"><b>[^<]*</b> (.*?)</pre>', self.text))
        self.assertEqual(len(raw), len(self.lines))
        for run in runs:
            shown = f"{run['mb_per_s']:.1f}"
            ids = re.findall(rf'<a href="#(r\d+)">{re.escape(shown)}</a>', self.text)
            self.assertTrue(any(f"&quot;mb_per_s&quot;: {run['mb_per_s']!r}" in raw[name] for name in ids), shown)

    def test_misses_come_first_and_published_figures_stand_beside_ours(self):
        misses, table = self.text.index('id="losses"'), self.text.index("<table")
        self.assertLess(misses, table)
        self.assertIn("0.97 of ceiling (target 1): 0.", self.text[misses:table])
        row = re.search(r"<tr><td>1%</td><td>100ms</td>(.*?)</tr>", self.text)[1]
        self.assertIn('<td class="theirs">11.36</td>', row)
        self.assertIn('<td class="theirs">0.23</td>', row)

    def test_a_table_for_documents(self):
        done = subprocess.run([LAB, "report", "--markdown", RESULTS], check=True, capture_output=True, text=True)
        rows = [line for line in done.stdout.splitlines() if line.startswith("| 100mbit")]
        self.assertEqual(len(rows), 2)
        self.assertTrue(all("MISS" in row for row in rows))
        self.assertIn("| cell | RIFT | its HTTPS | petrel |", done.stdout)
        self.assertTrue(any(row.startswith("| 100mbit-100ms-1% | 11.36 | 0.23 |") for row in rows))

    def test_every_command_is_known_to_the_program(self):
        # It is written in C and starts the scripts by their names.
        for name, words in (("pack", [self.kept]), ("compare", [RESULTS, RESULTS])):
            subprocess.run([LAB, name, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertTrue(os.path.exists(f"{self.kept}.xz"))

    def test_results_that_are_none(self):
        done = subprocess.run([LAB, "report", "/nonexistent"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "petrel-lab: /nonexistent: no such file\n"))

    def told(self, loss):
        """What model.py foretells, as the page writes it."""
        sys.path.insert(0, os.path.join(ROOT, "lab"))
        import model
        seconds = [model.seconds(one["constants"], one["payload"], 0.1, loss, 1e9, 10 << 30)
                   for one in model.load()["programs"].values()]
        return [f"{one:.1f} s" for one in seconds if one < 120]

    def test_in_a_browser(self):
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            self.skipTest("no chromium here")
        phone = os.path.join(self.folder, "phone.html")
        with open(phone, "w", encoding="utf-8") as file:
            file.write(PHONE)
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             "--allow-file-access-from-files", "--force-dark-mode", f"--user-data-dir={self.folder}/profile",
             "--virtual-time-budget=5000", "--dump-dom", f"file://{phone}"],
            capture_output=True, text=True, timeout=200)
        self.assertNotIn("CONSOLE", done.stderr)
        found = re.search(r"data-facts='([^']*)'|data-facts=\"([^\"]*)\"", done.stdout)
        self.assertIsNotNone(found, done.stderr[-2000:])
        facts = json.loads((found[1] or found[2]).replace("&quot;", '"'))
        self.assertLessEqual(facts["width"], PHONE_WIDTH)
        light = [sum(map(int, re.findall(r"\d+", facts[name])[:3])) for name in ("ink", "back")]
        self.assertGreater(light[0], light[1] + 400, "light letters on a dark page")
        self.assertEqual([row[0] for row in facts["rows"]][0], "petrel")
        for rows, loss in ((facts["rows"], 0.01), (facts["clean"], 0.0)):
            told = self.told(loss)
            self.assertGreater(len(told), 0)
            self.assertEqual([row[1] for row in rows if row[1].endswith(" s") and "min" not in row[1]], told)
        self.assertTrue(facts["fault"], "an input that is none is told")
        self.assertTrue(facts["opened"], "a link to a line opens the lines")


if __name__ == "__main__":
    LAB = os.path.abspath(sys.argv.pop(2))
    sys.argv.pop(1)
    unittest.main(verbosity=2)
