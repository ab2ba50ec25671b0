"""What the programs that copy a file by a command have in common."""
from drivers import _tcp


def arrived(place, job):
    """Bytes under the destination's name, or beside it under a temporary one of a program that was
    stopped. Programs may reserve the file's size at once, so blocks count and not the length."""
    script = 'find "$1" -type f -printf "%s %b\\n"'
    sizes = [min(int(size), int(blocks) * 512) for size, blocks in
             (line.split() for line in place.receiver(job.direction).sh(
                 script, job.target_folder).stdout.splitlines())]
    return max(sizes, default=0)


def run_command(place, job, words, environment=()):
    """Runs a command that copies the file, with the congestion control that the variant names."""
    _tcp.use_control(place, job.variant or "cubic")
    before = sshd_seconds(place)
    used = place.near.measured(words, job.limit_s, environment, job.hopeless)
    if used.in_time and used.code:
        raise RuntimeError(f"{words[0]} ended with {used.code}: {used.stderr.strip()[-400:]}")
    far = sshd_seconds(place)
    return {"finished": used.in_time, "seconds": used.seconds, "command_seconds": used.seconds,
            "command": words, "near": used.figures(),
            "far": {"cpu_s": round(far - before, 3) if None not in (far, before) else None,
                    "rss_mb": None}, "detail": {}}


def sshd_seconds(place):
    """Processor seconds of the far sshd's sessions that have ended; None where it is not ours."""
    pid = place.far.read(f"{place.far.temp}/sshd.pid").strip()
    fields = place.far.read(f"/proc/{pid}/stat").rpartition(")")[2].split() if pid else []
    return (int(fields[13]) + int(fields[14])) / 100 if len(fields) > 14 else None
