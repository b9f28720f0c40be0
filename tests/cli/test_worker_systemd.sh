#!/bin/bash
# `kiln worker start|stop|ls|logs` under a real systemd with the unit file that is installed: through
# systemctl and journalctl, with the same words, states and exit codes as with Kiln's own guard.
. "$KILN_SOURCE/tests/cli/lib.sh"
. "$source_dir/tests/support/systemd_here.sh"
chmod 711 .
trap 'stop_systemd; stop_stacks' EXIT
stacks+=(s)
ok kiln up --dir s --engine testcard --lease-s 4 --heartbeat-s 0.5 --drain-s 10
mkdir etc units
cp s/kiln.conf etc/kiln.conf # not beside the stack's own workers
conf=$PWD/etc/kiln.conf

# The unit as it is, but for where this build lies: below /tmp, of root, on a machine without a GPU.
# Nothing of the machine's own boot may come along.
unit=units/kiln-worker@.service
sed -e "s#/usr/local/bin#$kiln_bin#; s#/etc/kiln/kiln.conf#$conf#; s/cuda:%i/cpu/; /^Wants=\|^After=/d; s/^\[Unit\]/&\nDefaultDependencies=no/" \
    -e '/^User=\|^Group=\|^CapabilityBoundingSet=\|^ProtectSystem=\|^ProtectHome=\|^PrivateTmp=/d; s/^RestartSec=.*/RestartSec=0.2/' \
    "$source_dir/scripts/systemd/kiln-worker@.service" >$unit
boot_systemd "$PWD/units" || { echo "skip: no systemd of our own for want of $systemd_lacks"; exit 77; }
kiln() { inside env KILN_CONFIG="$conf" "$kiln_bin/kiln" "$@"; }
name=$(hostname -s)-gpu
until_ls() { # EXPRESSION over the listing (d: name -> row)
    soon ls_is "$1" || { cat out.txt err.txt; inside journalctl --no-pager -n 30; die "never so: $1"; }
}
ls_is() {
    kiln worker ls --json >out.txt 2>err.txt
    python3 - "$1" "$name" <<'PYTHON'
import json, sys
d = {row["worker"].removeprefix(sys.argv[2]): row for row in map(json.loads, open("out.txt"))}
try:
    sys.exit(0 if eval(sys.argv[1]) else 1)
except KeyError:
    sys.exit(1)
PYTHON
}
main_pid() { inside systemctl show -p MainPID --value "kiln-worker@$1"; }

# --- nobody yet; words that are wrong
ok kiln worker ls
says 'systemd runs no kiln-worker@ here'
fails 78 kiln worker start --device cpu
says 'systemd has one worker a GPU'
fails 69 kiln worker start --device cuda:77
says 'cuda:77: this machine has '
fails 64 kiln worker start 0 --workers 2
says 'systemctl edit'
fails 64 kiln worker stop
fails 64 kiln worker stop --all
fails 66 kiln worker start nobody
fails 66 kiln worker logs ../etc

# --- started: ready when the unit is, drawing under the name of the unit
ok kiln worker start 0 gpu1
says "${name}0 .*runs"
until_ls "[d[n]['state'] for n in '01'] == ['running'] * 2 and d['0']['pid'] > 0 and d['0']['device'] == 'cpu' and d['0']['wanted'] and d['0']['since'][:2] == '20'"
ok kiln workers --json
json_lines out.txt "{'${name}0', '${name}1'} <= {w['worker'] for w in d if w['state'] == 'live'}"
ok kiln drain "$cpu0" --wait # of the stack itself
echo '{"prompt": "@step_ms=50 {red|blue|green} star", "width": 64, "height": 64, "steps": 2}' >jobs.jsonl
ok kiln enqueue "$PWD/jobs.jsonl" --batch b
ok kiln wait b --timeout 60
pid=$(main_pid 0)
ok kiln worker start "${name}0" # a second start changes nothing
[ "$(main_pid 0)" = "$pid" ] || die "it was started again"
ok kiln worker logs 0 --lines 100
says 'info kiln-worker worker_ready worker='"${name}0" out.txt
ok kiln worker logs "${name}1" --lines 1
[ "$(wc -l <out.txt)" = 1 ] || die "not the last line"
(kiln worker logs "kiln-worker@1" --follow >followed.txt 2>&1) &
follower=$!

# --- killed: systemd starts it again
inside kill -KILL "$pid"
until_ls "d['0']['state'] == 'running' and d['0']['restarts'] == 1 and d['0']['pid'] not in (0, $pid)"

# --- it crashes again and again: given up, with the reason, and the doctor says so; start forgives
for _ in 1 2 3 4 5; do
    until_ls "d['0']['state'] in ('running', 'given_up')"
    pid=$(main_pid 0)
    [ "$pid" = 0 ] || inside kill -SEGV "$pid"
    until_ls "d['0']['pid'] != $pid or d['0']['pid'] == 0"
done
until_ls "d['0']['state'] == 'given_up' and ('signal 11' in d['0']['reason'] or 'start-limit' in d['0']['reason']) and not d['0']['pid']"
kiln doctor --json >out.txt 2>err.txt
json out.txt "any(f['check'] == 'crew' and f['verdict'] == 'bad' and '${name}0' in f['found'] for f in d['findings'])"
ok kiln worker start 0
until_ls "d['0']['state'] == 'running' and d['0']['restarts'] == 0"

# --- wrong settings: given up at once, and start says where to look
ok kiln worker stop cuda:0
until_ls "'0' not in d or (d['0']['state'] == 'stopped' and d['0']['pid'] == 0)"
echo 'webp_method = 77' >>etc/kiln.conf
cp s/kiln.conf good.conf
fails 69 inside env KILN_CONFIG="$PWD/good.conf" "$kiln_bin/kiln" worker start gpu0
says "${name}0 does not stay up (exit 78); .kiln worker logs"
cp good.conf etc/kiln.conf
until_ls "d['0']['state'] == 'given_up' and d['0']['reason'] == 'exit 78'"
fails 66 kiln worker start gpu0 nobody # a wrong name is told, not what was wrong before
says "worker of this machine 'nobody'"
ok kiln worker logs 0
says 'webp_method' out.txt

# --- all of them stop, each draining first; the follower has seen it
ok kiln worker start 0
ok kiln worker stop --all --yes
says "${name}1 .*stopped"
until_ls "all(row['state'] == 'stopped' for row in d.values())"
soon grep -q worker_ended followed.txt || die "the follower has not seen it"
inside kill -INT "$(inside pgrep -x journalctl)"
wait $follower

# --- --dir names a crew of Kiln's own guard all the same
ok kiln worker ls --dir "$PWD/s"
says "^$cpu0 .*drained" out.txt # above, and no guard of it is in this PID namespace
echo ok
