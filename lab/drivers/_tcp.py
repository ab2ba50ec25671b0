"""What the TCP programs share: congestion control, and streams of iperf3."""
import json

CONTROLS = ("cubic", "bbr", "reno")
PORT = 5201


def use_control(place, control):
    """Makes new connections at both ends use it; RuntimeError where that is not possible.

    In namespaces of ours by the route to the other end, which needs no setting of this machine
    (tcp_allowed_congestion_control); real hosts are left as they are."""
    for end, other in (place.ends(), place.ends()[::-1]):
        if place.owned:
            done = end.sh('set -- $(ip -o route get "$1") "$2"; to=$1; way=; shift; '
                          'while [ $# -gt 1 ]; do case $1 in via | dev) way="$way $1 $2" ;; esac; '
                          'shift; done; ip route replace "$to/32" $way congctl "$1"',
                          other.address, control)
            if done.returncode:
                raise RuntimeError(f"{end.name}: no congestion control '{control}' here: "
                                   f"{done.stderr.strip()[-200:]}")
        elif (now := end.read("/proc/sys/net/ipv4/tcp_congestion_control").strip()) != control:
            raise RuntimeError(f"{end.name} uses {now}, and settings of real hosts are not changed: set "
                               f"net.ipv4.tcp_congestion_control={control} there")


def tcp_settings(place):
    """Buffers and congestion control at both ends, as they are now."""
    lines = []
    for end, other in (place.ends(), place.ends()[::-1]):
        route = end.sh('ip route show "$1"', other.address).stdout.split()
        control = route[route.index("congctl") + 1] if "congctl" in route else \
            end.read("/proc/sys/net/ipv4/tcp_congestion_control").strip()
        buffers = ", ".join(f"{name} = {' '.join(end.read(f'/proc/sys/net/ipv4/{name}').split())}"
                            for name in ("tcp_rmem", "tcp_wmem"))
        lines.append(f"{end.name}: {control}, {buffers}")
    return "\n".join(lines)


def iperf_words(place, job, control, streams, seconds):
    words = ["iperf3", "-c", place.far.address, "-p", str(PORT), "-C", control, "-P", str(streams),
             "-t", f"{max(1, round(seconds))}", "-J"]
    return words + ([] if job.direction == "push" else ["-R"])


def stream_seconds(job):
    """A copy has a size and iperf3 a time: as long as the link would need for it, 3 to 20 s."""
    if job.stream_s:
        return job.stream_s
    rate = job.rate_bps / 8 if job.rate_bps else 400e6
    return max(3, min(20, round(job.size / rate)))


def run_iperf(place, job, control, streams):
    seconds = stream_seconds(job)
    words = iperf_words(place, job, control, streams, seconds)
    server = place.far.start(["iperf3", "-s", "-1", "-p", str(PORT)])
    try:
        place.far.wait_port(PORT)
        used = place.near.measured(words, seconds + 30)
    finally:
        far = server.stop()
    try:
        end = json.loads(used.stdout)["end"]
        rate = end["sum_received"]["bits_per_second"] / 8e6
    except (KeyError, ValueError):
        raise RuntimeError(f"iperf3: {used.stdout.strip()[-300:]} {used.stderr.strip()[-200:]}") \
            from None
    return {"finished": True, "rate_mb_per_s": rate, "stream_seconds": seconds, "command": words,
            "near": used.figures(), "far": {"cpu_s": far[0], "rss_mb": far[1]},
            "arrived_bytes": end["sum_received"]["bytes"],
            "detail": {"retransmits": end.get("sum_sent", {}).get("retransmits")}}


class Iperf:
    """A driver (see __init__.py): plain memory to memory, neither encrypted nor verified."""
    KINDS = ("copy", "stream")
    VARIANTS = ()
    NEEDS = {"near": ["iperf3"], "far": ["iperf3"]}
    PACKAGES = "iperf3"
    PROCESSES = ("iperf3",)

    def __init__(self, title, control, streams):
        self.TITLE, self.control, self.streams = title, control, streams

    def settings(self, place, _):
        return tcp_settings(place)

    def run(self, place, job):
        return run_iperf(place, job, self.control, self.streams)


IPERF = {"bbr": Iperf("TCP, BBR", "bbr", 1),
         "bbr8": Iperf("8 x TCP, BBR", "bbr", 8),
         "cubic": Iperf("TCP, CUBIC", "cubic", 1)}
