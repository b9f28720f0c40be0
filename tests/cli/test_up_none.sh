#!/bin/bash
# `kiln up --workers 0`: a stack whose workers run elsewhere.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(a)
alone=
trap '[ -z "$alone" ] || { kill $alone; wait $alone; }; stop_stacks' EXIT
none() { [ -z "$(ls a/run/worker-*.pid 2>/dev/null)" ] || die "a worker was started"; }

# --- without a model too: there is nobody here who would load it
ok kiln up --dir a --workers 0
says '^workers *none: .kiln up --workers N. starts workers here, .kiln-worker --config FILE. one on'
none
export KILN_CONFIG=$PWD/a/kiln.conf
ok kiln up --dir a --json # as before
json out.txt 'd["workers"] == 0 and sorted(d["pids"]) == ["gallery", "postgres", "redis", "scheduler"] and all(d["pids"].values())'
none

# --- what is said where nobody draws
ok kiln status
says 'no worker is alive' out.txt
echo '{"prompt": "a cat", "width": 64, "height": 64}' >one.jsonl
ok kiln enqueue one.jsonl --batch b
kiln wait b --timeout 200 >wait.txt 2>&1 &
waiting=$!
soon grep -q 'batch b waits: no worker is alive in pool default' wait.txt || die "the wait says: $(cat wait.txt)"
says 'kiln up --workers N. in a private stack' wait.txt
ok kiln why 1
says 'no worker' out.txt
fails 1 kiln doctor
says 'there is no live worker' out.txt

# --- one that is started elsewhere draws it
"$kiln_bin/kiln-worker" --config a/kiln.conf --engine testcard --id elsewhere >worker.log 2>&1 &
alone=$!
wait $waiting || die "the wait ended with $?"
ok kiln workers
says elsewhere out.txt
ok kiln up --dir a # leaves it alone
none
alive $alone || die "a worker of somebody else was stopped"

# --- some, and none again
ok kiln up --dir a --workers 2 --engine testcard
alive "$(pid_of a worker-0)" && alive "$(pid_of a worker-1)" || die "two were asked for"
ok kiln up --dir a --workers 0
says "$cpu0 *stopping (pid .*): one too many"
says "$cpu1 *stopping (pid .*): one too many"
none
alive $alone || die "a worker of somebody else was stopped"
fails 64 kiln up --dir a --workers -1
echo ok
