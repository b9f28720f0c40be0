#!/bin/bash
# The bench of a loaded gallery runs to its end on a small one, with browsers and workers on other
# processors where the machine has a third; else it says that it needs one.  So does a list of more
# queries than its captions answer.
. "$KILN_SOURCE/tests/cli/lib.sh"
. "$source_dir/tests/gallery/lib.sh"

lists() { timeout 60 python3 "$source_dir/scripts/bench/caption_lists.py" --out lists "$@"; }
fails 1 lists --captions 300 --queries 50
says '^300 captions answer 12 different queries, .*: make more with --captions, or ask for fewer with --queries$'
[ ! -s out.txt ] && [ ! -e lists/captions.jsonl ] || die "lists were written"
ok lists --captions 300 --queries 5
[ "$(wc -l <lists/queries.jsonl)" = 5 ] || die "not 5 queries"

gallery_stack
sed -i '/^model = /d' stack/kiln.conf
echo "model = $source_dir/pipeline/models/sketch" >>stack/kiln.conf
load() { "$@" "$kiln_bin/kiln" bench gallery-load --embedder auto --jobs 1 --json "${apart[@]}"; }
apart=(--apart) on=()
online=$(getconf _NPROCESSORS_ONLN)
if [ "$online" -lt 3 ]; then
    fails 65 load
    says "apart needs 3 processors or more, .*; this machine has $online\$"
elif [ "$(nproc)" = "$online" ]; then
    fails 65 load
    says 'no processor is left for browsers and workers; start the bench on some of them only: taskset -c 0,1 '
fi
if [ "$(nproc)" -lt 3 ]; then
    echo "skip: a run with --apart needs a third processor"
    apart=()
else
    on=(taskset -c "$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep=",")')")
fi
echo '{"prompt": "a {red|blue} {star|circle}", "size": "512x512"}' >jobs.jsonl
fill first jobs.jsonl
ok kiln down --daemons --dir stack
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
ok python3 "$source_dir/scripts/bench/gallery_make.py" "$(sed -n 's/^postgres = //p' stack/kiln.conf)" \
    --pictures 12000 --store "$PWD/stack/store" --files 1000 # fewer have too few rare words
before=$(sql "SELECT count(*) FROM image")
ok load "${on[@]}"
json out.txt 'd["bench"] == "gallery-load" and d["seconds"] == 1 and d["browse_s"] > 0 and d["search_s"] > 0'
json out.txt 'len(d["times"]) > 6 and all(t["count"] > 0 for t in d["times"] if t["what"] in ("search by words", "thumbnail"))'
[ "$(sql "SELECT count(*) FROM image")" = "$before" ] || die "pictures of the bench are left"
exit 0
