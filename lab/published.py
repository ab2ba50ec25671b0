"""What others have published of the same paths, as facts to stand beside ours; MB/s of 10^6 bytes unless
they say otherwise. Theirs ran on other machines: ratios compare, absolute figures do not."""

SOURCES = {
    "rift": "RIFT (QUIC, BBR) against curl over HTTP/2 to nginx, July 2026; 2 GiB",
    "falcon": "Falcon fft (UDP, 16 flows, AES-256-GCM, BLAKE3) on two machines with 100 Gbit/s cards, "
              "October 2026",
    "farwing": "Farwing (started over SSH, 4 lanes), 139 ms at 12.4 Gbit/s, near 8 with its loss tool, "
               "October 2026",
}

# loss, round trip in ms: RIFT and HTTPS at 100 Mbit/s, then at 1 Gbit/s. "-": not run.
RIFT_ROWS = """
0%  5    11.67  11.89  90.16  117.91
0%  100  11.53  11.81  86.61  25.72
0%  200  11.35  11.71  78.99  12.86
1%  5    11.67  6.29   88.00  7.47
1%  100  11.36  0.23   81.57  unfinished
1%  200  11.20  -      71.57  -
2%  5    11.60  2.88   85.77  3.14
2%  100  11.28  -      79.18  -
2%  200  11.30  -      68.57  -
5%  5    11.53  -      87.33  -
5%  100  11.34  -      79.34  -
5%  200  11.30  -      61.15  -
"""
RIFT = {}
for _row in RIFT_ROWS.split("\n")[1:-1]:
    _loss, _rtt, *_values = _row.split()
    for _rate, (_rift, _https) in (("100mbit", _values[:2]), ("1gbit", _values[2:])):
        RIFT[f"{_rate}-{_rtt}ms-{_loss}"] = {"RIFT": _rift, "its HTTPS": _https}
RIFT["1gbit-200ms-5%-correlated"] = {"RIFT": "75.95", "its HTTPS": "-"}

FALCON_100 = {"Falcon fft": "33 to 40 Gbit/s, 1.2 % resent", "its 8 tuned BBR": "17.7 to 19.8 Gbit/s",
              "its CUBIC": "0.03 Gbit/s"}
FALCON_300 = {"Falcon fft": "17 to 18.5 Gbit/s, 2.9 % resent", "its 8 tuned BBR": "5.0 Gbit/s",
              "its CUBIC": "-"}
FALCON = {
    "memory-100ms-1%-tuned": FALCON_100, "memory-100ms-1%-default": FALCON_100, "files-100ms-1%": FALCON_100,
    "memory-300ms-2%-tuned": FALCON_300, "memory-300ms-2%-default": FALCON_300, "files-300ms-2%": FALCON_300,
    "1gbit-100ms": {"Falcon fft": "0.90 Gbit/s, 0.01 % resent", "its 8 tuned BBR": "0.91 Gbit/s (one BBR)",
                    "its CUBIC": "0.92 Gbit/s"},
    "500mbit-80ms-10%": {"Falcon fft": "0.39 to 0.40 Gbit/s, 11.2 % resent",
                         "its 8 tuned BBR": "0.44 to 0.45 Gbit/s", "its CUBIC": "-"},
    "memory-direct-8896": {"Falcon fft": "91 to 94 Gbit/s, 1.37 + 0.74 s/GB", "its 8 tuned BBR": "-",
                           "its CUBIC": "-"},
    "memory-direct-1500": {"Falcon fft": "37 to 41 Gbit/s", "its 8 tuned BBR": "-", "its CUBIC": "-"},
    "disk-to-disk-direct": {"Falcon fft": "8.95 of 10 Gbit/s, 1.5 s/GB a side", "its 8 tuned BBR": "-",
                            "its CUBIC": "-"},
}

FARWING = {f"stream-{loss}": {"Farwing": f"{own} Gbit/s", "its 8 BBR": f"{bbr} Gbit/s"}
           for loss, own, bbr in (("0%", 6.7, 4.9), ("0.1%", 6.1, 5.2), ("1%", 6.8, 5.1), ("3%", 6.6, 4.5))}
for _loss, _seconds in (("0%", 2.2), ("0.1%", 2.4), ("1%", 2.6), ("3%", 3.0)):
    FARWING[f"copy-{_loss}-repeated"] = {"Farwing": f"1 GiB in {_seconds} s", "its 8 BBR": "-"}
    FARWING[f"copy-{_loss}-first"] = {"Farwing": "1 GiB in 4.5 to 4.8 s", "its 8 BBR": "-"}
FARWING["beside-a-CUBIC-flow"] = {"Farwing": "a TCP flow keeps about half (4 lanes)", "its 8 BBR": "-"}

BY_FORM = {"rift": RIFT, "falcon": FALCON, "farwing": FARWING}


def columns(form):
    rows = BY_FORM.get(form, {})
    return list(next(iter(rows.values()))) if rows else []
