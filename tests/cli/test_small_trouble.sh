#!/bin/bash
# Coarse jobs that begin at a small step, on a real stack, while workers are killed, Redis is emptied, two
# workers use one donor, and the worker is of a release that cannot begin there.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
older=$kiln_bin/older/kiln-worker
[ -x "$older" ] || { echo "skip: the programs of other releases are not built"; exit 77; }
stacks+=(s)
mkdir model
printf '%s\n' '{"teleport": {"rows": [
 {"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}],
 "coarse": {"mode": "4+2", "rows": [
 {"class": "same_prompt", "depth": 1, "donors": 1, "uses": 8, "variety": 1, "loss": [0, 0], "for": ["128x128"]}]}}}' >model/kiln.json
export KILN_MODEL=$PWD/model
ok kiln up --dir s --engine testcard --workers 2 --lease-s 10
export KILN_CONFIG=$PWD/s/kiln.conf
keys='"size":"128x128","coarse":"4+2"' late=coarse=4+2,teleport=1
held_keys="$keys,\"alike\":100"

hit "$held_prompt" 100 $late "$keys"
shared $late
# An emptied Redis alone: the assignment comes back after a lease, and a job that comes back runs in full.
held 1
ok redis-cli -s s/run/redis/redis.sock FLUSHALL
workers CONT
rendered 1
[ "$(was)" = "coarse=4+2||0" ] || die "a job that came back: $(was)"
# Workers are killed while they render: its second attempt is a whole run, and the donor may go.
held_prompt='a slow fox @step_ms=800'
hit "$held_prompt" 100 $late "$keys"
for _ in $(seq 5); do # until the worker had begun when it was killed: else the next one reads the assignment
    ask 1
    until_sql "SELECT count(*) FROM assignment WHERE donors <> '{}'" 1
    donor=$(sql "SELECT donors[1] FROM assignment WHERE donors <> '{}'")
    [ "$(sql "SELECT latent_need($donor)")" = "in use" ] || die "the donor may go while it is used"
    sleep 0.5
    killed_and_rendered
    [ "$(was)" != "coarse=4+2||0" ] || break
done
[ "$(was)" = "coarse=4+2||0" ] || die "a job whose worker was killed: $(was)"
[ "$(sql "SELECT attempt FROM job WHERE prompt = '$held_prompt' AND seed = $held")" = 2 ] || die "not the second attempt"
until_sql "SELECT coalesce(latent_need($donor), 'none')" none
[ "$(sql "SELECT count(*) FROM (SELECT key FROM object GROUP BY key HAVING count(DISTINCT job_id) > 1) twice")" = 0 ] || die "a key of two jobs"

# A worker of an older release is not told of such a donor, and nothing is counted for it.
hits() { curl -sS --max-time 60 "http://127.0.0.1:$(port_in s/log/scheduler.log)/metrics" | sed -n 's/^kiln_donor_lookups_total{result="hit".* //p'; }
"$older" --config s/kiln.conf --id older >older.log 2>&1 &
older=$!
trap 'kill "$older" 2>/dev/null; wait "$older" 2>/dev/null; stop_stacks' EXIT
soon grep -q worker_ready older.log || die "the older worker does not start: $(cat older.log)"
for name in "$cpu0" "$cpu1"; do ok kiln drain "$name" --wait --timeout 60; done
before=$(hits)
draw 'a held fox' 7001 100 "$keys"
[ "$drawn" = "coarse=4+2||0" ] || die "the older worker: $drawn"
[ "$(sql "SELECT worker FROM job WHERE seed = 7001")" = older ] || die "another worker rendered it"
[ "$(hits)" = "$before" ] || die "a hit was counted that the worker could not use"
echo ok
