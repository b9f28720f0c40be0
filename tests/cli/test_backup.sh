#!/bin/bash
# `kiln backup` and `kiln restore` on a real stack: a backup under way while pictures are drawn, the
# database dropped and restored, the gallery and the ledger in agreement with the store, objects that
# are missing named, and everything that must be refused.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
store=s/store
fails 64 kiln backup
fails 73 kiln backup --out "$PWD"
fails 66 kiln backup --out nowhere/b
fails 64 kiln restore
fails 66 kiln restore nowhere

cat >jobs.jsonl <<'LINES'
{"prompt": "a {red|blue|green|white} star", "width": 128, "height": 64, "steps": 2, "count": 5}
LINES
ok kiln enqueue jobs.jsonl --batch before
ok kiln wait before --timeout 60
ok kiln jobs --json
cp out.txt before.txt

# --- a backup while the fleet draws: dump and list are of one moment
sed 's/"count": 5/"count": 60/' jobs.jsonl >many.jsonl
ok kiln enqueue many.jsonl --batch during
ok kiln backup --out b1 --json
json out.txt 'd["jobs"] == 260 and 40 <= d["objects"] < 520 and d["backup"] == "b1"'
objects=$(python3 -c 'import json; print(json.load(open("out.txt"))["objects"])')
[ "$(stat -c %a b1 b1/* | sort -u | tr '\n' ' ')" = "600 700 " ] || die "others may read the backup"
[ "$(wc -l <b1/objects.jsonl)" = "$objects" ] || die "the list and its count differ"
LC_ALL=C sort -c b1/objects.jsonl || die "the list is not in order"
json b1/backup.json "d['objects'] == $objects and d['format'] == 1"
json b1/objects.jsonl 'all(set(o) == {"key", "bytes", "sha256"} for o in d)'
fails 73 kiln backup --out b1
[ ! -e b1.part ] || die "a part is left"
fails 75 kiln restore b1 --yes
says 'stop schedulers and workers'
ok kiln wait during --timeout 60
ok kiln restore b1/ --check --hashes --json
json out.txt "not d['restored'] and d['objects'] == $objects and d['missing'] == d['differ'] == 0 and d['wrong'] == []"

# --- what only a later ledger knew is gone after it, and no number is given out twice
ok kiln enqueue jobs.jsonl --batch after
ok kiln wait after --timeout 60
ok kiln jobs --batch after --json
last=$(python3 -c 'import json; print(max(json.loads(line)["job"] for line in open("out.txt")))')
daemons_end() {
    ok kiln down --dir s --daemons --json
    json out.txt 'd["stopped"] == 3' # the gallery too
    for name in redis postgres; do alive "$(pid_of s $name)" || die "$name went with the daemons"; done
}
daemons_end
ok kiln down --dir s --daemons
says 'no daemon runs'
fails 64 kiln restore b1 </dev/null
says 'Add --yes to proceed'
ok kiln jobs --batch after --json
json out.txt 'len(d) == 20'
ok kiln restore b1 --yes --hashes --json
json out.txt "d['restored'] and d['jobs'] == 260 and d['missing'] == d['differ'] == 0 and d['extra'] > 80"
fails 66 kiln show after
ok kiln up --dir s
ok kiln wait during --timeout 60
ok kiln enqueue jobs.jsonl --batch again
ok kiln wait again --timeout 60
ok kiln jobs --batch again --json
json out.txt "min(job['job'] for job in d) > $last"

# --- the database is dropped, and comes back from the backup
ok kiln backup --out b2
ok kiln export before --out gallery --latents
daemons_end
sockets=$(sed -n 's/^postgres = .*host=\([^ ]*\).*/\1/p' s/kiln.conf)
owner=$(sed -n 's/^postgres = .*user=\([^ ]*\).*/\1/p' s/kiln.conf)
base=$(sed -n 's/^postgres = .*dbname=\([^ ]*\).*/\1/p' s/kiln.conf)
sql() { psql -X -q -A -t -h "$sockets" -U "${owner:-$(id -un)}" -d "$1" -c "$2"; }
sql template1 "DROP DATABASE $base WITH (FORCE)" || die "cannot drop the database"
fails 78 kiln jobs
fails 78 kiln restore b2
sql template1 "CREATE DATABASE $base" || die "cannot make a database"
sql "$base" 'CREATE TABLE theirs (x int)'
fails 73 kiln restore b2 --yes
says 'has 1 table but no ledger'
sql "$base" 'DROP TABLE theirs'
mv "$store/images" elsewhere
fails 1 kiln restore b2
[ "$(wc -l <out.txt)" = 20 ] || die "$(wc -l <out.txt) missing objects are listed, not the first 20"
says 'the first 20 are listed; `kiln restore b2 --check` lists all'
mv elsewhere "$store/images"
ok kiln restore b2 --yes --json
json out.txt 'd["restored"] and d["jobs"] == 280 and d["objects"] == 560 and d["missing"] == 0'
ok kiln jobs --batch before --json
cmp out.txt before.txt || die "the jobs came back different"
ok kiln up --dir s
rm -rf gallery/results.jsonl && mkdir second
ok kiln export before --out second/gallery --latents
ok kiln doctor
diff -r <(cd gallery && find . -type f ! -name results.jsonl ! -name index.html ! -name .kiln-export | sort | xargs sha256sum) \
    <(cd second/gallery && find . -type f ! -name results.jsonl ! -name index.html ! -name .kiln-export | sort | xargs sha256sum) ||
    die "the gallery is another one"
ok kiln enqueue jobs.jsonl --batch new
ok kiln wait new --timeout 60

# --- objects that are missing or have other bytes are named, and nothing else
mapfile -t victims < <(find $store/images -name 'full-*' | LC_ALL=C sort | head -n 3)
rm "${victims[0]}"
chmod u+w "${victims[1]}"
size=$(stat -c %s "${victims[1]}")
head -c "$size" /dev/zero >"${victims[1]}"
printf x >>"${victims[2]}"
fails 1 kiln restore b2 --check
[ "$(wc -l <out.txt)" = 2 ] || die "not the two objects are named"
says "^missing  ${victims[0]#"$store"/}$" out.txt
says "^differs  ${victims[2]#"$store"/}$" out.txt
fails 1 kiln restore b2 --check --hashes --json
json out.txt 'd["missing"] == 1 and d["differ"] == 2 and len(d["wrong"]) == 3'

# --- what is damaged, newer or not a backup is refused before anything is touched
daemons_end
copy() { rm -rf bad && cp -r b2 bad; }
copy && printf x >>bad/ledger.dump && fails 65 kiln restore bad --yes
copy && sed -i '1s/"bytes":[0-9]*/"bytes":1/' bad/objects.jsonl && fails 65 kiln restore bad --yes
copy && rm bad/backup.json && fails 66 kiln restore bad --yes
copy && echo '{' >bad/backup.json && fails 65 kiln restore bad --yes
copy && sed -i 's/"format": 1/"format": 2/' bad/backup.json && fails 69 kiln restore bad --yes
says 'newer Kiln'
copy && sed -i 's/"schema": [0-9]*/"schema": 9999/' bad/backup.json && fails 69 kiln restore bad --yes
says 'schema 9999'
copy && sed -i 's/"postgres": [0-9]*/"postgres": 99/' bad/backup.json && fails 69 kiln restore bad --yes
# A dump that is cut short, with a sum that fits: the transaction is rolled back.
copy && truncate -s -2000 bad/ledger.dump &&
    sed -i "s/\"dump_sha256\": \"[0-9a-f]*\"/\"dump_sha256\": \"$(sha256sum bad/ledger.dump | cut -d' ' -f1)\"/" bad/backup.json &&
    fails 74 kiln restore bad --yes
ok kiln jobs --batch new --json
json out.txt 'len(d) == 20'

# --- a database that answers nothing any more, or a dump that cannot be read on, ends it, with nothing changed
fails 64 kiln restore b2 --yes --stall 0
holder_is="FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%' AND wait_event = 'PgSleep'"
holds() { [ "$(sql "$base" "SELECT count(*) $holder_is")" = 1 ]; }
release() { sql "$base" "SELECT pg_terminate_backend(pid) $holder_is" >/dev/null; }
stalls() { # PROGRAM: what stands still is named, nobody is left behind, the ledger is as it was
    local restore child name=$1
    sql "$base" "BEGIN; LOCK TABLE job IN ACCESS SHARE MODE; SELECT pg_sleep(600); COMMIT" >/dev/null 2>&1 &
    local holder=$!
    soon holds || die "nobody holds the table"
    "$kiln_bin/kiln" restore b2 --yes --stall 3s >out.txt 2>err.txt &
    restore=$!
    for i in $(seq 6000); do child=$(pgrep -P $restore -x pg_restore) && break; sleep 0.01; done
    [ "$name" = psql ] || { kill -STOP "$child" && release; }
    wait $restore
    [ $? = 75 ] || { cat err.txt >&2; die "a restore whose $name stands still did not end with 75"; }
    says "$name made no progress for [0-9]* s"
    [ -z "$(pgrep -P $restore)" ] || die "a child was left behind"
    [ "$name" != psql ] || release
    wait $holder
    ok kiln jobs --batch new --json
    json out.txt 'len(d) == 20'
}
stalls psql
stalls pg_restore
echo ok
