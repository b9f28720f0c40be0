#!/bin/bash
# gpu.sh - the engine at full size on a GPU, and diffusers on the same configs in the same call.
# SIZES, BATCHES, DTYPES, DEVICE and BUDGET_S (seconds for one case of the peer, compiling included)
# change what is measured; PYTHON names an interpreter that has diffusers, without which Kiln is
# measured alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build} python=${PYTHON:-python3} device=${DEVICE:-cuda:0}
sizes=${SIZES:-512,768,1024,1536,2048} batches=${BATCHES:-1,4}
config=scripts/bench/z-image-turbo
echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
engine=("$build/kiln" bench engine --config "$config" --random-weights --device "$device"
    --sizes "$sizes" --batch "$batches" --dtype "${DTYPES:-bf16,fp8}")
if ! "$python" -c 'import diffusers, transformers' 2>/dev/null; then
    echo "skip: $python has no diffusers, so there is no peer to compare with"
    exec "${engine[@]}"
fi
result=$(mktemp)
trap 'rm -f "$result"' EXIT
"${engine[@]}" --json >"$result"
"$python" scripts/bench_peer.py --config "$config" --device "$device" --sizes "$sizes" \
    --batch "$batches" --budget-s "${BUDGET_S:-120}" --beside "$result"
