#!/bin/bash
# Every verb that lists or shows: on an empty stack a sentence, on a terminal of 80 columns no line is wider,
# and every time, in text and in JSON, is ISO 8601 with its zone.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
mkdir loras
ok kiln up --dir s --engine testcard --workers 0 --lora-dir loras --no-gallery
export KILN_CONFIG=$PWD/s/kiln.conf

# --- an empty stack: one sentence, without the names of columns above it, and no line of JSON
empty() { # SENTENCE COMMAND...
    fits 80 "${@:2}"
    [ "$(tr -s ' \r\n' ' ' <out.txt)" = "$1 " ] || die "'${*:2}' shows: $(cat out.txt)"
    ok "${@:2}" --json
    [ ! -s out.txt ] || die "'${*:2} --json' shows: $(cat out.txt)"
}
empty 'no jobs' kiln jobs
empty 'no batches' kiln batches
empty 'no active batches' kiln batches --active
empty 'no finished jobs' kiln usage
empty 'no events' kiln events
empty 'no favourites' kiln favourite ls
empty 'no quotas' kiln quota ls
empty 'no backfills' kiln backfill ls
empty 'no cached latents' kiln cache stat
empty 'no model: no worker is alive' kiln models
empty 'no LoRAs: add one with `kiln lora add`' kiln lora ls
empty 'nothing waits for a review' kiln gallery review
empty 'no workers on this machine: `kiln worker start` starts one, `kiln workers` lists those of the fleet' kiln worker ls
fits 80 kiln errors # which may also say what is in the way, as the next ones may
says '^no failed jobs' out.txt
fits 80 kiln workers
says '^no worker of pool default was ever seen' out.txt
fits 80 kiln status
says 'no worker is alive' out.txt
ok kiln loras
says '^no LoRAs'

# --- a stack with something of each kind, under long names
long=$(printf 'n%.0s' $(seq 128)) tenant=$(printf 't%.0s' $(seq 64))
ok kiln up --dir s --engine testcard --workers 1 --lora-dir loras --no-gallery
ok kiln lora add "$source_dir/pipeline/models/sketch/loras/neon.safetensors" --name "$(printf 'l%.0s' $(seq 60))" \
    --model "$source_dir/pipeline/models/sketch"
cat >jobs.jsonl <<LINES
{"prompt": "猫 🐈 on a very long sofa that goes on and on and on and on and on and on and on", "size": "64x64", "tenant": "$tenant", "custom_id": "$long"}
{"prompt": "@fail=bad_input a star", "size": "2048x2048"}
LINES
ok kiln enqueue jobs.jsonl --batch "$long"
fails 1 kiln wait "$long" --timeout 60
ok kiln favourite add "$long"
ok kiln enqueue jobs.jsonl --batch waits --set model=nonesuch
ok kiln enqueue - --batch off --set model=nonesuch <<<'a star'
ok kiln cancel off --yes
ok kiln pause --tenant "$tenant" --reason "an invoice, for a reason that takes more than eighty columns to write down in full"
ok kiln quota set "$tenant" --queued 100 --gpu-seconds-day 1000000
ok kiln backfill add "$(printf 'f%.0s' $(seq 60))" --template 'a {red|black} cat' --set size=64x64 --until 2126-12-24 --window 22:00-06:00
ok kiln cache build --template 'a cached {star|ring}' --set size=64x64
ok kiln wait latent-cache --timeout 60
ok kiln gallery review 1 --level clear
job=$(sql "SELECT min(id) FROM job WHERE state = 0")

# times TEXT|JSON: of out.txt.  A day alone is only what a usage by day has; hours alone are a window's.
times() {
    python3 - "$1" "$shown" <<'PYTHON' || die "'$shown' has a time without its zone"
import json, re, sys
text, wrong, found = open("out.txt", encoding="utf-8").read(), [], 0
whole = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?(Z|[+-]\d\d:\d\d)")
def look(part, key=""):
    global found
    if isinstance(part, dict):
        for name, value in part.items():
            look(value, name)
    elif isinstance(part, list):
        for value in part:
            look(value, key)
    elif isinstance(part, str):
        found += len(whole.findall(part))
        rest = re.sub(r"\d\d:\d\d-\d\d:\d\d", "", whole.sub("", part))
        if key != "day":
            wrong.extend(re.findall(r".{0,20}\b\d{4}-\d\d-\d\d\b.{0,20}|.{0,20}\b\d\d:\d\d\b.{0,20}", rest))
        if part and (key.endswith("_at") or key in ("at", "since", "until", "oldest")) and not whole.fullmatch(part):
            wrong.append(f"{key}: {part}")
    elif isinstance(part, (int, float)) and (key.endswith("_at") or 1.5e9 < part < 2.5e9 or 1.5e12 < part < 2.5e12) and "seed" not in key:
        if not isinstance(part, bool) and "hash" not in key:
            wrong.append(f"{key}: {part}")
if sys.argv[1] == "JSON":
    for line in text.splitlines():
        look(json.loads(line))
else:
    look(text, "day" if sys.argv[2].startswith("usage") else "")
print(*wrong, sep="\n", file=sys.stderr)
open("found.txt", "a").write(f"{found}\n")
sys.exit(bool(wrong))
PYTHON
}
with_times='' without='' # verbs that have shown one, in text; those that have none
listed() { # COMMAND...: on a terminal of 80 columns, and as JSON
    shown=$*
    fits 80 kiln "$@"
    times TEXT
    if [ "$(tail -n 1 found.txt)" = 0 ]; then without+=" $1"; else with_times+=" $1"; fi
    kiln "$@" --json >out.txt 2>err.txt
    [ -s out.txt ] || die "'kiln $* --json' prints nothing: $(cat err.txt)"
    times JSON
}
for verb in status workers 'worker ls' jobs 'jobs waits' batches "batch show $long" 'batch show waits' "show $long" 'show 1' \
    'show 2' "why $job" 'why 2' usage 'usage --by day' errors events 'events 2' styles loras models 'favourite ls' 'quota ls' \
    'backfill ls' "backfill show $(printf 'f%.0s' $(seq 60))" 'cache stat' "cache why $job" 'lora ls' \
    "lora show $(printf 'l%.0s' $(seq 60))" 'gallery review 1'; do
    # shellcheck disable=SC2086 # words
    listed $verb
done
echo "with times:$with_times"
for verb in status worker batches batch show errors events favourite backfill gallery; do
    case " $with_times " in *" $verb "*) ;; *) die "kiln $verb shows no time, so nothing of it was looked at" ;; esac
done
kiln doctor >out.txt 2>&1
shown=doctor
times TEXT
shown='worker logs'
ok kiln worker logs worker-0
times TEXT
ok kiln export "$long" --out pictures --html
shown='results.jsonl'
cp pictures/results.jsonl out.txt
times JSON
echo ok
