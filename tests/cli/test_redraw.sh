#!/bin/bash
# `kiln redraw` and parents on a real stack: what is made of finished jobs, what is refused by name, and
# where a parent is shown.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --heartbeat-s 0.5
export KILN_CONFIG=$PWD/s/kiln.conf

cat >draw.jsonl <<'LINES'
{"custom_id":"star","prompt":"a star","size":"128x128","seed":100}
{"custom_id":"moon","prompt":"a moon","size":"128x128","seed":18446744073709551615,"style":"anime","negative_prompt":"fog"}
{"custom_id":"wide","prompt":"a {b} house","template":false,"size":"256x128","seed":7,"steps":4}
{"custom_id":"none","prompt":"a tree","size":"128x128","latents":"none"}
LINES
ok kiln enqueue draw.jsonl --batch draw
ok kiln wait draw --timeout 60
id() { sql "SELECT j.id FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = 'draw' AND j.custom_id = '$1'"; }
star=$(id star) moon=$(id moon) wide=$(id wide) none=$(id none)
jobs() { ok kiln jobs --batch "$1" --json; }

# --- enlarge: three steps from sigma 0.75, with the seed of the job
ok kiln redraw "$star" "$wide" --size 2x
batch=$(cat out.txt)
[[ $batch =~ ^redraw-$star-[0-9a-f]{8}$ ]] || die "another name: $batch"
ok kiln wait "$batch" --timeout 60
jobs "$batch"
json out.txt '[(j["width"], j["height"], j["steps"], j["mode"], j["seed"], j["state"]) for j in d] == [(256, 256, 6, "start@0.75", 100, "done"), (512, 256, 6, "start@0.75", 7, "done")]'
json out.txt '[j["parent"] for j in d] == [j["init_job"] for j in d] == ['"$star, $wide"'] and d[0]["custom_id"] is None'
[ "$(sql "SELECT prompt FROM job WHERE parent = $wide")" = 'a {b} house' ] || die "another prompt"
# The same again adds nothing, whatever the order of the options; more steps are other jobs.
ok kiln redraw --size 2x "$star" "$wide" "$star" --json
json out.txt "d == {'batch': '$batch', 'accepted': 0, 'duplicate': 2, 'refused': []}"
ok kiln redraw "$star" --size=256x256 --steps 4 --json
json out.txt "d['accepted'] == 1 and d['batch'] != '$batch'"
[ "$(sql "SELECT steps || ' ' || mode FROM job ORDER BY id DESC LIMIT 1")" = '8 start@0.75' ] || die "other steps"

# --- variations: new seeds, as alike as asked for; a named batch grows
ok kiln redraw "$star" --count 2 --batch vary
says '^alike 50: 2 of 8 steps are skipped; about 39 % of the variety of new seeds'
ok kiln redraw "$star" --count 4 --batch vary --json
json out.txt 'd["accepted"] == 2 and d["duplicate"] == 2'
ok kiln redraw "$moon" --count 2 --alike 80 --batch vary
ok kiln redraw "$star" --alike 0 --batch vary
jobs vary
json out.txt '[(j["seed"], j["mode"]) for j in d] == [(100 + n, "start=2") for n in (1, 2, 3, 4)] + [(2**64 - 3, "start=4"), (2**64 - 2, "start=4"), (101, "coarse=auto")]'
json out.txt 'd[6]["parent"] == '"$star"' and d[6]["init_job"] is None'

# --- edits: another prompt in the style of the job, by difference; choices; other LoRAs or seeds
ok kiln redraw "$star" "$moon" --prompt 'a {red|blue} sun' --batch edit
says 'edits by difference: what the prompts have in common stays'
ok kiln redraw "$star" --set guidance=2 --set seed=5 --batch edit
ok kiln redraw "$moon" --prompt 'a sun' --set style=none --set start_sigma=0.5 --batch edit
jobs edit
json out.txt '[(j["seed"], j["mode"], j["steps"]) for j in d] == [(100, "edit=3", 8)] * 2 + [(2**64 - 1, "edit=3", 8)] * 2 + [(5, "start=2", 8), (2**64 - 1, "edit@0.5", 8)]'
ok kiln redraw "$star" --prompt 'a sun' --set edit=false --dry-run
says '1  128x128 *8  start=2' out.txt
ok kiln redraw "$star" --prompt 'a sun' --size 2x --dry-run
says '^0 of 1 edit by difference, the others image to image'
ok kiln redraw "$star" --prompt 'a sun' --count 2 --dry-run --json
json out.txt 'd["jobs"] == 2 and d["groups"][0]["mode"] == "start=2"'
ok kiln wait edit --timeout 60
fails 65 kiln enqueue - --batch unfit --json < <(printf '{"prompt":"x","size":"256x256","init_job":%s,"edit":true}\n' "$star")
json out.txt 'd["accepted"] == 0 and "an edit keeps the size" in str(d["refused"])'
prompts=$(sql "SELECT string_agg(prompt || '|' || coalesce(style, '-') || '|' || negative_prompt, '
' ORDER BY index) FROM job j JOIN batch b ON b.id = batch_id WHERE b.name = 'edit'")
moon_negative=$(sql "SELECT negative_prompt FROM job WHERE id = $moon")
moon_prompt=$(sql "SELECT prompt FROM job WHERE id = $moon")
[ "$prompts" = "a red sun|-|
a blue sun|-|
${moon_prompt/moon/red sun}|anime|$moon_negative
${moon_prompt/moon/blue sun}|anime|$moon_negative
a star|-|
a sun|-|fog" ] || die "other prompts: $prompts"

# --- a plan sends nothing, and knows what it saves
before=$(sql 'SELECT count(*) FROM job')
ok kiln redraw "$star" --size 4x --dry-run --json
mv out.txt redraw.txt
ok kiln enqueue - --dry-run --json < <(echo '{"prompt":"a star","size":"512x512","coarse":"off"}')
json out.txt 'd["jobs"] == 1 and 0.3 < '"$(python3 -c 'import json; print(json.load(open("redraw.txt"))["gpu_seconds"])')"' / d["gpu_seconds"] < 0.6'
json redraw.txt 'd["groups"][0]["mode"] == "start@0.75" and d["refused"] == []'
ok kiln redraw "$star" --size 4x --dry-run
says '1  512x512 *6  start@0.75' out.txt
ok kiln redraw "$star" --count 100 --dry-run --json
json out.txt 'd["jobs"] == 100'
[ "$(sql 'SELECT count(*) FROM job')" = "$before" ] || die "a plan made jobs"

# --- what cannot be redrawn is named and left out; the others go on, unless --strict
ok kiln pause --all --yes
ok kiln enqueue - --batch late < <(echo '{"prompt":"x","size":"128x128"}')
late=$(sql "SELECT max(id) FROM job")
fails 65 kiln redraw "$star" "$none" "$late" 987654 --count 3 --batch some --json
json out.txt '[r["job"] for r in d["refused"]] == ['"$none, $late"', 987654] and d["accepted"] == 3'
says "^job $none: it was rendered with latents \"none\": there is no latent to start from$"
says "^job $late: it is queued; only a finished job can be redrawn$"
says '^job 987654: there is no job 987654 in pool default$'
fails 65 kiln redraw "$star" "$none" --count 3 --batch strict --strict --json
json out.txt 'd["accepted"] == 0 and d["batch"] is None and len(d["refused"]) == 1'
says '1 job refused, so nothing was sent (--strict)'
[ "$(sql "SELECT count(*) FROM batch WHERE name = 'strict'")" = 0 ] || die "--strict sent something"
fails 65 kiln redraw "$star" "$wide" --size 256x256 --batch shapes --json
json out.txt 'd["accepted"] == 1'
says "^job $wide: its latent is of 256x128, and --size asks for 256x256; a latent is enlarged up to 4 times, and keeps its shape$"
fails 65 kiln redraw "$star" --size 128x128
says "^job $star: it has 128x128 already$"
[ ! -s out.txt ] || die "a batch without jobs"
ok kiln cancel "$late"
fails 65 kiln redraw "$late" --count 2
says "^job $late: it is cancelled"
# A value that the validator of lines refuses, here for one job of two.
fails 65 kiln redraw "$star" "$moon" --prompt "$(printf '%8190s' x)" --dry-run --json
json out.txt 'd["jobs"] == 1 and [r["job"] for r in d["refused"]] == ['"$moon"']'
says "^job $moon: prompt is [0-9]* bytes with the words of its style; the limit is 8192$"
fails 64 kiln redraw "$star" --set loras=nowhere
says 'unknown LoRA "nowhere"'
sql "UPDATE latent SET model_hash = 'abcdef' WHERE job_id = $wide" >/dev/null
fails 65 kiln redraw "$wide" --count 2
says "^job $wide: its latent is of a model with other weights (abcdef) than the pool renders with now ("
ok kiln resume --all

# --- a wrong command line
for words in "$star" "$star --set priority=3" "x --count 2" "--count 2" "$star --count 0" "$star --count 2 --alike 101" \
    "$star --count 2 --alike -1" "$star --count 2 --alike nan" "$star --strength 0" "$star --strength 1.5" \
    "$star --strength 0.5 --alike 50" "$star --alike 50 --set start_sigma=0.5" "$star --set start_sigma=2" \
    "$star --size 5x" "$star --size big" "$star --steps 0 --count 2" "$star --set size=2x" \
    "$star --set prompt=x" "$star --set init_job=1" "$star --set model=other" "$star --set style=anime" \
    "$star --count 2 --set seed=1" "$star --count 2 --steps 4 --set steps=8" "$star --set nokey=1" \
    "$star --prompt x --set edit=true" "$star --count 2 --set steps=0" "$star --count 2 --batch a/b" "$star --count 2 --batch backfill-x"; do
    fails 64 kiln redraw $words
    [ ! -s out.txt ] || die "'kiln redraw $words' wrote to stdout"
done
fails 65 kiln redraw "$star" --strength 0.1 --steps 6
says "^job $star: 6 steps from this depth are a schedule of 60 steps; the limit is 50$"
KILN_SIZE=2048x512 ok kiln redraw "$star" --count 1 --dry-run --json # the setting is not of a redraw
json out.txt 'd["groups"][0]["width"] == 128'

# --- a parent may be named by any client; it must exist, and its number outlives it
ok kiln enqueue - --batch named --set embed_metadata=true < <(printf '{"prompt":"x","size":"128x128","coarse":"off","parent":%s}\n' "$star")
fails 65 kiln enqueue - --batch nobody --json < <(echo '{"prompt":"x","size":"128x128","parent":987654}')
json out.txt 'd["accepted"] == 0'
says 'parent is 987654; there is no such job'
ok kiln redraw "$star" --size 2x --batch draw --set embed_metadata=true
ok kiln wait named --timeout 60
ok kiln wait draw --timeout 60
child=$(sql "SELECT max(id) FROM job")
ok kiln show "$child"
says "made from  job $star" out.txt
ok kiln why "$child"
says "it was made from job $star and starts from its latent" out.txt
ok kiln why "$child" --json
json out.txt 'd["parent"] == '"$star"
ok kiln export draw --out draw --html
json draw/results.jsonl '[j["parent"] for j in d] == [None] * 4 + ['"$star"'] and d[4]["rendered_mode"] == "start@0.75" and d[4]["forwards"] > 0'
grep -aq "<kiln:parent>$star</kiln:parent>" draw/full/000004.webp || die "the picture does not name its parent"
grep -aq "<kiln:mode>start@0.75" draw/full/000004.webp || die "the picture does not name its mode"
grep -q "^{\"job\":$star,\"batch\":\"draw\"" draw/index.html || die "the picture is not in the page's data"
grep -q "\"seed\":\"100\",.*\"steps\":6,.*\"mode\":\"start@0.75\".*\"parent\":$star," draw/index.html || die "the page does not say what it was made from"
ok kiln export named --out named --html
grep -aq "<kiln:parent>$star</kiln:parent>" named/full/000000.webp || die "an exact picture does not name its parent"
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0
ok kiln batch rm draw --yes
named=$(sql "SELECT j.id FROM job j JOIN batch b ON b.id = batch_id WHERE b.name = 'named'")
ok kiln show "$named" --json
json out.txt 'd["parent"] == '"$star"
fails 65 kiln redraw "$star" --count 2
says "^job $star: there is no job $star in pool default$"
ok kiln redraw "$named" --count 1 # the child has a latent of its own
echo ok
