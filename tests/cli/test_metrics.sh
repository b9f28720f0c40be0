#!/bin/bash
# The pages of metrics of a running scheduler and two workers: read by a strict reader amid work,
# and held to what the ledger says; /healthz when a server falls silent; ports that are taken.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --workers 2 --lease-s 3 --heartbeat-s 0.3 --backoff-base-s 0.1 --backoff-max-s 0.2
export KILN_CONFIG=$PWD/s/kiln.conf
scheduler=$(port_in s/log/scheduler.log) one=$(port_in s/log/worker-0.log) two=$(port_in s/log/worker-1.log)
[ -n "$scheduler" ] && [ -n "$one" ] && [ -n "$two" ] && [ "$one" != "$two" ] || die "ports '$scheduler' '$one' '$two'"

# page LIMIT_S EXPRESSION: s, w and v are the samples of scheduler and workers, t sums up; the pages
# are read again until it holds.
page() {
    python3 -B - "$1" "$2" "$scheduler" "$one" "$two" <<'PYTHON' || die "not so within $1 s: $2"
import os, sys, time
sys.path.insert(0, os.environ["TESTS"] + "/support")
from prometheus import scrape, total as t
until = time.monotonic() + float(sys.argv[1])
while True:
    seen = {}
    for name, port in zip("swv", sys.argv[3:]):
        try:
            seen[name] = scrape("127.0.0.1", int(port))
        except OSError:
            seen[name] = {}
    if eval(sys.argv[2], {"t": t, **seen}):
        sys.exit(0)
    if time.monotonic() > until:
        for name, samples in seen.items():
            print(name, {k: n for k, n in samples.items() if n and not k[0].endswith("_bucket")}, file=sys.stderr)
        sys.exit(1)
    time.sleep(0.1)
PYTHON
}
export TESTS=$source_dir/tests

# get PORT PATH [METHOD]: status and body
get() {
    local line status
    exec 3<>"/dev/tcp/127.0.0.1/$1" || return
    printf '%s %s HTTP/1.0\r\n\r\n' "${3:-GET}" "$2" >&3
    read -r _ status _ <&3
    while IFS= read -r line <&3 && [ "$line" != $'\r' ]; do :; done
    printf '%s %s\n' "$status" "$(timeout 60 cat <&3)"
    exec 3<&-
}
answers() { # LIMIT_S PORT PATH PATTERN
    local limit=$((SECONDS + $1)) got
    while got=$(get "$2" "$3"); [[ ! $got =~ $4 ]]; do
        [ $SECONDS -le $limit ] || die "$3 of port $2 says '$got', not '$4'"
        sleep 0.2
    done
}

# --- at rest
page 60 't(s, "kiln_leader") == 1 and t(s, "kiln_workers", state="idle") == 2 and t(s, "kiln_build_info", program="kiln-scheduler", pool="default") == 1'
page 60 't(w, "kiln_worker_info", worker="'"$cpu0"'", engine="testcard") == 1 and t(v, "kiln_worker_info", worker="'"$cpu1"'") == 1'
page 60 't(w, "kiln_device_seconds_total", state="idle") > 0 and t(w, "process_resident_memory_bytes") > 1e6 and t(s, "process_start_time_seconds") > 1.7e9'
for port in $scheduler $one $two; do
    answers 60 "$port" /healthz '^200 ok$'
    answers 60 "$port" /livez '^200 ok$'
    answers 60 "$port" /readyz '^200 ok$'
done
answers 60 "$one" /secrets '^404 there are /metrics'
[[ $(get "$one" /metrics POST) == "405 "* ]] || die "POST is let in"

# --- amid work: thirty groups, each shown until there are more than twenty of them
for steps in $(seq 1 30); do
    for copy in 1 2; do
        printf '{"prompt": "unspeakable %d @step_ms=400", "width": 64, "height": 64, "steps": %d}\n' $copy $((51 - steps))
    done
done >slow.jsonl
ok kiln enqueue slow.jsonl --batch slow
page 60 't(s, "kiln_workers", state="drawing") == 2 and t(s, "kiln_occupancy_ratio") == 1 and t(w, "kiln_worker_drawing") == 1'
page 60 't(s, "kiln_queue_jobs") == t(s, "kiln_jobs", state="queued") > 40 and t(s, "kiln_jobs", state="assigned") + t(s, "kiln_jobs", state="queued") == 60'
page 60 'sum(k[0] == "kiln_queue_jobs" for k in s) == 21 and t(s, "kiln_queue_jobs", loras="other") > 0 and t(s, "kiln_queue_jobs", size="64x64", steps="30") <= 2'
page 60 '0 < t(s, "kiln_queue_oldest_seconds", size="other") < 600 and t(s, "kiln_queue_backlog_seconds") > 0'
page 60 't(w, "kiln_device_seconds_total", state="busy") > 0.3 and 0 < t(w, "kiln_worker_batch_seconds") and t(w, "kiln_worker_stalled_seconds") < 60'
ok kiln cancel slow --yes
page 60 't(s, "kiln_workers", state="idle") == 2 and t(s, "kiln_queue_jobs") == 0 and t(s, "kiln_jobs", state="cancelled") == 60'

# --- counters against the ledger
for i in $(seq 24); do printf '{"prompt": "unspeakable %d", "width": 64, "height": 64, "steps": %d}\n' $i $((1 + i % 3)); done >quick.jsonl
printf '{"prompt": "unspeakable @fail=%s", "width": 64, "height": 64}\n' bad_input no_memory >>quick.jsonl
ok kiln enqueue quick.jsonl --batch quick
fails 1 kiln wait quick --timeout 60
done=$(sql 'SELECT count(*) FROM job WHERE state = 2') failed=$(sql 'SELECT count(*) FROM job WHERE state = 3')
[ "$done $failed" = "24 2" ] || die "$done done, $failed failed"
ended='t(w, "kiln_worker_jobs_total", outcome="%s") + t(v, "kiln_worker_jobs_total", outcome="%s") == %d'
# shellcheck disable=SC2059
page 60 "$(printf "$ended" done done 24) and $(printf "$ended" failed failed 2)"
page 60 't(s, "kiln_jobs", state="done") == 24 and t(s, "kiln_jobs", state="failed") == 2'
page 60 'all(sum(t(x, "kiln_stage_seconds_count", stage=g) for x in (w, v)) == 24 for g in ("wait", "text", "denoise", "decode", "encode", "upload", "commit"))'
page 60 'sum(t(x, "kiln_job_failures_total", code=c) for x in (w, v) for c in ("bad_input", "no_memory")) == 2'
retries=$(sql "SELECT sum(tries) - 1 FROM job WHERE prompt ~ 'no_memory'")
page 60 "sum(t(x, 'kiln_job_retries_total', code='no_memory') for x in (w, v)) == $retries > 0"
page 60 't(s, "kiln_intake_jobs_total", result="inserted") == 86 and t(s, "kiln_intake_jobs_total", result="refused") == 0'
page 60 't(s, "kiln_assignments_total") == t(s, "kiln_assignment_jobs_count") == t(s, "kiln_assignment_loads_total") and t(s, "kiln_assignment_jobs_sum") >= 26'
page 60 'sum(t(x, "kiln_store_written_bytes_total") for x in (w, v)) >= '"$(sql 'SELECT sum(bytes) FROM object')"
page 60 't(w, "kiln_store_request_seconds_count", operation="put") > 1 and t(s, "kiln_ledger_request_seconds_count", way="statement") > 10 and t(w, "kiln_ledger_errors_total") == 0'

# --- a worker that vanishes
ok kiln enqueue - --batch last <<<'{"prompt": "unspeakable @step_ms=500", "width": 64, "height": 64, "steps": 12}'
page 60 't(w, "kiln_worker_drawing") + t(v, "kiln_worker_drawing") == 1'
victim=$(kiln workers --json | python3 -c 'import json,sys; print(next(x["worker"] for x in map(json.loads, sys.stdin) if x["steps"]))')
victim_pid=$(pid_of s "$([ "$victim" = "$cpu0" ] && echo worker-0 || echo worker-1)")
kill -9 "$(pid_of s crew)" "$victim_pid" # no guard restarts it
page 60 't(s, "kiln_leases_lost_total") == 1 and t(s, "kiln_jobs_taken_back_total", cause="crashed") == 1 and t(s, "kiln_job_retries_total", code="unavailable") == 1'
ok kiln wait last --timeout 60

# --- an entry that does not move: how long and why is on the page and in the health, and in the doctor
page 60 't(s, "kiln_intake_blocked_seconds", code="ok") == 0'
sql "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END \$\$"
sql 'CREATE TRIGGER full_disk BEFORE INSERT ON job EXECUTE FUNCTION full_disk()'
ok kiln enqueue - --batch late --no-wait <<<'{"prompt": "late", "width": 64, "height": 64, "steps": 1}'
page 60 't(s, "kiln_intake_blocked_seconds", code="full") > 1'
answers 60 "$scheduler" /healthz '^503 the intake has waited for [0-9.]+ s: entry [0-9]+-[0-9]+: .*no room'
kiln doctor --json >out.txt
json out.txt "any(f['check'] == 'intake' and f['verdict'] == 'bad' and 'no room' in f['found'] and 'has been blocked for' in f['found'] for f in d['findings'])"
sql 'DROP TRIGGER full_disk ON job'
ok kiln wait late --timeout 60
answers 60 "$scheduler" /healthz '^200 ok$'
page 60 't(s, "kiln_intake_blocked_seconds", code="ok") == 0 and t(s, "kiln_intake_blocked_seconds", code="full") == 0'
kiln doctor --json >out.txt
json out.txt "any(f['check'] == 'intake' and f['verdict'] == 'ok' for f in d['findings'])"

# --- a server that falls silent is seen, and seen to be back; the process lives all the while, with
# nothing to draw
alive_port=$one
[ "$victim" = "$cpu0" ] && alive_port=$two
mv s/store s/elsewhere
kill -STOP "$(pid_of s redis)"
answers 60 "$scheduler" /healthz '^503 the bus last answered [0-9.]+ s ago; 3.0 s are allowed$'
answers 60 "$alive_port" /healthz '^503 the bus last answered'
answers 60 "$scheduler" /livez '^200'
kill -CONT "$(pid_of s redis)"
answers 60 "$scheduler" /healthz '^200 ok$'
kill -INT "$(pid_of s postgres)"
answers 60 "$alive_port" /healthz '^503 the store last answered [0-9.]+ s ago; 9.0 s are allowed$'
mv s/elsewhere s/store
answers 60 "$alive_port" /healthz '^503 the ledger last answered [0-9.]+ s ago; 9.0 s are allowed$'
answers 60 "$alive_port" /metrics 'kiln_poll_age_seconds\{server="store",pool="default"\} [0-5]\.'
answers 60 "$alive_port" /livez '^200'
ok kiln up --dir s
for port in $scheduler $alive_port; do answers 60 "$port" /healthz '^200 ok$'; done

# --- ports: one that is taken is passed over, none is no reason not to run, 0 is off
standby() { # LOG ARGS...: runs a second scheduler until it is ready
    local log=$1 pid
    shift
    "$kiln_bin/kiln-scheduler" --config "$KILN_CONFIG" "$@" 2>"$log" &
    pid=$!
    soon grep -q scheduler_ready "$log"
    says 'role=standby' "$log"
    kill $pid && wait $pid
}
standby next.log --scheduler-port "$scheduler"
next=$(port_in next.log)
[ "$next" -gt "$scheduler" ] || die "the port $scheduler was given twice"
python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 65535)); s.listen(); open("bound", "w").close(); time.sleep(300)' &
holder=$!
soon [ -e bound ] || die "nobody listens at port 65535"
standby taken.log --scheduler-port 65535
kill $holder
says 'warning kiln-scheduler metrics_off error="ports 65535 to 65535 of 127.0.0.1 are taken; set scheduler_port to a free one, or to 0"' taken.log
standby off.log --scheduler-port 0
! grep -q metrics_ off.log || die "port 0 does not switch it off"
standby name.log --metrics-address localhost
says 'metrics_off error="metrics_address is \\"localhost\\"' name.log
fails 78 "$kiln_bin/kiln-scheduler" --config "$KILN_CONFIG" --scheduler-port 70000

# --- nobody learns a prompt from a page or a log
for port in $scheduler $alive_port; do
    ! get "$port" /metrics | grep -q unspeakable || die "a prompt is on the page of port $port"
done
! grep -rn unspeakable s/log || die "a prompt is in a log"

# --- the worker of a GPU has the port of its number, whether its servers answer or not
base=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(min(s.getsockname()[1], 60000))')
"$kiln_bin/kiln-worker" --config "$KILN_CONFIG" --redis unix:/nowhere --engine testcard --device cuda:12 --id gpu12 \
    --worker-port "$base" >gpu12.log 2>&1 &
gpu12=$!
for i in $(seq 600); do grep -q metrics_on gpu12.log && break; sleep 0.1; done
kill -9 $gpu12
wait $gpu12 2>/dev/null
port=$(sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' gpu12.log)
[ "$port" -ge $((base + 12)) ] && [ "$port" -lt $((base + 44)) ] || die "cuda:12 of $base has the port '$port'"
