#!/bin/bash
# `kiln doctor` on a real stack that is broken in one way after the other: each is found, with what to
# do and the exit code; --full; --fix mends what is safe, and the jobs are done in the end.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
finding() { # CHECK EXPRESSION: f is the first such finding
    kiln doctor --json "${@:3}" >out.txt 2>err.txt
    json out.txt "(lambda f: $2)(next((f for f in d['findings'] if f['check'] == '$1'), None))"
}

# --- without settings nothing is tried at defaults that nobody asked for
before=$(stat -c %Y /var/lib/kiln/store 2>/dev/null)
finding store "f['verdict'] == 'warning' and 'no store is configured' in f['found'] and 'set store' in f['do']"
finding objects "f is None"
finding settings "f['verdict'] == 'warning'"
fails 1 kiln doctor
[ "$(stat -c %Y /var/lib/kiln/store 2>/dev/null)" = "$before" ] || die "the default store was touched"
finding store "f['verdict'] == 'ok'" --store "file://$PWD/mine"
finding gpu "f and f['verdict'] in ('ok', 'bad')" --device cuda:0
finding gpu "f is None" --device cpu

# --- the model: its parts, and no file that the engine does without
cp -r "$source_dir/tests/golden/models/plain" plain
rm -f plain/model_index.json
finding model "f['verdict'] == 'ok' and f['found'] == 'plain'" --model plain
rm plain/vae/*.safetensors
finding model "f['verdict'] == 'bad' and f['found'] == 'plain/vae/*.safetensors: No such file or directory'" --model plain
rm -r plain/text_encoder
finding model "f['verdict'] == 'bad' and f['found'].startswith('plain/text_encoder/config.json: No such')" --model plain
finding model "f['verdict'] == 'bad' and 'absent/transformer' in f['found']" --model absent

stacks+=(s)
ok kiln up --dir s --engine testcard --lease-s 3 --heartbeat-s 0.3
export KILN_CONFIG=$PWD/s/kiln.conf
sockets=$(sed -n 's/^postgres = .*host=\([^ ]*\).*/\1/p' s/kiln.conf)
owner=$(sed -n 's/^postgres = .*user=\([^ ]*\).*/\1/p' s/kiln.conf)
base=$(sed -n 's/^postgres = .*dbname=\([^ ]*\).*/\1/p' s/kiln.conf)
sql() { psql -X -q -A -t -h "$sockets" -U "${owner:-$(id -un)}" -d "$base" -c "$1"; }
ok kiln doctor
finding rights "f['verdict'] == 'ok' and 'change the schema' in f['found']"
finding leases "f['verdict'] == 'ok'"

# --- rights: a user that may not read
sql 'CREATE ROLE nobody_of_kiln LOGIN' && sql 'GRANT SELECT ON schema_migrations TO nobody_of_kiln'
[ -n "$(sql 'SELECT 1')" ] || die "no SQL"
finding rights "f['verdict'] == 'bad' and 'nobody_of_kiln may not read' in f['found'] and '--roles' in f['do']" \
    --postgres "host=$sockets dbname=$base user=nobody_of_kiln"
sql 'DROP OWNED BY nobody_of_kiln' && sql 'DROP ROLE nobody_of_kiln'

# --- the store, where the pictures of this month go
month=s/store/images/$(date -u +%Y/%m)
mkdir -p "${month%/*}"
: >"$month" # root may write into any directory
finding store "f['verdict'] == 'bad' and 'images/$(date -u +%Y/%m)' in f['found']"
rm "$month"
finding store "f['verdict'] == 'ok'"
[ -z "$(find s/store -type f)" ] || die "a probe stays: $(find s/store -type f)"

# --- every object, not a sample
echo '{"prompt": "a {red|blue|green} star", "width": 64, "height": 64, "steps": 2, "count": 4}' >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b
ok kiln wait b --timeout 60
finding objects "f['verdict'] == 'ok' and f['found'].startswith('the store has all 24 ')" --full
victim=$(find s/store/images -type f | sort | tail -n 1)
mv "$victim" aside
finding objects "f['verdict'] == 'bad' and '1 object missing' in f['found'] and 'of 24 in the ledger' in f['found'] and '${victim#s/store/}' in f['found']" --full
fails 1 kiln doctor --full
mv aside "$victim"
ok kiln doctor --full

# --- leases that nobody holds: the scheduler is gone, then the worker
sed 's/a {/@step_ms=20000 {/' jobs.jsonl >slow.jsonl
ok kiln enqueue slow.jsonl --batch slow
until_sql 'SELECT count(*) > 0 FROM job WHERE state = 1' t
finding leases "f['verdict'] == 'ok'"
kill -9 "$(pid_of s crew)" "$(pid_of s scheduler)" "$(pid_of s worker-0)" # no guard restarts it
held=$(sql 'SELECT count(*) FROM job WHERE state = 1')
[ "$held" -gt 0 ] || die "nothing is assigned"
nobody_holds() { kiln doctor --json | grep 'no worker has' >/dev/null; }
soon nobody_holds || die "the doctor does not see that the worker is gone"
finding leases "f['verdict'] == 'bad' and '$held of $held ' in f['found'] and '--fix' in f['do']"
fails 1 kiln doctor
[ "$(sql 'SELECT count(*) FROM job WHERE state = 1')" = "$held" ] || die "it repaired without being asked"
finding leases "f['verdict'] == 'ok' and f['found'].startswith('queued $held job')" --fix
[ "$(sql 'SELECT count(*) FROM job WHERE state = 1')" = 0 ] || die "they are still assigned"
[ "$(sql "SELECT count(*) FROM event WHERE was = 1 AND state = 0 AND reason LIKE '%doctor%'")" = "$held" ] || die "the moves are not told"
[ "$(sql 'SELECT sum(queued) FROM batch_tally')" = 12 ] || die "the sums are wrong"
finding leases "f['verdict'] == 'ok'"
ok kiln cancel slow --yes
ok kiln up --dir s
ok kiln doctor

# --- an entry that no batch can be told of, set aside; a stream that has used up its ids
finding refused "f is None"
finding intake "f['verdict'] == 'ok'"
redis() { redis-cli -s "$(sed -n 's/^redis = unix:\([^?]*\).*/\1/p' s/kiln.conf)" "$@"; }
redis xadd 'kiln:{default}:intake' '*' batch 'a b' job '{"prompt":"lost"}' >/dev/null || die "no redis-cli"
set_aside() { [ "$(redis xlen 'kiln:{default}:refused')" = 1 ]; }
soon set_aside || die "the entry is not set aside"
finding refused "f['verdict'] == 'warning' and f['found'].startswith('1 entry was set aside') and 'batch' in f['found']"
kill -STOP "$(pid_of s scheduler)"
redis xadd 'kiln:{default}:intake' 18446744073709551615-18446744073709551615 batch b job '{"prompt":"last","width":64,"height":64,"steps":1}' >/dev/null
finding intake "f['verdict'] == 'bad' and 'used up the ids' in f['found'] and 'holds 1' in f['found']"
kill -CONT "$(pid_of s scheduler)"
made_anew() { ! kiln doctor --json | grep 'used up the ids' >/dev/null; }
soon made_anew || die "the stream is not made anew"
finding intake "f['verdict'] == 'ok'"
ok kiln enqueue jobs.jsonl --batch after
ok kiln wait after --timeout 60

# --- a batch that there is not: every verb names the nearest
for words in "show slwo" "wait slwo" "export slwo --out x" "events slwo" "cancel slwo" \
    "retry slwo" "favourite add slwo" "batch show slwo"; do
    fails 66 kiln $words
    says "there is no batch 'slwo'; the nearest are 'slow'"
done

# --- an enqueue call that never ended
sql "UPDATE intake_call SET announced = 50, entry = 0 WHERE batch_id = (SELECT id FROM batch WHERE name = 'b')"
finding batches "f is None"
sql "UPDATE batch SET created_at = now() - interval '1 hour' WHERE name = 'b'"
finding batches "f['verdict'] == 'warning' and 'batch b: 12 of 50 lines' in f['found'] and 'enqueue' in f['do']"

# --- a password that others may read; a worker that was given up
sed -i 's/^postgres = \(.*\)/postgres = \1 password=secret/' s/kiln.conf
chmod 644 s/kiln.conf
finding files "f['verdict'] == 'warning'"
grep -q secret out.txt && die "the doctor tells the password"
finding files "f['verdict'] == 'ok'" --fix
[ "$(stat -c %a s/kiln.conf)" = 600 ] || die "the file is still open"
finding files "f is None"
cat >s/crew.json <<JSON
{"crashes": 5, "within_s": 300, "log_bytes": 1, "config": "$PWD/s/kiln.conf",
 "workers": [{"name": "w", "device": "cpu", "wanted": true, "turn": 1}]}
JSON
echo '[{"worker": "w", "state": "given_up", "reason": "5 crashes", "pid": 0, "restarts": 4, "turn": 1}]' >s/run/crew.json
finding crew "f['verdict'] == 'bad' and 'worker w was stopped: 5 crashes' in f['found']"
# The same of a fleet's machine, whose settings lie elsewhere.
mkdir -p .kiln/run etc && mv s/crew.json .kiln/ && mv s/run/crew.json .kiln/run/ && cp s/kiln.conf etc/
KILN_CONFIG=$PWD/etc/kiln.conf
finding crew "f['verdict'] == 'bad' and 'worker w was stopped: 5 crashes' in f['found']"
echo ok
