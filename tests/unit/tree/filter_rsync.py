#!/usr/bin/env python3
"""Compares what filter rules let pass with rsync -n, on random trees and rules.

    filter_rsync.py FILTER_LIST [CASES [SEED]]

77 (skipped) where there is no rsync.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

NAMES = ["a", "b", "ab", "a.o", "b.c", "foo", "bar", "A", "1", ".h", "-d", "x[1]", "a*", "b\\c", "a b",
         "foo.o", "b.", "#", "]"]
PIECES = ["a", "b", "foo", "bar", ".o", ".c", "1", "A", ".h", "-", "]", "b\\c", "\\*", "\\", "*", "*",
          "**", "***", "?", "/", "/", "/", "[ab]", "[!a]", "[^b]", "[[:alpha:]]", "[[:digit:]x]",
          "[a-c]", "[]a]", "[a", "[\\]]", "[a-]", "[!]]", "[[:foo:]]", "[[:alpha:]", "[[.a]"]
WORDS = ["+ ", "- ", "+,", "include ", "exclude ", "hide ", "show ", "H ", "S ", "P ", "R ", "-! ", "+! ",
         "-s ", "+s ", "-r ", "-p ", "exclude,! ", "protect ", "include_", "-_", "!"]
PATTERNS = ["a", "/a", "a/", "*.o", "a/b", "/a/b", "a/**", "**/b", "**/b/", "a/***", "/a/***", "*/",
            "/*", "/**", "**", "*", "foo/*/b", "a**b", "*/b", "/*/", "b/*", "foo*", "[ab]", "?"]


def make_tree(root, rng):
    folders = [root]
    for _ in range(rng.randint(5, 30)):
        path = os.path.join(rng.choice(folders), rng.choice(NAMES))
        if os.path.lexists(path) or path.count("/") - root.count("/") > 5:
            continue
        kind = rng.random()
        if kind < 0.5:
            os.mkdir(path)
            folders.append(path)
        elif kind < 0.95:
            open(path, "w").close()
        else:
            os.symlink("a", path)


def make_pattern(rng):
    if rng.random() < 0.4:
        return rng.choice(PATTERNS)
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6)))


def make_rules(rng):
    rules = []
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        pattern = make_pattern(rng)
        if kind < 0.4:
            rules.append("e" + pattern)
        elif kind < 0.7:
            rules.append("i" + pattern)
        else:
            word = rng.choice(WORDS)
            rules.append("f" + word + ("" if word == "!" else pattern))
    return rules


def by_rsync(source, target, rules):
    options = {"e": "--exclude=", "i": "--include=", "f": "--filter="}
    done = subprocess.run(
        ["rsync", "-rln8", "--out-format=%n", *(options[r[0]] + r[1:] for r in rules), source, target],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        return None
    # rsync tells a directory that is not there yet as "created directory", and "./" for the top.
    return sorted(line for line in done.stdout.split(b"\n") if line and line != b"./")


def by_petrel(program, source, prefix, rules):
    done = subprocess.run([program, source, prefix, *rules], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        return None
    return sorted(path for path in done.stdout.split(b"\0") if path and path != b"/")


def main():
    program = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if shutil.which("rsync") is None:
        print("skipped: there is no rsync here", file=sys.stderr)
        return 77
    os.environ["LC_ALL"] = "C"
    folder = tempfile.mkdtemp(prefix="petrel-filter")
    compared = refused = 0
    try:
        os.mkdir(os.path.join(folder, "target"))
        for case in range(cases):
            rng = random.Random(seed * 1000003 + case)
            source = os.path.join(folder, "source")
            if case % 5 == 0:
                shutil.rmtree(source, ignore_errors=True)
                os.mkdir(source)
                make_tree(source, rng)
            rules = make_rules(rng)
            contents = rng.random() < 0.7
            theirs = by_rsync(source + ("/" if contents else ""), os.path.join(folder, "target"), rules)
            ours = by_petrel(program, source, "" if contents else "source", rules)
            if theirs is None or ours is None:
                refused += 1
                if theirs is not None:
                    print(f"case {case}: rsync takes {rules}, petrel does not")
                    return 1
                continue
            compared += 1
            if ours != theirs:
                print(f"case {case}, seed {seed}: {rules}, contents {contents}")
                print("  only petrel:", sorted(set(ours) - set(theirs)))
                print("  only rsync: ", sorted(set(theirs) - set(ours)))
                return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{compared} trees and lists agree with rsync, {refused} lists refused by it")
    return 0 if compared > cases // 2 else 1


sys.exit(main())
