#!/bin/bash
# `kiln-worker render` and `tokenize` as design and scripts call them: outputs, determinism, exit
# codes of every kind of mistake.  Needs LibTorch and the tiny model of tests/golden.
. "$KILN_SOURCE/tests/worker/lib.sh"
model=$KILN_SOURCE/tests/golden/models/plain
lora=$KILN_SOURCE/tests/golden/loras/peft.safetensors
draw() { # draw OUT [options]
    local out=$1
    shift
    expect 0 "render $out" "$worker" render --model "$model" --prompt "a red star" --width 96 \
        --height 64 --steps 2 --seed 7 --out "$out" "$@"
}

draw a.webp --latents a.safetensors --json
grep -q '"width": 96' out || fail "--json says nothing about the picture"
head -c 12 a.webp | grep -qa 'WEBP' || fail "a.webp is no WebP file"
head -c 300 a.safetensors | grep -qa '"latent"' || fail "no tensor named latent"
head -c 300 a.safetensors | tr -d ' ' | grep -qa '"shape":\[16,8,12\]' || fail "wrong shape of the latent"
head -c 300 a.safetensors | grep -qa '"F32"' || fail "the latent is not F32"
draw b.webp
cmp -s a.webp b.webp || fail "the same seed gave another picture"
draw c.webp --seed 8
cmp -s a.webp c.webp && fail "another seed gave the same picture"
draw d.webp --lora "$lora:0.5"
cmp -s a.webp d.webp && fail "the LoRA changed nothing"
draw e.webp --lora "$lora:0"
cmp -s a.webp e.webp || fail "a LoRA of strength 0 changed the picture"
draw f.webp --lossless
cmp -s a.webp f.webp && fail "--lossless changed nothing"
# The name says which format is written; a name of another format is refused.
draw g.png
[ "$(head -c 4 g.png | tail -c 3)" = PNG ] || fail "g.png is no PNG file"
draw h.JPG
[ "$(head -c 3 h.JPG | od -An -tx1 | tr -d ' ')" = ffd8ff ] || fail "h.JPG is no JPEG file"
expect 64 "a GIF" "$worker" render --model "$model" --prompt x --width 64 --height 64 --out i.gif
[ ! -e i.gif ] || fail "a GIF file that is none"

# By name: the size, the style, LoRAs; and the names that keys of a job line have.
mkdir loras
cp "$lora" loras/ink.safetensors
draw l.webp --lora ink:0.5 --lora-dir loras
cmp -s d.webp l.webp || fail "a LoRA by its name is another one"
draw l.webp --loras ink:0.5 --lora-dir loras
cmp -s d.webp l.webp || fail "--loras is another set"
draw l.webp --lora ink --loras none --lora-dir loras
cmp -s a.webp l.webp || fail "--loras none leaves one"
expect 66 "an unknown LoRA" "$worker" render --model "$model" --prompt x --lora gold --lora-dir loras --out x.webp
grep -q 'gold: neither a file nor the name of one in loras' err || fail "who knows gold: $(cat err)"
draw s.webp --style anime --negative-prompt n --latent s.safetensors
cmp -s a.webp s.webp && fail "--style changed nothing"
[ -s s.safetensors ] || fail "--latent wrote nothing"
draw t.webp --style none
cmp -s a.webp t.webp || fail "--style none changed the picture"
expect 64 "an unknown style" "$worker" render --model "$model" --prompt x --style gold --out x.webp
expect 0 "a size" "$worker" render --model "$model" --prompt "a red star" --size 96x64 --steps 2 --seed 7 --out n.webp
cmp -s a.webp n.webp || fail "--size 96x64 is another picture"
expect 64 "two sizes" "$worker" render --model "$model" --prompt x --size 96x64 --width 64 --out x.webp
expect 64 "no size" "$worker" render --model "$model" --prompt x --size 2:1 --out x.webp
expect 64 "an empty prompt" "$worker" render --model "$model" --prompt ' ' --size 64x64 --out x.webp
[ ! -e x.webp ] || fail "a mistake wrote a picture"
expect 0 "an allowed empty prompt" "$worker" render --model "$model" --prompt '' --allow-empty --size 64x64 --steps 1 --out o.webp

# Coarse first: the last --width and --height count.
large() { draw "$1" --width 128 --height 160 --json "${@:2}"; }
large exact.webp --coarse off
grep -q '"mode": "exact"' out || fail "coarse off is not exact: $(cat out)"
large coarse.webp --coarse 2+1 --latents coarse.safetensors
grep -q '"mode": "coarse=2+1"' out || fail "--json does not name the mode: $(cat out)"
head -c 300 coarse.safetensors | tr -d ' ' | grep -qa '"shape":\[16,20,16\]' || fail "wrong shape of a coarse latent"
cmp -s exact.webp coarse.webp && fail "--coarse changed nothing"
large unknown.webp --coarse auto # of a model that nobody has measured
grep -q '"mode": "exact"' out || fail "coarse auto is not exact: $(cat out)"
large again.webp --coarse 2+1 --coarse-sigma 0.75
cmp -s coarse.webp again.webp || fail "0.75 is not the usual --coarse-sigma"
large other.webp --coarse 2+1 --coarse-sigma 0.9
grep -q '"mode": "coarse=2+1@0.9"' out || fail "--json does not name the sigma: $(cat out)"
cmp -s coarse.webp other.webp && fail "--coarse-sigma changed nothing"

# From a picture: its own size, or resized.
from() { expect 0 "render $1" "$worker" render --model "$model" --prompt "a red star" --steps 3 --out "$@"; }
from from.webp --init a.webp --json --latents from.safetensors
grep -q '"width": 96, "height": 64, "steps": 3, "mode": "start=1"' out || fail "--init a.webp: $(cat out)"
head -c 300 from.safetensors | tr -d ' ' | grep -qa '"shape":\[16,8,12\]' || fail "wrong shape of the latent of --init"
from same.webp --init a.webp --strength 0.6
cmp -s from.webp same.webp || fail "0.6 is not the usual --strength"
from near.webp --init a.webp --strength 0.3
cmp -s from.webp near.webp && fail "--strength changed nothing"
from resized.webp --init a.webp --width 64 --height 96 --json
grep -q '"width": 64, "height": 96' out || fail "--init was not resized: $(cat out)"
from whole.webp --init a.webp --strength 1 --width 96 --height 64
from noise.webp --width 96 --height 64
cmp -s whole.webp noise.webp && fail "the noise of a run from a picture is the second draw"
from sigma.webp --init-image a.webp --start-sigma 0.5 --json
grep -q '"mode": "start@0.5"' out || fail "--start-sigma 0.5: $(cat out)"
cmp -s from.webp sigma.webp && fail "--start-sigma changed nothing"
from one.webp --init-image a.webp --start-sigma 1
cmp -s whole.webp one.webp || fail "--start-sigma 1 is not --strength 1"

# Inpainting: white is rendered anew, black stays; the size of the mask may be another.
python3 - <<'PYTHON'
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, width, height, white):
    rows = b"".join(b"\0" + bytes(255 * white(x / width) for x in range(width)) for _ in range(height))
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
png("right.png", 96, 64, lambda x: x >= 0.5)
png("wide.png", 192, 128, lambda x: x >= 0.5)
png("white.png", 96, 64, lambda x: 1)
png("black.png", 96, 64, lambda x: 0)
png("square.png", 96, 96, lambda x: 1)
PYTHON
from right.webp --init a.webp --mask right.png --json
grep -q '"mode": "inpaint=0"' out || fail "--mask: $(cat out)"
cmp -s from.webp right.webp && fail "--mask changed nothing"
from one.webp --init a.webp --mask right.png --strength 1
cmp -s right.webp one.webp || fail "1 is not the usual --strength with --mask"
from part.webp --init a.webp --mask right.png --strength 0.5 --json
grep -q '"mode": "inpaint=1"' out || fail "--mask --strength 0.5: $(cat out)"
from large.webp --init a.webp --mask wide.png
cmp -s right.webp large.webp || fail "a mask of twice the size is another mask"
from white.webp --init a.webp --mask white.png
cmp -s whole.webp white.webp || fail "a white mask is not image to image"
from black.webp --init a.webp --mask black.png --latents black.safetensors
from black.webp --init a.webp --mask black.png --strength 0.3 --latents dark.safetensors
cmp -s black.safetensors dark.safetensors || fail "a black mask does not keep the whole picture"
# Halves of [16, 8, 12] latents in fp32: the left half is kept.
from right.webp --init a.webp --mask right.png --latents right.safetensors
python3 - <<'PYTHON' || fail "the mask does not keep the left half"
import struct
def values(name):
    data = open(name, "rb").read()
    return struct.unpack("<1536f", data[8 + struct.unpack("<Q", data[:8])[0]:])
kept, got = values("black.safetensors"), values("right.safetensors")
assert all((kept[i] == got[i]) == (i % 12 < 6) for i in range(1536))
PYTHON

# libgomp itself says what it was told: started by hand, the worker starts itself once more.
env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose "$worker" --version 2>&1 |
    grep -q "GOMP_SPINCOUNT = '2000'" || fail "threads wait awake for long"
env GOMP_SPINCOUNT=7 OMP_DISPLAY_ENV=verbose "$worker" --version 2>&1 |
    grep -q "GOMP_SPINCOUNT = '2000'" && fail "the setting of the environment was changed"

mkfifo pipe other
cat pipe >from_pipe &
cat other >from_other &
draw pipe --latents other
wait
cmp -s a.webp from_pipe || fail "a pipe got another picture"
cmp -s a.safetensors from_other || fail "a pipe got another latent"
[ -p pipe ] && [ -p other ] || fail "a pipe was replaced by a file"

render=("$worker" render --model "$model" --prompt x --width 64 --height 64 --steps 1)
expect 0 "help" "$worker" render --help
# Each key of a job line that one picture can have is an option of the same name.
queue=' styled count routed priority tenant custom_id kind latents sigmas init_job edit parent teleport alike max_wait_s embed_metadata template '
keys=$("$kiln" help job --json | sed -n 's/^{"key": *"\([a-z_]*\)".*/\1/p')
for key in ${keys:-none}; do
    case $queue in *" $key "*) continue ;; esac
    grep -qe "--${key//_/-}\b" out || fail "render has no option for the key $key"
done
# Older names of options are understood.
draw older.webp --negative n --guidance 2
draw newer.webp --negative-prompt n --guidance 2
cmp -s older.webp newer.webp || fail "--negative is not --negative-prompt"
expect 64 "no options" "$worker" render
expect 64 "no prompt" "$worker" render --model "$model" --out x.webp
expect 64 "unknown option" "${render[@]}" --out x.webp --bogus
expect 64 "width" "${render[@]}" --out x.webp --width 100
expect 64 "steps 0" "${render[@]}" --out x.webp --steps 0
expect 64 "seed beyond 64 bits" "${render[@]}" --out x.webp --seed 18446744073709551616
for words in "--coarse 0+3" "--coarse 4" "--coarse 4+51" "--coarse 2+1 --steps 1" "--coarse 1+1+1 --steps 2" \
    "--coarse-sigma 0.5" "--coarse 1+1 --coarse-sigma 0" "--coarse 1+1 --coarse-sigma 1"; do
    # shellcheck disable=SC2086
    expect 64 "$words" "${render[@]}" --out x.webp --width 128 --height 128 $words
    grep -qe '--coarse' err || fail "$words: $(cat err)"
done
for words in "--strength 0.5" "--init a.webp --strength 0" "--init a.webp --strength 1.1" \
    "--init a.webp --strength nan" "--init a.webp --coarse 1+1" "--init a.webp --width 64" \
    "--mask right.png" "--mask right.png --strength 0.5" "--start-sigma 0.5" "--init a.webp --start-sigma 0" \
    "--init a.webp --start-sigma 0.5 --strength 0.5"; do
    # shellcheck disable=SC2086
    expect 64 "$words" "$worker" render --model "$model" --prompt x --out x.webp $words
    grep -qe '--init\|--strength\|--start-sigma' err || fail "$words: $(cat err)"
done
expect 66 "no picture to start from" "${render[@]}" --out x.webp --init none.webp
head -c 100 a.webp >cut.webp
echo text >text.webp
for file in cut text; do
    "${render[@]}" --out x.webp --init $file.webp 2>err && fail "--init $file.webp was taken"
    grep -q "$file.webp: " err || fail "--init $file.webp: $(cat err)"
    "${render[@]}" --out x.webp --init a.webp --mask $file.webp 2>err && fail "--mask $file.webp was taken"
    grep -q "$file.webp: " err || fail "--mask $file.webp: $(cat err)"
done
expect 66 "no mask" "${render[@]}" --out x.webp --init a.webp --mask none.png
expect 65 "a mask of another shape" "$worker" render --model "$model" --prompt x --out x.webp --init a.webp --mask square.png
grep -q 'square.png: a mask of 96x96 pixels has neither the shape of the picture that it is for, 96x64, nor' err ||
    fail "a mask of another shape: $(cat err)"
expect 64 "too small to halve" "${render[@]}" --out x.webp --coarse 1+1
grep -q '64 x 64 is too small to halve' err || fail "too small to halve: $(cat err)"
expect 64 "guidance nan" "${render[@]}" --out x.webp --guidance nan
expect 64 "argument" "${render[@]}" --out x.webp more
for option in --prompt --negative; do
    expect 64 "$option that is no UTF-8" "${render[@]}" --out x.webp "$option" $'a \xff star'
    grep -qe "$option: not UTF-8 at byte 2" err || fail "$option that is no UTF-8: $(cat err)"
    expect 64 "$option too long" "${render[@]}" --out x.webp "$option" "$(printf '%08193d' 0)"
    grep -qe "$option: 8193 bytes; the limit is 8192" err || fail "$option too long: $(cat err)"
done
expect 64 "picture and latent in one file" "${render[@]}" --out x.webp --latents x.webp
grep -qe '--latent x.webp' err || fail "picture and latent in one file: $(cat err)"
expect 0 "both to nowhere" "${render[@]}" --out /dev/null --latents /dev/null
expect 64 "both in one file, by another name" "${render[@]}" --out x.webp --latents ./x.webp
mkdir folder
expect 64 "a directory" "${render[@]}" --out folder
expect 64 "no name" "${render[@]}" --out ''
expect 74 "no such directory of the latent" "${render[@]}" --out x.webp --latents ./none/x
[ -e x.webp ] && fail "a picture was drawn, and its latent had no place"
ln -s true.webp link.webp
expect 0 "a link to nothing yet" "${render[@]}" --out link.webp
[ -L link.webp ] && [ -s true.webp ] || fail "a link to nothing yet was replaced"
expect 64 "a link and what it points to" "${render[@]}" --out link.webp --latents true.webp
: >true.webp && chmod 600 true.webp
expect 0 "a link" "${render[@]}" --out link.webp
[ -L link.webp ] && [ -s true.webp ] || fail "the link was replaced, not what it points to"
[ "$(stat -c %a true.webp)" = 600 ] || fail "the file has mode $(stat -c %a true.webp), not its own"
"${render[@]}" --out y.webp --json >/dev/full 2>err
[ $? = 74 ] || fail "--json to a full device: status is not 74: $(cat err)"
ln -s none/x.webp lost.webp
expect 74 "a link to where nothing can be" "${render[@]}" --out lost.webp
ln -s loop.webp loop.webp
expect 74 "a link to itself" "${render[@]}" --out loop.webp
cp -r "$model" piped
rm piped/vae/config.json
mkfifo piped/vae/config.json
expect 65 "a config that is a pipe" timeout 60 "$worker" render --model piped --prompt x --out x.webp
grep -q 'piped/vae/config.json is not a regular file' err || fail "a config that is a pipe: $(cat err)"
expect 65 "a config that is a pipe, of kiln" timeout 60 "$kiln" render --model piped --prompt x --out x.webp
cp -r "$KILN_SOURCE/tests/golden/models/plain" turnless
python3 - turnless/tokenizer/tokenizer.json <<'PY'
import json, sys
file = json.load(open(sys.argv[1]))
file["added_tokens"] = [t for t in file["added_tokens"] if t["content"] != "<|im_end|>"]
json.dump(file, open(sys.argv[1], "w"))
PY
expect 69 "a tokenizer without turns" "$worker" render --model turnless --prompt x --out x.webp
grep -q 'turnless/tokenizer: the tokenizer lacks' err || fail "a tokenizer without turns: $(cat err)"
cp "$lora" odd.safetensors
expect 64 "a strength that is no number" "${render[@]}" --out x.webp --lora odd.safetensors:nan
grep -qe '--lora odd.safetensors: its strength "nan" is not a number from -4 to 4' err ||
    fail "a strength that is no number: $(cat err)"
cp "$lora" whole:2
expect 0 "a name that ends like a strength" "${render[@]}" --out y.webp --lora whole:2
cp "$lora" odd.safetensors:b
expect 0 "a colon in a name" "${render[@]}" --out y.webp --lora odd.safetensors:b
expect 66 "no such model" "$worker" render --model ./none --prompt x --out x.webp
expect 66 "no such LoRA" "${render[@]}" --out x.webp --lora ./none.safetensors:1
expect 74 "no such directory" "${render[@]}" --out ./none/x.webp
[ -e x.webp ] && fail "a refused call left a file"
grep -q 'none' err || fail "the message does not name the file"

# What every verb of kiln takes, wherever it stands; the value of an option is never one of them.
printf 'model = %s\n' "$model" >kiln.conf
some=(--width 64 --height 64 --steps 1)
expect 0 "--config behind" "$kiln" render "${some[@]}" --prompt x --config kiln.conf --out g.webp -q
expect 0 "--config before" "$kiln" --config kiln.conf render "${some[@]}" --prompt x --out h.webp
cmp -s g.webp h.webp || fail "--config: two pictures of one model"
expect 0 "--json before" "$kiln" --json render --model "$model" "${some[@]}" --prompt x --out j.webp
python3 -m json.tool <out >/dev/null || fail "--json before the verb: $(cat out)"
grep -q '"mode": "exact"' out || fail "a run from noise at full size is not called exact: $(cat out)"
expect 0 "one side" "$kiln" render --model "$model" --prompt x --steps 1 --width 96 --out k.webp --json
grep -q "\"width\": 96, \"height\": $(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["sample_size"])' "$model/vae/config.json")" out ||
    fail "the other side is not the model's own: $(cat out)"
expect 0 "a prompt like an option" "$kiln" render --model "$model" "${some[@]}" --prompt -q --out i.webp
cmp -s g.webp i.webp && fail "the prompt -q was taken for an option"
expect 78 "no such settings" "$kiln" render "${some[@]}" --prompt x --config=none.conf --out x.webp
expect 64 "unknown option of kiln" "$kiln" render --config kiln.conf --bogus
grep -q '^kiln render: unrecognized option' err || fail "who refuses --bogus is not said: $(cat err)"

tokens() { printf "$1" | "$worker" tokenize --model "$model" "${@:2}" >out 2>err; }
tokens '"a red star"\n"\\u00e9"\n""\n' || fail "tokenize: $(cat err)"
[ "$(wc -l <out)" = 3 ] || fail "tokenize: $(wc -l <out) lines for 3"
grep -qvE '^\[([0-9]+(, [0-9]+)*)?\]$' out && fail "tokenize: no JSON list of ids"
expect 66 "tokenize without a model, and no line" "$worker" tokenize --model /nonexistent
tokens '"a red star"' --raw || fail "tokenize --raw: $(cat err)"
[ "$(wc -l <out)" = 1 ] || fail "tokenize: a last line without its end"
for line in 'bad' '{"a":1}' '"open' '"\xff"'; do
    tokens "\"good\"\n$line\n" --raw
    [ $? = 65 ] || fail "tokenize $line: status is not 65"
    grep -q 'line 2' err || fail "tokenize $line: no line number: $(cat err)"
    [ "$(wc -l <out)" = 1 ] || fail "tokenize $line: the good line is missing"
done
expect 64 "tokenize without a model" "$worker" tokenize
expect 66 "tokenize with no such model" bash -c "echo '\"a\"' | '$worker' tokenize --model ./none"

[ $bad = 0 ] || exit 1
echo "render and tokenize keep their contract"
