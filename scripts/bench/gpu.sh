#!/bin/bash
# gpu.sh - times the engine and diffusers at full size on a GPU, on the same weights: peer_model.py
# makes random ones and writes a model directory of 20.5 GB, both programs read it and are timed, and
# their results are compared (forward_error.py).  Then a full queue through the real scheduler and one
# worker, for the share of time in which the GPU was idle.
# Variables: SIZES, BATCHES, DTYPES, DEVICE; BUDGET_S, seconds for one case of the peer, compiling
# included; PEER, more options of bench_peer.py; MODEL_DIR, where the directory is while this runs
# (in memory); PYTHON, an interpreter that has diffusers (without one only Kiln is measured);
# FLEET_JOBS, pictures of the queue.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build} python=${PYTHON:-python3} device=${DEVICE:-cuda:0}
sizes=${SIZES:-512,768,1024,1536,2048} batches=${BATCHES:-1,4} dtypes=${DTYPES:-bf16,fp8}
config=scripts/bench/z-image-turbo
failed=0

# timed WHAT COMMAND...: says how long it took; goes on when it fails.
timed() {
    local what=$1 begin=$SECONDS status=0
    shift
    "$@" || status=$?
    echo "-- $what: $((SECONDS - begin)) s$([ $status = 0 ] || echo ", FAILED with status $status")" >&2
    [ $status = 0 ] || failed=1
    return $status
}

# bench OPTIONS...: Kiln's side.
bench() {
    "$build/kiln" bench engine --device "$device" --sizes "$sizes" --batch "$batches" \
        --dtype "$dtypes" "$@"
}

echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
if "$python" -c 'import diffusers, transformers' 2>/dev/null; then
    # Kiln writes its 8-bit rows beside the weights: another 9 GB.
    parent=${MODEL_DIR:-$(scripts/bench/roomy.sh 32 /dev/shm "${TMPDIR:-/tmp}")}
    model=$(mktemp -d "$parent/kiln-model.XXXXXX")
    trap 'rm -rf "$model" "$model.json"' EXIT
    timed "the model written" "$python" scripts/bench/peer_model.py --config "$config" \
        --device "$device" --out "$model"
    timed "Kiln" bench --config "$model" --json >"$model.json"
    # shellcheck disable=SC2086 # options
    timed "its peer" "$python" scripts/bench_peer.py --model "$model" --device "$device" \
        --sizes "$sizes" --batch "$batches" --budget-s "${BUDGET_S:-120}" --beside "$model.json" ${PEER:-} || true
    timed "the same results" "$python" scripts/bench/forward_error.py --model "$model" \
        --library "$build/libdiffusionz.so" --device "$device" --dtypes "fp32,$dtypes" || true
    rm -rf "$model"
else
    echo "skip: $python has no diffusers, so there is no peer to compare with"
    timed "Kiln" bench --config "$config" --random-weights
fi
status=0
"$build/kiln" bench fleet --engine random --model "$config" --device "$device" --devices 1 \
    --sizes 1024x1024,512x512 --jobs "${FLEET_JOBS:-48}" || status=$?
case $status in
0) ;;
78) echo "skip: no queue was kept full, for the reason above" ;; # EX_CONFIG: a server is not installed
*) failed=1 ;;
esac
exit $failed
