"""uftp at a fixed rate, 95 % of the line's (500 Mbit/s where it has none), to one receiver; not encrypted.
It knows no push from afar, so it only pushes."""
TITLE = "uftp"
KINDS = ("copy",)
VARIANTS = ()
NEEDS = {"near": ["uftp"], "far": ["uftpd"]}
PACKAGES = "uftp"
PROCESSES = ("uftp", "uftpd")
PORT = 1044


def words_of_client(place, job):
    rate = (job.rate_bps or 526_000_000) * 0.95 / 1000
    grtt = max(0.02, job.rtt_s * 1.2)
    # Blocks that fill packets of 1,500 bytes; the round trip it may assume, so that it waits no longer.
    return ["uftp", "-q", "-R", f"{rate:.0f}", "-b", "1400", "-B", "4194304", "-r", f"{grtt:.3f}:{grtt:.3f}:10",
            "-M", place.far.address, "-P", place.far.address, "-D", "file", job.source]


def words_of_server(place, job):
    return ["uftpd", "-d", "-q", "-B", "4194304", "-I", place.far.address, "-D", job.target_folder]


def settings(place, job):
    return "\n".join(" ".join(words) for words in (words_of_server(place, job), words_of_client(place, job)))


def run(place, job):
    if job.direction != "push":
        raise RuntimeError("uftp only pushes")
    server = place.far.start(words_of_server(place, job))
    words = words_of_client(place, job)
    try:
        place.far.wait_port(PORT, kind="udp")
        used = place.near.measured(words, job.limit_s, hopeless=job.hopeless)
    finally:
        cpu, rss = server.stop()
    if used.in_time and used.code:
        raise RuntimeError(f"uftp ended with {used.code}: {(used.stderr or used.stdout).strip()[-300:]}")
    return {"finished": used.in_time, "seconds": used.seconds, "command_seconds": used.seconds,
            "command": words, "near": used.figures(), "far": {"cpu_s": cpu, "rss_mb": rss}, "detail": {}}
