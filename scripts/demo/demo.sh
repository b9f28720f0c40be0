#!/bin/bash
# demo.sh - from a fresh checkout to a gallery: installs what is missing, builds, sends
# prompts.jsonl through the real queue and ends with the path of index.html on stdout.
#
# The stack is in build/demo/stack.  At the end its worker is stopped; the rest keeps running for the
# web gallery, whose address is printed, until `kiln down`; KEEP=0 stops it too.  The data stays, so a
# second run finds its pictures already rendered; `rm -r build/demo out/demo` starts over.  Options
# go to kiln run.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
stack=$build/demo/stack
out=${OUT:-out/demo}

BROWSER=0 make -s BUILD="$build" setup >&2
make -s BUILD="$build" -j"$(nproc)" all >&2

note="Rendered by the sketch model, which knows one to three coloured shapes on a plain, patterned or \
scenic background, styles by LoRA, and nothing else. Use a real checkpoint \
(Tongyi-MAI/Z-Image-Turbo in diffusers layout) with --model DIR."

stop() { "$build/kiln" down -q --dir "$stack" || true; }
mkdir -p "$build/demo" "$out"
trap stop EXIT
index=$("$build/kiln" run scripts/demo/prompts.jsonl --out "$out" --force --dir "$stack" \
    --model pipeline/models/sketch --sheet "$out/sheet.webp" --note "$note" "$@")
address=
if [ "${KEEP:-1}" = 1 ]; then
    "$build/kiln" worker stop --all --yes -q --dir "$stack" >&2
    address=$(cat "$stack/run/gallery.url" 2>/dev/null || true)
else
    stop
fi
trap - EXIT
echo "demo: $note" | fold -s -w 78 | sed 's/ *$//' >&2
if [ -n "$address" ]; then
    echo "demo: search all pictures: $address" >&2
    echo "demo: its worker is stopped; for more pictures: $build/kiln up --dir $stack" >&2
    echo "demo: to stop the rest: $build/kiln down --dir $stack" >&2
fi
echo "demo: open this page in a browser" >&2
echo "$index"
