#!/bin/bash
# Standing orders and pauses on a real stack: topped up from the ledger over restarts, never above
# the mark, no prompt with the same seed twice, held when somebody says so.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --batch-max 2
export KILN_CONFIG=$PWD/s/kiln.conf
made="SELECT coalesce(sum(made), 0) FROM backfill"

# --- bad orders are told what is wrong, and nothing of them is kept
printf 'a red car\n\n# a comment\na {blue|green} boat\n' >prompts.txt
printf '{"prompt": "fine"}\n{"prompt": "x", "widht": 3}\n' >bad.jsonl
refused() { # WORDS-IN-THE-MESSAGE ARGUMENTS...
    local words=$1
    shift
    fails 64 kiln backfill add o --template x "$@"
    says "$words"
}
refused 'a rate of 0\|--rate 0' --rate 0/h
refused '--rate 0' --rate 0.0/h
refused 'not a number of jobs an hour' --rate 30
refused 'not a number of jobs an hour' --rate nan/h
refused 'not a number of jobs an hour' --rate 1e400/h
refused 'not a number of jobs an hour' --rate 30/m
refused 'not a number of jobs an hour' --rate -1/h
refused 'is not a window' --window 22-6
refused 'the same minute' --window 22:00-22:00
refused 'is in the past' --until 2020-01-01
refused 'a number of jobs, a date' --until 2026-02-30
refused 'not a number of jobs from 1' --until 0
refused 'fresh' --seed-policy new
refused 'whole number from 1' --low-water 0
refused 'lowest priority and no deadline' --set priority=3
refused '--yes is not for `backfill add`' --yes
fails 64 kiln backfill add o
fails 64 kiln backfill add 'no/name' --template x
fails 64 kiln backfill add o --template x --prompts prompts.txt
fails 64 kiln backfill ls o
fails 64 kiln backfill drop o
fails 65 kiln backfill add o --prompts bad.jsonl
says 'bad.jsonl:2: .*width'
says '1 line refused; correct the prompts'
fails 66 kiln backfill add o --prompts absent.txt
fails 64 kiln backfill add o --template x --loras 'a b' --set steps=4
says '^kiln: --loras: loras: "a b" is not a name'
choices="{$(seq -s '|' 200)}"
fails 65 kiln backfill add o --template "$choices $choices $choices"
says 'make 8000000 pictures; the limit is 1000000'
for i in $(seq 12); do echo "$choices $choices {$(seq -s '|' 25)} $i"; done >explodes.txt
fails 65 kiln backfill add o --prompts explodes.txt
says 'one pass: 12 prompts, 12000000 jobs'
says 'the limit is 10000000'
[ "$(sql 'SELECT count(*) FROM backfill')" = 0 ] || die "a refused order was kept"

# --- an order up to a count: spread over passes, every prompt with new seeds
ok kiln backfill add cars --prompts prompts.txt --set size=64x64 --loras none --low-water 6 --until 20 --json
json out.txt 'd == {"order": "cars", "batch": "backfill-cars", "prompts": 2, "pass_jobs": 3, "mark": 6, "dry_run": False}'
fails 73 kiln backfill add cars --template x
says 'already has a backfill .cars.'
until_sql "SELECT count(*) FROM job WHERE state = 2" 20
ok kiln backfill show cars --json
json out.txt 'd["state"] == "ended" and d["made"] == 20 and d["jobs"]["done"] == 20 and d["gpu_seconds"] > 0 and round(d["passes"], 2) == 6.67'
json out.txt "abs(d['gpu_seconds'] - $(sql 'SELECT sum(text_ms + denoise_ms + decode_ms)::float8 / 1000 FROM image')) < 1e-3"
[ "$(sql "SELECT count(DISTINCT (prompt, seed)), count(DISTINCT seed), min(priority), max(priority), string_agg(DISTINCT width::text, ',') FROM job")" = "20|20|-10|-10|64" ] || die "not twenty different backfill jobs"
ok kiln backfill show cars
says '20 jobs, 6.67 passes of 3' out.txt
ok kiln jobs --batch backfill-cars --limit 1
fails 66 kiln backfill show car
says "the nearest is 'cars'"
fails 73 kiln batch rm backfill-cars --yes
says 'kiln backfill rm cars'

# --- fixed seeds: one pass, and given again it makes nothing a second time
ok kiln backfill add once --template 'a {1|2|3|4} @step_ms=1' --set size=64x64 --seed-policy fixed
until_sql "SELECT sum(done) FROM batch_tally t JOIN backfill o USING (batch_id) WHERE o.name = 'once'" 4
seeds=$(sql "SELECT string_agg(seed::text, ',' ORDER BY id) FROM job WHERE prompt LIKE '%step_ms%'")
fails 64 kiln backfill rm once
says 'Backfill once will be removed'
ok kiln backfill rm once --yes --json
json out.txt 'd == {"removed": "once", "batch": "backfill-once", "cancelled": 0}'
ok kiln backfill add once --template 'a {1|2|3|4} @step_ms=1' --set size=64x64 --seed-policy fixed
until_sql "SELECT cursor FROM backfill WHERE name = 'once'" 4
[ "$(sql "SELECT string_agg(seed::text, ',' ORDER BY id) FROM job WHERE prompt LIKE '%step_ms%'")" = "$seeds" ] || die "the same pictures were ordered twice"
json <(kiln backfill show once --json) 'd["state"] == "ended" and d["made"] == 0 and d["jobs"]["done"] == 4'

# --- lines and settings of earlier releases: loras "auto" is chosen for, and none fits
kill -STOP "$(pid_of s scheduler)"
ok kiln backfill add older --template 'an old {1|2|3} @step_ms=1' --set size=64x64 --until 3
sql "UPDATE backfill SET overrides = (overrides::jsonb || '{\"loras\":\"auto\"}')::text WHERE name = 'older';
UPDATE backfill_line SET line = (line::jsonb || '{\"teleport\":\"auto\",\"loras\":\"auto\"}')::text WHERE backfill_id = (SELECT id FROM backfill WHERE name = 'older')"
kill -CONT "$(pid_of s scheduler)"
until_sql "SELECT count(*), sum(jsonb_array_length(loras)), bool_or(lora_auto) FROM job WHERE state = 2 AND prompt LIKE 'an old%'" "3|0|t"
ok kiln backfill rm older --yes

# --- loras "auto" from a file to a picture, with its reason in plain words
echo 'a file of lamps' >lamp.safetensors
lamp=$(sha256sum lamp.safetensors | cut -d' ' -f1)
install -Dm644 lamp.safetensors "s/store/loras/$lamp.safetensors"
sql "SELECT lora_change('default', 0, 'lamp', '', '$lamp', '{\"bytes\":16,\"rank\":4,\"modules\":2,\"stored\":true}', true, true, false, 'test',
'{\"name\":\"lamp\",\"triggers\":[\"lamp style\"],\"positive\":[\"lit by lamps\"],\"scale\":0.7}'::jsonb)" >version.txt
version=$(cat version.txt) # the demo model's LoRAs came before
printf '{"prompt":"a fox lit by lamps","loras":"auto","size":"64x64"}\n{"prompt":"a fox","loras":"auto","size":"64x64"}\n' >auto.jsonl
ok kiln enqueue auto.jsonl --batch autos
ok kiln wait autos --timeout 60
ok kiln export autos --out autos
json <(head -1 autos/results.jsonl) 'd["prompt"] == "a fox lit by lamps" and d["drawn"] == "lamp style, a fox lit by lamps" and d["loras"] == [{"name": "lamp", "scale": 0.7}] and d["route"]["version"] == '"$version"
json <(tail -1 autos/results.jsonl) 'd["prompt"] == d["drawn"] == "a fox" and d["loras"] == [] and d["lora_auto"] and d["route"]["entries"] == []'
job=$(sql "SELECT id FROM job WHERE prompt = 'a fox lit by lamps'")
ok kiln show "$job"
grep -q '^  why  *auto chose from registry version '"$version"': lamp at 0.7 (.*lit by lamps)$' out.txt || die "show: $(cat out.txt)"
grep -q '^  drawn as  *lamp style, a fox lit by lamps$' out.txt || die "show: $(cat out.txt)"
ok kiln why "$job"
grep -q "auto chose from registry version $version: lamp at 0.7" out.txt || die "why: $(cat out.txt)"
[ "$(sql "SELECT prompt || '|' || (prompt_hash = (SELECT prompt_hash FROM latent l WHERE l.job_id = i.job_id)) FROM image i WHERE job_id = $job")" = "a fox lit by lamps|false" ] || die "which prompt is hashed"

# --- what rm cancelled is drawn by the order that is given again: each prompt and seed once, fixed or not
for policy in fixed fresh; do
    for try in $(seq 6); do # slower each time: a busy machine may draw all eight before the rm
        words="again $policy $try"
        template="$words {1|2|3|4|5|6|7|8} @step_ms=$((100 * try * try))"
        ok kiln backfill add again --template "$template" --set size=64x64 --set steps=2 --low-water 20 --until 8 --seed-policy $policy
        until_sql "SELECT count(*) > 0 FROM job WHERE state = 2 AND prompt LIKE '$words %'" t
        ok kiln backfill rm again --yes --json
        grep -q '"cancelled":0' out.txt || break
    done
    json out.txt 'd["cancelled"] > 0'
    done_before=$(sql "SELECT count(*) FROM job WHERE state = 2 AND prompt LIKE '$words %'")
    ok kiln backfill add again --template "$template" --set size=64x64 --set steps=2 --low-water 20 --until $((8 - done_before)) --seed-policy $policy
    until_sql "SELECT count(*), count(DISTINCT (prompt, seed)) FROM job WHERE state = 2 AND prompt LIKE '$words %'" "8|8"
    [ "$(sql "SELECT count(*), count(*) FILTER (WHERE state = 2) FROM job WHERE prompt LIKE '$words %'")" = "8|8" ] || die "$policy: a prompt was ordered twice, or never drawn"
    json <(kiln backfill show again --json) 'd["state"] == "ended" and d["jobs"]["cancelled"] == 0'
    ok kiln backfill rm again --yes
done

# --- the scheduler is killed amid topping up, again and again; the mark is watched all the time
sql "CREATE TABLE seen (most bigint NOT NULL DEFAULT 0); INSERT INTO seen DEFAULT VALUES;
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE seen SET most = greatest(most, (SELECT count(*) FROM job WHERE state IN (0, 1) AND prompt LIKE ''long%'')); RETURN NULL; END';
CREATE TRIGGER look AFTER UPDATE ON backfill FOR EACH STATEMENT EXECUTE FUNCTION look()"
ok kiln backfill add long --template 'long {a|b|c} @step_ms=10' --set size=64x64 --set steps=2 --low-water 60
for i in 1 2; do
    until_sql "SELECT made > $((i * 40)) FROM backfill WHERE name = 'long'" t
    kill -9 "$(pid_of s scheduler)"
    ok kiln up --dir s
done
until_sql "SELECT made > 120 FROM backfill WHERE name = 'long'" t
[ "$(sql 'SELECT most BETWEEN 40 AND 60 FROM seen')" = t ] || die "the mark of 60 was $(sql 'SELECT most FROM seen')"
sql "DROP TRIGGER look ON backfill"

# --- a person's job waits for one batch of backfill at most, whenever it comes
ok kiln backfill add wide --template 'wide {a|b|c} @step_ms=60' --set size=64x64 --set steps=2 --low-water 40
until_sql "SELECT count(*) > 0 FROM job WHERE state = 2 AND prompt LIKE 'wide%'" t
for i in $(seq 8); do
    kiln enqueue -q - --batch people --no-wait <<<"{\"prompt\": \"person $i\", \"size\": \"128x64\", \"steps\": 2}" >/dev/null
    sleep "0.$((i * 7 % 5))"
done
ok kiln wait people --timeout 60
between="SELECT u.id, count(DISTINCT b.assignment) AS batches FROM job u LEFT JOIN job b ON b.priority = -10
    AND b.assigned_at > u.created_at AND b.assigned_at < u.assigned_at WHERE u.prompt LIKE 'person%' GROUP BY u.id"
[ "$(sql "SELECT count(*), count(*) FILTER (WHERE batches > 1) FROM ($between) x")" = "8|0" ] || die "backfill went before people: $(sql "$between")"
[ "$(sql "SELECT count(*) > 8 FROM job WHERE state = 2 AND prompt LIKE 'wide%'")" = t ] || die "there was no backfill to go before"
ok kiln backfill rm wide --yes

# --- pause and resume: what is held is drawn by nobody, and why says so
ok kiln pause --backfill --reason 'quiet hours'
until_sql "SELECT count(*) FROM job WHERE state = 1" 0
held=$(sql "SELECT count(*) FROM job WHERE state = 0")
[ "$held" -gt 0 ] || die "only $held jobs were held back"
job=$(sql "SELECT max(id) FROM job WHERE state = 0")
ok kiln why "$job" --json
json out.txt 'd["hold"] == "backfill" and "quiet hours" in d["reasons"][0] and "kiln resume --backfill" in d["reasons"][0]'
ok kiln status --json
json out.txt '[(h["scope"], h["reason"]) for h in d["holds"]] == [("backfill", "quiet hours")] and d["groups"][0]["group"] == "64x64/2/none"'
ok kiln status
says '^paused: all backfill is paused since .*: quiet hours' out.txt
json <(kiln backfill show long --json) 'd["state"] == "paused"'
ok kiln enqueue - --batch mine --set tenant=ann <<<'{"prompt": "mine", "width": 64, "height": 64}'
ok kiln wait mine --timeout 60
kill -9 "$(pid_of s scheduler)" # the hold outlives it
ok kiln up --dir s
sleep 0.5
[ "$(sql "SELECT count(*) FROM job WHERE state = 0 AND prompt LIKE 'long%'")" = "$held" ] || die "held jobs moved"
ok kiln resume --backfill
says 'Resumed .* (paused at .* by '
until_sql "SELECT made > 130 FROM backfill WHERE name = 'long'" t
ok kiln backfill pause long --json
json out.txt 'd["scope"] == "order" and d["name"] == "long" and d["held"]'
until_sql "SELECT count(*) FROM job WHERE state = 1" 0
ok kiln backfill resume long

# --- one that stands still because of a fault is tried again when somebody has repaired it
sql "UPDATE backfill SET error = 'there is no style neno' WHERE name = 'long'"
ok kiln backfill show long
says 'failed: there is no style neno; correct it, then `kiln backfill resume long`' out.txt
ok kiln backfill resume long
json <(kiln backfill show long --json) 'd["state"] == "active" and d["error"] is None'
for what in "--tenant ann" "--group */2/none" ""; do
    ok kiln pause ${what:---yes}
    ok kiln resume $what
done
# What has no jobs yet is held before they come; it may be a slip, so it is told.
ok kiln pause --tenant anne
says "tenant 'anne' has no jobs yet; the nearest are 'ann', 'default'"
ok kiln enqueue - --batch early --set tenant=anne <<<'{"prompt": "early", "width": 64, "height": 64}'
ok kiln pause --tenant anne
grep -q nearest err.txt && die "a tenant that is held is called unknown"
ok kiln pause --group 64x65/8 --json
says "group '64x65/8/\*' has no queued or assigned jobs yet; the nearest .*'64x64/2/none'"
json out.txt 'd["held"] and d["name"] == "64x65/8/*" and d["before"] is None'
ok kiln quota set dora --queued 5
ok kiln pause --tenant dora
grep -q nearest err.txt && die "a tenant with a quota is called unknown"
sleep 0.6
[ "$(sql "SELECT state FROM job WHERE prompt = 'early'")" = 0 ] || die "a job of a held tenant was handed out"
ok kiln resume --tenant anna # a slip, after which anne is still held
says "'anna' is not paused; of the paused names the nearest are 'anne', 'dora'"
for what in "--tenant anne" "--group 64x65/8" "--tenant dora"; do
    ok kiln resume $what
done
ok kiln wait early --timeout 60
ok kiln resume --tenant nobody
says 'there was no pause of tenant nobody'
[ "$(sql "SELECT count(*) FROM hold WHERE name = 'nobody'")" = 0 ] || die "a resume of nothing left a row"
fails 64 kiln pause --group 64x
fails 64 kiln pause --tenant 'a b'
says "'a b' is not a tenant's name"
fails 64 kiln pause --tenant ''
fails 64 kiln resume --tenant a/b
fails 64 kiln pause --all --group 64x64
fails 64 kiln resume --all --backfill
# The same order again keeps the reason and the time of the first, unless it brings another reason.
ok kiln pause --tenant ann --reason 'too hot'
first=$(sql "SELECT at FROM hold WHERE name = 'ann'")
ok kiln pause --tenant ann
says 'was already paused'
[ "$(sql "SELECT at, reason FROM hold WHERE name = 'ann'")" = "$first|too hot" ] || die "the first pause was forgotten"
ok kiln pause --tenant ann --reason 'too loud'
[ "$(sql "SELECT reason FROM hold WHERE name = 'ann'")" = 'too loud' ] || die "a new reason was not taken"
ok kiln resume --tenant ann
# Two people at once: both get through, one is told that the other has the last word.
overruled() { # the pause is stopped between its record and its second look
    sql "SET statement_timeout = '60s'; DO \$\$ BEGIN WHILE NOT (SELECT held FROM hold WHERE name = 'ann') LOOP PERFORM pg_sleep(0.005); END LOOP; END \$\$" &
    local looking=$! pausing
    kiln pause --tenant ann >one.txt 2>one.err &
    pausing=$!
    wait $looking
    kill -STOP $pausing 2>/dev/null
    ok kiln resume --tenant ann
    says 'Resumed .* (paused at .* by '
    kill -CONT $pausing 2>/dev/null
    wait $pausing
    [ $? = 1 ]
}
soon overruled || die "who was overruled was not told"
says 'the later command wins: it is not paused' one.err
ok kiln status --json
json out.txt 'd["holds"] == []'

# --- hours: closed now, open when the window is moved
zone_hour=$(date +%H)
closed=$(printf '%02d:00-%02d:00' $(((10#$zone_hour + 3) % 24)) $(((10#$zone_hour + 4) % 24)))
ok kiln backfill add night --template 'night' --set size=64x64 --low-water 2 --window "$closed"
until_sql "SELECT count(*) FROM hold WHERE scope = 'window' AND name = 'night' AND held" 1
json <(kiln backfill show night --json) 'd["state"] == "closed" and d["made"] == 0 and "resumes at" in d["held_by"]'
sql "UPDATE backfill SET window_from = (window_from + 720) % 1440, window_to = (window_from + 719) % 1440 WHERE name = 'night'"
until_sql "SELECT least(made, 5) FROM backfill WHERE name = 'night'" 5
json <(kiln backfill show night --json) 'd["state"] == "active"'
ok kiln backfill ls
[ "$(wc -l <out.txt)" = 4 ] || die "not four orders"
for order in cars once long night; do ok kiln backfill rm $order --yes; done
[ "$(sql "SELECT count(*) FROM job WHERE state = 0")" = 0 ] || die "waiting jobs of removed orders"
ok kiln backfill ls --json
[ ! -s out.txt ] || die "orders are left"
echo ok
