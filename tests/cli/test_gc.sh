#!/bin/bash
# `kiln gc` on a real stack with a directory as its store: orphans go, and nothing else does, also
# when it is killed in the middle; cancelled rows; old pictures; what it refuses.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
store=s/store
age() { touch -d '3 days ago' "$@"; }
put() { mkdir -p "$(dirname "$store/$1")" && printf 12345 >"$store/$1"; age "$store/$1"; }
objects() { find $store -type f | wc -l; }

for words in "--grace 5" "--grace 5y" "--grace -3s" "--grace 1d2" "--grace 99999w" "--older-than x" \
    "--older-than 9999999999999s" "all"; do
    fails 64 kiln gc $words
done
fails 64 kiln gc --older-than 0 --json </dev/null
says 'Add --yes to proceed'

# --- a batch, and everything that may lie beside it
cat >jobs.jsonl <<'LINES'
{"prompt": "a {red|blue|green} star", "width": 128, "height": 64, "steps": 2}
LINES
ok kiln enqueue jobs.jsonl --batch b
ok kiln wait b --timeout 60
ok kiln jobs --batch b --json
done_job=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
real=$(objects)
find $store -type f | sort >real.txt
age $(cat real.txt)
put images/2026/11/"$done_job"/full-0123456789abcdef.webp # of a done job, never committed
put images/2026/11/999999/256-0123456789abcdef.webp      # of a job that nobody knows
put latents/m/2026/11/"$done_job"-0123456789abcdef.safetensors.zst
put probe/0123456789abcdef
put images/notes.txt # not Kiln's, and never touched
put "images/2026/11/$done_job/full-sp ace.webp"
put "images/2026/11/$done_job/full-\"quote.webp"
put images/2026/11/0x5/full-0123456789abcdef.webp
put other/file
young=images/2026/11/"$done_job"/full-fedcba9876543210.webp
put $young
touch $store/$young
ok kiln gc --dry-run --json
json out.txt 'd["dry_run"] and d["orphans"] == 4 == len(d["objects"]) and d["orphan_bytes"] == 20 and d["removed"] == 0'
json out.txt 'd["young"] == 1 and d["foreign"] == 4 and d["named"] == '"$real"' and d["grace_s"] == 86400'
ok kiln gc --dry-run
[ "$(wc -l <out.txt)" = 4 ] || die "the dry run lists other objects"
says "5 images/2026/11/999999/256-0123456789abcdef.webp" out.txt
says "would remove 4 orphans"
[ "$(objects)" = $((real + 10)) ] || die "a dry run removed something"
ok kiln gc --json
json out.txt 'd["removed"] == 4 and d["removed_bytes"] == 20 and d["failed"] == 0'
[ "$(objects)" = $((real + 6)) ] || die "not the four orphans went"
ok kiln gc --grace 0s --json
json out.txt 'd["removed"] == 1 and d["young"] == 0'
[ -e "$store/other/file" ] && [ -e "$store/images/2026/11/$done_job/full-sp ace.webp" ] || die "a foreign file went"
ok kiln gc --json
json out.txt 'd["removed"] == 0 and d["orphans"] == 0'
[ ! -d $store/images/2026/11/999999 ] || die "an empty directory is left"

# --- of a job that waits or runs nothing is touched; of one that was cancelled, it is
kill -STOP "$(pid_of s worker-0)"
ok kiln enqueue jobs.jsonl --batch live
ok kiln jobs --batch live --json
mapfile -t live < <(python3 -c 'import json; [print(json.loads(line)["job"]) for line in open("out.txt")]')
for job in "${live[@]}"; do put images/2026/11/"$job"/full-0123456789abcdef.webp; done
ok kiln cancel "${live[0]}"
ok kiln gc --grace 0 --json
json out.txt 'd["live"] == 2 and d["removed"] == 1 and d["cancelled_jobs"] == 1'
[ -e $store/images/2026/11/"${live[1]}"/full-0123456789abcdef.webp ] || die "an object of a live job went"
fails 66 kiln show "${live[0]}"
ok kiln show live --json
json out.txt 'd["jobs"]["cancelled"] == 1 == d["removed"] and d["whole"]'
kill -CONT "$(pid_of s worker-0)"
fails 1 kiln wait live --timeout 60
says '2 done, 0 failed, 1 cancelled'
says 'has removed the rows of 1 cancelled job'
ok kiln gc --json
json out.txt 'd["removed"] == 2 and d["live"] == 0'
ok kiln cancel live --yes
ok kiln gc --json
json out.txt 'd["cancelled_jobs"] == 0'

# --- the doctor takes samples: a row without its object is a finding
doctor() { kiln doctor --json >out.txt 2>err.txt; }
objects_say() { json out.txt '[f["verdict"] for f in d["findings"] if f["check"] == "objects"] == ["'"$1"'"]'; }
ok doctor
objects_say ok
mv $store/images away
fails 1 doctor
objects_say bad
mv away $store/images

# --- killed in the middle, again and again, and then left to end
while read -r file; do [ -e "$file" ] || die "$file went"; done <real.txt
before=$(objects)
orphans() {
    python3 - $store "$done_job" <<'PYTHON'
import os, sys
for i in range(3000):
    name = f"{sys.argv[1]}/images/2026/11/{500000 + i if i % 3 else sys.argv[2]}/512-{i:016x}.webp"
    os.makedirs(os.path.dirname(name), exist_ok=True)
    open(name, "w").write("x" * 10)
    os.utime(name, (1.7e9, 1.7e9))
PYTHON
}
orphans
fails 78 kiln gc </dev/null
says 'perhaps it is the store of another ledger'
[ "$(objects)" = $((before + 3000)) ] || die "removed without being sure"
interrupted=0
for round in $(seq 20); do # on a busy machine a run may be over before it is looked at
    [ $interrupted -lt 3 ] || break
    [ "$(objects)" -gt $((before + 100)) ] || orphans
    start=$(objects)
    "$kiln_bin/kiln" gc --yes -q >/dev/null 2>&1 &
    pid=$!
    while alive $pid && [ "$(objects)" -ge $((start - 50)) ]; do sleep 0.01; done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    left=$(objects)
    [ "$left" -le "$before" ] || [ "$left" -ge "$start" ] || interrupted=$((interrupted + 1))
    [ "$left" -ge "$before" ] || die "a killed run removed too much"
done
[ $interrupted -gt 0 ] || die "no run was killed in the middle"
ok kiln gc --yes --json
[ "$(objects)" = "$before" ] || die "$(objects) objects are left, not $before"
while read -r file; do [ -e "$file" ] || die "$file went"; done <real.txt
rm -rf x && ok kiln export b --out x --latents

# --- pictures of old batches: rows first, then objects
ok kiln gc --older-than 1h --yes --json
json out.txt 'd["pictures"] == 0'
ok kiln usage --json
cp out.txt usage.txt
fails 64 kiln favourite add
ok kiln favorite ls
ok kiln help favorite
fails 66 kiln favourite add x
fails 64 kiln favourite keep "$done_job"
fails 64 kiln favourite add "$done_job" --batch b
fails 64 kiln favourite add "$done_job" b
fails 64 kiln favourite rm b
fails 66 kiln favourite add 999999
fails 66 kiln favourite add --batch nobody
ok kiln favourite add "$done_job" --json
json out.txt 'd["changed"] == 1 and d["favourite"]'
ok kiln favourite add b --json
json out.txt 'd["changed"] == 2 and d["pictures"] == 3'
ok kiln favourite ls --json
json out.txt 'len(d) == 3 and d[0]["batch"] == "b" and d[0]["key"].startswith("images/")'
ok kiln gc --older-than 0 --dry-run --json
json out.txt 'd["pictures"] == 2'
ok kiln favourite rm b --yes --json
json out.txt 'd["changed"] == 3 and not d["favourite"]'
ok kiln favourite add "$done_job"
ok kiln gc --older-than 0 --yes --json
json out.txt 'd["pictures"] == 4 and d["removed"] == 8'
ok kiln export b --out kept
[ "$(find kept -name '*.webp' | wc -l)" = 1 ] || die "the favourite is gone"
ok kiln favourite rm "$done_job"
ok kiln gc --older-than 0 --dry-run --json
json out.txt 'd["pictures"] == 1 and len(d["objects"]) == 2 and d["old_bytes"] > 0 and d["latents"] == 0 and d["removed"] == 0'
ok kiln gc --older-than 0 --yes --json
json out.txt 'd["pictures"] == 1 and d["removed"] == 2 and d["orphans"] == 0'
[ "$(find $store -name '*-????????????????.webp' -o -name "*.zst" | grep -vc 0x5)" = 0 ] || die "pictures are left"
ok kiln jobs --batch b --state done --json
json out.txt 'len(d) == 3'
ok kiln usage --json
python3 - <<'PYTHON' || die "what the pictures cost is forgotten"
import json
before, after = (json.loads(open(name).readline()) for name in ("usage.txt", "out.txt"))
same = all(before[key] == after[key] for key in ("jobs", "pictures"))
assert same and after["jobs"] == 5 and abs(before["gpu_seconds"] - after["gpu_seconds"]) < 0.01, (before, after)
PYTHON
ok kiln show "$done_job" --json
json out.txt 'd["images"] == [] and d["state"] == "done"'
ok kiln export b --out y --html
ok kiln batch rm b --yes
ok kiln usage --json
json out.txt '[r["jobs"] for r in d if "jobs" in r] == [5] if isinstance(d, list) else d["jobs"] == 5'

# --- a batch that was cancelled as a whole does not look done once its rows are gone
kill -STOP "$(pid_of s worker-0)"
ok kiln enqueue jobs.jsonl --batch none
ok kiln cancel none --yes
ok kiln gc --grace 0 --json
json out.txt 'd["cancelled_jobs"] == 3'
[ "$(sql "SELECT count(*) FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'none'")" = 0 ] || die "rows are left"
fails 1 kiln wait none --json
json out.txt 'd["result"] == "cancelled" and d["jobs"]["cancelled"] == 3 == d["removed"]'
ok kiln show none
says '^  cancelled  3$' out.txt
says '^  removed    3 of the cancelled' out.txt
ok kiln batch show none --json
json out.txt 'd["jobs"]["cancelled"] == 3 == d["removed"] and d["ended"]'
kill -CONT "$(pid_of s worker-0)"
ok kiln enqueue jobs.jsonl --batch none # sent again, they are jobs like any other
ok kiln wait none --timeout 60 --json
json out.txt 'd["result"] == "done" and d["jobs"]["done"] == 3 and d["jobs"]["cancelled"] == 0 == d["removed"]'
ok kiln batch rm none --yes
[ "$(sql "SELECT count(*) FROM removed_job r JOIN batch b ON b.id = r.batch_id WHERE name = 'none'")" = 0 ] || die "keys are left"

# --- a store that cannot be looked through
fails 69 kiln gc --store s3://nowhere/x --s3-endpoint http://127.0.0.1:9 --s3-credentials-file <(printf '[default]\naws_access_key_id=a\naws_secret_access_key=b\n')
echo ok
