#!/bin/bash
# contact_sheet.sh - makes scripts/demo/sheet.webp, the picture in README.md, of the demo's own pictures.
#
# To be run, and its result committed, after the sketch model, its LoRAs or prompts.jsonl have changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-out/sheet}
rm -f "$out/sheet.webp"
KEEP=0 OUT="$out" scripts/demo/demo.sh --batch "sheet-$(date +%s)" >/dev/null # not what an older model drew
size=$(stat -c %s "$out/sheet.webp")
if [ "$size" -gt 300000 ]; then
    echo "contact_sheet: $out/sheet.webp has $size bytes; 300000 are the limit" >&2
    exit 1
fi
cp "$out/sheet.webp" scripts/demo/sheet.webp
echo "contact_sheet: scripts/demo/sheet.webp, $size bytes" >&2
