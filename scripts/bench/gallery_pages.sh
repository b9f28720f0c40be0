#!/bin/bash
# gallery_pages.sh [PICTURES] - the gallery's pages and an exported page in Chromium, over a private
# stack whose pictures are test cards (10,000).  Prints the table of gallery_pages.py.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
kiln=${KILN:-$source/build/kiln}
pictures=${1:-10000}
work=$(mktemp -d "${TMPDIR:-/tmp}/kiln-pages.XXXXXX")
gallery=
finish() {
    [ -z "$gallery" ] || kill "$gallery"
    "$kiln" down -q --dir "$work/stack" || true
    rm -rf "$work"
}
trap finish EXIT

"$kiln" up -q --dir "$work/stack" --workers 2 --engine testcard --no-gallery >&2
export KILN_CONFIG=$work/stack/kiln.conf
python3 - "$pictures" >"$work/jobs.jsonl" <<'PYTHON'
import json, random, sys
dice = random.Random(31)
colours, shapes = "red green blue yellow purple orange black white".split(), "star circle square ring heart moon".split()
sizes = ("128x128", "128x192", "192x128", "128x128")
for number in range(int(sys.argv[1])):
    words = [f"a {dice.choice(colours)} {dice.choice(shapes)}" for _ in range(dice.randint(2, 24))]
    print(json.dumps({"prompt": ", ".join(words), "size": dice.choice(sizes), "seed": number, "steps": 1}))
PYTHON
"$kiln" enqueue "$work/jobs.jsonl" --batch pages >&2
"$kiln" wait pages --timeout 900 >&2
"$kiln" export pages --out "$work/export" --html -q >/dev/null
"$kiln" gallery serve --port 0 --url-file "$work/url" >/dev/null 2>"$work/gallery.log" &
gallery=$!
for _ in $(seq 100); do [ -s "$work/url" ] && break || sleep 0.1; done
sleep 10 # in which the follower reads them
python3 "$source/scripts/bench/gallery_pages.py" "$(cat "$work/url")" "$work/export"
