#!/bin/bash
# The verbs of operation on a real stack: batches, batch show/rename/rm, usage, errors, events.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
gallery=$(sed -n 's/^gallery *\(http[^ ]*\).*/\1/p' err.txt)
export KILN_CONFIG=$PWD/s/kiln.conf
fleet_says() { curl -sS --max-time 60 "${gallery}fleet" >page.html && grep -qE "$1" page.html; }
fleet_says "<bdi>$cpu0</bdi></td><td>live</td>.*<td></td></tr>" || die "the fleet's page: $(grep "$cpu0" page.html)"

# --- nothing is there
ok kiln batches --json
[ ! -s out.txt ] || die "an empty pool has batches"
ok kiln errors
says 'no failed jobs'
ok kiln usage --json
[ ! -s out.txt ] || die "an empty pool has used something"

cat >jobs.jsonl <<'LINES'
{"custom_id": "a", "prompt": "one", "width": 128, "height": 64, "tenant": "ann"}
{"custom_id": "b", "prompt": "two", "width": 64, "height": 64, "tenant": "bob"}
{"custom_id": "c", "prompt": "three", "width": 64, "height": 64, "tenant": "bob"}
LINES
"$kiln_bin/kiln" events --follow --json >followed.txt 2>follow.err &
follower=$!
# It prints what moves after it has asked the ledger for the time.
until_sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kiln events' AND query_start < now() - interval '0.3 s'" 1
ok kiln enqueue jobs.jsonl --batch first
ok kiln wait first --timeout 60
ok kiln enqueue - --batch second --set tenant=ann <<<'{"prompt": "four", "width": 64, "height": 64}'
ok kiln wait second --timeout 60

# --- batches: newest first, sums by state, times, rate
ok kiln batches --json
json out.txt '[b["batch"] for b in d] == ["second", "first"] and d[1]["tenants"] == ["ann", "bob"]'
json out.txt 'd[1]["jobs"] == {"queued": 0, "assigned": 0, "done": 3, "failed": 0, "cancelled": 0} and d[1]["whole"] and d[1]["ended"]'
json out.txt 'd[1]["created_at"] <= d[1]["started_at"] < d[1]["finished_at"] and d[1]["rate_per_hour"] > 0'
ok kiln batches --active --json
[ ! -s out.txt ] || die "a batch that has ended is called active"
ok kiln batches --limit 1
[ "$(wc -l <out.txt)" = 1 ] || die "--limit does not limit"
says '^second ' out.txt
ok kiln batch show first --json
json out.txt 'd["batch"] == "first" and d["jobs"]["done"] == 3 and d["effort"]["workers"] == 1'
ok kiln batch show first
says '^batch first  ended' out.txt
fails 66 kiln batch show absent
fails 66 kiln batch show frist
says "there is no batch .frist.; the nearest are .first., .second."

# --- usage: exact against the rows themselves
ok kiln usage --json
json out.txt '[(u["tenant"], u["jobs"], u["pictures"]) for u in d] == [("ann", 2, 2), ("bob", 2, 2)] and all(set(u) == {"jobs", "pictures", "gpu_seconds", "gpu_seconds_saved", "bytes", "tenant"} and u["gpu_seconds_saved"] == 0 for u in d)'
json out.txt "sum(u['bytes'] for u in d) == $(sql 'SELECT sum(bytes) FROM object')"
json out.txt "abs(sum(u['gpu_seconds'] for u in d) - $(sql 'SELECT sum(text_ms + denoise_ms + decode_ms)::float8 / 1000 FROM image')) < 1e-3"
sql "UPDATE image SET created_at = '2026-01-31 23:59:59Z' WHERE tenant = 'ann' AND prompt = 'one'"
sql "UPDATE object SET created_at = '2026-01-31 23:59:59Z' FROM image i WHERE i.job_id = object.job_id AND i.prompt = 'one'"
ok kiln usage --by tenant,day --json
json out.txt 'len(d) == 3 and (d[0]["day"], d[0]["tenant"], d[0]["pictures"]) == ("2026-01-31", "ann", 1)'
ok kiln usage --by day --json --since 2026-02-01
json out.txt 'd["pictures"] == 3 and "tenant" not in d'
ok kiln usage --json --since 2026-01-31T23:59:59Z
json out.txt 'sum(u["pictures"] for u in d) == 4'
ok kiln usage --by day
says '^2026-01-31 ' out.txt
for words in "usage --by week" "usage --by tenant," "usage --since yesterday" "usage --since 2026-02-30" \
    "usage --since 7" "usage --since 2026-02-01T25:00" "batch" "batch show" "batch drop first" \
    "batch rename first" "batch rm first second" "batch show first --force" \
    "events --job 1 --batch first" "events --job x" "batches --limit 0"; do
    fails 64 kiln $words
    [ -s err.txt ] && [ ! -s out.txt ] || die "'kiln $words' said it in the wrong place"
done

# --- errors: what differs from job to job is one cause; the example is the newest
nobody_lives() { [ "$(kiln workers --json | grep -c '"live"\|"draining"')" = 0 ]; }
ok kiln drain "$cpu0"
soon nobody_lives || die "$cpu0 is not drained"
printf '{"prompt": "p%d", "width": 64, "height": 64}\n' 1 2 3 4 >four.jsonl
ok kiln enqueue four.jsonl --batch bad
sql "UPDATE job SET state = 1 WHERE prompt LIKE 'p_'"
sql "UPDATE job SET state = 3, finished_at = now(), error_code = 2, error = format('open /models/%s/lora_%s.safetensors: no LoRA ''style-%s'' on worker-%s', md5(id::text), id, id, id) WHERE prompt IN ('p1', 'p2', 'p3')"
sql "UPDATE job SET state = 3, finished_at = now() - interval '2 days', error_code = 13, error = 'cudaMalloc of 123456789 bytes: out of memory, allocation deadbeef01' WHERE prompt = 'p4'"
sql "UPDATE batch_tally SET queued = queued - 4, failed = failed + 4 WHERE batch_id = (SELECT id FROM batch WHERE name = 'bad')"
ok kiln errors --json
json out.txt '[(e["code"], e["jobs"], e["batches"]) for e in d] == [("not_found", 3, 1), ("device", 1, 1)] and d[0]["batch"] == "bad"'
json out.txt "d[0]['cause'] == \"open PATH: no LoRA '...' on worker-N\" and d[1]['cause'] == 'cudaMalloc of N bytes: out of memory, allocation HEX'"
json out.txt "d[0]['example'] == $(sql "SELECT max(id) FROM job WHERE error_code = 2") and 'lora_%d' % d[0]['example'] in d[0]['error'] and 'LoRA' in d[0]['next']"
ok kiln errors --since 1d --json
json out.txt 'd["code"] == "not_found"'
sql "UPDATE job SET error_code = 19, error = 'non-finite latent at step 2 of 8' WHERE prompt = 'p4'"
ok kiln errors --json
json out.txt 'd[1]["code"] == "not_finite" and "smaller LoRA scales" in d[1]["next"]'
ok kiln errors --batch first
says 'no failed jobs'
ok kiln errors --batch bad
says 'next       ' out.txt
fails 66 kiln errors --batch absent

# --- the gallery's page of the fleet says the same, with links, and which workers live
soon fleet_says "<bdi>$cpu0</bdi></td><td>gone</td>.*<td><time" || die "no worker that is gone: $(grep "$cpu0" page.html)"
for words in '<dt>failed</dt><dd><a href="#failed">4</a>' 'id="failed"' '>3</td><td>not_found: open PATH: no LoRA ' \
    '>1</td><td>not_finite: ' 'smaller LoRA scales' '<a href="/\?batch=bad"><bdi>bad'; do
    fleet_says "$words" || die "the fleet's page lacks $words"
done

# --- events: what was followed is what is in the ledger, each once, and what show tells
ok kiln events --batch first --json
json out.txt 'len(d) == 6 and [e["event"] for e in d] == sorted(e["event"] for e in d) and {e["to"] for e in d} == {"assigned", "done"}'
json out.txt 'set(d[0]) == {"event", "at", "job", "batch", "from", "to", "attempt", "worker", "code", "reason"} and d[0]["worker"] == "'"$cpu0"'"'
job=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
ok kiln events --job "$job"
[ "$(wc -l <out.txt)" = 2 ] || die "not one line a move"
says "job $job  queued -> assigned  attempt 1  first" out.txt
ok kiln events --json
[ "$(wc -l <out.txt)" = "$(sql 'SELECT count(*) FROM event')" ] || die "the last hour is not everything"
ok kiln cancel bad --yes # nothing is left to cancel
fails 66 kiln events --job 99999
fails 66 kiln events --batch absent --follow
late=$(sql 'SELECT max(id) + 5 FROM event')
# A number that is jumped over is asked for again and comes when its transaction ends.
sql "INSERT INTO event (id, job_id, was, state, code, attempt) OVERRIDING SYSTEM VALUE VALUES ($late, $job, 0, 4, 12, 7)"
soon grep -q "\"event\":$late," followed.txt || die "a number is jumped over, and nothing comes"
sql "INSERT INTO event (id, job_id, was, state, code, attempt, reason) OVERRIDING SYSTEM VALUE VALUES ($late - 2, $job, 0, 4, 12, 7, 'late')"
soon grep -q '"reason":"late"' followed.txt || die "what was late does not come"
kill -INT $follower
wait $follower || die "following did not end cleanly: $(cat follow.err)"
[ ! -s follow.err ] || die "following complained: $(cat follow.err)"
json followed.txt "sorted(e['event'] for e in d) == [$(sql "SELECT string_agg(id::text, ',' ORDER BY id) FROM event")]"
json followed.txt "[e['event'] for e in d][-2:] == [$late, $late - 2] and d[-2]['code'] == 'cancelled'"
timeout 60 "$kiln_bin/kiln" events --follow --since 1h | head -n 1 >first.txt
[ "${PIPESTATUS[0]}" -lt 124 ] || die "following goes on without a reader"
[ -s first.txt ] || die "--follow --since shows nothing of what was"

# --- rename and rm
fails 73 kiln batch rename first second
fails 65 kiln batch rename first 'no/name'
fails 65 kiln batch rename first latent-cache
says "batch 'latent-cache': Kiln's own names are"
ok kiln batch rename first primo --json
json out.txt 'd == {"batch": "primo", "was": "first"}'
fails 66 kiln batch show first
ok kiln jobs --batch primo
ok kiln enqueue jobs.jsonl --batch waiting
fails 75 kiln batch rm waiting
says '3 queued'
fails 64 kiln batch rm waiting --force
says 'Batch waiting and the rows of its 3 jobs and pictures will be removed for good'
ok kiln batch rm waiting --force --yes --json
json out.txt 'd == {"removed": "waiting", "cancelled": 3, "jobs": 3, "objects": 0, "bytes": 0}'
sql "UPDATE image SET donor = 1, mode = 'teleport=6', steps = 8, forwards = 2, own_forwards = 4, denoise_ms = 1000 WHERE tenant = 'ann' AND prompt = 'one'
    RETURNING 1" >/dev/null # a second against the job's own mode; of an old row without it, three
before=$(kiln usage --json --by tenant | python3 -c 'import json, sys; print([(u["tenant"], u["jobs"], u["pictures"], round(u["gpu_seconds"], 3), u["gpu_seconds_saved"]) for u in map(json.loads, sys.stdin)])')
[[ $before == *"('ann', 2, 2, "*", 1"*"('bob', 2, 2, "*", 0"* ]] || die "saved: $before"
sql "UPDATE image SET own_forwards = NULL WHERE donor = 1"
before=$(kiln usage --json --by tenant | python3 -c 'import json, sys; print([(u["tenant"], u["jobs"], u["pictures"], round(u["gpu_seconds"], 3), u["gpu_seconds_saved"]) for u in map(json.loads, sys.stdin)])')
[[ $before == *"('ann', 2, 2, "*", 3"*"('bob', 2, 2, "*", 0"* ]] || die "saved: $before"
objects=$(sql "SELECT count(*) FROM object JOIN job j ON j.id = job_id JOIN batch b ON b.id = j.batch_id WHERE name = 'primo'")
ok kiln batch rm primo --yes --json
json out.txt "d['jobs'] == 3 and d['objects'] == $objects > 0 and d['bytes'] > 0"
fails 66 kiln batch rm primo --yes
ok kiln batch rm bad --yes
says '4 jobs'
[ "$(sql "SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM image), (SELECT count(*) FROM latent), (SELECT count(*) FROM batch), (SELECT count(*) FROM event), (SELECT count(*) FROM batch_tenant)")" = "1|1|1|1|2|1" ] || die "rows are left behind"
ok kiln usage --json --by tenant
json out.txt "[(u['tenant'], u['jobs'], u['pictures'], round(u['gpu_seconds'], 3), u['gpu_seconds_saved']) for u in d] == $before"

# --- the fleet goes on, and the removed batch may come again
ok kiln up --dir s
ok kiln enqueue jobs.jsonl --batch primo --json
json out.txt 'd["accepted"] == 3'
ok kiln wait primo --timeout 60

# --- the names that a line may have, and completion of names
ok kiln models --json
json_lines out.txt 'd == [{"model": "testcard", "workers": 1, "engine": "testcard"}]'
ok kiln models --postgres host=/nowhere # the bus alone knows them
says '^testcard  *1  testcard' out.txt
completes() { # WANTED WORD...
    (
        PATH=$kiln_bin:$PATH KILN_COMPLETION_S=60
        . "$source_dir/scripts/completion/kiln.bash"
        COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
        _kiln
        [ "${COMPREPLY[*]}" = "$1" ] || die "${*:2} completes to ${COMPREPLY[*]}"
    ) || exit 1
}
completes primo kiln cancel pri
completes primo kiln favourite add pri
completes primo kiln jobs --batch pri
completes "$cpu0" kiln drain "${cpu0%pu}"
completes ann kiln pause --tenant an

# --- on a terminal no listing is wider than it is, whatever the names are; elsewhere names are whole
long=a-name-that-somebody-chose-to-be-as-long-as-names-may-be
wide=夜の街に降る雨
ok kiln drain "$cpu0" --wait
cat >long.jsonl <<LINES
{"prompt": "p", "width": 1024, "height": 1024, "tenant": "$long", "custom_id": "$wide-$wide-$wide-$wide"}
{"prompt": "q", "width": 64, "height": 64, "tenant": "$long", "custom_id": "x"}
LINES
ok kiln enqueue long.jsonl --batch "$long-batch"
completes 1024x1024/8/none/coarse=auto kiln pause --group 1024
sql "UPDATE job SET state = 1 WHERE custom_id = 'x'"
sql "UPDATE job SET state = 3, error_code = 9, error = 'a text of an error that is rather long, and says $wide: ' || repeat('more ', 30), finished_at = now() WHERE custom_id = 'x'"
ok kiln quota set "$long" --queued 1234567 --gpu-seconds-day 1234567
ok kiln backfill add "$long" --template 'a {red|blue} car' --low-water 100 --window 22:00-06:00
ok kiln pause --tenant "$long" --reason "a reason that goes on and on, so that it does not fit into one line of a terminal"
sql "INSERT INTO worker (pool, name, host, device, state) SELECT pool, 'ip-10-0-12-133.internal.example.org-gpu7', host, device, state FROM worker LIMIT 1"
job=$(kiln jobs primo --json --limit 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["job"])')
ok kiln favourite add "$job"
for columns in 80 60; do
    for verb in jobs batches errors "events --since 1h" usage "usage --by tenant,day" workers status "quota ls" "backfill ls" \
        "backfill show $long" "favourite ls" "worker ls" "show $job" "why $job"; do
        fits $columns kiln $verb
    done
    fits $columns kiln jobs "$long-batch"
done
fits 80 kiln workers
says '^ip-10-0-12.*-gpu7 ' out.txt
ok kiln workers
says 'ip-10-0-12-133.internal.example.org-gpu7' out.txt
for verb in jobs events usage "favourite ls" batches; do
    ok kiln $verb --limit 1
    [ "$(wc -l <out.txt)" = 1 ] || die "--limit of $verb"
done
ok kiln errors --limit 1 --json
json_lines out.txt "len(d) == 1"
ok kiln batches
says "$long-batch" out.txt
says '20[0-9][0-9]-[0-9-]*T[0-9:]*Z' out.txt
# --- a pause, on the fleet's page and on that of the batch whose jobs all wait for it
ok kiln pause --group '96x96/*/*'
ok kiln enqueue - --batch held <<<'{"prompt": "held", "size": "96x96"}'
soon fleet_says '<li>group 96x96/\*/\* is paused since .* resumes it</li>' || die "no pause on the fleet's page"
batch_says() { curl -sS --max-time 60 "${gallery}?batch=held" >page.html && grep -q "$1" page.html; }
batch_says 'Its next jobs wait: group 96x96/\*/\* is paused since' || die "no pause on the batch's page"
batch_says 'No picture of this batch is rendered yet' || die "an empty batch: $(grep 'class="say"' page.html)"
! grep -q 'Every word' page.html || die "words that nobody typed"
ok kiln cancel held --yes
soon batch_says 'This batch has ended without a picture' || die "a cancelled batch: $(grep 'class="say"' page.html)"
! grep -q 'Its next jobs wait' page.html || die "a batch that has ended waits"
echo ok
