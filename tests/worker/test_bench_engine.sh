#!/bin/bash
# `kiln bench engine` keeps its contract: table, JSON, random weights, exit codes.  What it measures
# is the business of a machine with a GPU.
. "$KILN_SOURCE/tests/worker/lib.sh"
sketch=$KILN_SOURCE/pipeline/models/sketch
full=$KILN_SOURCE/scripts/bench/z-image-turbo

# Small and quick: the verb, not the engine.
quick=(--sizes 64 --steps 1 --repeat 1 --warmup 0 --image-repeat 1)
bench=("$kiln" bench engine --config "$sketch" "${quick[@]}")
expect 0 "a table" "${bench[@]}" --random-weights --batch 1,2 --sizes 64,96x64 --dtype fp32 --stages forward
[ "$(grep -cE '^fp32 +(64x64|96x64) +[12] exact ' out)" = 4 ] || fail "a table of four rows: $(cat out)"
[ "$(grep -c ' loaded in ' out)" = 1 ] || fail "the load: $(cat out)"
expect 0 "json" "${bench[@]}" --random-weights --dtype fp32,bf16 --json
python3 - out <<'P' || fail "json: $(cat out)"
import json, sys
whole = json.load(open(sys.argv[1]))
assert whole["bench"] == "engine" and whole["random_weights"] and whole["device"] == "cpu", whole
assert [load["dtype"] for load in whole["loads"]] == ["fp32", "bf16"], whole["loads"]
first, second = whole["rows"]
for row in whole["rows"]:
    for key in ("forward_ms", "step_ms", "text_ms", "decode_ms", "image_ms", "flops"):
        assert row[key] > 0, (key, row)
    assert row["forward_best_ms"] <= row["forward_ms"] <= row["forward_worst_ms"], row
assert first["error"] is None and 0 < second["error"] < 0.1, (first["error"], second["error"])
P
expect 0 "one stage" "${bench[@]}" --stages text --json
grep -q '"forward_ms":0.0' out || fail "--stages text times a forward: $(cat out)"
grep -q '"text_ms":0.0' out && fail "--stages text does not time it: $(cat out)"
# Among 26 prompts each of another letter: this tokenizer makes two tokens of some.
expect 0 "many prompts" "${bench[@]}" --stages text --batch 26
expect 0 "the model's own weights" "$kiln" bench engine --model "$sketch" "${quick[@]}" --stages decode
grep -q 'random' out && fail "weights are said to be random: $(cat out)"

expect 0 "the same bits" "$kiln" bench engine --config "$sketch" --sizes 64,96x64 --batch 1,4 --steps 2 \
    --dtype fp32,bf16 --deterministic
[ "$(grep -cE '^(fp32|bf16) (64x64|96x64), batch [14], exact: each picture has the bits it has alone$' out)" = 8 ] ||
    fail "eight cases with the same bits: $(cat out)"
grep -q 'medians\|forward ms' out && fail "a table of what is not timed: $(cat out)"
expect 64 "figures of no timing" "${bench[@]}" --deterministic --json

expect 0 "coarse first" "${bench[@]}" --sizes 128x96 --steps 2 --coarse off,2+1 --stages image --json
python3 - out <<'P' || fail "exact and coarse first: $(cat out)"
import json, sys
exact, coarse = json.load(open(sys.argv[1]))["rows"]
assert exact["mode"] == "" and exact["hand_over_ms"] == 0, exact
assert coarse["mode"] == "coarse=2+1" and coarse["hand_over_ms"] > 0, coarse
assert all(row["image_ms"] > 0 for row in (exact, coarse)), (exact, coarse)
P
expect 0 "one under the other" "${bench[@]}" --sizes 128x96 --steps 2 --coarse off,2+1 --stages image --dtype fp32
[ "$(grep -oE '^fp32 +128x96 +1 (exact|2\+1)' out | tr -s ' ' | tr '\n' ,)" = "fp32 128x96 1 exact,fp32 128x96 1 2+1," ] ||
    fail "a row for each mode: $(cat out)"
expect 0 "the same bits coarse first" "$kiln" bench engine --config "$sketch" --sizes 128x96 --batch 3 --steps 2 \
    --dtype bf16 --coarse 2+1 --deterministic
grep -q '^bf16 128x96, batch 3, 2+1: each picture has the bits it has alone$' out || fail "coarse bits: $(cat out)"
expect 64 "more coarse steps than steps" "${bench[@]}" --coarse 4+3
expect 65 "too small to halve" "${bench[@]}" --coarse 1+1
grep -q '64x64 is too small to halve' err || fail "too small to halve: $(cat err)"
expect 64 "too small for a third level" "${bench[@]}" --steps 2 --coarse 1+1+1
grep -q -e '--coarse "1+1+1": 64x64 is too small for three sizes' err || fail "three sizes: $(cat err)"
expect 0 "a third level" "$kiln" bench engine --config "$sketch" --sizes 1024 --steps 2 --image-repeat 1 --dtype bf16 \
    --stages image --coarse 1+1+1 --json
grep -q '"mode":"coarse=1+1+1"' out || fail "the third level in json: $(cat out)"
python3 -c 'import json; assert json.load(open("out"))["rows"][0]["hand_over_ms"] > 0' ||
    fail "the hand-over of a third level is not timed: $(cat out)"
expect 0 "from a latent" "$kiln" bench engine --config "$sketch" --sizes 64 --batch 2 --steps 4 --image-repeat 1 \
    --dtype fp32 --stages image --skip 3 --json
python3 - out <<'P' || fail "from a latent: $(cat out)"
import json, sys
whole = json.load(open(sys.argv[1]))
assert (whole["skip"], whole["steps"], len(whole["rows"])) == (3, 4, 1) and whole["rows"][0]["image_ms"] > 0, whole
P
expect 64 "no step is left" "${bench[@]}" --steps 3 --skip 3
grep -q -e '--skip 3: the schedule has only 3 steps' err || fail "no step is left: $(cat err)"
expect 64 "from a latent, coarse first" "${bench[@]}" --steps 4 --coarse 2+1 --skip 1
expect 64 "bits from a latent" "${bench[@]}" --steps 4 --skip 1 --deterministic

for words in --bogus "--sizes 100x100" "--sizes x" "--batch 0" "--batch 65" "--dtype fp4" "--tokens 8" \
    "--tokens 513" "--stages lunch" "--repeat 0" "--sizes 64,64,64,64,64,64,64,64,64" "--device tpu" more; do
    expect 64 "$words" "${bench[@]}" $words
done
expect 64 "half a size" "${bench[@]}" --sizes 64x
grep -q -e '--sizes "64x": expected N or WxH' err || fail "half a size: $(cat err)"
cp "$kiln" "${kiln%/*}/kiln-bench" "${kiln%/*}/libkiln_bench.so" . # away from the demo model
expect 64 "no config" ./kiln bench engine
expect 66 "no such config" "$kiln" bench engine --config ./none
expect 66 "configs without weights" "$kiln" bench engine --config "$full" "${quick[@]}"
cp -r "$sketch" large && chmod -R u+w large
sed -i 's/"vocab_size": [0-9]*/"vocab_size": 16777216/' large/text_encoder/config.json
# shellcheck disable=SC2016
expect 71 "a model larger than memory" bash -c 'ulimit -v 8000000; exec "$@"' _ \
    "$kiln" bench engine --config large --random-weights --dtype fp32 "${quick[@]}"
grep -q 'memory' err || fail "a model larger than memory: $(cat err)"
expect 69 "fp8 on the CPU" "${bench[@]}" --random-weights --dtype fp8
grep -q 'dtype fp8 is not available on the CPU' err || fail "fp8 on the CPU: $(cat err)"
expect 0 "help" "$kiln" bench engine --help
grep -q -e '--random-weights' out || fail "kiln bench engine --help: $(head -c 200 out)"

[ $bad = 0 ] || exit 1
echo "bench engine keeps its contract"
