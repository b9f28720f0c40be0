#!/bin/bash
# engine.sh - the engine beside diffusers on the demo model, or on a random one of its classes.
# PYTHON names an interpreter that has diffusers; without one Kiln is measured alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
model=pipeline/models/sketch
if ! compgen -G "$model/transformer/*.safetensors" >/dev/null; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    model=$scratch/model
    "$python" scripts/make_random_model.py --out "$model"
fi
"$python" scripts/bench/engine_vs_diffusers.py --model "$model" \
    --library "${BUILD:-build}/libdiffusionz.so" "$@"
