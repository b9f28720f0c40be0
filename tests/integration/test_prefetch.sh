#!/bin/bash
# The LoRA set of the assignment ahead is read, and its prompts are encoded, while the batch before it is
# drawn: when its turn comes they lie ready, although nothing was ever drawn with them.  Here its LoRAs
# stand beside the weights, as on a GPU.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
golden=$source_dir/tests/golden
cp -r "$golden/models/plain" model
mkdir model/loras
i=0
for name in kohya second diffusers; do
    cp "$golden/loras/$name.safetensors" "model/loras/l$((i++)).safetensors"
done
chmod -R u=rwX,go=rX model
stacks+=(s)
port=$(free_port)
ok kiln up --dir s --model "$PWD/model" --lora-mode beside --threads 1 --batch-max 1 --worker-port "$port"
export KILN_CONFIG=$PWD/s/kiln.conf

# Of a metric of the worker; 0 if it has not been counted yet.
metric() {
    python3 - "$port" "$1" <<'PYTHON'
import sys, urllib.request
page = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=60).read().decode()
print(next((line.split()[-1] for line in page.splitlines() if line.startswith(sys.argv[2].rstrip("}"))), 0))
PYTHON
}

# Each set once, one picture a batch, every picture long enough for the next set to be read meanwhile.
for set in l0 l1 l2 l0+l1 l0+l2 l1+l2; do
    echo "{\"prompt\":\"a red star $set\",\"width\":128,\"height\":128,\"steps\":50,\"latents\":\"none\",\"loras\":\"$set\"}"
done >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b
ok kiln wait b --timeout 200
ready=$(metric 'kiln_worker_lora_sets_total{from="ready"}') read=$(metric 'kiln_worker_lora_sets_total{from="read"}')
# The first set was wanted at once: it may have been read in time by chance alone.
[ "$((ready + read))" = 6 ] || die "$ready sets lay ready and $read were read; 6 were put in place"
[ "$ready" -ge 4 ] || die "only $ready of 6 sets lay ready"
# So it is with its text; the first of all had to be encoded at once.
texts=$(metric 'kiln_worker_texts_total{from="ready"}') encoded=$(metric 'kiln_worker_texts_total{from="encoded"}')
[ "$((texts + encoded))" = 6 ] || die "$texts texts lay ready and $encoded were encoded; 6 were drawn"
[ "$texts" -ge 4 ] || die "only $texts of 6 texts lay ready"
# What is wanted again is still in memory; what is in place is not put there again.
{ cat jobs.jsonl; tail -n 1 jobs.jsonl; } | sed 's/red/blue/' >again.jsonl
ok kiln enqueue again.jsonl --batch again
ok kiln wait again --timeout 200
[ "$(metric 'kiln_worker_lora_sets_total{from="read"}')" = "$read" ] || die "a set was read twice"

# The share of a full queue that the device did not compute: by its own clock, and told to people.
wanted=$(metric kiln_device_wanted_seconds_total) computed=$(metric kiln_device_computing_seconds_total)
python3 -c "import sys; sys.exit(not 0 < $computed <= $wanted)" || die "$computed s computed of $wanted s"
ok kiln workers --json
json_lines out.txt '0 < d[0]["computed_ms"] <= d[0]["wanted_ms"] <= d[0]["ready_ms"]'
ok kiln workers
grep -Eq "^$cpu0 .* [0-9.]+%  128x128" out.txt || die "no idle share in: $(cat out.txt)"
echo ok
