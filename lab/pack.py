"""Files of results as the repository keeps them: compressed, and small together."""
import glob
import lzma
import os

import results

SUFFIX = ".jsonl.xz"
MOST_BYTES = 20_000_000


def packed(folder):
    """Those in a folder, and in none below it."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), f"*{SUFFIX}")))


def pack(path):
    """Writes PATH.xz, whole or not at all; returns its path. ValueError when PATH holds no results."""
    lines = results.load(path)
    if not any(line["kind"] == "run" for line in lines):
        raise ValueError(f"{path}: no runs in it")
    out = f"{path}.xz"
    with lzma.open(f"{out}.new", "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as file:
        for line in lines: # what an interruption cut off stays behind
            print(line["raw"], file=file)
    os.replace(f"{out}.new", out)
    return out


def total(folder):
    """Bytes of all files there but those that are not packed."""
    return sum(os.path.getsize(path) for path in glob.glob(os.path.join(glob.escape(folder), "*"))
               if os.path.isfile(path) and not path.endswith(".jsonl"))
