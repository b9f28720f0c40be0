#!/bin/bash
# gpu.sh - the engine at full size on a GPU, and diffusers on the same configs in the same call.
# SIZES, BATCHES, DTYPES, DEVICE and BUDGET_S (seconds for one case of the peer, compiling included)
# change what is measured; PYTHON names an interpreter that has diffusers, without which Kiln is
# measured alone.  At the end a queue that is full, through the real scheduler and one worker, for the
# share of time in which the GPU had nothing to do: FLEET_JOBS pictures, where the servers are.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build} python=${PYTHON:-python3} device=${DEVICE:-cuda:0}
sizes=${SIZES:-512,768,1024,1536,2048} batches=${BATCHES:-1,4}
config=scripts/bench/z-image-turbo
echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
engine=("$build/kiln" bench engine --config "$config" --random-weights --device "$device"
    --sizes "$sizes" --batch "$batches" --dtype "${DTYPES:-bf16,fp8}")
if "$python" -c 'import diffusers, transformers' 2>/dev/null; then
    result=$(mktemp)
    trap 'rm -f "$result"' EXIT
    "${engine[@]}" --json >"$result"
    "$python" scripts/bench_peer.py --config "$config" --device "$device" --sizes "$sizes" \
        --batch "$batches" --budget-s "${BUDGET_S:-120}" --beside "$result"
else
    echo "skip: $python has no diffusers, so there is no peer to compare with"
    "${engine[@]}"
fi
if command -v redis-server >/dev/null && ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    "$build/kiln" bench fleet --engine random --model "$config" --device "$device" --devices 1 \
        --sizes 1024x1024,512x512 --jobs "${FLEET_JOBS:-48}"
else
    echo "skip: Redis and Postgres are not both here, so there is no queue to keep full"
fi
