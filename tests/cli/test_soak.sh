#!/bin/bash
# A fleet that fills itself while things happen to it: standing orders, the latent cache and people's
# batches at once, while schedulers and workers are killed, drained and restarted, orders paused and
# resumed.  In the end nothing is lost, the ledger and the store agree to the byte, no mark was
# exceeded, no prompt was drawn twice with a seed, and no job of a person waited behind more than one
# batch of backfill.  KILN_SOAK_S seconds of that (8); the long form is
#
#     KILN_SOAK_S=1800 TEST_TIMEOUT=3600 make test T=test_soak
seconds=${KILN_SOAK_S:-8}
RANDOM=${KILN_SOAK_SEED:-7}
. "$KILN_SOURCE/tests/cli/lib.sh" # which takes KILN_* variables away
chmod 711 .
stacks+=(s)
short="--lease-s 2 --heartbeat-s 0.5 --hold-s 2"
ok kiln up --dir s --engine testcard --workers 2 $short
export KILN_CONFIG=$PWD/s/kiln.conf
store=$(sed -n 's/^store = file:\/\///p' "$KILN_CONFIG")

# The most that ever waited or ran of each order: looked at whenever an order is topped up.
sql "CREATE TABLE most (id bigint PRIMARY KEY, most bigint NOT NULL);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO most SELECT NEW.id, count(*) FROM job
    WHERE batch_id = NEW.batch_id AND state IN (0, 1) ON CONFLICT (id) DO UPDATE SET most = greatest(most.most, excluded.most); RETURN NULL; END';
CREATE TRIGGER look AFTER UPDATE ON backfill FOR EACH ROW EXECUTE FUNCTION look()"

small=(--set size=64x64 --set steps=2)
ok kiln backfill add quick --template 'quick {a|b|c|d|e}' "${small[@]}" --low-water 24
ok kiln backfill add slow --template 'slow {a|b|c} @step_ms=40' "${small[@]}" --low-water 10
ok kiln backfill add rare --template 'rare' "${small[@]}" --rate 3600/h --low-water 5
for i in $(seq 120); do echo "cached prompt $i @step_ms=2"; done >cached.txt

# What has died or was drained comes back, also what is only about to end.
heal() { ok kiln up --dir s -q; }

batches=0 drains=0 kills=0
disturb() {
    case $((RANDOM % 7)) in
    0) kill -9 "$(pid_of s scheduler 2>/dev/null)" 2>/dev/null && kills=$((kills + 1)) ;;
    1) kill -9 "$(pid_of s worker-$((RANDOM % 2)) 2>/dev/null)" 2>/dev/null && kills=$((kills + 1)) ;;
    2) kiln drain -q worker-$((RANDOM % 2)) 2>/dev/null && drains=$((drains + 1)) ;;
    3) kiln backfill pause -q slow && kiln backfill resume -q slow ;;
    4) kiln pause -q --backfill && kiln resume -q --backfill ;;
    5) kiln cache build -q --prompts cached.txt "${small[@]}" --sigmas 0.9,0 >/dev/null || die "cache build" ;;
    6) kiln cache build -q --prompts cached.txt "${small[@]}" >/dev/null || die "cache build" ;;
    esac
}
end=$(($(date +%s) + seconds))
while [ "$(date +%s)" -lt $end ]; do
    batches=$((batches + 1))
    for i in 1 2 3; do echo "{\"prompt\": \"person $batches $i\", \"size\": \"64x64\", \"steps\": 2}"; done |
        kiln enqueue -q - --batch "person-$batches" --no-wait >/dev/null || die "a batch did not reach the stream"
    disturb
    heal
done

# --- it ends: people's batches and the cache are whole, then the orders go
heal
ok kiln resume -q --backfill
ok kiln cache build --prompts cached.txt "${small[@]}"
for i in $(seq $batches); do
    kiln wait -q "person-$i" --timeout 60 >/dev/null || die "batch person-$i of $batches is not whole: $(kiln show "person-$i")"
done
ok kiln wait latent-cache --timeout 60
for order in quick slow rare; do ok kiln backfill rm -q $order --yes; done
until_sql 'SELECT count(*) FROM job WHERE state IN (0, 1)' 0
ok kiln drain --all --yes
nobody_lives() { [ "$(kiln workers --json | grep -c '"live"\|"draining"')" = 0 ]; }
soon nobody_lives || die "workers are not drained"

check() { [ "$(sql "$1")" = "$2" ] || die "$3: $(sql "$1") and not $2"; }
check "SELECT count(*) FROM job WHERE state NOT IN (2, 4)" 0 "jobs that are neither done nor cancelled"
check "SELECT count(*) FROM job WHERE state = 4 AND priority > -10" 0 "cancelled jobs of people"
check "SELECT count(*) FROM job WHERE priority > -10 AND state = 2" $((3 * batches)) "pictures of people"
check "SELECT (SELECT count(*) FROM job WHERE state = 2 AND kind = 0) - (SELECT count(*) FROM image)" 0 "done jobs without their picture"
check "SELECT (SELECT count(*) FROM job WHERE state = 2) - (SELECT count(*) FROM latent)" 0 "done jobs without their latent"
check "SELECT count(*) FROM (SELECT 1 FROM event WHERE state = 2 GROUP BY job_id HAVING count(*) > 1) twice" 0 "jobs done twice"
check "SELECT count(*) FROM (SELECT 1 FROM job WHERE priority = -10 GROUP BY batch_id, prompt, seed, kind, sigmas HAVING count(*) > 1) twice" 0 "prompts with the same seed twice"
check "SELECT count(*) FROM most WHERE most > (CASE id WHEN 1 THEN 24 WHEN 2 THEN 10 ELSE 5 END)" 0 "marks that were exceeded"
check "SELECT count(*) FROM most" 3 "orders that were topped up"
check "SELECT count(*) FROM (SELECT batch_id, sum(queued), sum(assigned), sum(done), sum(cancelled) FROM batch_tally GROUP BY 1
    EXCEPT SELECT batch_id, count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 4) FROM job GROUP BY 1) wrong" 0 "batches whose sums are not those of their rows"
# Backfill that a worker was given after a person's job had come and the scheduler had had time to read it
# (these batches take less than a tenth of a second), and before that job.
check "SELECT count(*) FROM (SELECT u.id FROM job u JOIN job b ON b.priority = -10 AND b.assigned_at > u.created_at + interval '0.5 s' AND
    b.assigned_at < u.assigned_at AND b.worker = u.worker AND b.attempt = 1 WHERE u.priority = 0 AND u.attempt = 1
    GROUP BY u.id HAVING count(DISTINCT b.assignment) > 1) late" 0 "jobs of people that waited behind backfill"

# --- every row has its object, to the byte; every object has its row once gc has run
ok kiln gc --grace 0 --yes
sql "SELECT key || ' ' || bytes || ' ' || sha256 FROM object" >rows.txt
python3 - "$store" <<'PYTHON' || die "ledger and store disagree"
import hashlib, os, sys
rows = {line.split()[0]: line.split()[1:] for line in open("rows.txt")}
for key, (size, digest) in rows.items():
    data = open(os.path.join(sys.argv[1], key), "rb").read()
    assert len(data) == int(size) and hashlib.sha256(data).hexdigest() == digest, key
files = {os.path.relpath(os.path.join(d, f), sys.argv[1]) for d, _, names in os.walk(sys.argv[1]) for f in names}
files = {f for f in files if f.startswith(("images/", "latents/"))}
assert files == set(rows), (len(files), len(rows), sorted(files ^ set(rows))[:5])
PYTHON
echo "$batches batches, $kills kills, $drains drains, $(sql 'SELECT count(*) FROM job WHERE state = 2') jobs done, $(sql 'SELECT count(*) FROM object') objects"
