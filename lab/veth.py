"""Two hosts without petrel-lab's emulator, for `link: direct` and for netem: a veth pair between two network
namespaces, or a chain of four whose middle two shape and delay.

    near ---- first ---- second ---- far

Forward, `first` holds HTB with the queue (and netem's loss in it, for losses before the limiter) towards
`second`, and `second` holds netem's delay and loss towards `far`; the way back is the mirror image. netem
never stands on a sending host, whose TCP would be told of its drops.

Runs as the first process of a PID namespace (see emulated.words_of), so that all ends with it.
"""
import math
import os
import subprocess
import sys

import quantities as q

NET = "10.78"
NOTHING = ["limit", "1000000", "delay", "0us"]


def netem_missing():
    """Why this kernel cannot do it, or None."""
    try:
        done = subprocess.run(["unshare", "--net", "sh", "-c", "ip link set lo up && "
                               "tc qdisc add dev lo root netem delay 1ms"], capture_output=True, text=True)
    except FileNotFoundError as error:
        return f"{error.filename} is not here"
    return None if done.returncode == 0 else done.stderr.strip()


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Space:
    """A network namespace that a sleeping process holds; near is our own."""

    def __init__(self, name, own=False):
        self.name, self.holder = name, None
        if not own:
            self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
                                           stdout=subprocess.PIPE)
            self.holder.stdout.readline() # it is in its namespace now
        self.pid = self.holder.pid if self.holder else os.getpid()

    def words(self, *words):
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *words]

    def do(self, *words):
        run(*self.words(*words))


def join(left, right, number, mtu):
    """A veth pair; its ends are called after the other side and have .1 and .2 of net `number`."""
    run("ip", "link", "add", f"to-{right.name}", "mtu", str(mtu), "netns", str(left.pid), "type",
        "veth", "peer", "name", f"to-{left.name}", "mtu", str(mtu), "netns", str(right.pid))
    for space, device, host in ((left, f"to-{right.name}", 1), (right, f"to-{left.name}", 2)):
        space.do("ip", "address", "add", f"{NET}.{number}.{host}/24", "dev", device)
        space.do("ip", "link", "set", device, "up")
        space.do("ip", "link", "set", "lo", "up")


# ---- what tc is told ----

def netem_words(words, back):
    """Of a netem that delays and loses, as the cell says for one way; RuntimeError where netem has no
    such thing."""
    for key in ("policer", "flow-policer"):
        if key in words:
            raise RuntimeError(f"netem has no {key}: --emulator petrel has")
    delay = q.time_s(words.get("rtt", "0")) / 2
    found = ["limit", "1000000", "delay", f"{delay * 1e6:.0f}us"]
    if "jitter" in words:
        found += [f"{q.time_s(words['jitter']) * 1e6:.0f}us"]
    for key in ("reorder", "duplicate"):
        if key in words and not back:
            found += [key, words[key]]
    if words.get("loss-at", "after") == "after":
        found += loss_words(words, back)
    return found


def loss_words(words, back):
    loss = q.share(words.get("loss-back" if back else "loss", "0%"))
    if loss == 0:
        return []
    if "burst" in words: # two states: good and bad, mean run and share as asked
        leave = 100 / float(words["burst"])
        enter = leave * loss / (1 - loss)
        return ["loss", "gemodel", f"{enter:.6f}%", f"{leave:.6f}%", "100%", "0%"]
    return ["loss", "random", f"{loss * 100:g}%",
            *([words["correlation"]] if "correlation" in words else [])]


def queue_bytes(words, rate, mtu):
    text = words.get("queue", "1bdp")
    if text.endswith("bdp"):
        size = float(text[:-3]) * rate / 8 * q.time_s(words.get("rtt", "0"))
    elif text.endswith("p"):
        size = float(text[:-1]) * mtu
    else:
        size = q.size_bytes(text)
    return max(mtu, int(size))


def shape(space, device, words, back, mtu):
    """HTB and its queue: the limiter of one way."""
    rate = q.rate_bps(words.get("rate-back", words["rate"]) if back else words["rate"])
    before = loss_words(words, back) if words.get("loss-at") == "before" else []
    parent = ["root"]
    if rate:
        space.do("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
        space.do("tc", "class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate",
                 f"{rate}bit", "quantum", "60000")
        parent = ["parent", "1:1"]
    size = queue_bytes(words, rate, mtu)
    if before:
        space.do("tc", "qdisc", "add", "dev", device, *parent, "netem", "limit",
                 str(math.ceil(size / mtu) if rate else 1000000), *before)
    elif rate:
        space.do("tc", "qdisc", "add", "dev", device, *parent, "bfifo", "limit", str(size))


def make_chain(words, mtu):
    near, far = Space("near", own=True), Space("far")
    first, second = Space("first"), Space("second")
    join(near, first, 1, mtu)
    join(first, second, 2, mtu)
    join(second, far, 3, mtu)
    near.do("ip", "route", "add", "default", "via", f"{NET}.1.2")
    far.do("ip", "route", "add", "default", "via", f"{NET}.3.1")
    first.do("ip", "route", "add", f"{NET}.3.0/24", "via", f"{NET}.2.2")
    second.do("ip", "route", "add", f"{NET}.1.0/24", "via", f"{NET}.2.1")
    for space in (first, second):
        space.do("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    for space, out, back in ((first, "to-second", False), (second, "to-first", True)):
        shape(space, out, words, back, mtu)
        # Trains would pass the limiter as one packet, and be lost as one.
        space.do("ip", "link", "set", "dev", out, "gso_max_segs", "1")
    for space, out, back in ((second, "to-far", False), (first, "to-near", True)):
        netem = netem_words(words, back)
        if netem != NOTHING:
            space.do("tc", "qdisc", "add", "dev", out, "root", "netem", *netem)
    return far, f"{NET}.1.1", f"{NET}.3.2"


def make_direct(mtu):
    near, far = Space("near", own=True), Space("far")
    join(near, far, 1, mtu)
    return far, f"{NET}.1.1", f"{NET}.1.2"


def become(cell, command):
    """Makes the hosts and becomes the command on the near one."""
    try:
        if cell.direct:
            far, near_address, far_address = make_direct(cell.mtu)
        else:
            words = dict(cell.words)
            if cell.direction == "pull":
                words["loss"], words["loss-back"] = words.get("loss-back", "0%"), words["loss"]
            far, near_address, far_address = make_chain(words, cell.mtu)
    except RuntimeError as fault:
        print(f"no link: {fault}", file=sys.stderr)
        return 1
    os.environ.update(PETREL_LAB_NEAR=near_address, PETREL_LAB_FAR=far_address,
                      PETREL_LAB_FAR_EXEC=f"nsenter --net=/proc/{far.pid}/ns/net")
    os.environ.pop("PETREL_LAB_LINK", None)
    return subprocess.run(command, check=False).returncode
