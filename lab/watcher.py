"""Looks at a run from outside while it goes on: what the link has delivered, and what memory the
program's processes hold at each end. Only on emulated links, where both ends are here."""
import json
import os
import subprocess
import threading
import time

STEP_S = 0.5
SAMPLES_MAX = 120


class Watcher:
    """`samples` are [seconds, bytes delivered, MB at the near end, MB at the far end]."""

    def __init__(self, place, direction, process_names):
        self.place, self.names = place, set(process_names)
        self.way = "forward" if direction == "push" else "back"
        self.samples, self.step, self.began = [], STEP_S, time.monotonic()
        self.ended = threading.Event()
        self.spaces = [space(end) for end in place.ends()]
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.ended.wait(self.step):
            counted = link_counters(self.place)
            if counted is None:
                return
            delivered = counted[self.way]["delivered"]["bytes"]
            self.samples.append([round(time.monotonic() - self.began, 2), delivered, *self.memory()])
            if len(self.samples) >= SAMPLES_MAX:
                self.samples, self.step = self.samples[1::2], self.step * 2

    def memory(self):
        held, page = [0, 0], os.sysconf("SC_PAGE_SIZE")
        for entry in os.listdir("/proc"):
            try:
                if not entry.isdigit() or name_of(entry) not in self.names:
                    continue
                at = self.spaces.index(os.readlink(f"/proc/{entry}/ns/net"))
                with open(f"/proc/{entry}/statm") as statm:
                    held[at] += int(statm.read().split()[1]) * page
            except (OSError, ValueError, IndexError):
                continue # ended meanwhile, or of somebody else
        return [round(value / 1e6, 1) for value in held]

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.samples


def name_of(process):
    with open(f"/proc/{process}/comm") as comm:
        return comm.read().strip()


def space(end):
    return end.run("readlink", "/proc/self/ns/net").stdout.strip()


def link_counters(place, reset=False):
    """The emulator's own, or None where there is none."""
    if not place.emulator:
        return None
    done = subprocess.run([place.lab, "stats", place.emulator, *(["--reset"] if reset else [])],
                          capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None
