#!/bin/bash
# `kiln cache`: latents without pictures; what is there or on its way is not ordered again, an
# interrupted build goes on, a latent that was removed is built anew.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
build() { ok kiln cache build "$@" --json; }
counts() { json out.txt "(d['wanted'], d['stored'], d['waiting'], d['failed'], d['ordered']) == ($1)"; }

for words in "cache" "cache drop" "cache stat --dry-run" "cache build" "cache build --prompts a --template b" "cache warm 7" "cache warm --timeout 0"; do
    fails 64 kiln $words
done
fails 64 kiln cache build --template x --sigmas 1.5
says '^kiln: --sigmas: sigmas must be up to 8 different noise levels'
fails 64 kiln cache build --template x --sigmas 0.5 --set latents=final
says '^kiln: --sigmas: sigmas needs latents "trajectory"'
fails 64 kiln cache build --template x --set width=65 --sigmas 0.5
says '^kiln: --set: width is 65'
mkdir loras
: >loras/neon.safetensors
fails 64 kiln cache build --template x --loras auto --sigmas 0.5 --lora-dir loras
says '^kiln: --loras: the latent cache needs the names of LoRAs, and loras is "auto"'
fails 65 kiln cache build --prompts - --sigmas 0.5 <<<'{"prompt":"x","loras":"auto"}'
says '^kiln: the latent cache needs the names of LoRAs, and loras is "auto"'
fails 64 kiln cache build --template x --set loras=neon --loras lamp --lora-dir loras
says '^kiln: --loras: loras: unknown LoRA "lamp"; lora_dir and the registry have none like it$'
fails 64 kiln cache build --template x --set kind=latent-cache --set latents=none
fails 66 kiln cache build --prompts absent.txt
fails 64 kiln enqueue - --batch latent-cache <<<'a red car'
says "batch latent-cache: Kiln's own names are 'latent-cache' and 'backfill-...'"
fails 64 kiln enqueue - --set tenant=backfill-x <<<'a red car'
says 'tenant "backfill-x": Kiln'
[ "$(sql 'SELECT count(*) FROM job')" = 0 ] || die "a refused build left jobs"

ok kiln cache warm
says "^0 stored latents of 0 prompts in the scheduler's memory, after " out.txt

# --- final latents: no pictures, lowest priority, once a prompt
printf 'a red car\na {blue|green} boat\na red car\n' >prompts.txt
set=(--prompts prompts.txt --set size=64x64 --set steps=4)
build "${set[@]}" --dry-run
counts '3, 0, 0, 0, 0'
json out.txt 'd["missing"] == 3 and d["dry_run"]'
says '^3 latents: 0 stored, 0 on their way, 3 missing$'
[ "$(sql 'SELECT count(*) FROM job')" = 0 ] || die "a dry run left jobs"
ok kiln pause --backfill
build "${set[@]}"
counts '3, 0, 0, 0, 3'
json out.txt 'd["batch"] == "latent-cache" and not d["dry_run"]'
build "${set[@]}"
counts '3, 0, 3, 0, 0'
says '^3 latents: 0 stored, 3 on their way, 0 missing$'
ok kiln resume --backfill
ok kiln wait latent-cache --timeout 60
ok kiln cache build --prompts - --set size=64x64 --set steps=4 --json <prompts.txt
counts '3, 3, 0, 0, 0'
[ "$(sql "SELECT count(*), count(DISTINCT prompt_hash), string_agg(DISTINCT sigmas::text, ' ') FROM latent")" = "3|3|{0}" ] || die "not three clean latents"
[ "$(sql "SELECT count(*) FROM image")|$(sql "SELECT string_agg(DISTINCT role, ' ') FROM object")|$(sql "SELECT string_agg(DISTINCT priority::text, ' ') FROM job")" = "0|latent|-10" ] || die "more than latents"
ok kiln usage --json
json out.txt "d['jobs'] == 3 and d['pictures'] == 0 and d['gpu_seconds'] > 0 and abs(d['gpu_seconds'] - $(sql 'SELECT sum(gpu_ms)::float8 / 1000 FROM latent')) < 1e-4"

# --- a picture's latent serves as well; other sizes, sets and named seeds are latents of their own
ok kiln enqueue - --batch drawn <<<'{"prompt": "a drawn fox", "size": "64x64", "steps": 4}'
ok kiln wait drawn --timeout 60
build --template 'a drawn fox' --set size=64x64 --set steps=4
counts '1, 1, 0, 0, 0'
build --template 'a drawn fox' --set size=64x128
counts '1, 0, 0, 0, 1'
build --template 'a drawn fox' --set size=64x64 --loras neon:0.5
counts '1, 0, 0, 0, 1'
build --template 'a drawn fox' --set size=64x64 --set seed=7-9
counts '3, 0, 0, 0, 3'
ok kiln wait latent-cache --timeout 60
build --template 'a drawn fox' --set size=64x64 --set seed=8-11
counts '4, 2, 0, 0, 2'

# --- a model that was exchanged under its name: its latents are no longer this model's
ok kiln wait latent-cache --timeout 60
weights=$(sql 'SELECT DISTINCT model_hash FROM latent')
sql "UPDATE latent SET model_hash = 'exchanged'; UPDATE image SET model_hash = 'exchanged'" >/dev/null
build --template 'a drawn fox' --set size=64x64 --set steps=4 --dry-run
counts '1, 1, 0, 0, 0' # nobody has drawn with other weights yet
ok kiln enqueue - --batch other <<<'{"prompt": "with the new weights", "size": "64x64", "steps": 4}'
ok kiln wait other --timeout 60
build --template 'a drawn fox' --set size=64x64 --set steps=4
counts '1, 0, 0, 0, 1'
ok kiln wait latent-cache --timeout 60
build --template 'a drawn fox' --set size=64x64 --set steps=4
counts '1, 1, 0, 0, 0'
sql "UPDATE latent SET model_hash = '$weights'; UPDATE image SET model_hash = '$weights'" >/dev/null

# --- a LoRA whose file was exchanged under its name: another set, and beside it one that was not
: >loras/plain.safetensors
ok kiln up --dir s --lora-dir "$PWD/loras"
first=$(sha256sum loras/neon.safetensors | cut -d' ' -f1)
registered() { [ "$(sql "SELECT sha256 FROM lora WHERE name = '$1' AND until IS NULL")" = "$2" ]; }
soon registered neon "$first" || die "neon is not registered"
soon registered plain "$first" || die "plain is not registered"
fox=(--template 'a fox at night' --set size=64x64 --set steps=4)
build "${fox[@]}" --loras neon:0.5+plain
build "${fox[@]}" --loras plain
ok kiln wait latent-cache --timeout 60
[ "$(sql "SELECT lora_files::text FROM latent WHERE lora_set = 'neon:0.5@${first:0:16}+plain:1@${first:0:16}'")" = "{neon:$first,plain:$first}" ] ||
    die "the files are not noted"
echo other >loras/neon.safetensors
other=$(sha256sum loras/neon.safetensors | cut -d' ' -f1)
soon registered neon "$other" || die "the exchanged file is not registered"
build "${fox[@]}" --loras neon:0.5+plain --dry-run
counts '1, 0, 0, 0, 0'
ok kiln enqueue - --batch lit --lora-dir loras <<<'{"prompt": "a lamp", "size": "64x64", "steps": 4, "loras": "neon:0.2"}'
ok kiln wait lit --timeout 60
build "${fox[@]}" --loras plain --dry-run
counts '1, 1, 0, 0, 0'
build "${fox[@]}" --loras neon:0.5+plain
counts '1, 0, 0, 0, 1'
ok kiln wait latent-cache --timeout 60
build "${fox[@]}" --loras neon:0.5+plain
counts '1, 1, 0, 0, 0'
build --template 'a drawn fox' --set size=64x64 --loras neon:0.5 --dry-run
counts '1, 0, 0, 0, 0' # drawn above, with the model's own neon
latent=$(sql "SELECT max(key) FROM latent WHERE lora_set = 'neon:0.5@${other:0:16}+plain:1@${first:0:16}'")
zstd -dcq "s/store/$latent" >latent.safetensors || die "no latent file"
grep -aq "\"lora_files\":\"neon:$other+plain:$first\"" latent.safetensors || die "the latent file does not name its LoRA files"

# --- states at noise levels: the nearest ones, by their own sigmas, in the file and in the row
build "${set[@]}" --sigmas 0.9,0.5,0
counts '3, 0, 0, 0, 3'
ok kiln wait latent-cache --timeout 60
build "${set[@]}" --sigmas 0.5,0.9,0
counts '3, 3, 0, 0, 0'
sigmas=$(sql "SELECT DISTINCT latent.sigmas FROM latent JOIN job ON job.id = job_id WHERE job.sigmas = '0.9,0.5,0'")
key=$(sql "SELECT l.key FROM latent l JOIN job ON job.id = job_id WHERE job.sigmas = '0.9,0.5,0' LIMIT 1")
zstd -dqc "$(sed -n 's/^store = file:\/\///p' "$KILN_CONFIG")/$key" >latent.safetensors
python3 - "$sigmas" <<'PYTHON' || die "the file does not hold the states of its row"
import json, struct, sys
data = open("latent.safetensors", "rb").read()
head = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
want = [float(x) for x in sys.argv[1].strip("{}").split(",")]
got = json.loads(head["__metadata__"]["sigmas"])
assert got == want and len(got) == 3 and got[0] > 0.7 > got[1] > 0.2 and got[2] == 0, (got, want)
assert head["latent.hi"]["shape"] == [3, 16, 8, 8]
PYTHON
ok kiln cache stat --json
exact="FROM latent l JOIN object o ON o.key = l.key WHERE l.mode = ''"
json out.txt "sum(r['latents'] for r in d) == $(sql "SELECT count(*) $exact") and sum(r['bytes'] for r in d) == $(sql "SELECT sum(bytes) $exact") and sum(r['states'] for r in d) == $(sql "SELECT sum(states) $exact")"
json out.txt 'd[0]["width"] == 64 and d[0]["loras"] == "" and len({(r["width"], r["height"], r["loras"]) for r in d}) == len(d) == 7'
ok kiln cache stat
[ "$(wc -l <out.txt)" = 7 ] || die "not a line a group"

# --- latents of the cache are rounded to steps; those of pictures, and those that people store or
# want with other states, are not
[ "$(sql "SELECT string_agg(DISTINCT encoding || ' ' || (b.name = 'latent-cache' AND j.latents = 0), ',' ORDER BY encoding || ' ' || (b.name = 'latent-cache' AND j.latents = 0)) FROM latent l JOIN job j ON j.id = l.job_id JOIN batch b ON b.id = j.batch_id")" = "bf16-planes false,i8-steps true" ] ||
    die "the encodings are not those of the cache and of others"
ok kiln enqueue - --batch own <<<'{"prompt": "a fox of my own", "size": "64x64", "steps": 4, "kind": "latent-cache"}'
ok kiln wait own --timeout 60
[ "$(sql "SELECT encoding FROM latent l JOIN job j ON j.id = l.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name = 'own'")" = bf16-planes ] || die "a latent that somebody stored is rounded"
ok kiln cache stat --json
json out.txt "sum(r['built'] for r in d) == $(sql "SELECT count(*) FROM latent l JOIN job j ON j.id = l.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name = 'latent-cache'") and sum(r['latents'] for r in d) > sum(r['built'] for r in d) > 0"
key=$(sql "SELECT key FROM latent WHERE encoding = 'i8-steps' ORDER BY job_id LIMIT 1")
zstd -dqc "s/store/$key" >latent.safetensors
python3 - <<'PYTHON' || die "schemas/latent.md does not describe the file of a cached latent"
import json, struct
data = open("latent.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + size]), data[8 + size:]
codes, scales = head["latent.codes"], head["latent.scales"]
assert head["__metadata__"]["encoding"] == "i8-steps" and len(head) == 3, head
assert codes["dtype"] == "I8" and codes["shape"] == [1, 16, 8, 8], codes
assert scales["dtype"] == "F32" and scales["shape"] == [1, 16, 1, 2], scales
begin, end = scales["data_offsets"]
pairs = struct.unpack("<32f", body[begin:end])
assert all(step >= 0 for step in pairs[1::2]), pairs
assert min(struct.unpack("<1024b", body[slice(*codes["data_offsets"])])) >= -127
PYTHON
ok kiln cache verify --full

# --- more than the limit is refused whole, before anything is looked up; what raises it is named
choices="{$(seq -s '|' 400)}"
fails 64 kiln cache build --template x --limit 0
fails 65 kiln cache build --template "$choices $choices"
says '1 prompt name.* 160000 latents, more than --most 100000: .*raise --most'
for i in $(seq 12); do echo "$choices $choices {1|2|3|4|5} $i"; done >explodes.txt
fails 65 kiln cache build --prompts explodes.txt --dry-run
says '12 prompts name 9600000 latents'
fails 65 kiln cache build --template '{a|b|c}' --most 2
fails 65 kiln cache build --template '{a|b|c}' --limit 2 # as older releases called it
says "more than --most 2"
[ "$(sql "SELECT count(*) FROM job WHERE prompt LIKE '1 %' OR prompt IN ('a', 'b', 'c')")" = 0 ] || die "a refused build left jobs"

# --- a tenant's quota bounds what it has waiting; the rest comes when the command is run again
ok kiln quota set ann --queued 6
ok kiln pause --all --yes
printf 'quota a%s\n' 1 2 3 4 5 6 7 8 9 10 >ann.txt
ann=(--prompts ann.txt --set tenant=ann --set size=64x64 --json)
fails 75 kiln cache build "${ann[@]}"
json out.txt '(d["wanted"], d["missing"], d["ordered"], d["beyond_quota"]) == (10, 10, 6, 4)'
says "4 latents not enqueued: tenant 'ann' has reached its limit of waiting jobs"
fails 75 kiln cache build "${ann[@]}"
json out.txt '(d["waiting"], d["missing"], d["ordered"], d["beyond_quota"]) == (6, 4, 0, 4)'
{ sed 's/.*/{"prompt": "&", "tenant": "ann"}/' ann.txt; echo '{"prompt": "quota b", "tenant": "bob"}'; } >both.jsonl
fails 75 kiln cache build --prompts both.jsonl --set size=64x64 --json
json out.txt '(d["waiting"], d["missing"], d["ordered"], d["beyond_quota"]) == (6, 5, 1, 4)'
[ "$(sql "SELECT count(*) FROM job WHERE waits AND tenant = 'ann'")" = 6 ] || die "more wait than the quota lets"
ok kiln resume --all
until_sql "SELECT count(*) FROM job WHERE waits" 0
ok kiln cache build "${ann[@]}"
json out.txt '(d["ordered"], d["beyond_quota"]) == (4, 0) and d["stored"] + d["waiting"] == 6'
ok kiln quota rm ann --yes
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0

# --- interrupted in the middle, by two at once: whole in the end, nothing twice
for i in $(seq 1500); do echo "picture number $i"; done >many.txt
many=(--prompts many.txt --set size=64x64 --set steps=1)
"$kiln_bin/kiln" cache build "${many[@]}" >/dev/null 2>&1 &
builder=$!
until_sql "SELECT count(*) > 0 FROM job WHERE steps = 1" t
kill -9 $builder
wait $builder 2>/dev/null
"$kiln_bin/kiln" cache build "${many[@]}" >/dev/null 2>&1 &
builder=$!
build "${many[@]}"
wait $builder || die "two builds at once do not agree"
[ "$(sql "SELECT count(*), count(DISTINCT prompt), count(DISTINCT index) FROM job WHERE steps = 1")" = "1500|1500|1500" ] || die "not each prompt once"
until_sql "SELECT count(*) > 250 FROM job WHERE steps = 1 AND state = 2" t
ok kiln cancel latent-cache --yes
build "${many[@]}"
json out.txt "d['ordered'] == 0 and d['failed'] == $(sql "SELECT count(*) FROM job WHERE state = 4") and d['failed'] + d['stored'] == 1500"
says 'kiln retry latent-cache'

# --- what was removed is built again, and only that
job=$(sql "SELECT l.job_id FROM latent l JOIN job j ON j.id = l.job_id WHERE prompt = 'a blue boat' AND j.sigmas = ''")
sql "DELETE FROM latent WHERE job_id = $job; DELETE FROM object WHERE job_id = $job"
build "${set[@]}"
counts '3, 3, 0, 0, 0' # the file with three states ends with it
sql "DELETE FROM latent USING job j WHERE j.id = job_id AND prompt = 'a blue boat'"
for i in 1 2; do
    build "${set[@]}"
    counts "3, $((i == 1 ? 2 : 3)), 0, 0, $((i == 1 ? 1 : 0))"
    [ $i = 2 ] || until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0
done

# --- retention: by a latent's own age; what a favourite picture began from stays, and so does what a
# live attempt may still commit; the accounts and the cache know what went
latents() { sql "SELECT count(*) FROM latent l JOIN job j ON j.id = job_id WHERE j.kind = 1"; }
store=$(sed -n 's/^store = file:\/\///p' "$KILN_CONFIG")
fox=$(sql "SELECT job_id FROM image WHERE prompt = 'a drawn fox'")
ok kiln favourite add "$fox"
ok kiln usage --json
cp out.txt usage.txt
ok kiln pause --backfill
build --template 'a live latent' --set size=64x64
live=$(sql "SELECT id FROM job WHERE prompt = 'a live latent'")
early=$store/latents/m/2026/11/$live-0123456789abcdef.safetensors.zst
mkdir -p "$(dirname "$early")" && echo 12345 >"$early" && touch -d '3 days ago' "$early"
all=$(latents)
files() { find "$store/latents" -name '*.zst' | wc -l; }
ok kiln gc --older-than 1h --yes --json
json out.txt 'd["latents"] == 0 and d["live"] == 1'
sql "UPDATE latent SET created_at = now() - interval '2 days' WHERE job_id IN (SELECT job_id FROM latent WHERE job_id <> $fox ORDER BY job_id LIMIT 250)"
kept=$(sql "SELECT count(*) FROM latent l JOIN job j ON j.id = job_id WHERE j.kind = 1 AND l.created_at < now() - interval '1 day' AND prompt = 'a drawn fox' AND j.width = 64 AND j.height = 64 AND j.lora_set = ''")
old=$(sql "SELECT count(*) FROM latent l JOIN job j ON j.id = job_id WHERE j.kind = 1 AND l.created_at < now() - interval '1 day'")
[ "$kept" = 6 ] && [ "$old" -gt 240 ] || die "$kept latents of the favourite, $old old ones"
fails 64 kiln gc --older-than 1d </dev/null
says 'and cached latents older than .*--yes'
before=$(files)
ok kiln gc --older-than 1d --dry-run --json
json out.txt "d['latents'] == $old - $kept and d['pictures'] == 0 and d['old_bytes'] > 0 and len(d['objects']) == $old - $kept"
[ "$(latents)" = "$all" ] || die "a dry run removed latents"
ok kiln gc --older-than 1d --yes --json
json out.txt "d['latents'] == $old - $kept == d['removed'] and d['orphans'] == 0 and d['live'] == 1"
[ "$(latents)|$(files)" = "$((all - old + kept))|$((before - old + kept))" ] || die "rows and objects of latents differ"
[ -e "$early" ] || die "an object that a live attempt may commit went"
ok kiln gc --older-than 1d --yes
says 'removed 0 old pictures and 0 old cached latents'
ok kiln favourite rm "$fox"
ok kiln gc --older-than 1d --yes --json
json out.txt "d['latents'] == $kept"
build --template 'a drawn fox' --set size=64x64 --set seed=8-11
counts '4, 0, 0, 0, 4'
ok kiln resume --backfill
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0
[ "$(sql "SELECT count(*) FROM latent WHERE job_id = $live")" = 1 ] || die "the live attempt did not commit"
ok kiln gc --older-than 0 --grace 0 --yes --json
json out.txt "d['pictures'] == 3"
[ "$(latents)|$(files)" = "0|$(sql "SELECT count(*) FROM object WHERE role = 'latent'")" ] || die "latents are left"
fails 65 kiln batch rename latent-cache mine
says "batch 'latent-cache' keeps its name"
ok kiln batch rm latent-cache --yes
ok kiln usage --json
python3 - <<'PYTHON' || die "what the latents cost is forgotten, or counted twice"
import json
def total(name):
    rows = [json.loads(line) for line in open(name)]
    return {key: sum(row[key] for row in rows) for key in ("jobs", "pictures", "gpu_seconds")}
before, after = total("usage.txt"), total("out.txt")
assert after["jobs"] == before["jobs"] + 5 and after["pictures"] == before["pictures"], (before, after)
assert after["gpu_seconds"] > before["gpu_seconds"], (before, after)
PYTHON

# --- the batch is named only where there is one: latents may be those of pictures
ok kiln enqueue - --batch pictures --set size=64x64 <<<'a kept hare'
ok kiln wait pictures --timeout 60
ok kiln cache build --template 'a kept hare' --set size=64x64
[ ! -s out.txt ] || die "a batch that is not there: $(cat out.txt)"
says '^all latents are stored$'
build --template 'a kept hare' --set size=64x64
json out.txt 'd["batch"] is None and (d["wanted"], d["stored"], d["ordered"]) == (1, 1, 0)'
ok kiln cache build --template 'a new hare' --set size=64x64
[ "$(cat out.txt)" = latent-cache ] || die "no batch to wait for"
ok kiln wait latent-cache --timeout 60
ok kiln cache build --template 'a new hare' --set size=64x64
[ "$(cat out.txt)" = latent-cache ] || die "the batch that is there is not named"
says '^all latents are stored$'

# --- only exact runs count: a latent of another mode is not what others start from
ok kiln enqueue - --batch coarse <<<'{"prompt": "a coarse fox", "size": "512x512", "steps": 4, "coarse": "2+2"}'
ok kiln wait coarse --timeout 60
[ "$(sql "SELECT mode FROM latent WHERE mode <> ''")" = "coarse=2+2" ] || die "no coarse latent"
build --template 'a coarse fox' --set size=512x512 --set steps=4 --dry-run
counts '1, 0, 0, 0, 0'
fails 65 kiln cache build --template 'a coarse fox' --set size=512x512 --set steps=4 --set coarse=2+2
says 'the cache holds latents of exact runs: leave out coarse, variety and starts'
# --- a budget: first goes what saved the least; what is needed stays; killed midway it goes on
for i in $(seq 450); do echo "pruned $i"; done >pruned.txt
ok kiln cache build --prompts pruned.txt --set size=64x64 --set steps=1
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0
latent_of() { sql "SELECT l.job_id FROM latent l JOIN job j ON j.id = l.job_id WHERE prompt = '$1' ORDER BY 1 LIMIT 1"; }
total() { sql "SELECT coalesce(sum(bytes), 0) FROM object WHERE role = 'latent'"; }
donor=$(latent_of 'pruned 1') started=$(latent_of 'pruned 2') begun=$(latent_of 'pruned 3')
sql "UPDATE image SET donor = $donor, forwards = 2, steps = 8, denoise_ms = 1000, fallback = NULL WHERE prompt = 'a kept hare'" >/dev/null
ok kiln favourite add "$(sql "SELECT job_id FROM image WHERE prompt = 'a kept hare'")"
ok kiln pause --backfill
ok kiln cache build --template 'starts later' --set size=64x64 --set steps=1
sql "UPDATE job SET init_job = $started WHERE prompt = 'starts later'; INSERT INTO assignment (pool, id, worker, jobs, donors, at) VALUES ('main', 'held', 'w', '{}', '{$begun}', now() + interval '1 hour')" >/dev/null
ok kiln usage --json
cp out.txt usage.txt
fails 64 kiln cache prune
says 'needs --budget BYTES, or the setting cache_budget_gb'
fails 64 kiln cache prune --budget 5x
says 'not an amount of bytes'
fails 64 kiln cache prune --budget 1GB --full
fails 64 kiln cache stat --budget 1GB
ok kiln cache prune --budget 0 --yes --json # all are young
json out.txt 'd["evicted"] == 0 and d["young"] > 450 and d["over"] == d["bytes"]'
says 'over the budget'
budget=$(($(total) - $(sql "SELECT sum(bytes) FROM (SELECT bytes FROM object WHERE role = 'latent' ORDER BY job_id LIMIT 100) o")))
fails 64 kiln cache prune --budget "$budget" --grace 0 </dev/null
says 'Add --yes'
ok kiln cache prune --budget "$budget" --grace 0 --dry-run
[ "$(wc -l <out.txt)" -ge 100 ] || die "a dry run lists $(wc -l <out.txt) latents"
[ "$(total)" -gt "$budget" ] || die "a dry run evicted latents"
listed=$(awk '{print $2}' out.txt | sort | sha256sum)
sql "SELECT key FROM object WHERE role = 'latent'" | sort >before.txt
ok kiln cache prune --budget "$budget" --grace 0 --yes --json
json out.txt 'd["evicted"] == d["removed"] >= 100 and d["over"] == 0 and d["needed"] >= 2'
[ "$(total)" -le "$budget" ] || die "over the budget"
sql "SELECT key FROM object WHERE role = 'latent'" | sort | comm -23 before.txt - | sha256sum >gone.txt
[ "$listed" = "$(cat gone.txt)" ] || die "the dry run listed others"
needed="$donor, $started, $begun, $(latent_of 'a kept hare')"
[ "$(sql "SELECT count(*) FROM latent WHERE job_id IN ($needed)")" = 4 ] || die "a latent that is needed or saved time went"
"$kiln_bin/kiln" cache prune --budget 0 --grace 0 --yes >/dev/null 2>&1 &
pruner=$!
until_sql "SELECT count(*) < 340 FROM latent" t
kill -9 $pruner 2>/dev/null
wait $pruner 2>/dev/null
ok kiln cache verify --full # a row without its object is nowhere
KILN_CACHE_BUDGET_GB=0.000001 ok kiln cache prune --grace 0 --yes --json
json out.txt 'd["budget"] == 1000 and d["over"] > 0 and d["needed"] == 3'
[ "$(sql "SELECT count(*) FROM latent WHERE job_id IN ($needed)")" = 3 ] || die "a needed latent went"
[ "$(sql "SELECT count(*) FROM latent WHERE states = 1 AND job_id NOT IN ($needed)")" = 0 ] || die "latents are left"
[ "$(sql "SELECT count(*) FROM image WHERE prompt = 'a kept hare'")" = 1 ] || die "a picture went"
ok kiln gc --grace 0 --yes
[ "$(files)" = "$(sql "SELECT count(*) FROM object WHERE role = 'latent'")" ] || die "orphans are left"
ok kiln usage --json
python3 - <<'PYTHON' || die "what the evicted latents cost is forgotten, or counted twice"
import json
def total(name):
    rows = [json.loads(line) for line in open(name)]
    return [sum(row[key] for row in rows) for key in ("jobs", "gpu_seconds")]
before, after = total("usage.txt"), total("out.txt")
assert after[0] == before[0] and abs(after[1] - before[1]) < 1e-3, (before, after)
PYTHON
sql "DELETE FROM assignment WHERE id = 'held'" >/dev/null
ok kiln resume --backfill
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0
echo ok
