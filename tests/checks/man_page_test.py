#!/usr/bin/env python3
"""docs/man/petrel.1 says what the program does: every option, exit code, event and field.

    man_page_test.py PETREL
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/man/petrel.1"
PAGES = ["bench", "clean", "doctor", "ls", "manifest", "verify"]  # commands with a page of their own
PETREL = ""


def section(name):
    """The lines of one section of the page."""
    text = PAGE.read_text()
    return re.search(rf"^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", text, re.M | re.S).group(1)


def page_options():
    """-q and --quiet as the OPTIONS section lists them (.It Fl q , Fl -quiet)."""
    items = re.findall(r"^\.It (Fl .*)$", section("OPTIONS"), re.M)
    return {"-" + name for item in items for name in re.findall(r"Fl (-?[\w-]+)", item)}


def help_options(command="copy"):
    """The same, from petrel COMMAND --help."""
    text = subprocess.check_output([PETREL, command, "--help"], text=True)
    found = set()
    for line in text.splitlines():
        match = re.match(r" +(?:(-\w)(?:, )?)?(?: *(--[\w-]+))?", line)
        if line.startswith("  ") and line.lstrip().startswith("-"):
            found |= {name for name in match.groups() if name}
    return found


def source(path):
    return (ROOT / "src" / path).read_text()


class ManPage(unittest.TestCase):
    def test_every_option_of_the_program_is_in_the_page(self):
        self.assertGreater(len(help_options()), 20)
        self.assertEqual(help_options() - page_options(), set())

    def test_every_option_of_the_page_is_in_the_program(self):
        for name in page_options() - help_options():
            result = subprocess.run([PETREL, "copy", name, "--help"], stdout=subprocess.DEVNULL)
            self.assertEqual(result.returncode, 0, f"{name} is not an option")

    def test_pages_of_commands(self):
        for command in PAGES:
            text = (PAGE.parent / f"petrel-{command}.1").read_text()
            listed = set()
            for line in re.findall(r"^(?:\.It )?\.?(?:Fl|It Fl) (.*)$", text, re.M):
                first, *rest = line.replace("Fl ", "").split(" , ")
                for name in [first, *rest]:
                    listed.add("-" + re.match(r"-?[\w-]+", name).group())
            self.assertEqual(help_options(command) - listed, set(), command)
            self.assertGreater(len(help_options(command)), 10)

    def test_events_of_jobs(self):
        code = source("cli/files/file_job_json.c")
        pages = "".join((PAGE.parent / f"petrel-{command}.1").read_text()
                        for command in ("clean", "ls", "manifest", "verify"))
        events = set(re.findall(r'begin\("(\w+)"\)', code))
        fields = set(re.findall(r'put\w*\(event, "(\w+)"', code))
        self.assertEqual((len(events), len(fields) > 15), (7, True))
        self.assertEqual(events - set(re.findall(r"^\.It (\w+)$", pages, re.M)), set())
        self.assertEqual(fields - set(re.findall(r"^\.Ql (\w+)", pages, re.M)), set())

    def test_exit_codes(self):
        header = source("cli/report/exit_code.h")
        codes = set(re.findall(r"EXIT_\w+ = (\d+)", header))
        listed = re.findall(r"^\.It (\d+)$", section("EXIT STATUS"), re.M)
        self.assertGreater(len(codes), 15)
        self.assertEqual(sorted(codes, key=int), listed)

    def test_events_and_fields(self):
        code = source("cli/report/event_log.c")
        events = set(re.findall(r'begin\("(\w+)"\)', code)) | set(
            re.findall(r'\[TRANSFER_FILE_\w+\] = "(\w+)"', code))
        listed = set(re.findall(r"^\.It (\w+)$", section("JSON EVENTS"), re.M))
        self.assertEqual(events, listed)
        fields = set(re.findall(r'(?:put_\w+|json_object_set_new)\(\s*(?:event|limits), "(\w+)"',
                                code))
        fields |= set(re.findall(r'\[LIMIT_\w+\] = "(\w+)"', code))
        self.assertGreater(len(fields), 25)
        quoted = set(re.findall(r"^\.Ql (\w+)", section("JSON EVENTS"), re.M))
        self.assertEqual(fields - quoted, set())
        self.assertEqual(quoted - fields, {"event", "schema"})

    def test_kinds_of_errors(self):
        code = source("base/error.c")
        kinds = set(re.findall(r'\[ERROR_\w+\] = "([\w-]+)"', code)) - {"none"}
        listed = re.search(r"\(usage,.*?\)", section("JSON EVENTS"), re.S).group()
        self.assertEqual(kinds, set(re.findall(r"[\w-]+", listed)))

    def test_the_page_is_well_formed(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff here")
        for page in sorted(PAGE.parent.glob("*.[157]")):
            result = subprocess.run(["groff", "-ww", "-mandoc", "-z", str(page)],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual((result.returncode, result.stdout), (0, ""), page)


if __name__ == "__main__":
    PETREL = sys.argv.pop(1)
    unittest.main()
