#!/bin/bash
# `kiln export` of a batch of an earlier release, in which jobs have one index: no file is another's.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --lease-s 1 --heartbeat-s 0.2
export KILN_CONFIG=$PWD/s/kiln.conf
export KILN_EMBED_METADATA=off # files are compared with objects
for name in plain 'job' 'a/b' 'a_b'; do
    printf '{"prompt": "one %s", "custom_id": "%s", "width": 64, "height": 64, "steps": 1}\n' "$name" "$name"
done >jobs.jsonl
echo '{"prompt": "two", "count": 2, "width": 64, "height": 64, "steps": 1}' >>jobs.jsonl
ok kiln enqueue jobs.jsonl --batch old
ok kiln wait old --timeout 60
sql "UPDATE job SET index = 3 WHERE batch_id = (SELECT id FROM batch WHERE name = 'old')"
ok kiln export old --out out --html
[ "$(find out/full -type f | wc -l)" = 6 ] || die "files were lost: $(ls out/full)"
[ "$(cat out/full/* | sha256sum)" != "$(cat out/full/000003-plain.webp | sha256sum)" ] || die "one picture"
python3 - <<'PYTHON' || die "results.jsonl and the files differ"
import hashlib, json
rows = [json.loads(line) for line in open("out/results.jsonl")]
assert len(rows) == 6
assert len({row["files"]["full"] for row in rows}) == 6, rows
for row in rows:
    sha = next(i["sha256"] for i in row["images"] if i["size"] == "full")
    assert hashlib.sha256(open("out/" + row["files"]["full"], "rb").read()).hexdigest() == sha, row
PYTHON
ok kiln export old --out out --json
json out.txt 'd["fetched"] == 0 and d["pictures"] == 6'
echo ok
