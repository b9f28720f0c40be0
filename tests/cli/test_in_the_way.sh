#!/bin/bash
# What refuses pictures is said where people look: a store that is full, read-only or denied, and a
# disk of the database that is full.  `wait`, `run` and `watch` say it in time and what to do;
# `status`, `workers`, `why`, `errors`, `doctor` and the page of the fleet name it.
. "$KILN_SOURCE/tests/cli/in_the_way.sh"
mkdir store
if ! mount -t tmpfs -o size=2m kiln-test "$PWD/store" 2>/dev/null; then
    echo "skip: no file system may be mounted here"
    exit 77
fi
mounts+=("$PWD/store")
ok kiln up --dir s --workers 1 --engine testcard --store "file://$PWD/store"
gallery=$(sed -n "s/^gallery *\(http[^ ]*\).*/\1/p" err.txt)
export KILN_CONFIG=$PWD/s/kiln.conf

# --- a full store: 400 jobs into 2 MB
begin "store full" full jobs.jsonl
said "the store of worker $cpu0 is full: .*No space left on device"
told 'make room there (`kiln gc`, `df -h`, `df -i`)'
says '^batch full waits: .*' wait.txt
says 'the wait continues' wait.txt
named status="! the store of worker $cpu0 is full" workers='! its store is full: ' \
    errors="now in the way: the store of worker $cpu0 is full" why.0="the store of worker $cpu0 is full"
ok kiln status
says 'make room there' out.txt
ok kiln status --json
json out.txt 'd["troubles"][0]["trouble"] == "store" and d["troubles"][0]["stops"] and d["troubles"][0]["code"] == "full" and d["troubles"][0]["worker"] == "'"$cpu0"'" and "kiln gc" in d["troubles"][0]["next"]'
json out.txt 'd["workers"][0]["room"] == 0 and d["workers"][0]["trouble"]["code"] == "full" and d["workers"][0]["trouble"]["for_s"] > 0'
ok kiln why "$(job_of 1)"
says 'its store is full: .*it tries again' out.txt
fails 1 kiln doctor
says "the store of worker $cpu0 is full" out.txt
curl -s "${gallery}fleet" >page.html
grep -q "<strong>the store of worker $cpu0 is full: " page.html || die "the page of the fleet does not say it"
[ "$(grep -c 'batch full waits' wait.txt)" = 1 ] || die "it is said again and again: $(cat wait.txt)"
mount -o remount,size=400m "$PWD/store"
over 400
until_kiln idle kiln workers
says "^$cpu0" out.txt
grep -q '!' out.txt && die "the trouble is over, and still shown"

# --- a store that denies access; its directories are made immutable, since root has every other right
if chattr -R +i store 2>/dev/null; then
    begin "store denied" denied jobs.jsonl
    said "the store of worker $cpu0 denies access: .*Operation not permitted"
    told 'correct the rights'
    named status="! the store of worker $cpu0 denies" workers='! its store denies' \
        errors="now in the way: the store of worker $cpu0 denies" why.0="the store of worker $cpu0 denies"
    chattr -R -i store
    over 400
else
    echo "skip: this file system has no immutable directories: access that is denied is not tried"
fi

# --- a store that may only be read: on this mount of it, for what follows
mkdir good
mount --bind store good
mounts+=("$PWD/good")
mount -o remount,bind,ro "$PWD/store"
begin "store read-only" readonly jobs.jsonl
said "the store of worker $cpu0 denies access: .*Read-only file system"
told 'mount it for writing'
named status="! the store of worker $cpu0 denies" workers='! its store denies' \
    errors="now in the way: the store of worker $cpu0 denies" why.0="the store of worker $cpu0 denies"
scheduler_port=$(port_in s/log/scheduler.log) worker_port=$(port_in s/log/worker-0.log)
[ "$(curl -s -o body.txt -w '%{http_code}' "http://127.0.0.1:$worker_port/readyz")" = 503 ] || die "ready although its store refuses"
says "the store refuses this worker's pictures" body.txt
[ "$(curl -s -o body.txt -w '%{http_code}' "http://127.0.0.1:$worker_port/livez")" = 200 ] || die "not alive"
curl -s "http://127.0.0.1:$worker_port/metrics" >body.txt
says '^kiln_worker_refused{by="store",pool="default"} 1' body.txt
until_kiln '^kiln_workers{state="refused",pool="default"} 1' curl -s "http://127.0.0.1:$scheduler_port/metrics"

# --- what one worker's store refuses goes to another worker, and the first takes no more
held=$(sql "SELECT string_agg(id::text, ',') FROM job WHERE state = 1 AND worker = '$cpu0'")
refused=$(sql "SELECT count(*) FROM job WHERE state = 1 AND worker = '$cpu0'")
[ "$refused" -gt 0 ] || die "$cpu0 holds none of the jobs that its store refuses"
sed "s#^store = .*#store = file://$PWD/good#; /^worker_port/d" s/kiln.conf >other.conf
"$kiln_bin/kiln-worker" --config other.conf --engine testcard --id elsewhere >elsewhere.log 2>&1 &
others+=($!)
soon grep -q "^batch readonly is slowed down: the store of worker $cpu0 denies access" wait.txt || die "the wait says: $(cat wait.txt)"
until_sql "SELECT count(*) > 300 FROM image WHERE worker = 'elsewhere'" t
# They do not wait for hold_s, ten minutes, which is for a store that no worker can reach.
until_sql "SELECT count(*) FROM image WHERE job_id IN ($held) AND worker = 'elsewhere'" "$refused"
[ "$(sql "SELECT count(DISTINCT job_id) FROM event WHERE job_id IN ($held) AND reason = 'the store refuses the pictures of worker $cpu0'")" = "$refused" ] || die "the moves do not say why"
over 400
ok kiln workers --json
json_lines out.txt 'next(w for w in d if w["worker"] == "'"$cpu0"'")["room"] == 0 and next(w for w in d if w["worker"] == "elsewhere")["room"] > 0'
before=$(sql "SELECT count(*) FROM event WHERE worker = '$cpu0' AND state = 1")
ok kiln enqueue jobs.jsonl --batch third
nothing_lost third 400
[ "$(sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = 'third' AND worker = 'elsewhere'")" = 400 ] || die "not all of it was rendered elsewhere"
[ "$(sql "SELECT count(*) FROM event WHERE worker = '$cpu0' AND state = 1")" = "$before" ] || die "a worker whose store refuses was given jobs"
mount -o remount,bind,rw "$PWD/store"
stop_others
ok kiln enqueue few.jsonl --batch again
nothing_lost again 20
[ "$(sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = 'again' AND worker = '$cpu0'")" = 20 ] || die "$cpu0 does not take work again"

# --- the disk of the database is full: commits first, then new jobs
full_for() { sql "CREATE TRIGGER full_disk BEFORE INSERT ON $1 FOR EACH ROW EXECUTE FUNCTION full_disk()" >/dev/null; }
sql "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END \$\$" >/dev/null
full_for image
begin "database full, commits" ledgerless few.jsonl
said "the ledger takes no commits of worker $cpu0: .*the database's disk is full"
told 'make room on the disk of Postgres'
named status="! the ledger takes no commits of worker $cpu0" workers='! the ledger takes no commits: ' \
    errors='now in the way: the ledger takes no commits' why.1='the ledger takes no commits: '
full_for job
ok kiln enqueue few.jsonl --batch later --no-wait
row='| database full, new jobs |'
now
"$kiln_bin/kiln" run few.jsonl --batch unread --out gallery-unread >run.txt 2>&1 &
unread=$!
"$kiln_bin/kiln" watch later >watch.txt 2>&1 &
others+=($!)
said 'the ledger takes no new jobs: '
told 'correct the cause'
named status='! the ledger takes no new jobs: .*disk is full' workers='the ledger takes no new jobs: ' \
    errors='now in the way: the ledger takes no new jobs'
rows[-1]+=' - |' # the ledger has no job to ask about
sql "DROP FUNCTION full_disk CASCADE" 2>/dev/null >/dev/null
over 20
nothing_lost later 20
wait $unread || die "the run of unread jobs ended with $?: $(cat run.txt)"
nothing_lost unread 20
wait "${others[0]}" || die "the watch of unread jobs ended with $?: $(cat watch.txt)"
others=()
print_rows
echo ok
