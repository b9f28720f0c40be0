#!/bin/bash
# `kiln bench quality` keeps its contract: table, JSON, wrong pictures, exit codes.  What the demo
# model reaches is the business of tests/quality/test_accuracy.sh.  `kiln bench judge`: distances.
. "$KILN_SOURCE/tests/worker/lib.sh"
lists=$KILN_SOURCE/tests/quality
quality=("$kiln" bench quality --model "$KILN_SOURCE/pipeline/models/sketch" --judge "$KILN_SOURCE/pipeline/models/judge")

# Small and quick: the verb, not the model.
small=("${quality[@]}" --prompts "$lists/held.jsonl" --sizes 64x64 --steps 1 -n 2)
expect 0 "two dtypes" "${small[@]}" --dtype fp32,bf16 --sizes 64,96x64
[ "$(grep -c '^held ' out)" = 4 ] || fail "two dtypes, two sizes: $(grep -c '^held ' out) rows"
expect 0 "json" "${small[@]}" --json
grep -q '"rows":\[{"prompts":"held","size":"64x64","steps":1,"dtype":"fp32","pictures":2,' out || fail "json: $(cat out)"
expect 0 "a style" "${small[@]}" --style neon --json
grep -q '"in_style":' out || fail "--style is not counted"
expect 0 "two styles" "${small[@]}" --style neon,clay --json
grep -q '"in_style":' out || fail "--style with two is not counted"
for styles in neon,neon neon,clay,pixel neon, ,neon; do
    expect 65 "$styles" "${small[@]}" --style $styles
done
expect 0 "an own suffix" "${small[@]}" --style neon --suffix ""
expect 0 "coarse first" "${small[@]}" --sizes 128 --coarse 1+1 --json
grep -q '"mode":"coarse=1+1"' out || fail "the mode in json: $(cat out)"
expect 65 "too small to halve" "${small[@]}" --sizes 64 --coarse 1+1
expect 1 "too few are right" "${small[@]}" --at-least 100 --failures wrong
[ "$(wc -l <wrong/failures.jsonl)" = "$(ls wrong/*.webp | wc -l)" ] || fail "failures.jsonl and pictures differ"
grep -q 'of the attributes are right, not 100' err || fail "--at-least does not say what was reached"

for words in --bogus "--sizes 100x100" "--sizes 64x" "--steps 0" "--steps 1,2,3,4,5,6,7,8,9" "--dtype fp4" "-n 0" \
    "--at-least 101" "--device tpu" more; do
    expect 64 "$words" "${small[@]}" $words
done
expect 64 "no pictures" "${small[@]}" -n 0
grep -q ': -n "0": expected' err || fail "the option is not named as it is written: $(cat err)"
cp "$kiln" "${kiln%/*}/kiln-bench" "${kiln%/*}/libkiln_bench.so" . # away from the demo model
expect 64 "no model" ./kiln bench quality
expect 65 "a style nobody knows" "${small[@]}" --style cubist
grep -q 'it knows base, neon' err || fail "the styles are not named: $(cat err)"
expect 66 "no prompts" "${quality[@]}" --prompts ./none.jsonl
expect 66 "no judge" "${small[@]}" --judge .
expect 66 "no LoRA" "${small[@]}" --lora ./none.safetensors
printf '{"prompt":"a cat","asked":{"things":[{"shape":"cat"}]}}\n' >cat.jsonl
expect 65 "what the judge cannot name" "${quality[@]}" --prompts cat.jsonl
grep -q 'cat.jsonl:1' err || fail "no line number: $(cat err)"
expect 0 "help" "$kiln" bench quality --help
grep -q -e '--at-least' out || fail "kiln bench quality --help: $(head -c 200 out)"

# Latents that are 1 and 2 apart everywhere, the third in no group; and a picture without one.
judge=("$kiln" bench judge --judge "$KILN_SOURCE/pipeline/models/judge")
expect 0 "a picture" "$worker" render --model "$KILN_SOURCE/pipeline/models/sketch" --prompt "a red star" --steps 1 \
    --width 64 --height 64 --out p.png
python3 - <<'PYTHON'
import json, struct
for name, value in ("a", 1.0), ("b", 2.0), ("c", 4.0):
    metadata = {"kiln.latent": "1", "encoding": "f32", "sigmas": "[0]", "shape": "[1,16,8,8]", "model": "m", "lora_set": "",
                "schedule": "euler steps=8", "job": "", "seed": "0"}
    tensor = {"dtype": "F32", "shape": [1, 16, 8, 8], "data_offsets": [0, 4096]}
    header = json.dumps({"__metadata__": metadata, "latent": tensor}).encode()
    header += b" " * (-len(header) % 8)
    open(name, "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<1024f", *[value] * 1024))
PYTHON
for latent in a b c; do
    zstd -q --check $latent || fail "no zstd"
    group='"group":7,'
    [ $latent != c ] || group=
    printf '{"picture":"p.png","latent":"%s.zst",%s"asked":{"things":[{"shape":"star"}],"count":false}}\n' \
        $latent "$group"
done >list.jsonl
printf '{"picture":"p.png","asked":{"things":[],"count":false}}\n' >>list.jsonl
expect 0 "judged" "${judge[@]}" --list list.jsonl
[ "$(sed -E 's/"right":[01],"asked":1,"whole":(true|false)/star/' out)" = '{star,"near":1.0,"near_any":1.0}
{star,"near":1.0,"near_any":1.0}
{star,"near":null,"near_any":2.0}
{"right":0,"asked":0,"whole":true,"near":null,"near_any":null}' ] || fail "judged: $(cat out)"
expect 64 "no list" "${judge[@]}"
expect 66 "a list that is missing" "${judge[@]}" --list none.jsonl
for line in nonsense '{"picture":7}' '{"picture":"p.png","group":-1,"asked":{"things":[]}}' \
    '{"picture":"p.png","latent":"p.png","asked":{"things":[]}}' '{"picture":"p.png"}'; do
    { sed -n 1p list.jsonl && echo "$line"; } >bad.jsonl
    expect 65 "$line" "${judge[@]}" --list bad.jsonl
    grep -q 'bad.jsonl:2' err || fail "no line number for $line: $(cat err)"
done

[ $bad = 0 ] || exit 1
echo "bench quality keeps its contract"
