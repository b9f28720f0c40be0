#!/bin/bash
# The generator of pictures makes rows and files like real ones, and `kiln bench gallery` indexes and
# searches them; how fast is for `make bench`.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
conninfo=$(sed -n 's/^postgres = //p' s/kiln.conf)
make="python3 $source_dir/scripts/bench/gallery_make.py"
fails 66 kiln bench gallery --config s/kiln.conf
says 'too few words'
fails 1 $make "$conninfo" --pictures 10
says 'render a few first'
echo '{"prompt": "a red star", "width": 640, "height": 320, "steps": 2, "count": 3}' >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch first
ok kiln wait first
ok $make "$conninfo" --pictures 20000 --store s/store --files 50
[ "$(sql 'SELECT count(*) FROM image')" = 20003 ] || die "not 20003 pictures"

# What is made is as what was rendered: the hash of the prompt, the keys, the bytes.
[ "$(sql "SELECT count(DISTINCT prompt_hash) BETWEEN 14000 AND 18000 FROM image")" = t ] || die "variants"
ok kiln show "$(sql 'SELECT max(id) FROM job')" --json
json out.txt 'd["state"] == "done" and d["width"] == 640 and len(d["images"]) == 3'
file=s/store/$(sql "SELECT key FROM object WHERE job_id = (SELECT max(id) FROM job) AND role = 'full'")
[ "$(sha256sum <"$file" | cut -c1-64)" = "$(sql "SELECT sha256 FROM object WHERE key = '${file#s/store/}'")" ] ||
    die "$file is another file"

ok kiln bench gallery --jobs 48 --config s/kiln.conf --json
json out.txt 'len(d["classes"]) == 17 and d["classes"][0]["searches"] == 48'
json out.txt 'all(0 < c["p50_ms"] <= c["p99_ms"] <= c["most_ms"] for c in d["classes"])'
[ "$(sql 'SELECT count(*) FROM gallery_text')" = 20003 ] || die "not all are indexed"
