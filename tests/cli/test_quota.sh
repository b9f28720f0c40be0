#!/bin/bash
# Quotas on a real stack: too much at once is refused with the reason and comes in later; who has
# used up the day is held, others are not; nothing is lost.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
lines() { # TENANT FIRST LAST
    for i in $(seq "$2" "$3"); do
        echo "{\"prompt\": \"p$i @step_ms=5\", \"width\": 64, \"height\": 64, \"steps\": 2, \"tenant\": \"$1\"}"
    done
}

for words in "quota" "quota drop ann" "quota set" "quota set ann" "quota set no/name --queued 3" "quota ls ann" \
    "quota set ann --reuse perhaps" "quota set ann --queued -1" "quota set ann --queued 1.5" "quota set ann --queued many" "quota set ann --gpu-seconds-day 0" \
    "quota rm ann --queued 3"; do
    fails 64 kiln $words
done
fails 64 kiln quota set backfill-cars --queued 3
says "'backfill-cars' is not a tenant's name: Kiln's own names are 'latent-cache' and 'backfill-...'"
fails 66 kiln quota rm ann

# --- jobs waiting: what is beyond is refused, and comes in when it is sent again
ok kiln pause --all --yes
ok kiln quota set ann --queued 10 --json
json out.txt 'd == {"tenant": "ann", "queued": 10, "gpu_seconds_day": None, "teleport": None}'
lines ann 1 25 >ann.jsonl
lines bob 1 15 >bob.jsonl
sleep 0.6 # the intake reads the quotas twice a second
fails 65 kiln enqueue ann.jsonl --batch ann --json
json out.txt 'd["accepted"] == 10 and len(d["refused"]) == 1 and "has reached its limit of 10 waiting jobs" in d["refused"][0]["error"]'
json out.txt 'd["refused"][0]["line"] == 11 and d["refused"][0]["error"].startswith("15 jobs, from line 11 to line 25, the first: tenant")'
says 'the scheduler refused 15 jobs, from line 11 to line 25, the first: tenant .ann. has reached its limit of 10'
says 'kiln show .*. lists each with its reason'
[ "$(sql "SELECT sum(refused) FROM intake_call")" = 15 ] || die "not fifteen refused"
[ "$(sql "SELECT string_agg(index::text, ',' ORDER BY index) FROM job")" = 0,1,2,3,4,5,6,7,8,9 ] || die "not the first ten came in"
ok kiln enqueue bob.jsonl --batch bob
fails 65 kiln enqueue ann.jsonl --batch ann --json # what is there is a duplicate, not refused
json out.txt 'd["accepted"] == 0 and d["duplicate"] == 10'
ok kiln quota ls --json
json out.txt 'd["tenant"] == "ann" and d["queued"] == 10 and d["waiting"] == 10 and not d["held"]'
ok kiln status --groups --json # held back, they are none of the scheduler's business
json out.txt 'd["waiting"] == 0 and d["holds"] == 1 and d["groups"] == []'
ok kiln status --groups
says 'paused jobs are not counted' out.txt
ok kiln resume --all
until_sql "SELECT count(*) FROM job WHERE state = 2" 25
fails 1 kiln wait ann --timeout 60 # it ends, and what did not come in is told
says '15 jobs refused: .kiln show ann. says why'
sleep 0.6
fails 65 kiln enqueue ann.jsonl --batch ann --json
json out.txt 'd["accepted"] == 10 and d["duplicate"] == 10'
json out.txt 'd["refused"][0]["line"] == 21 and "from line 21 to line 25, the first: tenant" in d["refused"][0]["error"]'
until_sql "SELECT count(*) FROM job WHERE state = 2" 35
fails 1 kiln wait ann --timeout 60 --json
json out.txt 'd["refused"] == 5 and d["whole"]'
ok kiln show ann --json
json out.txt 'len(d["refused"]) == 5 and all("has reached its limit of 10 waiting jobs" in r["reason"] for r in d["refused"])'
sleep 0.6
ok kiln enqueue ann.jsonl --batch ann --json
json out.txt 'd["accepted"] == 5 and d["duplicate"] == 20'
until_sql "SELECT count(*) FROM job WHERE state = 2" 40
ok kiln wait ann --timeout 60 --json # all of it came in: the refusals are over
json out.txt 'd["refused"] == 0 and d["jobs"]["done"] == 25'
ok kiln watch ann --json
ok kiln show ann --json
json out.txt 'd["refused"] == []'

# --- everybody else
ok kiln quota set '*' --queued 3
ok kiln quota set eve --reuse off # which is no limit, so that the one of '*' still applies
says "tenant 'eve' has no limits of its own: those of '[*]' apply"
ok kiln pause --all --yes # so that none is drawn meanwhile
sleep 0.6
fails 65 kiln enqueue - --batch eve < <(lines eve 1 9)
says 'the scheduler refused 6 jobs, the first: tenant .eve. has reached its limit of 3 waiting jobs'
# Lines that are refused here, or stand for several jobs, or have a custom_id, keep their numbers.
cat >fay.jsonl <<'LINES'
{"prompt": "no size", "width": 13, "height": 64}
{"prompt": "a {red|blue} car", "width": 64, "height": 64, "tenant": "fay"}

{"prompt": "a {red|blue} car", "width": 64, "height": 64, "tenant": "fay", "custom_id": "six"}
{"prompt": "the last", "width": 64, "height": 64, "tenant": "fay"}
LINES
fails 65 kiln enqueue fay.jsonl --batch fay --json
json out.txt 'd["accepted"] == 3 and [r["line"] for r in d["refused"]] == [1, 4] and "2 jobs, from line 4 to line 5, the first: " in d["refused"][1]["error"]'
[ "$(grep -c "^fay.jsonl:1: " err.txt)" = 1 ] || die "a refused line is told again"
ok kiln quota set '*' --queued 1
sleep 0.6
lines gus 1 2 >gus.txt
fails 65 kiln enqueue gus.txt --format jsonl --batch gus --json
json out.txt 'd["refused"][0]["line"] == 2 and d["refused"][0]["error"].startswith("tenant")'
fails 65 kiln enqueue - --batch gus2 --json < <(lines gus 3 4) # a pipe cannot be read again
json out.txt 'd["refused"][0]["line"] is None'
ok kiln resume --all
ok kiln quota rm '*' --yes
ok kiln quota rm eve --yes
fails 66 kiln quota rm anne
says "the nearest is 'ann'"

# --- GPU-seconds of a day
used=$(sql "SELECT sum(text_ms + denoise_ms + decode_ms) FROM image WHERE tenant = 'ann'")
ok kiln quota set ann --queued none --gpu-seconds-day 100
sql "UPDATE image SET denoise_ms = denoise_ms + 100000 WHERE job_id = (SELECT max(job_id) FROM image WHERE tenant = 'ann')"
until_sql "SELECT count(*) FROM hold WHERE scope = 'quota' AND name = 'ann' AND held" 1
sleep 2 # the leader reads the holds twice a second
ok kiln enqueue - --batch late < <(lines ann 30 33)
ok kiln enqueue - --batch others < <(lines bob 30 33)
ok kiln wait others --timeout 60
[ "$(sql "SELECT count(*) FROM job j JOIN batch b ON b.id = batch_id WHERE b.name = 'late' AND state = 0")" = 4 ] || die "a tenant beyond its day was served"
job=$(sql "SELECT max(id) FROM job WHERE state = 0")
ok kiln why "$job" --json
json out.txt 'd["hold"] == "quota" and "of 100 GPU-seconds of today" in d["reasons"][0] and "resumes at" in d["reasons"][0]'
ok kiln quota ls --json
json out.txt 'd["held"] and d["gpu_seconds_today"] > 100 and d["queued"] is None'
ok kiln status
says '^paused: tenant ann has used up its daily quota' out.txt
ok kiln quota set ann --gpu-seconds-day 1000 # more: it goes on
ok kiln wait late --timeout 60
[ "$(sql "SELECT count(*) FROM hold WHERE held")" = 0 ] || die "a hold is left"
# A new day begins: what was used yesterday counts no more.
ok kiln quota set ann --gpu-seconds-day 100
until_sql "SELECT count(*) FROM hold WHERE scope = 'quota' AND held" 1
sql "UPDATE image SET created_at = created_at - interval '1 day' WHERE tenant = 'ann'"
until_sql "SELECT count(*) FROM hold WHERE scope = 'quota' AND held" 0
[ "$(sql "SELECT count(*) FROM job WHERE state <> 2")" = 0 ] || die "something was lost"
echo ok
