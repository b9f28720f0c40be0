#!/bin/bash
# The demo model draws what prompts say: forty held-out prompts through the real engine on the CPU,
# 8 steps in fp32, and the judge finds at least 92 % of what they state.  No Python.
set -u
kiln=$BUILD/kiln
case $kiln in /*) ;; *) kiln=$KILN_SOURCE/$kiln ;; esac
[ -e "${LIBTORCH:-}/lib/libtorch_cpu.so" ] || { echo "skip: no LibTorch"; exit 77; }
exec "$kiln" bench quality --model "$KILN_SOURCE/pipeline/models/sketch" --judge "$KILN_SOURCE/pipeline/models/judge" \
    --prompts "$KILN_SOURCE/tests/quality/check.jsonl" --steps 8 --dtype fp32 --at-least 92
