"""What the systems count, before and after a run, at both ends: protocols, interfaces, processors.

`snapshot` reads them, `difference` keeps what changed. Names are the kernel's own.
"""

import os

# petrel-lab awake says so; its loops are niced, and no work.
AWAKE = "PETREL_LAB_AWAKE" in os.environ
FILES = ("/proc/net/snmp", "/proc/net/netstat", "/proc/net/dev", "/proc/net/softnet_stat", "/proc/stat")
# For a shell; /sys may be that of another network namespace.
DEVICES = "$(tail -n +3 /proc/net/dev | cut -d: -f1)"
SAYS_SOMETHING = 50 # hundredths of a second: of less, one tick is a large part
SOFTNET = ("processed", "dropped", "time_squeeze")


def pairs(text):
    """{"Udp.InDatagrams": n}, of files in which a line of names is followed by one of numbers."""
    lines, found = text.splitlines(), {}
    for names, values in zip(lines[::2], lines[1::2]):
        protocol, _, names = names.partition(":")
        for name, value in zip(names.split(), values.partition(":")[2].split()):
            found[f"{protocol}.{name}"] = int(value)
    return found


def interfaces(text):
    lines, found = text.splitlines(), {}
    if len(lines) < 2:
        return found
    received, sent = lines[1].split("|")[1:3]
    names = [f"received_{name}" for name in received.split()] + [f"sent_{name}" for name in sent.split()]
    for line in lines[2:]:
        device, _, values = line.partition(":")
        for name, value in zip(names, values.split()):
            found[f"{device.strip()}.{name}"] = int(value)
    return found


def softnet(text):
    rows = [[int(word, 16) for word in line.split()[:3]] for line in text.splitlines()]
    return {f"softnet.{name}": sum(row[at] for row in rows) for at, name in enumerate(SOFTNET)}


def processors(text):
    """Of the whole machine in hundredths of a second: busy, without the loops of `petrel-lab awake`; niced; and
    what a virtual machine's host took for others while something here wanted to run."""
    fields = [int(word) for word in text.split("\n", 1)[0].split()[1:9]]
    if len(fields) != 8:
        return {}
    user, niced, system, _, _, irq, softirq, stolen = fields
    return {"processor.busy": user + system + irq + softirq + (0 if AWAKE else niced), "processor.niced": niced,
            "processor.stolen": stolen}


def ethtool(text):
    found = {}
    for line in text.splitlines():
        name, _, value = line.strip().rpartition(": ")
        if name and value.isdigit():
            found[f"ethtool.{name}"] = int(value)
    return found


READERS = (pairs, pairs, interfaces, softnet, processors)


def snapshot(end):
    mark = "----petrel-lab----"
    script = f'for file in "$@"; do cat "$file" 2>/dev/null; echo {mark}; done; ' \
             f'for device in {DEVICES}; do ethtool -S "$device" 2>/dev/null; done'
    parts = end.sh(script, *FILES).stdout.split(mark + "\n")
    found = {}
    for reader, part in zip(READERS, parts):
        found.update(reader(part))
    if len(parts) > len(FILES):
        found.update(ethtool(parts[-1]))
    return found


def difference(before, after):
    return {name: value - before.get(name, 0) for name, value in after.items()
            if value != before.get(name, 0)}


def stolen_percent(changed):
    """How much of the time in which something wanted to run here the host took for others."""
    stolen = changed.get("processor.stolen", 0)
    wanted = stolen + changed.get("processor.busy", 0) + (changed.get("processor.niced", 0) if AWAKE else 0)
    return round(100 * stolen / wanted, 1) if wanted >= SAYS_SOMETHING else 0


def drops(changed):
    """Packets that an end lost by itself: its sockets' or its devices' fault, not the path's."""
    names = ("Udp.RcvbufErrors", "Udp.SndbufErrors", "softnet.dropped")
    return sum(value for name, value in changed.items()
               if name in names or name.endswith(("_drop", "_fifo", "_errs")))
