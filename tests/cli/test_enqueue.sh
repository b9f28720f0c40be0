#!/bin/bash
# The verb enqueue as scripts see it: what is on stdout, the JSON shapes, the exit codes, pipes.
. "$KILN_SOURCE/tests/cli/lib.sh"

redis-server --port 0 --unixsocket "$PWD/redis.sock" --save '' --daemonize yes \
    --pidfile "$PWD/redis.pid" --logfile "$PWD/redis.log" --dir "$PWD" >/dev/null || exit 1
trap 'kill "$(cat redis.pid 2>/dev/null)" 2>/dev/null' EXIT
export KILN_REDIS=unix:$PWD/redis.sock
answers() { redis-cli -s redis.sock ping 2>/dev/null | grep -q PONG; }
soon answers || die "Redis does not answer"
entries() { redis-cli -s redis.sock xlen 'kiln:{default}:intake'; }

# The batch alone on stdout: the file's name, or one of one's own; new for what is no file.
printf '{"prompt":"a cat"}\n{"prompt":"a {red|blue} dog"}\n' >good.jsonl
ok kiln enqueue good.jsonl --no-wait
[ "$(cat out.txt)" = good ] || die "not the file's name alone"
[ ! -s err.txt ] || die "something to say about a good file"
ok kiln enqueue good.jsonl --no-wait --batch nightly.7
[ "$(cat out.txt)" = nightly.7 ] || die "another name"
[ "$(entries)" = 8 ] || die "$(entries) entries"

# JSON: counts are unknown without a receipt.
ok kiln --json enqueue good.jsonl --no-wait --batch b
json out.txt 'd == {"batch": "b", "accepted": None, "duplicate": None, "gone": 0, "refused": []}'

# Refused lines: on stderr by place, in JSON by number; the good ones are sent.
printf '{"prompt":"x","wdith":64}\r\n{"prompt":"y"}\n{"prompt":"z","steps":0}' >mixed.jsonl
fails 65 kiln --json enqueue mixed.jsonl --no-wait --batch b
json out.txt '[r["line"] for r in d["refused"]] == [1, 3] and "width" in d["refused"][0]["error"]'
says '^mixed.jsonl:1: unknown key "wdith"; did you mean "width"?$'
says '^mixed.jsonl:3: steps is 0; it must be a whole number from 1 to 50$'
before=$(entries)
fails 65 kiln --json enqueue mixed.jsonl --strict --batch b
json out.txt 'd["batch"] is None and d["accepted"] == 0 and len(d["refused"]) == 2'
[ "$(entries)" = "$before" ] || die "--strict sent something"

# Standard input, a FIFO, CSV by option.
echo 'a cat' | ok kiln enqueue - --no-wait --batch piped
[ "$(cat out.txt)" = piped ] || die "nothing from a pipe"
echo 'a cat' | ok kiln enqueue - --no-wait
grep -Eq '^b-[0-9]{8}-[0-9a-f]{8}$' out.txt || die "no new batch for a pipe"
mkdir -p names
while read -r file batch; do
    cp good.jsonl "names/$file"
    ok kiln enqueue "names/$file" --format jsonl --dry-run --json
    json out.txt "d['batch'] == '$batch' and d['new'] is None"
done <<'NAMES'
sweep.v2.jsonl sweep.v2
notes notes
.hidden.txt file-hidden
-dash.txt file-dash
a+b&c.csv a-b-c
Caf\u00e9.TXT Caf-u00e9
backfill-x.txt file-backfill-x
latent-cache.txt file-latent-cache
NAMES
cp good.jsonl 'names/猫 と 犬.txt'
ok kiln enqueue 'names/猫 と 犬.txt' --format jsonl --dry-run --json
json out.txt "__import__('re').fullmatch(r'file-----[-][0-9a-f]{8}', d['batch'])"
mkfifo fifo
(printf 'a cat\n{broken\n' >fifo) &
fails 65 kiln enqueue fifo --no-wait --strict
says '^fifo:2: prompt: a .{. without its .}. at byte 1'
printf 'prompt,width,height\n"a, b",512,512\nc,100,512\n' | fails 65 kiln enqueue - --format csv --no-wait
says '^<stdin>:3: width is 100, which is not a multiple of 16; the nearest allowed is 96$'

# A file that is refused as a whole has its reason in the JSON too.
printf 'prompt,wdith\nx,64\n' | fails 65 kiln --json enqueue - --format csv --batch whole
json out.txt 'd["batch"] is None and d["refused"][0]["line"] is None and "wdith" in d["refused"][0]["error"]'

# A prompt of nothing but blanks is a slip.
printf '{"prompt":"x"}\n{"prompt":" \\t"}\n{"prompt":"{|x}"}\n{"prompt":"","style":"anime"}\n' >blank.jsonl
fails 65 kiln --json enqueue blank.jsonl --no-wait
json out.txt '[r["line"] for r in d["refused"]] == [2, 3, 4]'
says '^blank.jsonl:2: the prompt is empty (`kiln enqueue --allow-empty` accepts it)'
ok kiln --json enqueue blank.jsonl --no-wait --allow-empty
json out.txt 'd["refused"] == []'

# Sizes that the model was not made for are sent, and said once; shapes have the model's own size.
mkdir -p m/vae
echo '{"sample_size": 512}' >m/vae/config.json
echo '{"sizes": ["256x256..512x512", "672x384"]}' >m/kiln.json
printf '{"prompt":"x","size":"16:9"}\n{"prompt":"y","size":"1024x768"}\n{"prompt":"z","size":"1024x768"}\n' >sizes.jsonl
ok kiln --json enqueue sizes.jsonl --dry-run --model m
json out.txt 'sorted((g["width"], g["height"]) for g in d["groups"]) == [(672, 384), (1024, 768)]'
says '^kiln: model m was not made for 1024x768, so such pictures may be poor; it knows 256x256..512x512, 672x384$'
[ "$(grep -c 'not made for' err.txt)" = 1 ] || die "said more than once"

# More variety than was measured to cost little is said once too, and where nobody measured it.
echo '{"variety": {"most": {"64x64": 0.4}}}' >m/kiln.json
printf '{"prompt":"x","size":"64x64","variety":0.4}\n{"prompt":"x","size":"64x64"}\n' >varied.jsonl
ok kiln enqueue varied.jsonl --dry-run --model m
! grep -q variety err.txt || die "told of a variety that holds: $(cat err.txt)"
printf '{"prompt":"x","size":"64x64","variety":0.5}\n{"prompt":"x","size":"128x64","variety":0.1}\n' >varied.jsonl
ok kiln enqueue varied.jsonl --dry-run --model m
says '^kiln: model m: variety 0.5 at 64x64: the picture may show less of what the prompt says; measured to cost next to nothing: up to 0.4 at 64x64$'
[ "$(grep -c variety err.txt)" = 1 ] || die "said more than once"
sed -i 1d varied.jsonl
ok kiln enqueue varied.jsonl --dry-run --model m
says '^kiln: model m: variety 0.1 at 128x64: the picture may show less'

# Nor has a model whose steps replace noise anything from guidance.
echo '{"schedule": {"steps": 2, "noise": 1}}' >m/kiln.json
printf '{"prompt":"x","guidance":2}\n{"prompt":"x","guidance":4}\n{"prompt":"y"}\n' >guided.jsonl
ok kiln enqueue guided.jsonl --dry-run --model m
says "^kiln: model m: guidance 2: kiln.json says that this model's steps replace noise; such models are made to run without guidance"
[ "$(grep -c guidance err.txt)" = 1 ] || die "said more than once"
echo '{"sizes": ["256x256..512x512", "672x384"]}' >m/kiln.json

# So are nouns that a model with word lists of its own was not taught.
printf '[thing]\nstar: starlet\n' >m/words.txt
printf '{"prompt":"a star"}\n{"prompt":"a cat, a starlet"}\n{"prompt":"two cats and a cat"}\n{"prompt":"a cat"}\n' >nouns.jsonl
ok kiln enqueue nouns.jsonl --dry-run --model m
[ "$(grep -c "^kiln: model m was not taught 'cats\?' and makes a guess; README.md of the model lists what it knows$" err.txt)" = 2 ] ||
    die "nouns: $(cat err.txt)"
rm m/words.txt

# A plan sends nothing.
before=$(entries)
ok kiln --json enqueue good.jsonl --dry-run --set size=512x512 --set count=100
json out.txt 'd["jobs"] == 300 and d["groups"][0]["width"] == 512 and d["gpu_seconds"] > 1 and d["bytes"] > 1e6'
ok kiln enqueue good.jsonl --dry-run
says '3  1024x1024       8' out.txt
[ "$(entries)" = "$before" ] || die "a dry run sent something"

# Wrong command lines and inputs.
fails 64 kiln enqueue good.jsonl --batch 'a b'
fails 64 kiln enqueue good.jsonl --format xml
for set in wdith=3 nope=1 steps steps=99 =x; do
    fails 64 kiln enqueue good.jsonl --json --dry-run --set "$set"
    says '^kiln: --set'
    [ ! -s out.txt ] || die "a plan of a wrong command line: $(cat out.txt)"
done
fails 64 kiln enqueue good.jsonl --set wdith=3
says 'did you mean "width"?'
fails 66 kiln enqueue nowhere.jsonl
: >empty.jsonl
fails 65 kiln enqueue empty.jsonl
says 'contains no jobs'
pid=$(cat redis.pid)
kill "$pid"
soon gone "$pid" || die "Redis does not end"
fails 69 kiln enqueue good.jsonl
[ ! -s out.txt ] || die "a result without a Redis"
echo ok
