#!/bin/sh
# Makes tests/vectors/tree_hash.txt: sizes and BLAKE3 hashes of bytes that repeat 0..250, by b3sum.
# Needs python3 (for the bytes) and b3sum.
set -e
block=1048576
sizes="0 1 2 63 64 65 127 128 129 1023 1024 1025 2047 2048 2049 3072 3073 4096 8192 16384 31744"
sizes="$sizes 65535 65536 65537 524288 700001"
for n in 1 2 3 4 5 7 8 9; do
  sizes="$sizes $((n * block - 1)) $((n * block)) $((n * block + 1))"
done
sizes="$sizes $((2 * block + 1024)) $((3 * block + 5000)) $((4 * block + 65536))"
for size in $sizes; do
  hash=$(python3 -c "
import sys
n = $size
sys.stdout.buffer.write((bytes(range(251)) * (n // 251 + 1))[:n])" | b3sum --no-names)
  echo "$size $hash"
done
