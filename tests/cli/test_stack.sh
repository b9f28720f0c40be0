#!/bin/bash
# The embedded stack: up, again up, things that died, two of them, directories in every state.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
up() { kiln up --engine testcard "$@"; }

# --- the first up, and one that finds everything running
stacks+=(a b)
ok up --dir a --workers 2
says "$PWD/a/kiln.conf" out.txt
for name in redis postgres scheduler worker-0 worker-1; do
    alive "$(pid_of a $name)" || die "$name does not run"
done
[ "$(stat -c %a a/kiln.conf a/log a/log/*.log a/store a/run/redis/redis.sock a/run/redis | sort -u | tr '\n' ' ')" = "600 700 " ] ||
    die "others may read settings, logs or pictures, or reach Redis"
[ "$(stat -c %a a/run/postgres)" = 700 ] || die "others may reach Postgres"
# --- an earlier release's Redis, whose socket lay elsewhere, is not waited for
mv a/run/redis/redis.sock a/run/redis.sock
ok up --dir a
says 'redis *stopped: its socket is not'
ok kiln status --config a/kiln.conf
rm -f a/run/redis.sock
before=$(cat a/run/*.pid)
ok up --dir a --json
json out.txt 'd["workers"] == 2 and all(d["pids"].values()) and d["config"].endswith("a/kiln.conf")'
[ "$before" = "$(cat a/run/*.pid)" ] || die "a second up started something"
ok kiln doctor --config a/kiln.conf --json
json out.txt 'd["healthy"]'

# --- a variable of the surroundings that looks like ours is told of and hinders nothing
ok env KILN_PORT=tcp://10.0.0.1:80 "$kiln_bin/kiln" status --config a/kiln.conf
says '^kiln: environment KILN_PORT: unknown setting'
ok env KILN_PORT=tcp://10.0.0.1:80 "$kiln_bin/kiln" status --config a/kiln.conf -q
[ ! -s err.txt ] || die "-q is not quiet"

# --- two stacks do not see each other; a directory is made with those above it
ok up --dir deep/er/b
conf=deep/er/b/kiln.conf
stacks+=(deep/er/b)
ok psql "$(sed -n 's/^postgres = //p' $conf)" -Atc 'SELECT count(*) FROM job'
says '^0$' out.txt
# Postgres reads its buffers again after a restart, if it has the library for it.
ok psql "$(sed -n 's/^postgres = //p' $conf)" -Atc "SELECT concat_ws(' ', current_setting('checkpoint_timeout'),
    current_setting('shared_preload_libraries'), setting) FROM pg_config WHERE name = 'PKGLIBDIR'"
read -r pause preload library <out.txt
[ "$pause" = 15min ] || die "a checkpoint after $pause"
[ ! -e "$library/pg_prewarm.so" ] || [ "$preload" = pg_prewarm ] || die "Postgres preloads '$preload'"
ok kiln down --dir deep/er/b
ok up --dir b
echo '{"prompt": "in b", "width": 64, "height": 64}' >one.jsonl
ok kiln enqueue one.jsonl --batch only-b --config b/kiln.conf
ok kiln wait only-b --config b/kiln.conf --timeout 60
fails 66 kiln show only-b --config a/kiln.conf
ok kiln down --dir b
alive "$(pid_of a redis)" || die "the other stack stopped too"
[ -z "$(ls b/run/*.pid 2>/dev/null)" ] || die "pid files are left"
ok kiln down --dir b
says 'nothing runs'

# --- up and down find the stack of the settings, as `run` does; --dir comes first
mkdir away && cd away || exit 1
fails 66 kiln down
says 'a stack elsewhere: kiln down --dir DIR'
: >fleet.conf
fails 66 kiln down --config fleet.conf
says 'fleet.conf belongs to no private stack; name'
fails 66 kiln up --config fleet.conf
ok kiln up --config ../b/kiln.conf --engine testcard
says "${PWD%/*}/b/kiln.conf" out.txt
ok env KILN_CONFIG=../b/kiln.conf "$kiln_bin/kiln" down --daemons
says '^scheduler *stopped'
ok env KILN_CONFIG=../a/kiln.conf "$kiln_bin/kiln" down --dir ../b
says '^redis *stopped'
[ ! -e .kiln ] || die "another stack was made"
cd ..

# --- what died is started again, the rest is left alone
kept=$(pid_of a worker-1)
for name in scheduler worker-0 redis; do kill -9 "$(pid_of a $name)"; done
ok up --dir a
for name in scheduler worker-0 redis; do alive "$(pid_of a $name)" || die "$name was not restarted"; done
[ "$kept" = "$(pid_of a worker-1)" ] || die "a worker that ran was replaced"
kill -9 "$(pid_of a postgres)"
ok up --dir a
alive "$(pid_of a postgres)" || die "postgres was not restarted"

# --- the guard restarts a worker too; without a guard an `up` takes over the workers that run
killed=$(pid_of a worker-0)
kill -9 "$killed"
soon replaced a worker-0 "$killed" || die "the guard did not restart the worker"
kill -9 "$(pid_of a crew)" "$(pid_of a worker-1)"
kept=$(pid_of a worker-0)
ok up --dir a
alive "$(pid_of a crew)" && alive "$(pid_of a worker-1)" || die "guard or worker were not restarted"
[ "$kept" = "$(pid_of a worker-0)" ] || die "the next guard replaced a worker that ran"

# --- workers are called by host and device, as `worker start` calls them; the end of the name and,
# for a release, the name of their files are understood
ok kiln worker ls --dir a
says "^$cpu0 *cpu *running" out.txt
says "^$cpu1 *cpu *running" out.txt
ok kiln worker logs worker-1 --dir a --lines 5
[ -s out.txt ] || die "worker-1 is no log any more"
ok kiln worker logs cpu-1 --dir a --lines 5
cmp -s out.txt <(tail -n 5 a/log/worker-1.log) || die "cpu-1 is another log: $(cat out.txt)"
ok kiln --config a/kiln.conf worker stop cpu-1
[ ! -e a/run/worker-1.pid ] && alive "$(pid_of a worker-0)" || die "cpu-1 is not worker-1"
ok kiln --config a/kiln.conf worker start cpu-1
alive "$(pid_of a worker-1)" || die "worker-1 was not started as cpu-1"
drained=$(pid_of a worker-0)
ok kiln --config a/kiln.conf drain cpu --wait --timeout 60
soon gone "$drained" || die "worker-0 was not drained as cpu"
alive "$(pid_of a worker-1)" || die "worker-1 was drained as well"
fails 66 kiln --config a/kiln.conf drain gpu0
drained=$(pid_of a worker-1)
ok kiln --config a/kiln.conf drain worker-1 --wait --timeout 60
says "^$cpu1: finishes its batch"
soon gone "$drained" || die "worker-1 was not drained by the name of its files"
ok up --dir a

# --- a worker of an earlier release, which called it worker-0: the next `up` gives it today's name
kill -9 "$(pid_of a crew)" "$(pid_of a worker-0)" "$(pid_of a worker-1)"
python3 -c 'import json
plan = json.load(open("a/crew.json"))
for row in plan["workers"]:
    del row["id"]
json.dump(plan, open("a/crew.json", "w"))'
ok kiln --config a/kiln.conf worker start worker-0
older=$(pid_of a worker-0)
ok kiln worker ls --dir a
says "^worker-0 .*running *$older" out.txt
# Its guard still runs, and would go on to call workers so: it ends, and another one follows.
guard=$(pid_of a crew)
ok up --dir a
says "worker-0 *stopping (pid $older): its name changed"
says '^guard *stopped$'
alive "$guard" && die "the guard of the earlier release still runs"
[ "$(pid_of a crew)" != "$guard" ] || die "no other guard has followed"
ok kiln worker ls --dir a
says "^$cpu0 .*running *$(pid_of a worker-0)" out.txt
says "^$cpu1 .*running *$(pid_of a worker-1)" out.txt

# The same while none of its workers runs: it gives itself away by the first one that it starts.
kill -9 "$(pid_of a crew)" "$(pid_of a worker-0)" "$(pid_of a worker-1)"
cat >older.py <<'PYTHON'
import json, signal, subprocess, sys

program, stack = sys.argv[1], sys.argv[-1]
workers = []

def end(*_):
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()
    sys.exit()

def look(*_):
    for row in json.load(open(f"{stack}/crew.json"))["workers"]:
        command = [program, "--config", f"{stack}/kiln.conf", "--id", row["name"], "--device", row["device"]]
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        workers.append(worker)
        open(f"{stack}/run/{row['name']}.pid", "w").write(f"{worker.pid}\n")

signal.signal(signal.SIGHUP, look)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
PYTHON
python3 older.py "$kiln_bin/kiln-worker" worker guard --dir "$PWD/a" >older.txt &
guard=$!
soon grep -q ready older.txt || die "the older guard does not start"
echo "$guard" >a/run/crew.pid
ok up --dir a
says "^$cpu0 *was started as worker-0 by a guard of an earlier release"
says '^guard *stopped$'
alive "$guard" && die "the older guard still runs"
ok kiln worker ls --dir a
says "^$cpu0 .*running *$(pid_of a worker-0)" out.txt
says "^$cpu1 .*running *$(pid_of a worker-1)" out.txt

# --- a plan that cannot be read hides no log
cp a/crew.json crew.json
echo '{' >a/crew.json
ok kiln worker logs worker-1 --dir a --lines 5
says 'crew.json'
cmp -s out.txt <(tail -n 5 a/log/worker-1.log) || die "this is another log: $(cat out.txt)"
mv crew.json a/crew.json

# --- a pid file whose number is somebody else's now
kill -9 "$(pid_of a worker-0)"
sleep 300 &
stranger=$!
echo $stranger >a/run/worker-0.pid
ok up --dir a
[ "$(pid_of a worker-0)" != $stranger ] || die "a stranger was taken for a worker"
alive $stranger || die "a stranger was killed"

# --- another number of workers, another setting
ok up --dir a --workers 1
[ ! -e a/run/worker-1.pid ] || die "worker-1 still runs"
scheduler=$(pid_of a scheduler)
echo '# mine' >>a/kiln.conf
ok up --dir a --batch-max 2
grep -q '^batch_max = 2' a/kiln.conf || die "the setting is not in kiln.conf"
grep -q '^# mine' a/kiln.conf || die "a line of the owner is gone"
[ "$scheduler" != "$(pid_of a scheduler)" ] || die "a changed setting restarted nothing"

# --- what is no stack
touch plain && mkdir empty
fails 66 kiln down --dir plain
fails 66 kiln down --dir empty
says 'there is no stack in .*/empty'
(cd empty && fails 66 kiln worker ls && says 'no worker was started here (.kiln is missing): .kiln worker start') || exit 1

ln -s .kiln empty/.kiln # it is there, but leads to itself
cp a/kiln.conf empty/other.conf
(cd empty && fails 74 kiln --config other.conf worker ls && says '\.kiln: Too many levels') || exit 1

# --- a store that cannot be is refused before anything that runs is touched
kept="$(pid_of a scheduler) $(pid_of a worker-0)" conf=$(sha256sum a/kiln.conf)
fails 78 kiln up --dir a --store http://nowhere
says "must be file:///directory or s3://bucket/prefix"
[ "$kept $conf" = "$(pid_of a scheduler) $(pid_of a worker-0) $(sha256sum a/kiln.conf)" ] ||
    die "a wrong --store was kept"

# --- data stays over down and up; a stranger with Postgres' old pid does not hinder it
ok kiln enqueue one.jsonl --batch stays --config a/kiln.conf
ok kiln wait stays --config a/kiln.conf --timeout 60
ok kiln down --dir a
printf '%s\n' $stranger >a/run/postgres.pid
ok up --dir a
ok kiln jobs --batch stays --json --config a/kiln.conf
json out.txt 'd["state"] == "done"'
kill $stranger

# --- an emptied Redis: the fleet goes on, the doctor says that it happened
ok kiln doctor --config a/kiln.conf
grep -q emptied out.txt && die "the doctor dreams of an emptied Redis"
# Clocks of two servers are given five seconds: let what is done be older.
KILN_CONFIG=a/kiln.conf sql "UPDATE job SET finished_at = finished_at - interval '6 s' WHERE state = 2"
# The scheduler makes a damaged stream of events anew: nothing was lost, and that is not said either.
remade() { redis-cli -s a/run/redis/redis.sock xrange kiln:{default}:events - + COUNT 1 | grep -q remade; }
for spoil in "set kiln:{default}:events x" "xadd kiln:{default}:events 18446744073709551615-18446744073709551615 a b"; do
    ok redis-cli -s a/run/redis/redis.sock $spoil
    soon remade || die "the scheduler does not make the stream anew"
    ok kiln doctor --config a/kiln.conf
    grep -q emptied out.txt && die "the doctor takes a stream made anew for an emptied Redis"
    says 'the scheduler made the stream of events anew' out.txt
    ok redis-cli -s a/run/redis/redis.sock DEL kiln:{default}:events
done
ok redis-cli -s a/run/redis/redis.sock FLUSHALL
ok kiln enqueue one.jsonl --batch after --config a/kiln.conf
ok kiln wait after --timeout 60 --config a/kiln.conf
ok kiln doctor --config a/kiln.conf
says 'Redis was emptied or replaced' out.txt
ok kiln down --dir a

# --- an up that is killed while it makes the database; a directory that is no database
stacks+=(c)
"$kiln_bin/kiln" up -q --dir c --engine testcard &
up=$!
for i in $(seq 6000); do [ -e c/postgres.new.*/base ] 2>/dev/null && break; alive $up || break; sleep 0.01; done
kill -9 $up
wait $up 2>/dev/null
ls -d c/postgres.new.* >/dev/null || die "the up was over before it could be killed"
ok up --dir c
ls -d c/postgres.new.* 2>/dev/null && die "the half-made database is left"
ok kiln down --dir c
mkdir -p d/postgres
fails 65 up --dir d
says 'not a Postgres data directory'
says 'the started processes keep running'
kiln down -q --dir d
ls d/run/*.pid 2>/dev/null && die "down left something"

# --- a mistyped path or device makes no directory
fails 66 up --dir x1 --model /nonexistent
fails 69 up --dir x1 --device cuda:99
# --- nor do settings that contradict each other, or a store that cannot be opened
fails 78 up --dir x1 --engine testcard --lease-s 4 --heartbeat-s 3
fails 78 up --dir x1 --engine testcard --store ftp://x
[ ! -e x1 ] || die "a command that failed left $(find x1)"

# --- no model and no engine that does without
touch e
fails 73 up --dir e
says 'e is a file; --dir needs a directory'
[ -e "$source_dir/pipeline/models/sketch/model_index.json" ] || {
    fails 78 kiln up --dir f
    says 'no model'
}
fails 66 up --dir g --model absent
says 'model absent'
grep 'did start' err.txt && die "nothing has started"

# --- what an up without a model has left is gone on with by a run that names an engine
mkdir early
cp "$kiln_bin"/kiln{,-scheduler,-worker} "$kiln_bin"/libdiffusionz.so early/ # no demo model near
stacks+=(early/.kiln)
for i in 1 2; do
    (cd early && fails 78 ./kiln run ../one.jsonl --out gallery && says 'no model') || exit 1
done
(cd early && ok ./kiln run ../one.jsonl --out gallery --engine testcard) || exit 1
[ -s early/gallery/index.html ] || die "the run made no gallery"
ok kiln down --dir early/.kiln

# --- a deep directory: unix sockets have 107 bytes; a name with a space and a quote
deep="$PWD/it's deep/$(printf 'x%.0s' {1..60})/$(printf 'y%.0s' {1..60})"
mkdir -p "$deep"
stacks+=("$deep/s")
ok up --dir "$deep/s"
says "KILN_CONFIG='.*/it'\\\\''s deep/.*/s/kiln.conf', then"
ok kiln status --config "$deep/s/kiln.conf" --json
json out.txt 'len(d["workers"]) == 1'
ok kiln down --dir "$deep/s"

# --- as root behind a directory that Postgres' user may not enter; as a user without rights
if [ "$(id -u)" = 0 ]; then
    mkdir -m 700 closed
    stacks+=(closed/s)
    ok up --dir closed/s
    ok kiln status --config closed/s/kiln.conf
    ok kiln down --dir closed/s
    ok up --dir closed/s
    ok kiln down --dir closed/s
    mkdir home
    chown nobody home
    stacks+=(home/s)
    cp "$kiln_bin"/kiln "$kiln_bin"/kiln-scheduler "$kiln_bin"/kiln-worker home/ 2>/dev/null
    if setpriv --reuid=nobody --clear-groups test -x home/kiln; then
        as_nobody() { (cd home && setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups env TMPDIR="$PWD" "$@"); }
        if as_nobody ./kiln-worker --help >/dev/null 2>&1; then
            ok as_nobody ./kiln up --engine testcard --dir s
        else # LibTorch lies where only root can read it: everything up to the worker then
            fails 69 as_nobody ./kiln up --engine testcard --dir s
        fi
        for name in redis postgres scheduler; do alive "$(pid_of home/s $name)" || die "$name does not run as nobody"; done
        ok as_nobody ./kiln status --config s/kiln.conf
        [ "$(stat -c %a home/s/run)" = 700 ] || die "others may pass to the sockets of a user's stack"
        ok as_nobody ./kiln down --dir s
    fi
fi
echo ok
