#!/bin/bash
# Jobs that start from a picture or from another job's latent, and coarse first, on a real stack: what
# enqueue uploads and refuses, what the ledger records, what gc keeps.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
# What was measured of runs from stored latents, for the last part.
mkdir model
printf '%s\n' '{"teleport": {"rows": [
 {"class": "same_prompt", "depth": 1, "donors": 2, "uses": 1, "variety": 0.99, "loss": [0, 0], "for": ["64x64"]},
 {"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"], "change": [0.5, 2]},
 {"class": "canonical", "depth": 5, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]},
 {"class": "reworded", "depth": 4, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]},
 {"class": "donor_says_more", "depth": 3, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}]}}' >model/kiln.json
printf '[being]\nfox: vixen\n' >model/words.txt
export KILN_MODEL=$PWD/model
ok kiln up --dir s --engine testcard --size 512x512 --workers 2 --lease-s 10
export KILN_CONFIG=$PWD/s/kiln.conf
store=s/store

python3 - <<'PYTHON'
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, side, color, height=None):
    rows = b"".join(b"\0" + bytes(color) * side for _ in range(height or side))
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, height or side, 8, 2, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
png("red.png", 128, (200, 10, 10))
png("blue.png", 128, (10, 10, 200))
png("white.png", 64, (255, 255, 255))
png("tall.png", 64, (255, 255, 255), 96)
open("bomb.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0)))
PYTHON
cp red.png "again red.PNG"
red=inputs/$(sha256sum red.png | cut -c1-64).png
printf 'plain text' >text.png
: >empty.png
mkdir dir.png
mkfifo pipe.png
truncate -s 70M big.png
ln -s red.png link.png
cp red.png secret.png
chmod 000 secret.png

# --- what is refused, each by its line; nothing waits for a FIFO
cat >bad.jsonl <<'LINES'
{"prompt":"x","init_image":"nowhere.png"}
{"prompt":"x","init_image":"text.png"}
{"prompt":"x","init_image":"empty.png"}
{"prompt":"x","init_image":"dir.png"}
{"prompt":"x","init_image":"pipe.png"}
{"prompt":"x","init_image":"big.png"}
{"prompt":"x","init_image":"bomb.png"}
{"prompt":"x","init_image":"inputs/0000000000000000000000000000000000000000000000000000000000000000.png"}
{"prompt":"x","init_image":"red.png","strength":0}
{"prompt":"x","strength":0.5}
{"prompt":"x","init_image":"red.png","init_job":1}
{"prompt":"x","coarse":"4+3","size":"64x64"}
{"prompt":"x","init_mask":"white.png"}
{"prompt":"x","init_image":"red.png","init_mask":"nowhere.png"}
{"prompt":"x","init_image":"red.png","init_mask":"text.png"}
{"prompt":"x","init_image":"red.png","init_mask":"pipe.png"}
{"prompt":"x","init_image":"red.png","init_mask":"bomb.png"}
{"prompt":"x","init_image":"red.png","init_mask":"tall.png"}
{"prompt":"x","init_job":1,"size":"128x256","init_mask":"white.png"}
{"prompt":"x","init_image":"nowhere.png","init_mask":"white.png"}
{"prompt":"x","init_image":"red.png","init_mask":"inputs/0000000000000000000000000000000000000000000000000000000000000000.png"}
{"prompt":"x","init_image":"red.png","strength":1.01}
{"prompt":"x","init_image":"red.png","strength":NaN}
{"prompt":"x","init_image":"red.png","start_sigma":1.5}
{"prompt":"x","coarse":"3+1+3","size":"1008x1024"}
{"prompt":"x","init_image":"secret.png"}
{"prompt":"x","init_image":"red.png","init_mask":"./dir.png/../secret.png"}
{"prompt":"x","init_image":"/dev/zero"}
{"prompt":"x","init_image":"/etc/passwd"}
LINES
# Enqueue reads what its caller may read, and nothing else; root may read all, unless this is taken away.
as_caller=(timeout 60)
[ "$(id -u)" != 0 ] || as_caller+=(setpriv --bounding-set=-dac_override,-dac_read_search)
fails 65 "${as_caller[@]}" "$kiln_bin/kiln" enqueue bad.jsonl --batch bad --json
json out.txt '[r["line"] for r in d["refused"]] == list(range(1, 30)) and d["batch"] is None'
says '^bad.jsonl:1: init_image: open nowhere.png: No such file or directory$'
says '^bad.jsonl:4: init_image: dir.png is not a regular file$'
says '^bad.jsonl:5: init_image: pipe.png is not a regular file$'
says '^bad.jsonl:6: init_image: big.png: larger than 67108864 bytes$'
says '^bad.jsonl:8: init_image: the store has no object inputs/00*.png$'
says '^bad.jsonl:9: strength is 0; it must be a number above 0 and at most 1$'
says '^bad.jsonl:12: coarse: 64x64 is too small; both sides must be at least 128$'
says '^bad.jsonl:13: init_mask is given without a start; init_image or init_job names one$'
says '^bad.jsonl:14: init_mask: open nowhere.png: No such file or directory$'
says '^bad.jsonl:15: init_mask: text.png: '
says '^bad.jsonl:16: init_mask: pipe.png is not a regular file$'
says '^bad.jsonl:17: init_mask: bomb.png: '
says '^bad.jsonl:18: init_mask: tall.png: a mask of 64x96 pixels has neither the shape of the picture that it is for, 128x128, nor that of the job, 512x512$'
says '^bad.jsonl:19: init_mask: white.png: a mask of 64x64 pixels has neither the shape of the picture that it is for, 128x256, nor'
says '^bad.jsonl:20: init_image: open nowhere.png: No such file or directory$'
says '^bad.jsonl:21: init_mask: the store has no object inputs/00*.png$'
says '^bad.jsonl:22: strength is 1.01; it must be a number above 0 and at most 1$'
says '^bad.jsonl:23: not valid JSON'
says '^bad.jsonl:24: start_sigma is 1.5; it must be a number above 0'
says '^bad.jsonl:25: coarse "3+1+3": 1008x1024 is too small for three sizes; both sides must be at least 1024$'
says '^bad.jsonl:26: init_image: open secret.png: Permission denied$'
says '^bad.jsonl:27: init_mask: open ./dir.png/../secret.png: Permission denied$'
says '^bad.jsonl:28: init_image: /dev/zero is not a regular file$'
says '^bad.jsonl:29: init_image: /etc/passwd: '
[ ! -d $store/inputs ] || die "a refused file was uploaded"
sql 'SELECT 1' >/dev/null

# --- a plan uploads nothing, and knows what a start and coarse first cost
cat >good.jsonl <<'LINES'
{"prompt":"a star","size":"128x128","init_image":"red.png","strength":0.5,"custom_id":"half"}
{"prompt":"a star","size":"128x128","init_image":"again red.PNG","strength":0.5,"custom_id":"same"}
{"prompt":"a star","size":"128x128","init_image":"link.png","start_sigma":0.5}
{"prompt":"a star","size":"512x512","coarse":"4+3"}
{"prompt":"a star","size":"128x128","coarse":"off"}
LINES
ok kiln enqueue good.jsonl --dry-run --json
json out.txt 'sorted(g["mode"] for g in d["groups"]) == ["coarse=4+3", "exact", "start=4", "start@0.5"]'
json out.txt '[g["gpu_seconds"] / g["jobs"] for g in d["groups"] if g["mode"] == "start=4"][0] < 0.6 * [g["gpu_seconds"] for g in d["groups"] if g["mode"] == "exact"][0]'
[ ! -d $store/inputs ] || die "a plan uploaded something"
# An override that needs a start is refused by the lines without one, not as a wrong command line.
fails 65 kiln enqueue good.jsonl --dry-run --set strength=0.25
says '2  128x128         8  start=6' out.txt
says 'good.jsonl:4: strength is given without a start'

# --- uploaded once, named by its content; the same lines again are duplicates whatever the path
ok kiln pause --all --yes
ok kiln enqueue good.jsonl --batch b --json
json out.txt 'd["accepted"] == 5 and d["refused"] == []'
[ "$(ls $store/inputs)" = "${red#inputs/}" ] || die "other objects: $(ls $store/inputs)"
cmp -s red.png "$store/$red" || die "the object is another"
cp red.png moved.png
sed 's/link.png/moved.png/' good.jsonl | ok kiln enqueue - --batch b --json
json out.txt 'd["accepted"] == 0 and d["duplicate"] == 5'
ok kiln enqueue - --batch key --json < <(echo '{"prompt":"x","size":"128x128","init_image":"'"$red"'"}')
json out.txt 'd["accepted"] == 1'
[ "$(sql "SELECT string_agg(mode, ' ' ORDER BY index) FROM job j JOIN batch b ON b.id = batch_id WHERE b.name = 'b'")" = \
    "start=4 start=4 start@0.5 coarse=4+3 " ] || die "other modes"
[ "$(sql "SELECT count(*) FROM job WHERE init_image = '$red'")" = 4 ] || die "other starts"
ok kiln jobs --batch b --json
json out.txt '[j["mode"] for j in d] == ["start=4", "start=4", "start@0.5", "coarse=4+3", "exact"] and d[0]["init_image"] == "'"$red"'" and d[4]["init_image"] is None and d[0]["parent"] is None'
job=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
ok kiln show "$job"
says 'mode       start=4' out.txt
says "start      $red" out.txt
ok kiln show "$job" --json
json out.txt 'd["mode"] == "start=4" and d["rendered_mode"] is None and d["forwards"] is None'
ok kiln status --json
json out.txt 'any(g["group"].endswith("/none/start=4") and g["mode"] == "start=4" for g in d["groups"])'
ok kiln pause --group '128x128/8/none/start=4'
ok kiln resume --all
ok kiln why "$job"
says 'group 128x128/8/none/start=4 is paused' out.txt
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 2

# --- gc keeps what a job may still need, however old; what nothing names goes after the grace period
blue=inputs/$(sha256sum blue.png | cut -c1-64).png
cp blue.png "$store/$blue"
printf 12345 >"$store/inputs/notes.png"
touch -d '3 days ago' $store/inputs/*
ok kiln gc --json
json out.txt 'd["removed"] == 1 and d["foreign"] >= 1'
[ -e "$store/$red" ] && [ ! -e "$store/$blue" ] && [ -e "$store/inputs/notes.png" ] || die "gc: $(ls $store/inputs)"
cp blue.png "$store/$blue"
ok kiln gc --json
json out.txt 'd["removed"] == 0 and d["young"] >= 1'
rm "$store/$blue"

# --- the list of a backup has it, and a check finds it missing
ok kiln backup --out backup
grep -rq "\"$red\"" backup || die "no input in the backup's list"
kiln doctor --full --json >out.txt 2>err.txt
grep -q '"objects"' out.txt && ! grep -q "$red" out.txt || die "doctor: $(cat out.txt)"
mv "$store/$red" kept.png
kiln doctor --full --json >out.txt 2>err.txt
grep -q "$red" out.txt || die "doctor does not miss it: $(cat out.txt)"
mv kept.png "$store/$red"

# --- from the latent of a job
ok kiln resume --group '128x128/8/none/start=4'
ok kiln enqueue - --batch donor < <(echo '{"prompt":"a donor","size":"128x128","steps":4}')
ok kiln wait donor --timeout 60
donor=$(sql "SELECT j.id FROM job j JOIN batch b ON b.id = batch_id WHERE b.name = 'donor'")
ok kiln show "$donor" --json
json out.txt 'd["rendered_mode"] == "exact" and d["forwards"] == 4'
printf '{"prompt":"x","size":"256x128","init_job":%s}\n{"prompt":"x","init_job":987654321}\n' "$donor" >starts.jsonl
fails 65 kiln enqueue starts.jsonl --batch starts --json
json out.txt 'd["accepted"] == 0 and "its latent is of 128x128, and this job of 256x128" in str(d["refused"])'
fails 65 kiln enqueue - --batch starts --json < <(tail -1 starts.jsonl)
json out.txt 'd["accepted"] == 0 and "init_job is 987654321; there is no such job" in str(d["refused"])'
ok kiln enqueue - --batch child --json < <(printf '{"prompt":"x","size":"128x128","init_job":%s}\n' "$donor")
json out.txt 'd["accepted"] == 1'
ok kiln jobs --batch child --json
json out.txt 'd["init_job"] == '"$donor"' == d["parent"] and d["mode"] == "start=3"'
child=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
ok kiln wait child --timeout 60
ok kiln show "$child" --json
json out.txt 'd["state"] == "done" and d["rendered_mode"] == "start=3" and d["forwards"] == 5'
ok kiln show "$child"
says "start      latent of job $donor" out.txt
says 'mode       start=3, cost of 5 full steps' out.txt

# --- inpainting: the mask is stored beside the picture, and kept as long as it is
white=inputs/$(sha256sum white.png | cut -c1-64).png
cat >masks.jsonl <<LINES
{"prompt":"a hat","size":"128x128","init_image":"red.png","init_mask":"white.png"}
{"prompt":"a hat","size":"128x128","init_job":$donor,"init_mask":"$white","strength":0.5}
LINES
ok kiln enqueue masks.jsonl --batch masks --json
json out.txt 'd["accepted"] == 2 and d["refused"] == []'
cmp -s white.png "$store/$white" || die "the mask is another object"
ok kiln wait masks --timeout 60
ok kiln jobs --batch masks --json
json out.txt '[(j["mode"], j["init_mask"]) for j in d] == [("inpaint=0", "'"$white"'"), ("inpaint=4", "'"$white"'")] and d[0]["init_image"] == "'"$red"'"'
job=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
ok kiln show "$job"
says "mask       $white" out.txt
says 'mode       inpaint=0, cost of 8 full steps' out.txt
ok kiln export masks --out masked
json masked/results.jsonl '[(j["rendered_mode"], j["forwards"], j["init_mask"]) for j in d] == [("inpaint=0", 8, "'"$white"'"), ("inpaint=4", 4, "'"$white"'")]'
touch -d '3 days ago' "$store/$white"
ok kiln gc --json
[ -e "$store/$white" ] || die "gc removed a mask"
ok kiln backup --out masked-backup
grep -rq "\"$white\"" masked-backup || die "no mask in the backup's list"
[ "$(grep -rho "\"$red\"" masked-backup | wc -l)" = 1 ] || die "a picture is listed twice"

# --- runs that begin from a latent that the cache chose
printf '{"prompt":"a brief fox","size":"64x64","steps":4}\n' >brief.jsonl
ok kiln enqueue brief.jsonl --batch brief
ok kiln wait brief --timeout 60
hit 'a red fox' 0 teleport=1
donor=${drawn##*|}
[ "$(sql "SELECT mode FROM image WHERE job_id = $donor AND prompt = 'a red fox'")" = "" ] || die "a donor that is no full run"
[ "$(sql "SELECT max(n) FROM (SELECT count(*) AS n FROM image WHERE prompt = 'a red fox' GROUP BY donor HAVING donor > 0) u")" = 1 ] || die "a donor was used twice"
job=$(sql "SELECT job_id FROM image WHERE prompt = 'a red fox' AND seed = $seed")
ok kiln show "$job"
says "began from the latent of job $donor (same_prompt) at sigma 0.875, saved 1 of 8 steps" out.txt
says 'rendered teleport=1, cost of 7 full steps' out.txt
ok kiln show "$job" --json
json out.txt 'd["rendered_mode"] == "teleport=1" and d["donor"] == '"$donor"' and d["donor_class"] == "same_prompt" and d["fallback"] is None and d["alike"] == 0 and d["start_sigma"] == 0.875 and d["steps_saved"] == 1'
ok kiln show "$donor" --json
json out.txt 'd["start_sigma"] is None and d["steps_saved"] is None'
ok kiln why "$job"
says "its run began from the latent of job $donor (same_prompt) at sigma 0.875, saved 1 of 8 steps" out.txt
ok kiln export drawn --out drawn
json_lines drawn/results.jsonl '[(r["job"], r["donor"], r["donor_class"], r["start_sigma"], r["steps_saved"], r["steps_wasted"], r["fallback"], r["rendered_mode"]) for r in d] == [('"$job, $donor"', "same_prompt", 0.875, 1, None, None, "teleport=1")]'
[ "$(sql "SELECT mode FROM latent WHERE job_id = $job")" = teleport=1 ] || die "its latent does not say how it came about"
hit 'a red fox' 100 teleport=6
# While they wait, jobs are grouped by the steps they have left, and so are assignments.
for name in worker-0 worker-1; do kill -STOP "$(pid_of s $name)"; done
for i in $(seq 100); do
    printf '{"prompt":"a red fox","size":"64x64","seed":%s,"teleport":"auto","alike":100}\n' $((20000 + i))
    printf '{"prompt":"hat %s","size":"64x64","teleport":"auto","alike":100}\n' "$i"
done >mixed.jsonl
ok kiln enqueue mixed.jsonl --batch mixed
for _ in $(seq 100); do
    ok kiln status --groups --json
    (json out.txt '{g["skip"] for g in d["groups"] if g["queued"] > 10} == {0, 6}') 2>/dev/null && break
    sleep 0.1
done
ok kiln status --groups
says '64x64 .* 8 steps, 6 skipped ' out.txt
for name in worker-0 worker-1; do kill -CONT "$(pid_of s $name)"; done
ok kiln wait mixed --timeout 60
[ "$(sql "SELECT max(n) FROM (SELECT count(DISTINCT i.mode) AS n FROM image i JOIN job j ON j.id = i.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name = 'mixed' GROUP BY j.assignment) u")" = 1 ] ||
    die "an assignment mixes runs of 8 and of 2 steps"
[ "$(sql "SELECT count(*) FROM image WHERE prompt = 'a red fox' AND seed > 20000 AND mode = 'teleport=6'")" = 100 ] || die "some hits were lost"
draw 'a brief fox' 1 100 # what came later is known to the cache
[ "$drawn" = "||0" ] || die "a run of 8 steps began from a latent of 4: $drawn"
# Another prompt has no donor, whatever is asked; nor has a job that says nothing.
draw 'a grey wolf' 1 100
[ "$drawn" = "||0" ] || die "a new prompt began from a latent: $drawn"
# Prompts that say the same, or less; the model's own words.txt says what a vixen is.
hit 'a small blue fox' 100 teleport=6 # so that the cache knows a donor
hit 'A small  blue fox!' 100 teleport=5
hit 'a little blue fox' 100 teleport=4
hit 'a little blue vixen' 100 teleport=4
hit 'a blue fox' 100 teleport=3
for other in 'a small green fox' 'two small blue foxes' 'a small blue wolf' 'no small blue fox' 'a small blue fox at night'; do
    draw "$other" 1 100
    [ "$drawn" = "||0" ] || die "$other: began from the latent of another prompt: $drawn"
done
[ "$(sql "SELECT string_agg(DISTINCT hit::text, ' ' ORDER BY hit::text) FROM image WHERE hit IS NOT NULL")" = "1 2 3 4" ] || die "other classes of hits"
# Why: by the same code, among all donors of the ledger.
job=$(sql "SELECT max(job_id) FROM image WHERE prompt = 'a little blue vixen' AND mode = 'teleport=4'")
ok kiln cache why "$job"
says "^it began from the latent of job [0-9]* (reworded) at sigma 0.5, saved 4 of 8 steps$" out.txt
says '"a small blue fox": reworded$' out.txt
! grep -q 'wolf' out.txt || die "a prompt of another subject was compared"
says "^now it would begin from the latent of job [0-9]* (" out.txt
ok kiln cache why "$job" --json
json out.txt 'd["donor"] > 0 and d["steps"] >= 4 and d["reason"] is None and {"class", "donors", "uses", "steps", "reason", "coarse", "small", "small_steps", "steps_saved"} == set(d["pools"][0]) and any(c["prompt"] == "a small blue fox" and c["class"] == "reworded" for c in d["compared"])'
job=$(sql "SELECT job_id FROM image WHERE prompt = 'a small green fox'")
ok kiln cache why "$job"
says '"a small blue fox": none, the colours differ: green, blue$' out.txt
says '^  reworded: none is stored$' out.txt
ok kiln cache why "$child"
says '^it runs in full: the job does not ask for it: teleport is off$' out.txt
fails 66 kiln cache why 987654321
fails 64 kiln cache why
fails 64 kiln cache stat --full
ok kiln cache verify --full
says '^[1-9][0-9]* latents from which runs may begin, .*: all are right$'
printf '{"prompt":"a red fox","size":"64x64","seed":%s}\n' '9999' '9998,"teleport":"off"' >plain.jsonl
ok kiln enqueue plain.jsonl --batch plain
ok kiln wait plain --timeout 60
[ "$(sql "SELECT mode FROM image WHERE seed = 9999")" = "" ] || die "teleport is on by default"
job=$(sql "SELECT job_id FROM image WHERE seed = 9998 AND mode = '' AND donor IS NULL")
[ -n "$job" ] || die "a job that says teleport off began from a donor"
ok kiln cache why "$job"
says '^it runs in full: the job does not ask for it: teleport is off$' out.txt
# A quota turns it off, for a tenant or for all, whatever a job asks for.
hit 'a quota fox' 100 teleport=6
full() { # WHY: seeds until one does not begin from a donor, and then the next one: the cache reads the quotas once a second
    for _ in $(seq 60); do
        draw 'a quota fox' $((++seed)) 100
        [ "$drawn" != "||0" ] || break
        sleep 0.5
    done
    draw 'a quota fox' $((++seed)) 100
    [ "$drawn" = "||0" ] || die "teleport is off for $1: $drawn"
}
ok kiln quota set default --reuse off --json
json out.txt 'd["teleport"] == "off" and d["queued"] is None'
full "the tenant"
ok kiln cache why "$(sql "SELECT job_id FROM image WHERE prompt = 'a quota fox' AND seed = $seed")"
says 'it runs in full: teleport is off for its tenant' out.txt
ok kiln quota set default --reuse none
ok kiln quota set '*' --reuse off
ok kiln quota ls
says '^[*] .* off  *$' out.txt
full "all tenants"
ok kiln quota set default --reuse auto
hit 'a quota fox' 100 teleport=6
ok kiln quota rm '*' --yes
ok kiln quota rm default --yes
# A donor that is gone, damaged, of another model or without sense is a full run, never a failure.
fallback() { # WHY SQL-OR-COMMAND...: does that to every donor of a prompt of its own
    why=$1
    shift
    hit "a fox that is $why" 100 teleport=6
    for key in $(sql "SELECT l.key FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt = 'a fox that is $why'"); do "$@" "$key"; done
    seed=$((seed + 1))
    draw "a fox that is $why" "$seed" 100
    case $drawn in "|$why|"[1-9]*) ;; *) die "a donor that is $why: $drawn" ;; esac
    job=$(sql "SELECT job_id FROM image WHERE prompt = 'a fox that is $why' AND seed = $seed")
    ok kiln show "$job"
    says "was chosen, but it is $why" out.txt
    ok kiln show "$job" --json
    json out.txt 'd["start_sigma"] is None and d["steps_saved"] is None'
}
gone() { rm "$store/$1"; }
garble() { printf 'no latent' >"$store/$1"; }
other() { sql "UPDATE latent SET model_hash = 'ffffffffffffffff' WHERE key = '$1'"; }
fallback missing gone
fallback damaged garble
fallback unfit other
# One with which the first step is not that of a good run is given up after that step.
stubborn='a stubborn fox @change=9'
for _ in $(seq 60); do
    seed=$((seed + 1))
    draw "$stubborn" "$seed" 100
    case $drawn in "|unlike|"[1-9]*) break ;; esac
    sleep 0.5
done
[ "$drawn" = "|unlike|${drawn##*|}" ] || die "a run from a donor that does not fit: $drawn"
[ "$(sql "SELECT count(*) FROM image WHERE prompt = '$stubborn' AND mode <> ''")" = 0 ] || die "it began from a donor"
job=$(sql "SELECT job_id FROM image WHERE prompt = '$stubborn' AND seed = $seed")
ok kiln show "$job"
says 'was chosen, but it does not go' out.txt
ok kiln show "$job" --json
json out.txt 'd["rendered_mode"] == "exact" and d["fallback"] == "unlike" and d["forwards"] == 9 and d["steps_saved"] == -1 and d["steps_wasted"] == 1'
ok kiln why "$job"
says 'began from noise because that latent' out.txt
[ "$(sql "SELECT count(*) FROM job WHERE state = 3")" = 0 ] || die "a job failed for want of a donor"
fails 1 kiln cache verify --json
json_lines out.txt '{r["code"] for r in d} == {"not_found", "corrupt"} and all(r["job"] and r["key"] and r["error"] for r in d)'
fails 1 kiln cache verify --full
says 'it is of model [0-9a-f]*, in the ledger of ffffffffffffffff$' out.txt
says 'latents from which runs may begin, .*: [1-9][0-9]* bad one'
ok kiln cache stat --json
json out.txt '{r["fallback"] for r in d if "steps_saved" in r} == {None, "missing", "damaged", "unfit", "unlike"}'
json out.txt 'all(r["steps_saved"] == r["pictures"] * int(r["mode"].split("=")[1]) and r["gpu_seconds_saved"] >= 0 and r["class"] in ("same_prompt", "canonical", "reworded", "donor_says_more") for r in d if r.get("mode"))'
json out.txt "[(r['newest_pictures'], r['reused']) for r in d if 'variety' in r] == [($(sql "SELECT count(*), count(*) FILTER (WHERE donor > 0 AND fallback IS NULL) FROM image i JOIN job j ON j.id = i.job_id WHERE j.teleport = 2" | tr '|' ','))] and all(r['reused'] >= r['donors'] >= 2 and r['reused'] > r['most_of_one_donor'] > 1 for r in d if 'variety' in r)"
# What the gallery knows of the pixels: one pair differs in 4 bits, one in 128, the others are too flat.
until_sql 'SELECT count(*) FROM image LEFT JOIN gallery_picture p USING (job_id) WHERE p.pdq IS NULL' 0
sql "UPDATE gallery_picture SET quality = 49;
    WITH p AS (SELECT job_id, donor, row_number() OVER (ORDER BY job_id) AS n FROM (SELECT DISTINCT ON (donor) job_id, donor FROM image WHERE donor > 0 AND fallback IS NULL AND donor NOT IN (SELECT job_id FROM image WHERE donor > 0)) q),
    d AS (UPDATE gallery_picture g SET quality = 50, pdq = decode(repeat('00', 32), 'hex') FROM p WHERE n <= 2 AND g.job_id = p.donor)
    UPDATE gallery_picture g SET quality = 50, pdq = decode(CASE n WHEN 1 THEN '0f' || repeat('00', 31) ELSE repeat('0f', 32) END, 'hex') FROM p WHERE n <= 2 AND g.job_id = p.job_id" >/dev/null
ok kiln cache stat --json
json out.txt '[(r["compared"], r["near_copies"], r["variety"]) for r in d if "variety" in r] == [(2, 1, 0.5)]'
ok kiln cache stat
says 'variety: 0.50; 1 of 2 compared look nearly like'
says '^variety: [1-9][0-9]* of the newest [1-9][0-9]* pictures with teleport "auto" began from [1-9][0-9]* stored latents, at most [1-9]'
says 'teleport=1: [1-9][0-9]* steps and [0-9.]* GPU-seconds saved'
says ': rendered in full (fallback: missing)$'
port=$(sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' s/log/scheduler.log | tail -1)
curl -sS --max-time 60 "http://127.0.0.1:$port/metrics" >metrics.txt
grep -Eq '^kiln_donor_lookups_total\{result="hit",pool="default"\} [1-9]' metrics.txt || die "no hits among the metrics"
grep -Eq '^kiln_donor_lookups_total\{result="miss",pool="default"\} [1-9]' metrics.txt || die "no misses among the metrics"
grep -Eq '^kiln_donor_steps_bucket\{le="1",class="same_prompt",pool="default"\} [1-9]' metrics.txt || die "no hits by class and depth among the metrics"
grep -Eq '^kiln_donor_variety_bucket\{le="1",class="same_prompt",pool="default"\} [1-9]' metrics.txt || die "no variety of hits among the metrics"
[ "$(grep '^kiln_donor_variety_count' metrics.txt | sed 's/.*} //')" = "$(grep '^kiln_donor_steps_count' metrics.txt | sed 's/.*} //')" ] || die "hits without a variety"
ok kiln usage --json
json out.txt "abs(d['gpu_seconds_saved'] - $(sql "SELECT sum(denoise_ms * (own_forwards / forwards - 1))::float8 / 1000 FROM image WHERE donor > 0 AND coalesce(fallback, 'unlike') = 'unlike'")) < 1e-3 and d['gpu_seconds_saved'] > 0"
for name in worker-0 worker-1; do
    port=$(sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' s/log/$name.log | tail -1)
    curl -sS --max-time 60 "http://127.0.0.1:$port/metrics"
done >metrics.txt
for result in began missing damaged unfit; do
    grep -Eq "^kiln_worker_reuses_total\{result=\"$result\",pool=\"default\"\} [1-9]" metrics.txt || die "no $result among the metrics"
done
grep -Eq '^kiln_worker_saved_steps_sum\{pool="default"\} [1-9]' metrics.txt || die "no steps saved among the metrics"
grep -Eq '^kiln_worker_saved_seconds_count\{pool="default"\} [1-9]' metrics.txt || die "no seconds saved among the metrics"

# --- donors for the prompts of the history, by what they would save
for i in $(seq 12); do printf '{"prompt":"a popular {owl|}","template":false,"size":"64x64","seed":%s}\n' "$i"; done >owls.jsonl
ok kiln enqueue owls.jsonl --batch owls
ok kiln wait owls --timeout 60
owl() { sql "SELECT count(*) FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt LIKE 'a popular%'"; }
gone="job_id IN (SELECT id FROM job WHERE prompt LIKE 'a popular%')"
sql "DELETE FROM latent WHERE $gone; DELETE FROM object WHERE $gone AND role = 'latent';
    UPDATE image SET denoise_ms = 8000 WHERE $gone" >/dev/null # so a step takes a second
history() { ok kiln cache build --from-history --top 1 "$@"; }
history --donors 4 --dry-run --json
json out.txt '(d["prompts"], d["wanted"], d["missing"], d["ordered"]) == (1, 4, 4, 0) and abs(d["gpu_seconds_saved"] - 4) < 1e-6 and abs(d["gpu_seconds_cost"] - 32) < 1e-6'
history --donors 1 --alike 100 --dry-run --json # six steps of each of the twelve
json out.txt '(d["prompts"], d["wanted"]) == (1, 1) and abs(d["gpu_seconds_saved"] - 72) < 1e-6 and abs(d["gpu_seconds_cost"] - 8) < 1e-6'
history --donors 4 --dry-run
says 'these donors take more GPU time to make than they are expected to save'
says "^prompt of job $(sql "SELECT max(id) FROM job WHERE prompt LIKE 'a popular%'"), 64x64: 12 pictures, 0 donors stored, 4 to make in 32.0 GPU-seconds, expected to save 4.0$" out.txt
[ "$(owl)" = 0 ] || die "a dry run made donors"
history --donors 4 --json
json out.txt 'd["ordered"] == 4 and d["batch"] == "latent-cache"'
ok kiln wait latent-cache --timeout 60
[ "$(owl)|$(sql "SELECT count(DISTINCT j.seed), count(*) FILTER (WHERE j.kind = 1 AND j.priority = -10 AND j.steps = 8) FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt LIKE 'a popular%'")" = "4|4|4" ] || die "not four donors of four seeds"
history --donors 4 --dry-run # nothing more of this prompt
! grep -q '12 pictures' out.txt || die "a full pool gets more donors"
# One that was evicted is made again, with its seed.
lost=$(sql "SELECT max(l.job_id) FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt LIKE 'a popular%'")
sql "DELETE FROM latent WHERE job_id = $lost; DELETE FROM object WHERE job_id = $lost" >/dev/null
history --donors 4 --json
json out.txt 'd["ordered"] == 1 and abs(d["gpu_seconds_saved"] - 1) < 1e-6'
ok kiln wait latent-cache --timeout 60
[ "$(owl)|$(sql "SELECT count(*) FROM latent l JOIN job j ON j.id = l.job_id WHERE j.seed = (SELECT seed FROM job WHERE id = $lost)")" = "4|1" ] || die "the evicted donor was not made again"
# More than a page of them.
for i in $(seq 11); do printf '{"prompt":"a herd of %s owls","size":"64x64","seed":"1-2","latents":"none"}\n' "$i"; done >herds.jsonl
ok kiln enqueue herds.jsonl --batch herds
ok kiln wait herds --timeout 60
sql "UPDATE image SET denoise_ms = 1000 WHERE prompt LIKE 'a herd%'" >/dev/null
ok kiln cache build --from-history --top 11 --donors 64 --json
json out.txt 'd["prompts"] == 11 and d["ordered"] == d["wanted"] > 600'
ok kiln wait latent-cache --timeout 120
fails 64 kiln cache build --from-history --template x
fails 64 kiln cache build --template x --top 3
fails 64 kiln cache build --from-history --donors 65
fails 78 kiln cache build --from-history --model /nonexistent

# --- trouble while jobs with donors are assigned: each is rendered, once
hit 'a held fox' 100 teleport=6
# Two workers begin from one donor.
shared teleport=6
# Killed workers: what was unread in their streams is read by the next ones.
held 1
killed_and_rendered
# An emptied Redis, and nobody has read the assignment: it comes back after a lease, and a job that
# comes back runs in full.
held 1
ok redis-cli -s s/run/redis/redis.sock FLUSHALL
killed_and_rendered
[ "$(was)" = "||0" ] || die "a job that came back was not rendered in full"
# The donor goes: its row, as gc removes it.  After a lease the job would come back, and run in full.
for _ in $(seq 5); do
    held 1
    sql "DELETE FROM latent WHERE job_id IN (SELECT id FROM job WHERE prompt = 'a held fox')" >/dev/null
    workers CONT
    rendered 1
    removed=$(was)
    case $removed in "|missing|"[1-9]*) break ;; esac
    hit 'a held fox' 100 teleport=6
done
[ "$removed" = "|missing|${removed##*|}" ] || die "a donor that was removed: $removed"
# Exact and teleported pictures of one prompt and seed are two jobs, and share no object.
hit 'a red fox' 100 teleport=6
printf '{"prompt":"a red fox","size":"64x64","seed":%s}\n' "$seed" >plain.jsonl
ok kiln enqueue plain.jsonl --batch foxes --json
json out.txt 'd["accepted"] == 1 and d["duplicate"] == 0'
ok kiln wait foxes --timeout 60
[ "$(sql "SELECT string_agg(mode, ' ' ORDER BY mode), count(DISTINCT job_id) FROM image WHERE prompt = 'a red fox' AND seed = $seed")" = " teleport=6|2" ] || die "one picture for two modes"
[ "$(sql "SELECT count(*) FROM (SELECT key FROM object GROUP BY key HAVING count(DISTINCT job_id) > 1) twice")" = 0 ] || die "a key of two jobs"

# --- the pool's setting holds for backfills, too
ok kiln backfill add standing --template 'a {1|2} star' --set size=128x128 --until 2
until_sql "SELECT count(*) FROM job WHERE mode = 'coarse=auto' AND prompt LIKE 'a _ star'" 2

# --- what was asked for coarse first is rendered so, and says it in the results
until_sql "SELECT count(*) FROM job WHERE state IN (0, 1)" 0
kiln export b --out results >out.txt 2>err.txt
json results/results.jsonl '[j["mode"] for j in d] == ["start=4", "start=4", "start@0.5", "coarse=4+3", "exact"] and d[3]["rendered_mode"] == "coarse=4+3" and d[4]["rendered_mode"] == "exact" and d[3]["forwards"] == 4 and d[4]["forwards"] == 8 and d[0]["init_image"] == "'"$red"'"'

# --- the latent of a donor goes: jobs that wait for it fail with a sentence, later ones are refused
ok kiln pause --all --yes
ok kiln enqueue - --batch orphan < <(printf '{"prompt":"x","size":"128x128","init_job":%s,"seed":77}\n' "$donor")
until_sql "SELECT count(*) FROM job WHERE seed = 77 AND init_job = $donor AND state = 0" 1
sql "DELETE FROM latent WHERE job_id = $donor" >/dev/null
ok kiln resume --all
fails 1 kiln wait orphan --timeout 60
ok kiln errors --json
json out.txt 'd["jobs"] == 1 and "no latent of it is stored" in d["error"]'
fails 65 kiln enqueue - --batch later --json < <(printf '{"prompt":"x","size":"128x128","init_job":%s}\n' "$donor")
json out.txt 'd["accepted"] == 0 and "init_job is '"$donor"'; no latent of it is stored" in str(d["refused"])'
echo ok
