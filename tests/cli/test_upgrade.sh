#!/bin/bash
# A rolling upgrade during a batch: programs of a later release, whose every message holds a field that
# is not known here, beside those of this one; the scheduler changes over and back, workers one by one;
# nothing is lost and nothing is drawn twice.  A worker of another major is refused with a sentence, and
# so is a schema that is not meant for older programs.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
[ -x "$kiln_bin/later/kiln-worker" ] || { echo "skip: the programs of other releases are not built"; exit 77; }
stacks+=(s)
ok kiln up --dir s --engine testcard --lease-s 5 --heartbeat-s 0.3 --batch-max 2
export KILN_CONFIG=$PWD/s/kiln.conf
sockets=$(sed -n 's/^postgres = .*host=\([^ ]*\).*/\1/p' s/kiln.conf)
owner=$(sed -n 's/^postgres = .*user=\([^ ]*\).*/\1/p' s/kiln.conf)
base=$(sed -n 's/^postgres = .*dbname=\([^ ]*\).*/\1/p' s/kiln.conf)
sql() { psql -X -q -A -t -h "$sockets" -U "${owner:-$(id -un)}" -d "$base" -c "$1"; }
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null; stop_stacks' EXIT
start() { # RELEASE PROGRAM NAME: runs it, with NAME.log
    local dir=$kiln_bin id=()
    [ "$1" = this ] || dir=$kiln_bin/$1
    [ "$2" = kiln-scheduler ] || id=(--id "$3")
    "$dir/$2" --config s/kiln.conf "${id[@]+"${id[@]}"}" >"$3.log" 2>&1 &
    pids+=($!)
    pid=$!
}
hears() { # FILE TEXT
    soon grep -qs -e "$2" "$1" || { cat "$1"; die "$1 never says $2"; }
}
done_more() { # waits until so many more jobs are done; on a busy machine they may run out meanwhile
    local now
    now=$(sql 'SELECT count(*) FROM job WHERE state = 2')
    for i in $(seq 600); do
        [ "$(sql 'SELECT count(*) FROM job WHERE state = 2')" -ge $((now + $1)) ] && return
        [ "$(sql 'SELECT count(*) FROM job WHERE state IN (0, 1)')" -gt 0 ] ||
            ok kiln enqueue jobs.jsonl --batch "more-$now-$i"
        sleep 0.05
    done
    die "nothing goes on: $(kiln status)"
}

echo '{"prompt": "@step_ms=60 a {red|blue|green|white} star", "width": 64, "height": 64, "steps": 2, "count": 30}' >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b

# --- a later worker beside ours, then a later scheduler in the place of ours
start later kiln-worker w-later
hears w-later.log worker_ready
done_more 4
ok kiln workers --json
json_lines out.txt 'sorted((w["protocol"] == "1.99", w["release"] == "later") for w in d if w["state"] == "live") == [(False, False), (True, True)] and all(w["protocol"].startswith("1.") for w in d)'
ok kiln doctor
says '1 of 2 live workers runs another release' out.txt
start later kiln-scheduler later-scheduler
later=$pid
kill -TERM "$(pid_of s scheduler)"
hears later-scheduler.log 'lead'
done_more 6
[ "$(sql "SELECT count(DISTINCT worker) FROM job WHERE state = 2")" = 2 ] || die "one of the workers gets nothing"
ok kiln why "$(sql 'SELECT max(id) FROM job')"

# --- our worker is drained and comes back as a later one
ok kiln drain "$cpu0" --wait --timeout 120
start later kiln-worker "$cpu0"
done_more 4

# --- and back again: ours take over while theirs still draw
ok kiln enqueue jobs.jsonl --batch c
start this kiln-scheduler our-scheduler
kill -TERM "$later"
hears our-scheduler.log 'lead'
start this kiln-worker w-ours
hears w-ours.log worker_ready
done_more 6
ok kiln drain w-later --wait --timeout 120

# --- another major: a sentence, and no job for it
start foreign kiln-worker w-foreign
hears our-scheduler.log 'worker_foreign.*speaks=99.*this=1.*nothing is assigned to it'
ok kiln doctor
says 'use another version of the bus protocol' out.txt
ok kiln wait b --timeout 60
ok kiln wait c --timeout 60
[ "$(sql "SELECT count(*) FROM job WHERE worker = 'w-foreign'")" = 0 ] || die "the foreign worker got a job"

# --- nothing lost, nothing twice
for batch in $(sql "SELECT name FROM batch WHERE name LIKE 'more-%'"); do ok kiln wait "$batch" --timeout 60; done
all=$(sql 'SELECT count(*) FROM job')
[ "$all" -ge 240 ] && [ "$(sql 'SELECT count(*) FROM job WHERE state = 2')" = "$all" ] || die "not all jobs are done"
[ "$(sql 'SELECT count(*) FROM image')" = "$all" ] || die "pictures and jobs differ"
[ "$(sql 'SELECT count(*) FROM event WHERE state = 2')" = "$all" ] || die "a job was done twice"
[ "$(sql 'SELECT count(*) FROM event WHERE code <> 0')" = 0 ] || die "an attempt was lost"
ok kiln doctor --full

# --- a schema that a later release has only added to, and one that it has changed
sql "INSERT INTO schema_migrations (version, name, sha256, works_with)
     SELECT v, 'later', '', max(version) FROM schema_migrations, generate_series(9997, 9998) v GROUP BY v"
ok kiln status
sql "UPDATE schema_migrations SET works_with = 9997 WHERE version = 9998" # gentle, but only for the one before
fails 78 kiln status
sql "UPDATE schema_migrations SET works_with = (SELECT max(version) FROM schema_migrations WHERE version < 9000) WHERE version = 9998"
start this kiln-worker w-gentle
hears w-gentle.log worker_ready
sql "INSERT INTO schema_migrations (version, name, sha256) VALUES (9999, 'much later', '')"
fails 78 kiln status
says 'install a newer Kiln'
start this kiln-worker w-old
wait $pid
[ $? = 78 ] || die "a worker took to a schema that it does not know"
sql 'DELETE FROM schema_migrations WHERE version > 9000'
echo ok
