#!/bin/bash
# golden_sketch.sh - remakes the pictures of tests/golden/sketch after the demo model has changed.
#
#     scripts/golden_sketch.sh          BUILD=dir for another build, MODEL=dir for another model
#
# Look at them before they are committed: from then on they are what the model is held to.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} model=${MODEL:-pipeline/models/sketch} golden=tests/golden/sketch
while IFS=$'\t' read -r file width height steps seed prompt; do
    case $file in '' | '#'*) continue ;; esac
    "$build/kiln-worker" render --model "$model" --device cpu --dtype fp32 --lossless --prompt "$prompt" \
        --width "$width" --height "$height" --steps "$steps" --seed "$seed" --out "$golden/$file"
done <"$golden/cases.tsv"
du -ch "$golden"/*.webp | tail -n 1
