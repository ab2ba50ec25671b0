#!/usr/bin/env python3
"""Writes the constants of model.json as rows of a C table: model_header.py MODEL HEADER."""
import json
import sys

FIELDS = ("fixed_s", "rtts", "loss_rtts", "start", "share", "loss_cost", "loss_rtt_cost",
          "window_bytes", "strength", "processor_bytes_per_s")
with open(sys.argv[1], encoding="utf-8") as file:
    model = json.load(file)
with open(sys.argv[2], "w", encoding="utf-8") as out:
    print("/* Made of lab/model.json by lab/model_header.py: see cli/measure/estimate_model.h. */", file=out)
    print(f'#define ESTIMATE_FITTED_ON "{model["fitted_on"]}"', file=out)
    print("#define ESTIMATE_PROGRAMS \\", file=out)
    for name, one in model["programs"].items():
        values = [one["payload"], *(one["constants"][field] for field in FIELDS)]
        error = one["held_out"].get("median_percent", -1)
        print(f'    {{"{name}", "{one["title"]}", {{{", ".join(repr(float(v)) for v in values)}}}, '
              f"{float(error)!r}}}, \\", file=out)
    print("", file=out)
