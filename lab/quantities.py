"""Sizes, rates, times and shares as people write them: "2GiB", "1gbit", "100ms", "1%".

Each reader returns a number in the unit that its name ends in, and raises ValueError with an example.
"""
import re

SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kib": 1 << 10, "mib": 1 << 20,
         "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
RATES = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}


def split(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not match:
        raise ValueError(f"'{text}' is no number with a unit")
    return float(match[1]), match[2]


def read(text, units, example):
    try:
        number, unit = split(text)
        return number * units[unit]
    except (ValueError, KeyError):
        raise ValueError(f"'{text}' should be like {example}") from None


def size_bytes(text):
    return int(read(text, SIZES, "2GiB, 256MiB or 1GB"))


def rate_bps(text):
    """0 for none: no limit."""
    if text.strip().lower() == "none":
        return 0
    rate = int(read(text, RATES, "1gbit, 100mbit or none"))
    if rate < 1000:
        raise ValueError(f"'{text}' is less than 1kbit; no limit is 'none'")
    return rate


def time_s(text):
    return 0.0 if text.strip() == "0" else read(text, TIMES, "100ms, 60s or 5m")


def share(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if not match or float(match[1]) > 100:
        raise ValueError(f"'{text}' should be a share from 0% to 100%, such as 1%")
    return float(match[1]) / 100


def count(text, least=1):
    if not text.strip().isdigit() or int(text) < least:
        raise ValueError(f"'{text}' should be a whole number from {least} up")
    return int(text)


def show_size(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def show_rate(rate):
    if not rate:
        return "no limit"
    for unit, factor in (("Gbit/s", 10**9), ("Mbit/s", 10**6)):
        if rate >= factor:
            return f"{rate / factor:g} {unit}"
    return f"{rate / 1000:g} kbit/s"
