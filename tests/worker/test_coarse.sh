#!/bin/bash
# `kiln bench coarse` keeps its contract: tables, JSON, records, kiln.json, sheet, exit codes.  The
# rule of --write is tested with records made here, for which nothing is rendered.  At the end
# `kiln bench teleport`, its sibling; tests/pipeline/test_teleport_rule has its rule.
. "$KILN_SOURCE/tests/worker/lib.sh"
sketch=$KILN_SOURCE/pipeline/models/sketch
mkdir model
for part in "$sketch"/*; do
    case $part in */kiln.json | */README.md) ;; *) ln -s "$part" model/ ;; esac
done
coarse=("$kiln" bench coarse --model "$PWD/model" --judge "$KILN_SOURCE/pipeline/models/judge"
    --prompts "$KILN_SOURCE/tests/quality/held.jsonl")
small=("${coarse[@]}" --sizes 128 --steps 2 --modes 1+1)

# --- the real engine, small and quick ---
expect 0 "a table" "${small[@]}" --count 2 --enlarge 1 --records r.jsonl
grep -q '^### 128x128, bf16, 4 pictures a row' out || fail "no table: $(cat out)"
[ "$(grep -cE '^\| (exact|1\+1|donor|enlarge 1|1 step) \| [^|]*\| [0-9]' out)" = 5 ] || fail "five runs: $(cat out)"
grep -qE '^\| donor \| 64x64 \| 0.50 \|.* - \| [0-9.]+ ± [0-9.]+ \| [0-9.]+ ± [0-9.]+ \|$' out ||
    fail "the donor has the cost of its size, and a sharpness of its own: $(cat out)"
grep -qE '^\| enlarge 1 \| [-+][0-9.]+ ± [0-9.]+ \| [-+][0-9.]+ ± [0-9.]+ \|$' out || fail "beside its donor: $(cat out)"
grep -q '^| 1+1 | 64x64 | 1.25 |' out || fail "the cost of 1+1: $(cat out)"
[ "$(wc -l <r.jsonl)" = 11 ] || fail "records: $(cat r.jsonl)"
[ ! -e model/kiln.json ] || fail "kiln.json was written without --write"
expect 0 "json of the same records" "${small[@]}" --count 2 --enlarge 1 --records r.jsonl --json
[ "$(wc -l <r.jsonl)" = 11 ] || fail "what was recorded is measured again"
python3 - out r.jsonl <<'P' || fail "json: $(cat out)"
import json, math, sys
card = json.load(open(sys.argv[1]))
records = [json.loads(line) for line in open(sys.argv[2])][1:]
rows = {row["run"]: row for row in card["measured"]["rows"]}
assert list(rows) == ["exact", "1+1", "donor", "enlarge 1", "1 step"], list(rows)
assert card["measured"]["prompt_count"] == 2 and card["measured"]["seeds"] == 2, card["measured"]
for name, row in rows.items():
    mine = [r for r in records if r["run"][3] == name]
    assert row["pictures"] == 4 and len(mine) == 2, (name, row, mine)
    a, b = mine
    for key, top, below in (("attributes", "right", "asked"), ("whole", "whole", "pictures"),
                            ("sharpness", "sharpness", "pictures"), ("steps_s", "steps_s", "pictures")):
        x, y = [r[top] for r in mine], [r[below] for r in mine]
        ratio = sum(x) / sum(y)
        error = math.sqrt(2 * sum((p - ratio * q) ** 2 for p, q in zip(x, y))) / sum(y)
        assert abs(row[key][0] - ratio) <= 1e-4 * ratio, (name, key, row[key], ratio)
        assert abs(row[key][1] - error) <= 1e-4 * max(error, 1e-3), (name, key, row[key], error)
    assert abs(row["spread"][0] - (a["spread"] + b["spread"]) / 2) < 1e-4, (name, row["spread"])
assert rows["1+1"]["from"] == "64x64" and rows["exact"]["from"] is None, rows
assert rows["donor"]["sharpness_of_exact"] is None and rows["donor"]["sharpness"][0] > 1e-4, rows["donor"]
for key in ("attributes", "whole"):  # of the same number of attributes and pictures
    apart = rows["enlarge 1"][key][0] - rows["donor"][key][0]
    assert abs(rows["enlarge 1"][key + "_to_donor"][0] - apart) < 2e-4, (key, rows["enlarge 1"])
assert rows["exact"]["spread"][0] > 0.01 and rows["exact"]["sharpness"][0] > 1e-4, rows["exact"]
assert card["auto"] == "off" and card["for"] == [], card
P
expect 0 "a bench goes on" "${small[@]}" --count 3 --no-fewer --records r.jsonl
[ "$(wc -l <r.jsonl)" = 13 ] || fail "one prompt and two runs more: $(wc -l <r.jsonl)"
printf '{"run":["bf16","128x128","","exact",""],"prompt":3,"rig' >>r.jsonl # killed while it wrote
expect 0 "half a line" "${small[@]}" --count 4 --no-fewer --records r.jsonl
[ "$(tail -n 2 r.jsonl | python3 -c 'import json, sys; print(sum(json.loads(l)["prompt"] for l in sys.stdin))')" = 6 ] ||
    fail "after half a line: $(tail -n 3 r.jsonl)"
expect 0 "a report" "${small[@]}" --count 300 --no-fewer --records r.jsonl --report
grep -q '8 pictures a row' out || fail "a report of four prompts: $(cat out)"
[ "$(grep -c . r.jsonl)" = 16 ] || fail "a report has measured: $(grep -c . r.jsonl)"
expect 64 "a report of nothing" "${small[@]}" --report
expect 66 "a report of no file" "${small[@]}" --records none.jsonl --report
[ ! -e none.jsonl ] || fail "a report has made its file"
head -n 1 r.jsonl >empty.jsonl
expect 65 "--write of nothing" "${small[@]}" --records empty.jsonl --report --write
grep -q 'no coarse run and no variety was measured' err || fail "--write of nothing: $(cat err)"
[ ! -e model/kiln.json ] || fail "kiln.json was written of nothing"
chmod 444 empty.jsonl
expect 0 "a report of what no CPU renders" "${small[@]}" --dtype fp8 --records empty.jsonl --report
expect 0 "a report of a file to read" "${small[@]}" --records empty.jsonl --report
[ "$(wc -l <empty.jsonl)" = 1 ] || fail "a report has written: $(cat empty.jsonl)"
for strength in 0 -1; do
    expect 64 "--write with a LoRA at $strength" "${small[@]}" --lora neon:$strength --write
    grep -q "^kiln bench coarse: --lora neon: strength $strength; --write needs" err || fail "$(cat err)"
done
expect 65 "records of another bench" "${small[@]}" --count 2 --seeds 3 --records r.jsonl
grep -q 'r.jsonl: the file is of another model' err || fail "other records: $(cat err)"
expect 0 "one seed" "${small[@]}" --count 1 --seeds 1
grep -q '^- 1+1 at 128x128, bf16: 1 prompt is too few to tell; .*spread: not measured' out || fail "one seed has no spread: $(cat out)"
expect 0 "a LoRA by its name" "${small[@]}" --count 1 --lora neon:0.5 --no-fewer
grep -q 'LoRA neon:0.5' out || fail "no table of the LoRA: $(cat out)"
grep -q ' style, % ' out || fail "the style is not counted: $(cat out)"

# --- the rule: records of 300 prompts at two sizes, with a LoRA ---
python3 - r.jsonl "$(sha256sum <"$sketch/loras/neon.safetensors" | cut -d' ' -f1)" >rule.jsonl <<'P'
import json, sys
print(open(sys.argv[1]).readline(), end="")
lora = sys.argv[2] + ":1"
def put(size, run, small, lost=0, sharp=1.0, spread=1.0, lora="", styled=2, seconds=1.0):
    for i in range(300):
        print(json.dumps({"run": ["bf16", size, lora, run, small], "prompt": i, "right": 20 - (i < lost),
                          "asked": 20, "whole": 2 - (i < lost), "styled": styled - (i < lost), "pictures": 2,
                          "sharpness": .008 * sharp, "spread": .16 * spread, "steps_s": seconds, "decode_s": .1}))
for size, small in (("128x128", "64x64"), ("256x128", "128x64")):
    put(size, "exact", "")
    put(size, "2+1", small, lost=3, sharp=.98, spread=.96, seconds=.5)
put("128x128", "exact", "", lora=lora)
put("128x128", "2+1", "64x64", lora=lora)
put("256x128", "exact", "", lora=lora)
put("256x128", "2+1", "128x64", lost=9, lora=lora)
# Faster, but good at one size alone: too few whole prompts, not sharp, too much alike at the other.
put("128x128", "1+1", "64x64", lost=15, sharp=.96, spread=.94)
put("256x128", "1+1", "128x64")
put("128x128", "1+1", "64x64", lora=lora)
put("256x128", "1+1", "128x64", lora=lora)
P
rule=("${coarse[@]}" --sizes 128,256x128 --steps 2 --modes 2+1,1+1 --count 300 --no-fewer --lora neon --records rule.jsonl)
printf '{"teleport": {"depth": [1, 2]}, "coarse": {"auto": "off", "for": []}}\n' >model/kiln.json
expect 0 "kiln.json" "${rule[@]}" --write
cp out words
python3 - model/kiln.json <<'P' || fail "kiln.json: $(cat model/kiln.json)"
import json, sys
whole = json.load(open(sys.argv[1]))
card = whole["coarse"]
assert whole["teleport"] == {"depth": [1, 2]}, whole
assert card["auto"] == "2+1" and card["steps"] == 2 and card["dtypes"] == ["bf16"], card
assert card["model"] == card["measured"]["hash"] and len(card["model"]) == 16, card["model"]
assert card["for"] == ["128x128", "256x128"] and card["sizes"] == ["64x64", "128x64"], card
(lora,) = card["loras"]
assert lora["name"] == "neon" and lora["strength"] == 1 and lora["for"] == ["128x128"], lora
words = "\n".join(card["not_offered"])
assert "1+1 at 128x128, bf16: whole prompts: -2.5 ± 0.6 points, more than the -1.5 allowed; " \
       "sharpness: -4.0 ± 0.0 points, more than the -3.0 allowed; " \
       "spread: -6.0 ± 0.0 points, more than the -5.0 allowed" in words, words
assert "1+1 at 256x128, bf16: as good as exact, but auto has one mode" in words, words
assert "2+1 at 256x128, bf16 with neon: whole prompts: too few pictures to tell (-1.5 ± 0.5 points" in words, words
assert len(card["measured"]["rows"]) == 12, len(card["measured"]["rows"])
P
# The same file under a name that is no style of the judge.
cp "$sketch/loras/neon.safetensors" other.safetensors
expect 0 "an unknown style" "${rule[@]/#neon/./other.safetensors}" --report
grep -q '^coarse "auto": 2+1 at 128x128, 256x128$' out || fail "an unknown style is offered: $(tail -n 12 out)"
grep -q '^- 2+1 at 128x128, bf16 with other: style: not measured$' out || fail "an unknown style: $(tail -n 12 out)"
grep -q '^coarse "auto": 2+1 at 128x128, 256x128; with one of the LoRAs neon$' words || fail "in words: $(cat words)"
grep -q '^- 1+1 at 256x128, bf16: as good' words || fail "what is not offered is not said: $(cat words)"
[ "$(awk 'length > 400' model/kiln.json | grep -vc '"run":')" = 0 ] || fail "kiln.json has long lines"

# A worker reads it: auto is coarse where it was measured, and with that LoRA alone.
mode() {
    "$kiln" render --model "$PWD/model" --prompt "a red star" --steps 2 --coarse auto --out m.webp --json \
        --dtype bf16 "$@" 2>said | grep -o '"mode": "[^"]*"'
}
coarse_mode='"mode": "coarse=2+1"' exact='"mode": "exact"' neon=model/loras/neon.safetensors
[ "$(mode --width 128 --height 128)" = "$coarse_mode" ] || fail "auto at a measured size is exact"
[ "$(mode --width 192 --height 192)" = "$exact" ] || fail "auto at another size is coarse"
[ "$(mode --width 128 --height 128 --lora $neon:0.9)" = "$coarse_mode" ] || fail "auto with neon is exact"
[ "$(mode --width 128 --height 128 --lora ${neon/neon/clay})" = "$exact" ] || fail "auto with clay is coarse"
[ "$(mode --width 256 --height 128 --lora $neon)" = "$exact" ] || fail "auto with neon where it is bad"
[ ! -s said ] || fail "said of a card that fits: $(cat said)"
[ "$(mode --width 128 --height 128 --dtype fp32)" = "$exact" ] || fail "auto in a dtype that was not measured is coarse"
[ "$(grep -c 'coarse "auto" is exact: kiln.json was not measured with fp32' said)" = 1 ] || fail "the dtype: $(cat said)"
sed -i.fits 's/"model": "[0-9a-f]*", *$/"model": "0123456789abcdef",/; s/"model": "[0-9a-f]\{16\}",/"model": "0123456789abcdef",/' model/kiln.json
[ "$(mode --width 128 --height 128)" = "$exact" ] || fail "auto of other weights is coarse"
[ "$(grep -c 'was measured with other weights of the model (0123456789abcdef, not' said)" = 1 ] || fail "the weights: $(cat said)"
mv model/kiln.json.fits model/kiln.json
sed -i 's/"strength": 1\(\.0\)\?,/"strength": 0.8,/' model/kiln.json # no float is 0.8, the nearest is above
[ "$(mode --width 128 --height 128 --lora $neon:0.8)" = "$coarse_mode" ] || fail "auto with neon at 0.8, as measured, is exact"
[ "$(mode --width 128 --height 128 --lora $neon:0.81)" = "$exact" ] || fail "auto with neon above the measured strength"

# A few pictures without a fault prove nothing; nor do many whose differences vary much.
grep -v '"prompt": \([3-9]\|[0-9][0-9]\)' rule.jsonl >few.jsonl
expect 0 "few pictures" "${coarse[@]}" --sizes 128 --steps 2 --modes 2+1 --count 3 --no-fewer --records few.jsonl --write
grep -q '^coarse "auto": exact$' out || fail "three prompts are enough: $(cat out)"
grep -q '"auto": "off"' model/kiln.json || fail "kiln.json still offers: $(head -c 300 model/kiln.json)"
grep -q '"teleport"' model/kiln.json || fail "kiln.json has lost a key"
grep -q '"sizes": \["128x64"\]' model/kiln.json || fail "a small size that was not measured now is lost: $(head -c 300 model/kiln.json)"
python3 - rule.jsonl >noisy.jsonl <<'P'
import json, sys
for i, line in enumerate(open(sys.argv[1])):
    record = json.loads(line)
    if i and record["run"] == ["bf16", "128x128", "", "2+1", "64x64"]:  # as good as exact on average, +- 100 %
        record["spread"] *= 2 if i % 2 else 0
    print(json.dumps(record))
P
expect 0 "noise" "${coarse[@]}" --sizes 128 --steps 2 --modes 2+1 --count 300 --no-fewer --records noisy.jsonl --write
grep -q '^- 2+1 at 128x128, bf16: spread: too few pictures to tell' out || fail "noise is not told: $(cat out)"
grep -q '"sizes": \["64x64", "128x64"\]' model/kiln.json || fail "the content held from 64x64: $(head -c 300 model/kiln.json)"
# A third level: its records, what it is rendered from, and the card, which a worker reads.
python3 - r.jsonl >third.jsonl <<'P'
import json, sys
print(open(sys.argv[1]).readline(), end="")
for run, small, seconds in (("exact", "", 1), ("2+1", "512x512", .5), ("1+1+1", "256x256, 512x512", .4)):
    for i in range(300):
        print(json.dumps({"run": ["bf16", "1024x1024", "", run, small], "prompt": i, "right": 20, "asked": 20,
                          "whole": 2, "styled": 2, "pictures": 2, "sharpness": .008, "spread": .16,
                          "steps_s": seconds, "decode_s": .1}))
P
expect 0 "a third level" "${coarse[@]}" --sizes 1024 --small 256,512 --steps 2 --modes 2+1,1+1+1 --count 300 --no-fewer \
    --records third.jsonl --report --write
grep -q '^| 1+1+1 | 256x256, 512x512 | 1.31 | .* | 2.50 ± ' out || fail "the row of a third level: $(cat out)"
grep -q '^coarse "auto": 1+1+1 at 1024x1024$' out || fail "a third level that holds is not offered: $(tail -n 5 out)"
grep -q '"sizes": \["256x256", "512x512", "64x64", "128x64"\]' model/kiln.json || fail "its small sizes, and those of before: $(head -c 300 model/kiln.json)"
expect 0 "a third level by auto" "$kiln" render --model "$PWD/model" --prompt "a red star" --width 1024 --height 1024 \
    --steps 2 --coarse auto --out m.webp --json --dtype bf16
grep -q '"mode": "coarse=1+1+1"' out || fail "auto is no third level: $(cat out)"
python3 - third.jsonl >bad.jsonl <<'P'
import json, sys
for line in open(sys.argv[1]):
    r = json.loads(line)
    if "run" in r and r["run"][3] != "exact":
        r["right"], r["whole"] = 10, 0
    print(json.dumps(r))
P
expect 0 "a third level that loses" "${coarse[@]}" --sizes 1024 --small 256,512 --steps 2 --modes 2+1,1+1+1 --count 300 --no-fewer \
    --records bad.jsonl --report --write
grep -q '"sizes": \["64x64", "128x64"\]' model/kiln.json || fail "small sizes that are bad by now stay: $(head -c 300 model/kiln.json)"
# Variety: the largest value up to which all hold; sizes of before stay, and so does the object coarse.
python3 - r.jsonl >varied.jsonl <<'P'
import json, sys
print(json.dumps(json.loads(open(sys.argv[1]).readline()) | {"device": "another"}))  # a report is made anywhere
for run, lost in (("exact", 0), ("variety 0.2", 1), ("variety 0.3", 120), ("variety 0.5", 0)):
    for i in range(300):
        print(json.dumps({"run": ["bf16", "128x128", "", run, ""], "prompt": i, "right": 20 - (i < lost), "asked": 20,
                          "whole": 2, "styled": 2, "pictures": 2, "sharpness": .008, "spread": .16,
                          "steps_s": 1, "decode_s": .1}))
P
hash=$(grep -o '"hash": "[0-9a-f]*"' model/kiln.json | head -n 1 | cut -d'"' -f4)
cp model/kiln.json before.json
python3 - model/kiln.json "$hash" <<'P'
import json, sys
whole = json.load(open(sys.argv[1])) | {"variety": {"model": sys.argv[2], "most": {"128x128": 1, "512x512": 0.2}}}
json.dump(whole, open(sys.argv[1], "w"))
P
varied=("${coarse[@]}" --sizes 128,256 --steps 2 --variety 0.2,0.3,0.5 --count 300 --no-fewer --records varied.jsonl --report)
expect 0 "variety" "${varied[@]}" --write
grep -q '^variety: up to 0.2 at 128x128, up to 0.2 at 512x512$' out || fail "variety: $(tail -n 5 out)"
grep -q '^- variety 0.3 at 128x128, bf16: attributes: -2.0 ± 0.1 points, more than the -0.5 allowed$' out || fail "why: $(tail -n 5 out)"
python3 - model/kiln.json before.json "$hash" <<'P' || fail "kiln.json: $(tail -c 900 model/kiln.json)"
import json, sys
card, before = [json.load(open(f)) for f in sys.argv[1:3]]
assert card["coarse"] == before["coarse"], "coarse is another one"
variety = card["variety"]
assert variety["model"] == sys.argv[3] and variety["most"] == {"128x128": 0.2, "512x512": 0.2}, variety["most"]
assert variety["measured"]["device"] == "another", variety["measured"]
assert [row["run"] for row in variety["measured"]["rows"] if row["size"] == "128x128"] == \
    ["exact", "variety 0.2", "variety 0.3", "variety 0.5"], variety["measured"]["rows"]
P
expect 0 "variety as json" "${varied[@]}" --json
python3 -c 'import json; assert json.load(open("out"))["variety"]["most"] == {"128x128": 0.2}' || fail "json: $(cat out)"
sed -i 's/"model": "[0-9a-f]\{16\}"/"model": "0123456789abcdef"/' model/kiln.json # of other weights: nothing stays
expect 0 "variety of other weights" "${varied[@]}" --write
grep -q '"most": {"128x128": 0.2},' model/kiln.json || fail "sizes of other weights stay: $(tail -c 900 model/kiln.json)"
head -n 1 varied.jsonl >nothing.jsonl
cp model/kiln.json before.json
expect 65 "--write of no variety" "${varied[@]/#varied.jsonl/nothing.jsonl}" --write
grep -q 'no coarse run and no variety was measured' err || fail "--write of no variety: $(cat err)"
cmp -s before.json model/kiln.json || fail "kiln.json was written of no variety"
"$kiln" render --model "$PWD/model" --prompt "a red star" --width 128 --height 128 --steps 2 --variety 0.3 --out m.webp 2>said ||
    fail "variety: $(cat said)"
[ "$(grep -c '^kiln render: variety 0.3 at 128x128: the picture may show less of what the prompt says; measured' said)" = 1 ] ||
    fail "more variety than was measured is not said: $(cat said)"

printf '{"coarse": 3}' >model/kiln.json
expect 78 "a damaged kiln.json" "${small[@]}" --count 1 --write
[ "$(cat model/kiln.json)" = '{"coarse": 3}' ] || fail "a damaged kiln.json was replaced"
rm model/kiln.json

# --- the steps of kiln.json: weights for all steps are a LoRA of the picture, for one they are not ---
hash_of() { sha256sum <"$1" | cut -d' ' -f1; }
with_neon() { # FIRST LAST
    printf '{"schedule": {"steps": 2, "weights": [{"steps": [%d, %d], "lora": "%s", "sha256": "%s"}]}}' "$1" "$2" \
        "${neon#model/}" "$(hash_of "$neon")" >model/kiln.json
}
draw=("$kiln" render --model "$PWD/model" --prompt "a red star" --width 128 --height 128 --out m.webp --json)
"${draw[@]}" --steps 2 --latents plain.st >out && "${draw[@]}" --steps 2 --lora "$neon" --latents lora.st >out ||
    fail "render: $(cat out)"
with_neon 1 2
expect 0 "weights of all steps" "${draw[@]}" --latents all.st
grep -q '"steps": 2,' out || fail "render does not take the steps of kiln.json: $(cat out)"
cmp -s all.st lora.st || fail "weights for all steps are not what a LoRA is"
with_neon 2 2
expect 0 "weights of one step" "${draw[@]}" --latents one.st
! cmp -s one.st lora.st && ! cmp -s one.st plain.st || fail "weights for one step are those of all, or none"
expect 0 "other numbers of steps" "${draw[@]}" --steps 1 --latents one1.st
rm model/kiln.json
"${draw[@]}" --steps 1 --latents plain1.st >out && cmp -s one1.st plain1.st || fail "weights in a run of other steps"
with_neon 1 2
expect 0 "a bench with the model's steps" "${coarse[@]}" --sizes 128 --count 1 --seeds 1 --no-fewer
grep -q '^| exact |.* 2.00 |' out && grep -q '^| 1+1 | 64x64 | 1.25 |' out || fail "the steps of kiln.json: $(cat out)"
expect 0 "quality with the model's steps" "$kiln" bench quality --model "$PWD/model" --prompts \
    "$KILN_SOURCE/tests/quality/held.jsonl" --judge "$KILN_SOURCE/pipeline/models/judge" --sizes 128 -n 1
grep -qE '^held +128x128 +2 ' out || fail "quality does not take the steps of kiln.json: $(cat out)"
expect 0 "engine with the model's steps" "$kiln" bench engine --config "$PWD/model" --sizes 128 --stages image --json \
    --image-repeat 1 --warmup 0 --repeat 1
grep -q '"steps": *2,' out || fail "engine does not take the steps of kiln.json: $(cat out)"
expect 0 "the same bits in a batch, with weights of steps" "$kiln" bench engine --config "$PWD/model" --sizes 128 \
    --batch 3 --deterministic
sed -i "s/$(hash_of "$neon")/$(hash_of "$sketch/loras/clay.safetensors")/" model/kiln.json
expect 65 "another file than the one named" "${draw[@]}"
grep -q 'neon.safetensors is another file than the one that kiln.json names' err || fail "another file: $(cat err)"
expect 65 "the same in a bench" "${small[@]}" --count 1
rm model/kiln.json

# --- the sheet ---
printf 'a red star & a "blue" <ring>\n\n# not a prompt\n{"prompt": "a green cross", "seed": 5}\n' >prompts.txt
sheet=("$kiln" bench coarse --model "$PWD/model" --sizes 128 --steps 2 --modes 1+1)
expect 0 "a sheet" "${sheet[@]}" --prompts prompts.txt --sheet sheet.html
python3 - sheet.html <<'P' || fail "the sheet: $(head -c 3000 sheet.html | tail -c 800)"
import base64, re, sys
from html.parser import HTMLParser
text = open(sys.argv[1]).read()
seen = []
class Page(HTMLParser):
    def handle_starttag(self, tag, attrs):
        seen.append(tag)
        for name, value in attrs:
            assert name not in ("href",) and not (name == "src" and not value.startswith("data:")), (tag, value)
Page().feed(text)
pictures = re.findall(r'base64,([A-Za-z0-9+/=]+)"', text)
assert len(pictures) == 6, len(pictures)  # two prompts: exact, 1+1, 1 step
assert all(base64.b64decode(p)[8:12] == b"WEBP" for p in pictures)
assert "a red star &amp; a &quot;blue&quot; &lt;ring&gt;" in text and "seed 5" in text
assert seen.count("article") == 2 and seen.count("figure") == 6, seen
P
expect 0 "its own prompts" "${sheet[@]}" --count 1 --sheet own.html
grep -q 'elderly fisherman' own.html || fail "the built-in prompts are not there"
expect 65 "a bad line of prompts" "${sheet[@]}" --prompts <(printf 'x\n{"prompt": 3}\n') --sheet bad.html
[ ! -e bad.html ] || fail "half a sheet was left"

# --- the card of the demo model, for the weights that it ships with ---
read -r want width height hash <<<"$(python3 - "$sketch/kiln.json" <<'P'
import json, sys
card = json.load(open(sys.argv[1]))["coarse"]
print(card["auto"], card["for"][0].replace("x", " "), card["measured"]["hash"])
P
)"
expect 0 "auto of the demo model" "$kiln" render --model "$sketch" --prompt "a red star" --width "$width" \
    --height "$height" --coarse auto --out d.webp --json --dtype bf16
grep -q "\"mode\": \"coarse=$want\"" out || fail "auto of the demo model is not $want: $(cat out)"
grep -q "$hash" words || fail "the demo model's card is of other weights: $hash, not $(head -n 1 words)"

# --- mistakes ---
expect 64 "--write with a dtype that is not known" "${small[@]}" --dtype auto --write
grep -q 'write needs fp32, bf16 or fp8' err || fail "--dtype auto --write: $(cat err)"
for words in --bogus "--sizes 100x100" "--modes 1" "--modes auto" "--modes off" "--modes 3+1" "--modes 1+1+1" "--steps 1" \
    "--seeds 0" "--seeds 17" "--count 0" "--enlarge 2" "--dtype fp4" "--device tpu" "--sheet x.html --write" more; do
    expect 64 "$words" "${small[@]}" $words
done
expect 65 "too small to halve" "${small[@]}" --sizes 64 --count 1
expect 65 "no small size" "${small[@]}" --small 256 --count 1
grep -q 'no size of --small suits it' err || fail "no small size: $(cat err)"
expect 65 "no smallest size" "${coarse[@]}" --sizes 1024 --steps 2 --modes 1+1+1 --small 512 --count 1
grep -q 'no size of --small suits the third level' err || fail "no smallest size: $(cat err)"
expect 66 "no LoRA" "${small[@]}" --lora none
expect 66 "no prompts" "${small[@]}" --prompts ./none.jsonl
expect 0 "help" "$kiln" bench coarse --help
grep -q -e '--records FILE' out || fail "kiln bench coarse --help: $(head -c 200 out)"

# --- bench teleport ---
pairs=$KILN_SOURCE/tests/quality/reuse/demo.tsv
teleport=("$kiln" bench teleport --model "$PWD/model" --judge "$KILN_SOURCE/pipeline/models/judge" --pairs "$pairs"
    --sizes 64 --steps 2)
tiny=("${teleport[@]}" --count 2 --refused 1 --pools 1 --records t.jsonl)
expect 0 "pairs and pools" "${tiny[@]}"
grep -q '^### 64x64, bf16' out || fail "no table: $(cat out)"
for group in same_prompt canonical reworded donor_says_more; do
    [ "$(grep -c "^| $group | 2 |" out)" = 3 ] || fail "two pairs of $group: $(cat out)"
    grep -q "^| $group | 1 | skip 1 |" out || fail "variety of $group: $(cat out)"
done
[ "$(grep -c '^| refused: colour | 1 |' out)" = 3 ] || fail "a refused pair: $(cat out)"
grep -q '^| pairs | n | full | again | donor | skip 1 | 1 step |$' out || fail "five runs: $(cat out)"
grep -q '^- same_prompt, skip 1 at 64x64, bf16: 2 pairs are too few to tell$' out || fail "why nothing is offered: $(cat out)"
lines=$(wc -l <t.jsonl)
[ "$(grep -c '"near"' t.jsonl)" = 8 ] || fail "four pools, full and skip 1: $(cat t.jsonl)"
# Of a full run there is no distance; of others, by features of the decoder, and of a start to its donor.
grep -qE '^\| all \| 21 \| - \| 0\.[0-9]+ ± 0\.[0-9]+ \|' out || fail "distances between features: $(cat out)"
grep -qE '^\| reworded \| skip 1 \| 1 \| 2 \|.*\| [0-9.]+ ± [0-9.]+ \| [0-9.]+ ± [0-9.]+ \|$' out || fail "features: $(cat out)"
grep -qE '^\| reworded \| 1 step \| 1 \| 2 \|.*\| [0-9.]+ ± [0-9.]+ \| - \|$' out || fail "no donor, no distance: $(cat out)"
cp out first
expect 0 "a report" "${tiny[@]}" --report
diff <(tail -n +3 first) <(tail -n +3 out) >/dev/null || fail "records say something else: $(diff first out | head -n 4)"
expect 0 "goes on" "${teleport[@]}" --count 3 --refused 0 --pools 0 --no-fewer --records t.jsonl
[ "$(wc -l <t.jsonl)" = $((lines + 16)) ] || fail "four pairs of four runs more: $lines, then $(wc -l <t.jsonl)"
expect 65 "records of other noise" "${tiny[@]}" --seed 1
expect 65 "records of donors as they are" "${tiny[@]}" --soften 0
grep -q 't.jsonl: the file is of another model, file of pairs' err || fail "other noise: $(cat err)"
# Coarse first where there is a small size, with its cost in forwards of the full one.
expect 0 "coarse alone" "${teleport[@]/#64/128}" --count 1 --refused 0 --pools 0 --no-fewer --records coarse.jsonl
grep -q '^| pairs | n | full | again | donor | skip 1 | coarse 1+1 |$' out || fail "a column of coarse runs: $(cat out)"
[ "$(grep -cE '^\| (same_prompt|canonical|reworded|donor_says_more) \| coarse 1\+1 \| 1.25 \| 1 \|' out)" = 4 ] || fail "cost: $(cat out)"
# Coarse runs that leave out a small step, beside whole ones.
late=("${teleport[@]/#64/128}" --coarse 2+1)
expect 0 "coarse runs from donors" "${late[@]}" --count 1 --refused 0 --pools 1 --records late.jsonl
grep -q '^| pairs | n | full | again | donor | skip 1 |$' out || fail "columns of late coarse runs: $(cat out)"
[ "$(grep -cE '^\| (same_prompt|canonical|reworded|donor_says_more) \| skip 1 \| 1.25 \| 1 \|' out)" = 4 ] || fail "cost of a small step: $(cat out)"
grep -q '^All runs are coarse first, 2+1;' out || fail "the heading: $(cat out)"
expect 65 "records of coarse runs" "${teleport[@]/#64/128}" --records late.jsonl
grep -q '^Mode of the donors' out && fail "donors of another mode: $(cat out)"
expect 64 "coarse and small" "${late[@]}" --small
# Donors of another mode than the runs that begin from them.
for donors in "off exact" "1+1 coarse=1+1"; do
    expect 0 "donors ${donors% *}" "${late[@]}" --donors "${donors% *}" --count 1 --refused 0 --pools 1 --records "donors-${donors% *}.jsonl"
    grep -q "^Mode of the donors: ${donors#* }\.$" out || fail "the donors' mode: $(cat out)"
    expect 65 "records of donors ${donors% *}" "${late[@]}" --records "donors-${donors% *}.jsonl"
done
python3 - late.jsonl donors-off.jsonl donors-1+1.jsonl <<'END' || fail "donors of all modes are alike"
import json, sys
files = [[json.loads(line) for line in open(name)][1:] for name in sys.argv[1:]]
def of(run): return [[(line["run"][3], line.get("features"), line.get("near")) for line in lines if line["run"][2] == run] for lines in files]
assert of("again")[0] == of("again")[1] == of("again")[2] != [], "the targets are the same"
for run in ("donor", "skip 1", "pool, skip 1"):
    a, b, c = of(run)
    assert a and a != b and b != c and a != c, run
END
expect 64 "donors that are coarse of exact runs" "${teleport[@]/#64/128}" --donors 1+1
expect 64 "a mode of too many steps" "${late[@]}" --coarse 3+1
expect 64 "a mode of too many steps" "${teleport[@]}" --modes 3+1
grep -q -e '--modes "3+1": 3 steps before the full size, but steps is 2' err || fail "3+1: $(cat err)"
# Records of before features were measured, of another format and device: a report renders nothing.
python3 - t.jsonl >old.jsonl <<'P'
import json, sys
for i, line in enumerate(open(sys.argv[1])):
    record = json.loads(line)
    for key in ("features", "features_donor"):
        record.pop(key, None)
    if i == 0:
        record["device"] = "nvidia-h200"
    elif "run" in record:
        record["run"][0] = "fp8"
    print(json.dumps(record))
P
expect 0 "a report of fp8" "${teleport[@]}" --dtype fp8 --count 2 --refused 1 --pools 1 --records old.jsonl --report
grep -q '^### 64x64, fp8' out && grep -q 'of the records (nvidia-h200)' out || fail "fp8: $(cat out)"
[ "$(grep -c "^| reworded | 2 |" out)" = 2 ] || fail "old records have no features: $(cat out)"
grep -qE '^\| reworded \| skip 1 \| 1 \| 2 \|.*\| - \| - \|$' out || fail "old records have no features: $(cat out)"
# As many pairs without a fault as a row needs.
python3 - t.jsonl "$pairs" >rule.jsonl <<'P'
import json, sys
print(open(sys.argv[1]).readline(), end="")
kinds = [line.split("\t")[:3] for line in open(sys.argv[2])]
same = [n for n, (kind, target, donor) in enumerate(kinds, 1) if kind == "same" and target == donor]
for n in same[:100]:
    for run in ("full", "again", "donor", "skip 1"):
        print(json.dumps({"run": ["bf16", "64x64", run, n], "right": 5, "asked": 5, "whole": 1, "pictures": 1,
                          "to_full": 0 if run == "full" else 1, "to_donor": 1}))
for n in same[:2]:
    for run, near in (("full", 1), ("skip 1", 0.97)):
        print(json.dumps({"run": ["bf16", "64x64", "pool, " + run, n], "near": [near] * 12, "spread": [1] * 12}))
P
printf '{"coarse": {"auto": "off", "for": []}}\n' >model/kiln.json
rule=("${teleport[@]}" --count 200 --refused 0 --pools 2 --no-fewer --records rule.jsonl --report --write)
expect 0 "kiln.json" "${rule[@]}"
python3 - model/kiln.json <<'P' || fail "kiln.json: $(cat model/kiln.json)"
import json, sys
whole = json.load(open(sys.argv[1]))
assert whole["coarse"] == {"auto": "off", "for": []}, whole
card = whole["teleport"]
assert card["model"] == card["measured"]["hash"] and card["dtypes"] == ["bf16"] and card["steps"] == 2, card
assert card["rows"] == [{"class": "same_prompt", "depth": 1, "donors": 1, "uses": 8, "variety": 0.97,
                         "loss": [0.2, 1.0], "for": ["64x64"]}], card["rows"]
assert card["soften"] == [5, 4], card
assert len(card["not_offered"]) == 3, card["not_offered"]
# Rows of other sizes, small donors and a gate, as if another command had measured them.
row = card["rows"][0]
row["for"] = ["64x64", "96x96"]
card["rows"].append(dict(row, depth=1, **{"class": "reworded", "for": ["96x96"]}))
card["rows"].append(dict(row, **{"class": "reworded", "for": ["64x64"]}))
card["not_offered"] = ["canonical, skip 1 at 96x96: as it was", "canonical, skip 1 at 64x64: as it was"]
card["small"] = {"rows": [dict(row, **{"for": ["128x128"]})]}
card["measured"]["date"] = "2020-01-02"
card["measured"]["rows"] = [{"size": "96x96", "pairs": "same_prompt"}, {"size": "64x64", "pairs": "gone"}]
card["gate"] = "kept"
card["coarse"] = {"mode": "1+1"}
json.dump(whole, open(sys.argv[1], "w"))
P
expect 0 "kiln.json again" "${rule[@]}"
cp model/kiln.json once.json
expect 0 "kiln.json once more" "${rule[@]}"
cmp -s once.json model/kiln.json || fail "the same command writes something else: $(diff once.json model/kiln.json)"
python3 - model/kiln.json <<'P' || fail "what other commands measured: $(cat model/kiln.json)"
import json, sys
card = json.load(open(sys.argv[1]))["teleport"]
assert [(r["class"], r["for"]) for r in card["rows"]] == [
    ("same_prompt", ["64x64"]), ("same_prompt", ["96x96"]), ("reworded", ["96x96"])], card["rows"]
assert "canonical, skip 1 at 96x96: as it was" in card["not_offered"] and len(card["not_offered"]) == 4, card["not_offered"]
assert card["small"]["rows"][0]["for"] == ["128x128"] and card["gate"] == "kept" and card["coarse"] == {"mode": "1+1"}, card
kept = [r for r in card["measured"]["rows"] if r["size"] == "96x96"]
assert len(kept) == 1 and kept[0]["date"] == "2020-01-02" != card["measured"]["date"], kept
assert not any(r["pairs"] == "gone" for r in card["measured"]["rows"] if "pairs" in r), card["measured"]["rows"]
P
sed -i 's/"dtypes": *"bf16"/"dtypes": "fp32"/; s/"dtypes": *\["bf16"\]/"dtypes": ["fp32"]/' model/kiln.json
expect 0 "rows of another format" "${rule[@]}"
grep -q 'the other rows of teleport in kiln.json have another "dtypes", so they are replaced' err || fail "replaced: $(cat err)"
! grep -q '96x96' model/kiln.json || fail "rows of another format stay: $(cat model/kiln.json)"
rm model/kiln.json
printf 'same\ta red star\ta red star\n' >short.tsv
expect 65 "a pair without an answer" "${teleport[@]/$pairs/short.tsv}" --count 1
grep -q 'short.tsv:1: expected class, target, donor and what the target asks for' err || fail "no answer: $(cat err)"
printf 'same\ta red star\ta red star\t{"things":[{"shape":"blob"}]}\n' >blob.tsv
expect 65 "an unknown shape" "${teleport[@]/$pairs/blob.tsv}" --count 1
grep -q 'blob.tsv:1: shape: the judge knows no "blob"' err || fail "a blob: $(cat err)"
for words in "--report" "--dtype auto --write" "--seeds 9" "--steps 1" "--sizes 100" "--soften 257"; do
    expect 64 "$words" "${teleport[@]}" $words
done
expect 66 "no pairs" "${teleport[@]/$pairs/none.tsv}"
head -n 1 t.jsonl | sed 's/"steps": *2/"steps":50/' >most.jsonl
expect 0 "as many runs as there can be" "${teleport[@]}" --steps 50 --count 1 --refused 0 --records most.jsonl --report
[ "$(sed -n 's/^| pairs | n | full | .* | skip 49 | .* | \(.*\) |$/\1/p' out | sort -u)" = "1 step" ] || fail "101 runs: $(head -c 900 out)"
expect 0 "help" "$kiln" bench teleport --help
grep -q -e '--refused N' out || fail "kiln bench teleport --help: $(head -c 200 out)"

[ $bad = 0 ] || exit 1
echo "bench coarse and teleport keep their contracts"
