#!/bin/bash
# `kiln worker start|stop|ls|logs`: workers that outlive the shell, come back when they are killed, are
# given up when they crash again and again, and say why; logs are turned; a guard that is killed is
# followed by another; `kiln drain --wait`.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
fails 66 kiln worker start --dir nowhere
says 'there is no stack in nowhere'
[ ! -e nowhere ] || die "a slip has made a directory"
mkdir workers
fails 78 kiln worker start --dir workers # which has no settings yet
ok kiln up --dir s --engine testcard --lease-s 4 --heartbeat-s 0.5 --drain-s 10
export KILN_CONFIG=$PWD/s/kiln.conf
until_ls() { # EXPRESSION over the listing (d: name -> row)
    soon ls_is "$1" || { cat out.txt s/log/crew.log; die "never so: $1"; }
}
ls_is() {
    kiln worker ls --dir s --json >out.txt 2>err.txt
    python3 - "$1" 2>/dev/null <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open("out.txt")]
d = {row["worker"]: row for row in rows}
sys.exit(0 if eval(sys.argv[1]) else 1)
PYTHON
}
host=${cpu0%-cpu}

ok kiln worker ls
says "^$cpu0 *cpu *running" out.txt
fails 64 kiln worker
fails 64 kiln worker strat
says 'did you mean start'
fails 64 kiln worker stop
fails 64 kiln worker start --workers 0
fails 64 kiln worker start --device gpu
fails 66 kiln worker start nobody

# --- two of them, started by a shell that ends; a second start changes nothing
(ok kiln worker start --workers 3 --crashes 3 --within 1m --log-mb 1)
says 'started (pid [0-9]*, cpu)'
one=$cpu1 two=$host-cpu-2
until_ls "d['$one']['state'] == d['$two']['state'] == 'running' and d['$one']['restarts'] == 0"
ok kiln workers --json
says "\"$two\"" out.txt
pid=$(pid_of s "$one") guard=$(pid_of s crew)
[ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = "$guard" ] || die "the guard is not its parent"
ok kiln worker start --workers 3
[ "$(pid_of s "$one")" = "$pid" ] && [ "$(pid_of s crew)" = "$guard" ] || die "a second start started something"

# --- killed: started again, and its jobs are done
echo '{"prompt": "@step_ms=100 {red|blue|green|white|black} star", "width": 64, "height": 64, "steps": 2, "count": 2}' >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b
kill -9 "$pid"
until_ls "d['$one']['state'] == 'running' and d['$one']['restarts'] == 1 and d['$one']['pid'] != $pid"
ok kiln wait b --timeout 60
ok kiln worker start "$one" # it runs; that it has crashed before is forgiven
until_ls "d['$one']['restarts'] == 0"
ok kiln worker logs "$one" --lines 3
[ -s out.txt ] && [ "$(wc -l <out.txt)" -le 3 ] || die "not the last three lines"
printf 'torch: \033]0;mine\a\342\200\256x\302\233\n' >>"s/log/$one.log"
ok kiln worker logs "$one" --lines 1
[ "$(cat out.txt)" = 'torch: \u001b]0;mine\u0007\u202ex\u009b' ] || die "a log steers the terminal"
fails 66 kiln worker logs "${host}-cqu-1"
says "the nearest are '$one'"
fails 66 kiln worker logs ../kiln

# --- the guard is killed: its workers go on, and the next guard takes them over
pid=$(pid_of s "$two")
kill -9 "$guard"
until_ls "d['$two']['state'] == 'unguarded' and d['$two']['pid'] == $pid"
ok kiln worker start "$two"
until_ls "d['$two']['state'] == 'running' and d['$two']['pid'] == $pid"
grep -q "$two.*taken over" s/log/crew.log || die "the guard does not say that it took over"
kill -9 "$pid"
until_ls "d['$two']['state'] == 'running' and d['$two']['pid'] not in (0, $pid)"

# --- taken over, its device lost: it is started again, and the reason names the device
kill -9 "$(pid_of s crew)"
pid=$(pid_of s "$two")
until_ls "d['$two']['state'] == 'unguarded'"
ok kiln worker start "$two"
until_ls "d['$two']['state'] == 'running' and d['$two']['pid'] == $pid"
ok kiln worker stop "$one" # only the other one is left to draw it
echo '{"prompt": "@lost star", "width": 64, "height": 64, "steps": 2}' >lost.jsonl
ok kiln enqueue lost.jsonl --batch lost
until_ls "d['$two']['pid'] not in (0, $pid) or d['$two']['state'] in ('waiting', 'ended')"
grep -q "$two.*device is lost" s/log/crew.log || die "the guard does not say that the device was lost"
ok kiln cancel lost --yes
until_ls "d['$two']['state'] == 'running'"
ok kiln worker start --workers 3

# --- drained: it ends, is not started again, and --wait has seen it end
echo '{"prompt": "@step_ms=600 star", "width": 64, "height": 64, "steps": 2}' >slow.jsonl
ok kiln enqueue slow.jsonl --batch slow
ok kiln drain "$one" --wait --timeout 120
until_ls "d['$one']['state'] == 'ended' and d['$one']['reason'] == 'drained'"
fails 66 kiln drain "${host}-cpu-3"
# a name's end will do if only one worker has it; as an older release wrote it, too
ok kiln worker logs cpu-2 --lines 1
fails 66 kiln worker logs cpu-7
says "'$two'"
# one that is planned and has not started: by any of its names
mv "s/log/$one.log" aside.log
for name in "$one" cpu-1; do
    fails 66 kiln worker logs $name
    says "^kiln: worker $one has no log, since it has not started here; .kiln worker ls. shows its state"
done
mv aside.log "s/log/$one.log"
ok kiln wait slow --timeout 60
ok kiln worker start "$one"
until_ls "d['$one']['state'] == 'running'"

# --- a job that kills its worker: three crashes within a minute and it is given up, with the reason
ok kiln worker stop "$two"
until_ls "d['$two']['state'] == 'stopped' and d['$two']['pid'] == 0"

# --- started again while it still ends: it comes back, and start has waited for the new one
ok kiln worker start "$two"
pid=$(pid_of s "$two")
kill -STOP "$pid"
ok kiln worker stop "$two" --no-wait
told_to_end() { python3 -c 'import json, sys; sys.exit(any(w["worker"] == sys.argv[1] and w["pid"] for w in json.load(open("s/run/crew.json"))))' "$two"; }
soon told_to_end || die "the guard does not tell it to end"
(sleep 1; kill -CONT "$pid") &
ok kiln worker start "$two"
until_ls "d['$two']['state'] == 'running' and d['$two']['pid'] not in (0, $pid)"
ok kiln worker stop "$two"
kill -STOP "$(pid_of s worker-0)"
for i in 1 2 3; do
    until_ls "d['$one']['state'] == 'running'"
    kill -SEGV "$(pid_of s "$one")"
    until_ls "d['$one']['state'] != 'running' or d['$one']['restarts'] == $i"
done
until_ls "d['$one']['state'] == 'given_up' and d['$one']['reason'].startswith('3 crashes within 60 s, the last: killed by signal 11')"
kill -CONT "$(pid_of s worker-0)"
ok kiln worker ls
says 'given_up .*killed by signal 11' out.txt

# --- wrong settings: given up at once; corrected, it runs
ok kiln worker start "$one"
until_ls "d['$one']['state'] == 'running' and d['$one']['restarts'] == 0"
cp s/kiln.conf good.conf
export KILN_CONFIG=$PWD/good.conf
echo 'webp_method = 77' >>s/kiln.conf
kill -9 "$(pid_of s "$one")"
until_ls "d['$one']['state'] == 'given_up' and d['$one']['reason'].startswith('exit 78') and 'webp_method' in d['$one']['reason']"
cat good.conf >s/kiln.conf
export KILN_CONFIG=$PWD/s/kiln.conf
ok kiln worker start "$one"
until_ls "d['$one']['state'] == 'running' and d['$one']['reason'] == ''"

# --- a long log is turned while it is written to
python3 -c 'print(("x" * 99 + "\n") * 12000, end="")' >>"s/log/$one.log"
soon [ -e "s/log/$one.log.1" ] || die "the log was not turned"
[ "$(stat -c %s "s/log/$one.log")" -lt 1000000 ] && [ "$(grep -c '^xxx' "s/log/$one.log.1")" = 12000 ] || die "the log was not turned"
[ "$(stat -c %a "s/log/$one.log.1")" = 600 ] || die "others may read the old log"
ok kiln enqueue slow.jsonl --batch after
ok kiln wait after --timeout 60

# --- a `down` that was interrupted: the guard still drains its workers, and `up` revokes that
pid=$(pid_of s "$one") guard=$(pid_of s crew)
kill -STOP "$pid"
kill -TERM "$guard"
until_ls "d['$cpu0']['state'] == 'stopped'"
(sleep 1; kill -CONT "$pid") &
ok kiln up --dir s
until_ls "d['$one']['state'] == d['$cpu0']['state'] == 'running' and d['$one']['pid'] != $pid"
[ "$(pid_of s crew)" = "$guard" ] || die "the guard did not stay"

# --- a guard that is killed before it has stopped a worker: the next one does
kill -STOP "$guard"
timeout 120 "$kiln_bin/kiln" worker stop "$one" >out.txt 2>err.txt &
stopping=$!
sleep 1
kill -9 "$guard"
wait $stopping || { cat err.txt; die "nobody stopped the worker when its guard was killed"; }
until_ls "d['$one']['state'] == 'stopped'"
ok kiln worker start "$one"

# --- a worker that starts while `down` waits for the guard, which is then killed: it ends as well
guard=$(pid_of s crew)
kill -STOP "$guard"
timeout 120 "$kiln_bin/kiln" down --daemons --dir s >out.txt 2>err.txt &
stopping=$!
sleep 1
"$kiln_bin/kiln-worker" --config "$PWD/s/kiln.conf" --id late --device cpu >late.log 2>&1 &
late=$!
echo $late >s/run/late.pid
until grep -q worker_ready late.log; do alive $late || { cat late.log; die "no late worker"; }; sleep 0.1; done
kill -9 "$guard"
wait $stopping || { cat err.txt; die "down failed when the guard was killed"; }
says '^late *stopped$'
alive $late && die "a worker that started late is left"
ok kiln up --dir s
ok kiln worker start "$one"

# --- down stops the guard and its workers; start brings them back
guard=$(pid_of s crew) pid=$(pid_of s "$one")
ok kiln down --dir s
for process in $guard $pid; do alive "$process" && die "process $process is left"; done
[ -z "$(ls s/run/*.pid 2>/dev/null)" ] || die "pid files are left"
python3 -c 'import json, sys; sys.exit(any(w["name"] == "worker-0" and w["wanted"] for w in json.load(open("s/crew.json"))["workers"]))' ||
    die "the next guard would start the stack's worker without its servers"
ok kiln up --dir s
ok kiln worker start "$one"
ok kiln drain --all --yes --wait --timeout 120
ok kiln workers --json
json_lines out.txt '[w for w in (d if isinstance(d, list) else [d]) if w.get("state") == "live"] == []'
ok kiln worker stop --all --yes
until_ls "all(row['state'] == 'stopped' for row in rows)"
soon [ ! -e s/run/crew.pid ] || die "a guard of nobody is left"
echo ok
