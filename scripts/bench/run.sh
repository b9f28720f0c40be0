#!/bin/bash
# run.sh - `make bench`: the machine, the queue on private servers, the engine beside diffusers in the
# same run (PYTHON names an interpreter that has diffusers), the quality of the pictures.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}

echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), load $(cut -d' ' -f1 /proc/loadavg)"
echo "commit:  $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u +%F)"

echo
echo "== enqueue: job lines a second into Redis (AOF everysec) =="
"$build/kiln" bench enqueue
echo
echo "== queue: scheduler, worker, store and ledger for real; the engine returns a test card =="
"$build/kiln" bench queue
echo
echo "== scale: 64 simulated workers that render nothing; then a restart on a full queue, and a killed worker =="
"$build/kiln" bench queue --jobs 100000
"$build/kiln" bench restart
"$build/kiln" bench recovery --jobs 4

echo
echo "== policy: a decision, a million jobs and a thousand workers in memory =="
"$build/kiln" bench policy
echo
echo "== reuse: whether a latent of one prompt may serve another =="
"$build/kiln" bench reuse
echo
echo "== engine: one picture on the CPU, Kiln beside diffusers =="
scripts/bench/engine.sh --sizes 256,512 --dtypes fp32,bf16
echo
echo "== quality: how much of what prompts say is in the pictures, on the CPU =="
"$build/kiln" bench quality -n 25
echo
echo "== auto: LoRAs chosen by prompts, beside LoRAs set by hand =="
python3 scripts/bench/auto_loras.py --build "$build" -n 60
