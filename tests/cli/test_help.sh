#!/bin/bash
# The frame of the command: help, settings, exit codes, messages on stderr alone.
. "$KILN_SOURCE/tests/cli/lib.sh"

ok kiln help
for verb in styles loras models up down run enqueue wait watch status worker workers jobs show why cancel retry export drain \
    batches batch usage errors events pause resume quota backfill cache redraw favourite gc backup restore migrate doctor gallery sim bench render tokenize lora; do
    grep -q "^  $verb " out.txt || die "help does not list $verb"
done
ok kiln help run
says 'examples:' out.txt
says '--out DIR' out.txt
says '--set KEY=VALUE' out.txt
ok kiln wait --help
says '--timeout S' out.txt
ok kiln bench quality --help
says '--at-least PCT' out.txt

# Every help fits 80 columns, and a narrower terminal; no word is lost on the way, and a program that
# reads it gets lines as long as it says.
letters() { tr -d ' \n' <"$1"; }
for verb in '' config job $(kiln help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort -u); do
    ok kiln help $verb
    cp out.txt piped.txt
    awk 'length($0) > 80 { print; wide = 1 } END { exit wide }' piped.txt || die "help $verb does not fit 80 columns"
    fits 60 kiln help $verb
    COLUMNS=1000 kiln help $verb >whole.txt
    [ "$(letters piped.txt)" = "$(letters whole.txt)" ] || die "help $verb loses words"
done
[ "$(COLUMNS=1000 kiln help job | wc -l)" -lt "$(kiln help job | wc -l)" ] || die "COLUMNS is not read"
for program in 'kiln bench quality' 'kiln bench coarse' 'kiln bench teleport' 'kiln bench judge' \
    'kiln bench captions' 'kiln bench engine' 'kiln render' 'kiln tokenize' kiln-worker kiln-scheduler; do
    case $program in kiln-scheduler) ;; *) [ -x "$kiln_bin/kiln-worker" ] || continue ;; esac
    # shellcheck disable=SC2086 # verbs and subcommands
    ok "$kiln_bin"/$program --help
    awk 'length($0) > 80 { print; wide = 1 } END { exit wide }' out.txt || die "the help of $program does not fit 80 columns"
done
demo="$source_dir/pipeline/models/sketch/loras/loras.json"
ok kiln lora try 'a 16-bit castle, no neon' --loras "$demo"
says '^pixel  *1.00  p 0.9.  style, phrase "16 bit"' out.txt
says '^drawn as: pixel art, a 16-bit castle, no neon$' out.txt
# Only LoRAs of the model, whose base its card names; --base names another one.
ok kiln lora try 'a fox, pixel art' --loras "$source_dir/tests/quality/routing/loras.json" --model "$source_dir/pipeline/models/sketch"
says '^no LoRA$' out.txt
ok kiln lora try 'a fox, pixel art' --loras "$source_dir/tests/quality/routing/loras.json" --model "$source_dir/pipeline/models/sketch" --base z-image
says '^pixel ' out.txt
ok kiln lora try 'a red star' --loras "$demo" --json
json out.txt 'd["loras"] == [] and d["drawn"] == "a red star" and d["reason"].endswith("\"p\":[]}")'
ok kiln lora try 'a star <lora:neon:1>' --loras "$demo"
says '<lora:...> in a prompt is not obeyed'
fits 40 kiln lora try 'a star <lora:neon:1>' --loras "$demo" # messages too
fails 64 kiln lora try a star --loras "$demo"
says 'give the prompt as one word'
fails 64 kiln lora try 'a red star' --loras "$demo" --version 1
says '--version is a version of the registry, and --loras a file'
fails 64 kiln lora try --loras "$demo"
fails 64 kiln lora ad 'a red star' --loras "$demo"
says "unknown subcommand 'ad'"
fails 66 kiln lora try 'a red star' --loras nowhere.json
echo '{"loras": [{"name": "a", "trigers": []}]}' >wrong.json
fails 65 kiln lora try 'a red star' --loras wrong.json
says "LoRA 'a': 'trigers' is not a key of LoRAs"
ok kiln --version
says '^kiln [0-9]*\.[0-9]*\.[0-9]* (.*)$' out.txt
grep -q "^## $(sed -n 's/^kiln \([0-9.]*\) .*/\1/p' out.txt)$" "$source_dir/CHANGELOG.md" || die "CHANGELOG.md does not have this release"
if [ -x "$kiln_bin/kiln-worker" ]; then
    ok "$kiln_bin/kiln-worker" --version
    says '^LibTorch .* on this CPU its operators use .*, and .* multipl' out.txt
fi

# What a job line may say: every key with its meaning and what it must be.
ok kiln help job --json
json out.txt 'len(d) > 30 and all(k["meaning"] and k["must_be"] for k in d) and d[0]["key"] == "prompt"'
json out.txt '[k["default"] for k in d if k["key"] in ("width", "seed", "tenant")] == [1024, None, "default"]'
python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["properties"], sep="\n")' "$source_dir/schemas/job.schema.json" | sort >wanted.txt
ok kiln help job
sed -n 's/^  \([a-z_]*\)$/\1/p' out.txt | sort | cmp -s - wanted.txt || die "help job has other keys than the schema"
ok kiln styles --json
json out.txt 'any(s["style"] == "watercolor" and s["suffix"] for s in d)'
echo '{"mine": {"prefix": "my ", "suffix": "", "negative": "no"}}' >styles.json
ok kiln styles --styles styles.json
says '^mine  *my PROMPT  without: no$' out.txt
fails 66 kiln loras
says 'set lora_dir'
mkdir none some
touch some/ink.safetensors some/readme.txt
ok kiln loras --lora-dir none
says '^no LoRAs$'
[ ! -s out.txt ] || die "an empty listing says something on stdout"
ok kiln loras --lora-dir some --json
json out.txt 'd["lora"] == "ink" and d["path"] == "some/ink.safetensors" and d["bytes"] == 0'

# The same name for two things: what each verb takes.
kiln help enqueue | grep -q -e '--on-done URL ' || die "enqueue runs no command"
kiln help run | grep -q -e '--on-done URL|CMD ' || die "run runs a command"
touch empty.txt
fails 64 kiln run empty.txt --out unmade --format png
says 'that of FILE: jsonl, text or csv; `kiln export BATCH --format png` writes such files'
[ ! -e unmade ] && [ ! -e .kiln ] || die "a wrong format made a directory"

# A wrong command line: status 64, said on stderr, nothing on stdout.
stacks+=(impossible)
for words in "" "statsu" "status --jsn" "jobs --state gone" "wait" "wait a b" "cancel" \
    "cancel 1 --batch b" "show 0" "show 99999999999999999999" "why" "up --workers -1" \
    "up --workers many" "wait b --timeout" "export b" "drain" "bench everything" "up --device tpu" \
    "status --batch-max" "status --batch-max=many" "status --config" "status --lease-s 0"; do
    "$kiln_bin/kiln" $words >out.txt 2>err.txt
    status=$?
    [ $status = 64 ] || die "'kiln $words' ended with $status"
    [ ! -s out.txt ] || die "'kiln $words' wrote to stdout"
    [ -s err.txt ] || die "'kiln $words' said nothing"
done
[ ! -e .kiln ] || die "a wrong device made a stack"
KILN_BATCH_MAX=many fails 78 kiln status
says 'KILN_BATCH_MAX'
stacks+=(tpu)
KILN_DEVICE=tpu fails 78 kiln up --dir tpu --engine testcard
fails 64 kiln statsu
says "did you mean 'kiln status'"
fails 64 kiln status --jsn
says 'did you mean --json'
fails 64 kiln status --json=1
says '--json takes no value'
fails 64 kiln status -json
says 'unknown option -json; did you mean --json?'
fails 64 kiln enqueue f --srtict
says 'did you mean --strict'

for option in --nosuch "--nosuch status" "--json --nosuch"; do
    fails 64 kiln $option
    says '^kiln: unknown option --nosuch; `kiln help`'
    [ "$(wc -l <err.txt)" = 1 ] || die "more than a line about $option"
done
fails 64 kiln
says '^usage: kiln VERB'

# Completion: what it offers for the last of the words, as bash cuts them.
completes() { # WANTED WORD...
    (
        PATH=$kiln_bin:$PATH KILN_COMPLETION_S=60
        . "$source_dir/scripts/completion/kiln.bash"
        [ -z "${LISTED:-}" ] || _kiln_list() { echo "$LISTED"; }
        COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
        _kiln
        [ "${COMPREPLY[*]}" = "$1" ] || die "${*:2} completes to ${COMPREPLY[*]}"
    ) || exit 1
}
mkdir -p dirs/one
touch dirs/two
completes favourite kiln fav
completes enqueue kiln --config x en
completes enqueue kiln --config = x --json en
completes fleet kiln bench f
completes 'teleport-stream teleport' kiln bench tel
completes random kiln run --engine r
completes random kiln run --engine = r
completes 'cuda:0 cuda:all' kiln up --device cu
completes all kiln up --device cuda : a
completes auto kiln up --dtype a
completes '' kiln worker logs ''
for verb in jobs cancel retry errors events show wait watch why export; do
    LISTED='sketches  done' completes sketches kiln $verb sk
done
completes watercolor kiln enqueue f --set style = wat
completes 'custom_id=' kiln enqueue f --set cus
completes 'job jobs' kiln help jo
mkdir loras
touch loras/ink.safetensors loras/paper.safetensors loras/other.txt
KILN_LORA_DIR=$PWD/loras completes ink kiln enqueue f --set loras = i
KILN_LORA_DIR=$PWD/loras completes 'none auto ink paper' kiln enqueue f --loras ''
KILN_LORA_DIR=$PWD/loras completes 'none ink paper' kiln cache build --loras '' # it refuses auto
completes 'start stop' kiln worker st
completes prune kiln cache pr
completes 'build stat warm verify why prune' kiln cache ''
completes 'serve export review classify' kiln gallery ''
completes 'add ls show pause resume rm' kiln backfill ''
completes '' kiln cache prune ''
KILN_LORA_DIR=$PWD/loras completes ink kiln render --lora in
completes dirs/one kiln restore dirs/
completes 'dirs/one dirs/two' kiln run dirs/

# The daemons: what sets nothing is a slip of whoever typed it.
for program in kiln-scheduler kiln-worker; do
    fails 64 "$kiln_bin/$program" extra
    says "$program: unexpected argument 'extra'"
    fails 64 "$kiln_bin/$program" --bogus
    says 'bogus'
    fails 78 "$kiln_bin/$program" --batch-max 0
    KILN_LEASE_S=3 fails 78 "$kiln_bin/$program"
    says 'lease_s is 3 (environment KILN_LEASE_S) and heartbeat_s is 2 (default)'
done
fails 64 "$kiln_bin/kiln-worker" --id

# Settings: one table, flags over environment over file, a wrong one named with its place.
ok kiln help config
says 'batch_max' out.txt
KILN_BATCH_MAX=3 ok kiln help config --json
json out.txt '[s for s in [x for x in d if x["name"] == "batch_max"] if s["value"] == "3" and "KILN_BATCH_MAX" in s["origin"]]'
KILN_BATCH_MAX=3 ok kiln help config --json --batch-max=5
json out.txt '[x["value"] for x in d if x["name"] == "batch_max"] == ["5"]'
printf 'batch_max = 7\n' >a.conf
ok kiln --config a.conf help config --json
json out.txt '[x["value"] for x in d if x["name"] == "batch_max"] == ["7"]'
printf '\nbatch_maxx = 7\n' >b.conf
fails 78 kiln status --config b.conf
says 'b.conf:2'
says 'batch_max"'
fails 64 kiln status --batch-max=0
fails 78 kiln status --config absent.conf
KILN_BATCH_MAX=0 fails 78 kiln status
says 'environment KILN_BATCH_MAX'
printf 'lease_s = 5\n' >lease.conf
fails 78 "$kiln_bin/kiln-scheduler" --config lease.conf --heartbeat-s 3
says 'lease_s is 5 (lease.conf:1) and heartbeat_s is 3 (flag --heartbeat-s): a lease must last'
fails 69 kiln status --config lease.conf --heartbeat-s 3 # which looks all the same, here at nothing
says 'lease_s is 5 (lease.conf:1) and heartbeat_s is 3 (flag --heartbeat-s): a lease must last'
fails 78 kiln up --dir impossible --engine testcard --heartbeat-s 10
says 'lease_s is 10 (default) and heartbeat_s is 10 (flag --heartbeat-s)'
[ ! -e impossible/kiln.conf ] || die "settings that were refused are kept"
rm -rf impossible
KILN_BACH_MAX=3 ok kiln help config
says 'environment KILN_BACH_MAX: unknown setting "bach_max"; did you mean "batch_max"?'
ok kiln help status --config b.conf

# Servers that are not there: 69 and what to do; doctor lists every one of them.
fails 69 kiln status --redis unix:"$PWD"/no.sock --postgres "host=$PWD port=1" --connect-timeout-s 1
fails 69 kiln status --config a.conf --postgres "host=$PWD port=1" --connect-timeout-s 1
says '`kiln up` starts a private stack that was stopped'
says 'kiln up'
fails 1 kiln doctor --json --redis unix:"$PWD"/no.sock --postgres "host=$PWD port=1" \
    --store file://"$PWD"/store --connect-timeout-s 1
json out.txt 'd["healthy"] is False and {"redis", "postgres", "model"} <= {f["check"] for f in d["findings"] if f["verdict"] == "bad" and f["do"]}'
json out.txt '"store" in [f["check"] for f in d["findings"] if f["verdict"] == "ok"]'

# A full disk is not a success.
kiln help >/dev/full 2>err.txt
[ $? = 74 ] || die "writing to a full disk was called a success"
kiln help config --json >/dev/full 2>err.txt
[ $? = 74 ] || die "JSON on a full disk was called a success"
says 'write to stdout: No space left on device'
kiln help | head -n 1 >/dev/null || die "a reader that leaves is an error"
# Nor is one that leaves in mid-output, which a pipe of one page sees to.
for verb in job config; do
    python3 - "$kiln_bin/kiln" help $verb <<'PYTHON' || die "a reader that leaves in mid-output of kiln help $verb"
import fcntl, os, subprocess, sys
reader, writer = os.pipe()
fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ
kiln = subprocess.Popen(sys.argv[1:], stdout=writer, stderr=subprocess.PIPE)
os.close(writer)
os.read(reader, 1)
os.close(reader)
said = kiln.communicate(timeout=60)[1]
sys.exit(said.decode() if said or kiln.returncode != 74 else 0)
PYTHON
done
echo ok
