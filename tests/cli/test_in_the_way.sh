#!/bin/bash
# What stands in the way is said where people look: `wait` and `watch` with what
# to do, `status`, `workers`, `why`, `errors`, `doctor` and the page of the fleet by name.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(s)
mounts=() others=()
cleanup() {
    for pid in "${others[@]+"${others[@]}"}"; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
    stop_stacks
    for dir in "${mounts[@]+"${mounts[@]}"}"; do umount -l "$dir"; done
}
trap cleanup EXIT
mkdir store
if ! mount -t tmpfs -o size=2m kiln-test "$PWD/store" 2>/dev/null; then
    echo "skip: no file system may be mounted here"
    exit 77
fi
mounts+=("$PWD/store")
ok kiln up --dir s --workers 1 --engine testcard --store "file://$PWD/store"
gallery=$(sed -n "s/^gallery *\(http[^ ]*\).*/\1/p" err.txt)
export KILN_CONFIG=$PWD/s/kiln.conf
jobs() { for i in $(seq "$1"); do echo "{\"prompt\": \"p$i\", \"width\": 256, \"height\": 256}"; done; }
# Waits for the batch in the background with both outputs in a pipe, as a script would.
begin_wait() { # BATCH
    : >wait.txt
    kiln wait "$1" 2>&1 | cat >wait.txt &
    waiting=$! waits_from=$(date +%s%3N)
}
# Prints when that was said, counted from the beginning of the wait or from `now`.  The five seconds
# of schemas/limits.h are the sum of what tests/worker/test_board.c and its assertions hold; a busy
# machine takes longer.
now() { waits_from=$(date +%s%3N); }
hears() {
    soon grep -q -e "$1" wait.txt || die "the wait says: $(cat wait.txt)"
    echo "said after $(($(date +%s%3N) - waits_from)) ms: $1"
}
until_kiln() { # TEXT COMMAND...: until its stdout has TEXT
    soon shows "$@" || die "'${*:2}' does not say '$1': $(cat out.txt err.txt)"
}
shows() {
    "${@:2}" >out.txt 2>err.txt
    grep -q -e "$1" out.txt
}
nothing_lost() { # BATCH JOBS
    ok kiln wait "$1" --timeout 300
    until_sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = '$1'" "$2"
}

# --- a full store: 400 jobs into 2 MB
jobs 400 >jobs.jsonl
jobs 20 >few.jsonl
ok kiln enqueue jobs.jsonl --batch full
begin_wait full
hears '^batch full waits: the store of worker worker-0 is full: .*No space left on device'
grep -q 'make room there (`kiln gc`, `df -h`, `df -i`).*the wait continues' wait.txt || die "it does not say what to do"
until_kiln 'the store of worker worker-0 is full' kiln status
says 'make room there' out.txt
ok kiln status --json
json out.txt 'd["troubles"][0]["trouble"] == "store" and d["troubles"][0]["stops"] and d["troubles"][0]["code"] == "full" and d["troubles"][0]["worker"] == "worker-0" and "kiln gc" in d["troubles"][0]["next"]'
json out.txt 'd["workers"][0]["room"] == 0 and d["workers"][0]["trouble"]["code"] == "full" and d["workers"][0]["trouble"]["for_s"] > 0'
ok kiln workers
says '! its store is full: ' out.txt
ok kiln why "$(sql "SELECT max(id) FROM job WHERE state = 0")"
says 'the store of worker worker-0 is full' out.txt
ok kiln why "$(sql "SELECT min(id) FROM job WHERE state = 1")"
says 'its store is full: .*it tries again' out.txt
ok kiln errors
says 'now in the way: the store of worker worker-0 is full'
fails 1 kiln doctor
says 'the store of worker worker-0 is full' out.txt
"$kiln_bin/kiln" watch full >watch.txt 2>/dev/null &
others+=($!)
soon grep -q '! the store of worker worker-0 is full: .*make room there' watch.txt || die "watch says: $(cat watch.txt)"
kill "${others[0]}" && wait "${others[0]}" 2>/dev/null
others=()
curl -s "${gallery}fleet" >page.html
grep -q '<strong>the store of worker worker-0 is full: ' page.html || die "the page of the fleet does not say it"
[ "$(grep -c 'batch full waits' wait.txt)" = 1 ] || die "it is said again and again: $(cat wait.txt)"
mount -o remount,size=200m "$PWD/store"
nothing_lost full 400
wait $waiting
until_kiln idle kiln workers
says '^worker-0' out.txt
grep -q '!' out.txt && die "the trouble is over, and still shown"

# --- a store that may only be read
mount -o remount,ro "$PWD/store"
ok kiln enqueue jobs.jsonl --batch readonly
begin_wait readonly
hears '^batch readonly waits: the store of worker worker-0 denies access: .*Read-only file system'
hears 'mount it for writing'
port_in() { sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' "$1" | tail -1; }
scheduler_port=$(port_in s/log/scheduler.log) worker_port=$(port_in s/log/worker-0.log)
[ "$(curl -s -o body.txt -w '%{http_code}' "http://127.0.0.1:$worker_port/readyz")" = 503 ] || die "ready although its store refuses"
says "the store refuses this worker's pictures" body.txt
[ "$(curl -s -o body.txt -w '%{http_code}' "http://127.0.0.1:$worker_port/livez")" = 200 ] || die "not alive"
curl -s "http://127.0.0.1:$worker_port/metrics" >body.txt
says '^kiln_worker_refused{by="store",pool="default"} 1' body.txt
until_kiln '^kiln_workers{state="refused",pool="default"} 1' curl -s "http://127.0.0.1:$scheduler_port/metrics"

# --- what one worker's store refuses goes to another worker, and the first takes no more
mkdir good
sed "s#^store = .*#store = file://$PWD/good#; /^worker_port/d" s/kiln.conf >other.conf
"$kiln_bin/kiln-worker" --config other.conf --engine testcard --id elsewhere >elsewhere.log 2>&1 &
others+=($!)
hears '^batch readonly is slowed down: the store of worker worker-0 denies access'
until_sql "SELECT count(*) > 300 FROM image WHERE worker = 'elsewhere'" t
before=$(sql "SELECT count(*) FROM event WHERE worker = 'worker-0' AND state = 1")
ok kiln enqueue jobs.jsonl --batch third
ok kiln wait third --timeout 300
[ "$(sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = 'third' AND worker = 'elsewhere'")" = 400 ] || die "not all of it was rendered elsewhere"
[ "$(sql "SELECT count(*) FROM event WHERE worker = 'worker-0' AND state = 1")" = "$before" ] || die "a worker whose store refuses was given jobs"
mount -o remount,rw "$PWD/store"
nothing_lost readonly 400
wait $waiting
kill "${others[0]}" && wait "${others[0]}" 2>/dev/null
others=()
ok kiln enqueue few.jsonl --batch again
ok kiln wait again --timeout 60
[ "$(sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = 'again' AND worker = 'worker-0'")" = 20 ] || die "worker-0 does not take work again"

# --- the disk of the database is full: commits first, then new jobs
sql "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END \$\$" >/dev/null
sql "CREATE TRIGGER full_disk BEFORE INSERT ON image FOR EACH ROW EXECUTE FUNCTION full_disk()" >/dev/null
ok kiln enqueue few.jsonl --batch ledgerless
kiln run few.jsonl --batch run --out gallery >run.txt 2>&1 &
running=$!
begin_wait ledgerless
hears "^batch ledgerless waits: the ledger takes no commits of worker worker-0: .*the database's disk is full"
hears 'make room on the disk of Postgres'
soon grep -q '^batch run waits: the ledger takes no commits of worker worker-0: ' run.txt || die "the run says: $(cat run.txt)"
until_kiln '! the ledger takes no commits: ' kiln workers
now
sql "CREATE TRIGGER full_disk BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION full_disk()" >/dev/null
ok kiln enqueue few.jsonl --batch later --no-wait
until_kiln '! the ledger takes no new jobs: .*disk is full' kiln status
hears '^batch ledgerless waits: the ledger takes no new jobs: '
sql "DROP FUNCTION full_disk CASCADE" 2>/dev/null >/dev/null
nothing_lost ledgerless 20
nothing_lost later 20
nothing_lost run 20
wait $running || die "the run ended with $?: $(cat run.txt)"
wait $waiting

# --- no worker, and the batch is not even in the ledger because no scheduler runs
ok kiln up --dir s --workers 0
ok kiln enqueue few.jsonl --batch nobody
begin_wait nobody
hears '^batch nobody waits: no worker is alive in pool default'
hears 'kiln worker start.*kiln up --workers N'
now
kill -STOP "$(pid_of s scheduler)" # it leads no more once Postgres has ended its session
scheduler=$(pid_of s scheduler)
hears '^batch nobody waits: no scheduler leads pool default'
ok kiln enqueue few.jsonl --batch unread --no-wait
kiln wait unread >unread.txt 2>&1 &
unread=$!
soon grep -q 'batch unread waits: no scheduler leads' unread.txt || die "of an unread batch the wait says: $(cat unread.txt)"
kill -CONT "$scheduler"

# --- workers of another model alone
ok kiln enqueue few.jsonl --batch strange --set model=nonesuch
"$kiln_bin/kiln-worker" --config s/kiln.conf --engine testcard --id helper >helper.log 2>&1 &
others+=($!)
nothing_lost nobody 20
nothing_lost unread 20
wait $waiting $unread
begin_wait strange
hears "batch strange waits: queued jobs need model 'nonesuch', which no live worker has"
ok kiln status
says "queued jobs need model 'nonesuch'" out.txt
ok kiln cancel strange --yes
wait $waiting

# --- a model that does not load
kill "${others[0]}" && wait "${others[0]}" 2>/dev/null
others=()
mkdir empty-model
"$kiln_bin/kiln-worker" --config s/kiln.conf --engine pipeline --model "$PWD/empty-model" --id broken >broken.log 2>&1
ok kiln enqueue few.jsonl --batch unloaded
begin_wait unloaded
hears '^batch unloaded waits: worker broken on .* does not start: '
hears 'kiln worker logs'
ok kiln workers
says '^broken' out.txt
ok kiln workers --json
json_lines out.txt 'any(w["worker"] == "broken" and w["trouble"]["trouble"] == "start" for w in d)'
ok kiln why "$(sql "SELECT min(id) FROM job WHERE state = 0")"
says 'worker broken on .* does not start' out.txt
ok kiln up --dir s --workers 1 --engine testcard
nothing_lost unloaded 20
wait $waiting

# --- a worker that starts while its store is full says so as well
kiln worker stop --all --yes >/dev/null 2>&1
ok kiln up --dir s --workers 0
mkdir tiny
mount -t tmpfs -o size=64k kiln-test "$PWD/tiny" || die "the second mount was refused"
mounts+=("$PWD/tiny")
dd if=/dev/zero of=tiny/full bs=4k count=100 2>/dev/null
sed "s#^store = .*#store = file://$PWD/tiny#; /^worker_port/d" s/kiln.conf >tiny.conf
"$kiln_bin/kiln-worker" --config tiny.conf --engine testcard --id waits >waits.log 2>&1 &
others+=($!)
until_kiln 'worker waits on .* does not start: .*No space left on device' kiln status
rm tiny/full
until_kiln '^waits  *live' kiln workers
ok kiln workers --json
json_lines out.txt 'next(w for w in d if w["worker"] == "waits")["trouble"] is None'
echo ok
