#!/bin/bash
# demo.sh - from a fresh checkout to a gallery: installs what is missing, builds, sends
# prompts.jsonl through the real queue and ends with the path of index.html on stdout.
#
# The stack lives in build/demo/stack and is stopped at the end; its data stays, so a second run
# finds its pictures drawn already.  `rm -r build/demo out/demo` starts from nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
stack=$build/demo/stack
out=${OUT:-out/demo}

make -s BUILD="$build" setup >&2
make -s BUILD="$build" -j"$(nproc)" all >&2

model=pipeline/models/sketch
if [ ! -e "$model/model_index.json" ]; then
    model=$build/demo/model
    if [ ! -e "$model/model_index.json" ]; then
        echo "demo: making a small random model in $model" >&2
        python3 scripts/make_random_model.py --out "$model" >&2
    fi
    echo "demo: the trained demo model is not in this checkout, so a small model with random" >&2
    echo "demo: weights draws: the whole path is real, but the pictures are clouds of colour." >&2
fi

stop() { "$build/kiln" down -q --dir "$stack" || true; }
mkdir -p "$build/demo"
trap stop EXIT
index=$("$build/kiln" run scripts/demo/prompts.jsonl --out "$out" --dir "$stack" --model "$model")
stop
trap - EXIT
echo "demo: open this page in a browser" >&2
echo "$index"
