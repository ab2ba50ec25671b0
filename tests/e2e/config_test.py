#!/usr/bin/env python3
"""Settings from files and the environment: what they do to a copy, and what petrel config tells.

    config_test.py PETREL PETREL_LAB [TEST...]
"""
import json
import os
import subprocess

import hosts
from hosts import CONFIG, HOST, PETREL


class Config(hosts.Case):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in os.environ.items()
                            if name != "PETREL_CONFIG"}
        self.environment["XDG_CONFIG_HOME"] = self.path("config")

    def settings(self, text):
        return self.write("config/petrel/config", text=text, mode=0o644)

    def run_petrel(self, *words, code=0, **variables):
        return self.petrel(*words, code=code, config=False, env=dict(self.environment, **variables))

    def show(self, *words, **variables):
        answer = json.loads(self.run_petrel("config", "--json", *words, **variables).stdout)
        self.assertEqual(answer["schema"], 1)
        return {one["key"]: one for one in answer["settings"]}

    def test_a_copy_obeys_file_and_environment(self):
        self.write("near/tree/kept")
        self.write("near/tree/left.tmp")
        self.settings(f"Host {HOST}\n  remote-petrel {PETREL}\n  exclude *.tmp\n"
                      f"  json {self.path('events')}\nHost *\n  remote-petrel /nonexistent\n")
        result = self.run_petrel("-F", CONFIG, self.path("near/tree"), self.remote("far/"),
                                 PETREL_QUIET="yes")
        self.assertEqual(result.stderr, "")
        self.assertEqual(os.listdir(self.path("far/tree")), ["kept"])
        with open(self.path("events")) as events:
            self.assertEqual(json.loads(events.readlines()[-1])["event"], "summary")
        os.unlink(self.path("far/tree/kept"))
        self.run_petrel("-F", CONFIG, "--exclude=kept", self.path("near/tree"),
                        self.remote("far/"))
        self.assertEqual(os.listdir(self.path("far/tree")), [])

    def test_the_command_line_is_first(self):
        source = self.write("near/file")
        self.settings("remote-petrel /nonexistent\ndry-run yes\n")
        self.run_petrel("-F", CONFIG, "--remote-petrel", PETREL, "--no-dry-run", source,
                        self.remote("far"), PETREL_REMOTE_PETREL="/nonexistent/too")
        self.same_file("near/file", "far/file")

    def test_each_value_and_where_it_came_from(self):
        path = self.settings("# mine\nudp-ports 60000-60010\nHost *.example.org\n\n  policy fair\n")
        found = self.show("me@big.example.org", PETREL_LIMIT="25MB")
        self.assertEqual(found["udp-ports"], {"key": "udp-ports", "value": "60000-60010",
                                              "origin": "file", "file": path, "line": 2})
        self.assertEqual(found["policy"]["line"], 5)
        self.assertEqual(found["limit"], {"key": "limit", "value": "25MB", "origin": "environment",
                                          "variable": "PETREL_LIMIT"})
        self.assertEqual(found["lanes"], {"key": "lanes", "value": "auto", "origin": "default"})
        self.assertEqual(found["rsh"]["value"], None)
        self.assertEqual(self.show("host")["policy"]["origin"], "default")
        self.assertEqual(self.show("--config=none", "host")["udp-ports"]["origin"], "default")
        text = self.run_petrel("config", "big.example.org", PETREL_UDP_PROTS="7")
        self.assertRegex(text.stdout, rf"(?m)^policy +fair +{path}:5$")
        self.assertRegex(text.stdout, r"(?m)^retry-for +10m +default$")
        self.assertIn("PETREL_UDP_PROTS in the environment is no setting; did you mean "
                      "PETREL_UDP_PORTS?", text.stderr)

    def test_every_option_of_the_help_is_told(self):
        known = subprocess.check_output([PETREL, "copy", "--help"], text=True)
        options = {word[2:].split("=")[0].split("[")[0] for word in known.split()
                   if word.startswith("--") and len(word) > 2}
        self.assertGreater(len(options), 30)
        self.assertEqual(options - set(self.show("host")), {"help", "version", "config"})

    def test_a_mistake_stops_every_command(self):
        path = self.settings("Host elsewhere\n  polcy fair\n")
        for words in (["copy", "x", f"{HOST}:"], ["config", HOST], ["doctor", HOST],
                      ["bench", HOST], ["install", HOST], ["clean", f"{HOST}:x"]):
            result = self.run_petrel(*words, code=1)
            self.assertIn(f"petrel: {path}:2: there is no setting polcy; did you mean: policy ",
                          result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_what_others_may_write_is_refused(self):
        source = self.write("near/file")
        path = self.settings(f"remote-petrel {PETREL}\n")
        os.chmod(path, 0o666)
        result = self.run_petrel("-F", CONFIG, source, self.remote("far"), code=1)
        self.assertIn(f"chmod go-w {path}", result.stderr)
        subprocess.run(["chmod", "go-w", path], check=True)
        self.run_petrel("-F", CONFIG, source, self.remote("far"))
        self.same_file("near/file", "far/file")

    def test_other_commands_take_what_they_know(self):
        self.settings(f"remote-petrel {PETREL}\nudp-ports 60777\njson {self.path('events')}\n"
                      "policy fair\n")
        result = self.run_petrel("bench", "-F", CONFIG, "--time=100ms", HOST)
        self.assertIn("petrel", result.stdout)
        self.assertFalse(os.path.exists(self.path("events")))
        result = self.run_petrel("bench", "-F", CONFIG, "--time=100ms", HOST, code=42,
                                 PETREL_REMOTE_PETREL="/nonexistent/petrel")
        self.assertIn("/nonexistent/petrel", result.stderr)


if __name__ == "__main__":
    hosts.main()
