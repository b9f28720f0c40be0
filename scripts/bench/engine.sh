#!/bin/bash
# engine.sh - the engine beside diffusers on the sketch model.
# PYTHON names an interpreter that has diffusers; without one Kiln is measured alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
"$python" scripts/bench/engine_vs_diffusers.py --model pipeline/models/sketch \
    --library "${BUILD:-build}/libdiffusionz.so" "$@"
