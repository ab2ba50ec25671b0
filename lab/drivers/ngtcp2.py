"""ngtcp2's HTTP/3 server and client (Debian's gtlsserver, gtlsclient): a GET, so the server stands at the
sending end and the client at the receiving one. BBR unless the variant says otherwise."""
import os

TITLE = "ngtcp2, HTTP/3"
KINDS = ("copy",)
VARIANTS = ("cubic", "reno", "bbr", "bbr2")
NEEDS = {"near": ["gtlsserver", "gtlsclient"], "far": ["gtlsserver", "gtlsclient", "openssl"]}
PACKAGES = "ngtcp2-client ngtcp2-server openssl"
PROCESSES = ("gtlsclient", "gtlsserver")
PORT = 4433


def control(job):
    return job.variant or "bbr"


def words_of_server(place, job):
    sender = place.sender(job.direction)
    return ["gtlsserver", "-q", f"--cc={control(job)}", "-d", os.path.dirname(job.source), sender.address,
            str(PORT), f"{sender.temp}/quic.key", f"{sender.temp}/quic.pem"]


def words_of_client(place, job):
    sender = place.sender(job.direction)
    # Windows above what is in flight, so that they do not hold it back.
    return ["gtlsclient", "-q", "--exit-on-all-streams-close", f"--cc={control(job)}", "--max-data=512M",
            "--max-stream-data-bidi-local=512M", "--max-window=1G", "--max-stream-window=1G",
            f"--download={job.target_folder}", sender.address, str(PORT),
            f"https://{sender.address}:{PORT}/{os.path.basename(job.source)}"]


def settings(place, job):
    return "\n".join(" ".join(words) for words in (words_of_server(place, job), words_of_client(place, job)))


def run(place, job):
    sender, receiver = place.sender(job.direction), place.receiver(job.direction)
    if not sender.read(f"{sender.temp}/quic.pem"):
        sender.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                   "-days", "2", "-subj", "/CN=petrel-lab", "-keyout", f"{sender.temp}/quic.key", "-out",
                   f"{sender.temp}/quic.pem", check=True)
    server = sender.start(words_of_server(place, job))
    words = words_of_client(place, job)
    try:
        sender.wait_port(PORT, kind="udp")
        used = receiver.measured(words, job.limit_s, hopeless=job.hopeless)
    finally:
        served = server.stop()
    if used.in_time:
        came = os.path.join(job.target_folder, os.path.basename(job.source))
        moved = receiver.run("mv", came, job.target)
        if used.code or moved.returncode:
            raise RuntimeError(f"gtlsclient ended with {used.code}: {used.stderr.strip()[-300:]} "
                               f"{moved.stderr.strip()}")
    ends = {sender.name: {"cpu_s": served[0], "rss_mb": served[1]}, receiver.name: used.figures()}
    return {"finished": used.in_time, "seconds": used.seconds, "command_seconds": used.seconds,
            "command": words, **ends, "detail": {}}
