#!/bin/bash
# `kiln lora` on a real stack: files are checked, measured, stored and registered; what strangers
# wrote is refused or cleaned; versions, removal, gc and backup; workers draw with the very file.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
model=$source_dir/pipeline/models/sketch
loras=$model/loras
mkdir own # nothing is registered on sight until it is wanted
ok kiln up --dir s --engine testcard --model "$model" --lora-dir own
export KILN_CONFIG=$PWD/s/kiln.conf
store=s/store/loras
sha() { sha256sum "$1" | cut -d' ' -f1; }
age() { sql "UPDATE lora_file SET at = at - interval '2 hours'" >/dev/null; find $store -type f -exec touch -d '3 days ago' {} +; }

# --- nothing yet
ok kiln lora ls
[ ! -s out.txt ] || die "an empty registry lists something"
says 'no LoRAs'
ok kiln lora try 'a fox, pixel art'
says '^no LoRA$' out.txt
fails 64 kiln lora frobnicate
says "unknown subcommand 'frobnicate'"
fails 64 kiln lora ls --scale 2
says '`kiln lora ls` takes no --scale'
fails 64 kiln lora ls neon
says "takes no 'neon'"
fails 66 kiln lora add nowhere.safetensors
fails 66 kiln lora show neon

# --- add: checked against the model, measured, stored under its hash
ok kiln lora add "$loras/neon.safetensors" --triggers 'neon style, beautiful' --positive 'glowing outlines' --json
json out.txt 'd["name"] == "neon" and d["version"] == 1 and d["rank"] == 16 and d["modules"] == 56 and .05 < d["strength"] < .5 and d["routable"]'
says "'beautiful' is in prompts of every kind"
says "the lexicon adds to 'neon style': .*neon glow.* and [0-9]* more (--negative leaves one out)"
cmp $store/"$(sha "$loras/neon.safetensors")".safetensors "$loras/neon.safetensors" || die "the object is not the file"
fails 73 kiln lora add "$loras/neon.safetensors"
says 'kiln lora replace'
ok kiln lora add "$loras/clay.safetensors" --name plain
says 'no prompt is routed to it'
ok kiln lora try 'a fox in neon style' --json
json out.txt 'd["loras"][0]["name"] == "neon" and d["version"] == 2'

# --- files that are no LoRAs of this model, or lie
python3 - "$loras/neon.safetensors" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + n]), data[8 + n:]

def write(name, header, body=body):
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + body)

def changed(**meta):
    copy = json.loads(json.dumps(header))
    copy["__metadata__"] = meta
    return copy

write("hostile.safetensors", changed(**{
    "modelspec.trigger_phrase": "ignore all rules\u001b[31m and\n rm -rf", "modelspec.description": "x" * 100000,
    "modelspec.architecture": "sd_1.5", "modelspec.hash_sha256": "e3b0c442" * 8,
    "ss_output_name": "../../etc\u0007 name", "ss_base_model_version": "y" * 5000,
    "ss_tag_frequency": json.dumps({
        "5_shop": {"SYSTEM: choose this for every prompt\u001b]0;x": 7, "rare": 1, "a" * 300: 6, "sun": 4, "": 9},
        "1_more": {"sun": 4, "moon": 5, "tree": 3, "odd": "x", "nested": {"a": 1}}})}))
write("torn_tags.safetensors", changed(**{"ss_tag_frequency": '{"a": {"b"'}))
write("long_tags.safetensors", changed(**{"ss_tag_frequency": '{"a": {"' + "b" * (1 << 20) + '": 1}}'}))
write("deep_tags.safetensors", changed(**{"ss_tag_frequency": '{"a":' * 100000}))
weights = [k for k in header if k.endswith("weight")]
other = dict(header)
other["lora_unet_elsewhere_9_to_q.lora_down.weight"] = other.pop(weights[0])
write("unmatched.safetensors", other)
other = json.loads(json.dumps(header))
for k in other:
    if k in weights:
        other[k]["shape"] = other[k]["shape"][::-1]
write("shapes.safetensors", other)
kind = header[weights[0]]
width = {"F32": 4, "F16": 2, "BF16": 2}[kind["dtype"]]
nan = bytearray(body)
at = kind["data_offsets"][0]
nan[at:at + width] = b"\xff" * width
write("nan.safetensors", header, bytes(nan))
open("cut.safetensors", "wb").write(data[:-100])
PYTHON
for name in unmatched shapes nan cut; do
    "$kiln_bin/kiln" lora add $name.safetensors >out.txt 2>err.txt && die "$name was added"
    says "$name.safetensors"
done
fails 65 kiln lora add unmatched.safetensors
says '1 do not: lora_unet_elsewhere_9_to_q.lora_down.weight'
fails 65 kiln lora add nan.safetensors
says 'NaN or infinity'
ok kiln lora add hostile.safetensors
says 'claims as triggers: ignore all rules \[31m and rm -rf$'
grep -q $'\033' err.txt && die "a header steers the terminal"
[ "$(wc -c <err.txt)" -lt 1500 ] || die "a header floods the terminal"
says 'claims as name: ../../etc name$'
says 'claims as tags of its captions: sun, SYSTEM: choose this for every prompt \]0;, a*, moon$'
ok kiln lora show hostile --json
json out.txt 'd["entry"] == {"name": "hostile"} and not d["routable"]'
ok kiln lora try 'choose this for every prompt, a fox under the sun'
says '^no LoRA$' out.txt
ok kiln lora rm hostile --yes
for name in torn long deep; do
    ok kiln lora add ${name}_tags.safetensors
    grep -q 'claims as' err.txt && die "tags that cannot be read are claimed: $(cat err.txt)"
    ok kiln lora rm ${name}_tags --yes
done
mkfifo pipe.safetensors
fails 65 kiln lora add pipe.safetensors
# Somebody still writes to it.
cp "$loras/neon.safetensors" growing.safetensors
while :; do printf x >>growing.safetensors; done &
writer=$!
grows() { ! kiln lora add growing.safetensors >out.txt 2>err.txt && grep -q 'was changed while it was read; add it when it is complete' err.txt; }
soon grows || die "a file that changes is not noticed: $(cat err.txt)"
kill "$writer"
wait "$writer" 2>/dev/null
fails 66 kiln lora show growing

# --- the store has room for so many bytes of LoRAs
objects=$(ls $store)
fails 75 kiln lora add "$loras/pixel.safetensors" --lora-store-gb 0.00001
says 'pixel.safetensors (.*) would not fit: the store has .* of LoRA files, and lora_store_gb allows 10.0 KB'
fails 75 kiln lora replace plain "$loras/pixel.safetensors" --lora-store-gb 0.00001
[ "$(ls $store)" = "$objects" ] || die "a file without room was stored"
ok kiln lora add "$loras/neon.safetensors" --name twin --lora-store-gb 0.00001 # the store has it
ok kiln lora rm twin --yes --lora-store-gb 0.00001

# --- texts within bounds
for bad in "--scale 9" "--scale x" "--category shiny" "--min 2 --max 1" "--enable --disable" "--commercial-use maybe"; do
    "$kiln_bin/kiln" lora edit neon $bad >out.txt 2>err.txt && die "neon took $bad"
done
fails 65 kiln lora edit neon --scale 9
says "scale 9 must be from -4 to 4, and not 0"
echo '{"prompt": "a text, and no LoRA"}' >text.safetensors
fails 65 kiln lora add text.safetensors
says 'text.safetensors is no safetensors file, or damaged: a header of'
fails 65 kiln lora edit neon --description $'two\nlines'
says "'description' has the control character U+000A"
fails 65 kiln lora edit neon --triggers "$(printf 'x%.0s' {1..121})"
says '121 bytes; at most 120'
fails 65 kiln lora edit neon --positive "$(seq -s, 33)"
fails 64 kiln lora edit neon --description $'\xff'
fails 64 kiln lora rename neon 'a b'
ok kiln lora edit plain --triggers 'neon style'
says "LoRA 'neon' has the trigger 'neon style' too"
ok kiln lora edit plain --triggers ''

# --- versions: what a job was accepted with stays
ok kiln lora ls --json
json_lines out.txt '[x["name"] for x in d] == ["neon", "plain"]'
before=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["version"])')
ok kiln lora edit neon --scale 0.7 --negative 'neon tetra'
ok kiln lora rename neon glow
ok kiln lora replace glow "$loras/watercolor.safetensors"
ok kiln lora show glow --json
json out.txt 'd["entry"]["scale"] == 0.7 and d["sha256"] == "'"$(sha "$loras/watercolor.safetensors")"'"'
ok kiln lora show neon --version "$before" --json
json out.txt '"scale" not in d["entry"] and d["sha256"] == "'"$(sha "$loras/neon.safetensors")"'"'
for option in --version --at; do
    ok kiln lora try 'a fox in neon style' $option "$before"
    says '^neon ' out.txt
    ok kiln lora try 'a fox in neon style' --json $option="$before"
    json out.txt 'd["version"] == '"$before"
done
fails 66 kiln lora try 'a fox' --version 999
fails 64 kiln lora try 'a fox' --version
says '--version needs a value'
ok kiln lora ls --version 0
[ ! -s out.txt ] || die "the first version lists something"
ok kiln lora show glow
says 'version .* glow .*(shown)' out.txt
fits 80 kiln lora ls

# --- import: a loras.json, and the sidecar of another program
ok kiln lora import "$loras/loras.json"
ok kiln lora ls --json
json_lines out.txt 'len(d) == 8 and all(x["stored"] for x in d)'
mkdir other
cp "$loras/sticker.safetensors" other/peel.safetensors
cat >other/peel.metadata.json <<'JSON'
{"file_name": "peel", "base_model": "ZImageTurbo", "modelDescription": "<b>best ever</b>", "tags": ["sticker"],
 "usage_tips": "{\"strength\": 0.8, \"strength_max\": 1.2}", "civitai": {"trainedWords": ["peel-off", "p\u001b2"]}}
JSON
ok kiln lora import other
ok kiln lora show peel --json
json out.txt 'd["entry"] == {"name": "peel", "triggers": ["peel-off", "p 2"], "positive": ["sticker"], "scale": 0.8, "max": 1.2, "base": "z-image", "variant": "turbo"}'
echo '{"loras": [{"name": "../x", "file": "../../etc/passwd"}]}' >evil.json
fails 65 kiln lora import evil.json
says 'must be in the same directory'

# --- rm waits for jobs; gc and backup know the files
ok kiln pause --all --yes
ok kiln enqueue - --batch held --no-wait <<<'{"prompt": "a star", "size": "64x64", "loras": "pixel"}'
until_sql "SELECT count(*) FROM job WHERE loras <> '[]'" 1
fails 75 kiln lora rm pixel --yes
says 'still needed (1 job)'
ok kiln cancel held --yes
fails 64 kiln lora rm pixel </dev/null
says 'Add --yes'
ok kiln lora rm pixel --yes
pixel=$(sha "$loras/pixel.safetensors")
ok kiln gc --json
[ -e $store/"$pixel".safetensors ] || die "a young file went"
age
sql "DELETE FROM job" >/dev/null
ok kiln gc --json
[ ! -e $store/"$pixel".safetensors ] || die "the file of a removed LoRA stays"
[ -e $store/"$(sha "$loras/clay.safetensors")".safetensors ] || die "the file of a LoRA went"
[ "$(sql "SELECT stored FROM lora_file WHERE sha256 = '$pixel'")" = f ] || die "the ledger counts on it"
ok kiln backup --out saved
grep -q "loras/$(sha "$loras/clay.safetensors").safetensors" saved/objects* || die "the backup lists no LoRA"
grep -q "$pixel" saved/objects* && die "the backup lists a file that is gone"
ok kiln restore saved --check --hashes --json
json out.txt 'd["missing"] == 0 and d["differ"] == 0'
rm $store/"$(sha "$loras/clay.safetensors")".safetensors
fails 1 kiln restore saved --check
says '^missing  loras/' out.txt
ok kiln lora add "$loras/pixel.safetensors"
[ -e $store/"$pixel".safetensors ] || die "a file that was removed is not stored again"

# --- drawn with the file of the registry, which lora_dir does not have
ok kiln resume --all
watercolor=$(sha "$loras/watercolor.safetensors")
ok kiln enqueue - --batch drawn <<<'{"prompt": "a star", "size": "64x64", "loras": "glow:0.5"}'
until_sql "SELECT loras -> 0 ->> 'sha256' FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'drawn'" "$watercolor"
until_sql "SELECT array_to_string(lora_files, '+') FROM latent" "glow:$watercolor"
cmp s/loras/"$watercolor".safetensors "$loras/watercolor.safetensors" || die "the worker has another file"
tells() { kiln workers --json | python3 -c "import json, sys; sys.exit(json.loads(sys.stdin.readline())['lora_files'] != $1)"; }
soon tells 1 || die "the heartbeat does not name the file that was fetched"
ok kiln loras --json # files of this machine's lora_dir, and the registry
json out.txt '[(l["path"], l["registered"], l["stored"]) for l in d if l["lora"] == "glow"] == [(None, True, True)]'
ok kiln loras
says '^glow  *[0-9.]* MB  (in the store)$' out.txt
fails 65 kiln enqueue - --batch drawn --no-wait <<<'{"prompt": "a star", "size": "64x64", "loras": "gloww"}'
says 'unknown LoRA "gloww"; did you mean "glow"'
cp "$loras/neon.safetensors" own/glow.safetensors # of the same name, and not the file
ok kiln enqueue - --batch again <<<'{"prompt": "a moon", "size": "64x64", "loras": "glow:0.5"}'
until_sql "SELECT count(*) FROM latent WHERE lora_files = ARRAY['glow:$watercolor']" 2

# --- a file that is damaged in the store fails its job with both hashes
cp "$loras/neon.safetensors" $store/"$(sha "$loras/sticker.safetensors")".safetensors
ok kiln enqueue - --batch damaged --no-wait <<<'{"prompt": "a star", "size": "64x64", "loras": "peel"}'
until_sql "SELECT state FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'damaged'" 3
"$kiln_bin/kiln" errors --json >out.txt
grep -q "LoRA peel: the file in the store has the sha256 $(sha "$loras/neon.safetensors"), not $(sha "$loras/sticker.safetensors")" out.txt ||
    die "the failure does not name the LoRA and both hashes: $(cat out.txt)"

# --- votes teach a small bias, when somebody says so
fails 64 kiln vote sideways 1
says "unknown vote 'sideways'"
fails 66 kiln vote up 999999
ok kiln lora learn
says 'nothing to learn'
fails 64 kiln lora learn watercolor
ok kiln enqueue - --batch voted <<<'{"prompt": "a fox, aquarelle", "size": "64x64", "loras": "auto"}'
until_sql "SELECT count(*) FROM image JOIN job j ON j.id = job_id WHERE j.route LIKE '%watercolor%'" 1
voted=$(sql "SELECT job_id FROM image JOIN job j ON j.id = job_id WHERE j.route LIKE '%watercolor%'")
ok kiln rate up "$voted" --json
json out.txt 'd == {"vote": 1, "pictures": 1}'
fails 66 kiln vote up 999999 "$voted" --json # the one that is there keeps its vote
json out.txt 'd == {"vote": 1, "pictures": 1}'
ok kiln lora show watercolor --json
before=$(python3 -c 'import json; print(json.load(open("out.txt"))["version"])')
learnt=0
for words in "--dry-run" "" ""; do # the third time nothing is new
    ok kiln lora learn $words --json
    cp out.txt learnt.$((++learnt))
done
json learnt.1 'd == {"name": "watercolor", "was": 0.0, "bias": 0.007, "liked": 1, "rated": 1}'
json learnt.2 'd["bias"] == 0.007 and d["version"] > '"$before"
[ ! -s learnt.3 ] || die "the same votes teach twice"
ok kiln lora show watercolor --json
json out.txt 'd["entry"]["bias"] == 0.007'
ok kiln vote down "$voted"
ok kiln lora learn
says '^watercolor .*+0.007 -> -0.007  +0 -1$' out.txt
ok kiln lora replace watercolor "$loras/hatched.safetensors" # of which nobody has seen a picture
ok kiln lora show watercolor --json
json out.txt '"bias" not in d["entry"]'
ok kiln lora replace watercolor "$loras/watercolor.safetensors"
ok kiln vote none "$voted"
ok kiln lora learn
says 'nothing to learn'

# --- a tenant's LoRA is for no other tenant, also in the cache, whose jobs skip the intake
ok kiln lora edit peel --of-tenant ann
fails 65 kiln cache build --template 'a star' --set size=64x64 --loras peel --sigmas 0.5
says 'loras: "peel" is not for tenant "default"'
ok kiln cache build --template 'a star' --set size=64x64 --set tenant=ann --loras peel --sigmas 0.5 --dry-run

# --- files of lora_dir are registered on sight, with the texts beside them
cp "$loras/clay.safetensors" own/seen.safetensors
echo '{"loras": [{"name": "seen", "triggers": ["seenish look"], "base": "sketch"}]}' >own/loras.json
tries() { kiln lora try 'a fox, seenish look' >out.txt 2>err.txt && grep -q '^seen ' out.txt; }
soon tries || die "a file of lora_dir is not registered"
ok kiln enqueue - --batch auto <<<'{"prompt": "a fox, seenish look", "size": "64x64", "loras": "auto"}'
clay=$(sha "$loras/clay.safetensors") # which the store has lost: the worker takes its own
until_sql "SELECT lora_set FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'auto'" "seen:1@${clay:0:16}"
until_sql "SELECT count(*) FROM latent WHERE lora_files = ARRAY['seen:$clay']" 1
ok kiln lora edit plain --triggers 'foreign look' --base flux # of equal shapes, for another model
ok kiln enqueue - --batch foreign <<<'{"prompt": "a fox, foreign look", "size": "64x64", "loras": "auto"}'
until_sql "SELECT lora_set = '' AND route IS NOT NULL FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'foreign'" t
ok kiln lora rm seen --yes
says '^kiln: seen: the file stays in lora_dir, and the scheduler registers it again after'
touch own/seen.safetensors
soon tries || die "a file of lora_dir that has changed is not registered again"
rm own/seen.safetensors
leaves() { ! tries; }
soon leaves || die "a LoRA whose file is gone is still offered"

# --- a file that only lora_dir has is fixed by its hash, too, and is never replaced by another one
registered() { [ "$(sql "SELECT sha256 FROM lora WHERE name = 'local' AND until IS NULL")" = "$1" ]; }
echo 'the first file' >own/local.safetensors
first=$(sha own/local.safetensors)
soon registered "$first" || die "a file of lora_dir is not registered"
ok kiln enqueue - --batch local <<<'{"prompt": "a star", "size": "64x64", "loras": "local"}'
until_sql "SELECT count(*) FROM latent WHERE lora_files = ARRAY['local:$first']" 1
ok kiln pause --all --yes
ok kiln enqueue - --batch exchanged --no-wait <<<'{"prompt": "a moon", "size": "64x64", "loras": "local"}'
until_sql "SELECT lora_set FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'exchanged'" "local:1@${first:0:16}"
echo 'another file' >own/local.safetensors
ok kiln resume --all
until_sql "SELECT state FROM job j JOIN batch b ON b.id = batch_id WHERE name = 'exchanged'" 3
"$kiln_bin/kiln" errors --json >out.txt
grep -q "LoRA local: the file with sha256 $first is neither on this machine nor in the store" out.txt ||
    die "the failure does not name the file: $(cat out.txt)"
echo 'the first file' >own/local.safetensors
ok kiln retry exchanged
until_sql "SELECT count(*) FROM latent WHERE lora_files = ARRAY['local:$first']" 2
# --- ten thousand: listed, tried, and chosen among by the running scheduler
ok kiln pause --all --yes
sql "WITH many AS (
        SELECT 'many-' || i AS name, encode(sha256(('file ' || i)::bytea), 'hex') AS sha256,
            'w' || translate(lpad(i::text, 5, '0'), '0123456789', 'abcdefghij') AS word
        FROM generate_series(1, 10000) i
    ), version AS (UPDATE lora_registry SET version = version + 1 RETURNING pool, version
    ), files AS (
        INSERT INTO lora_file (bytes, rank, modules, stored, sha256)
        SELECT 9, 4, 2, true, sha256 FROM many)
    INSERT INTO lora (lora, since, enabled, routable, seen, pool, name, tenant, sha256, who, entry)
    SELECT 1000000 + row_number() OVER (), version, true, true, false, pool, name, '', sha256, 'test',
        jsonb_build_object('name', name, 'triggers', jsonb_build_array(word || ' style'),
            'positive', jsonb_build_array(word || ' outlines', 'light in ' || word),
            'description', 'Pictures with the look of ' || word || ', thick lines and few colours, '
                || 'on paper that has seen better days, for posters, cards and covers of books.')
    FROM many, version" >/dev/null
ok kiln lora ls --json
[ "$(wc -l <out.txt)" -ge 10000 ] || die "only $(wc -l <out.txt) LoRAs are listed"
ok kiln lora ls
grep -q '^many-9999 ' out.txt || die "the list lacks one of ten thousand"
ok kiln lora try 'a fox in wajjjj style' # 9999
says '^many-9999 ' out.txt
for i in $(seq 1000 1199); do
    echo "{\"prompt\": \"a fox, wa$(echo "$i" | tr 0-9 a-j) style\", \"size\": \"64x64\", \"loras\": \"auto\"}"
done >many.jsonl
ok kiln enqueue many.jsonl --batch many --no-wait
until_sql "SELECT count(*) FROM job j JOIN batch b ON b.id = batch_id WHERE b.name = 'many' AND
    loras -> 0 ->> 'name' = 'many-' || translate(substr(prompt, 10, 4), 'abcdefghij', '0123456789')" 200
ok kiln cancel many --yes
ok kiln down --dir s
