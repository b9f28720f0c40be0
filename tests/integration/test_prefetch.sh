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

# Each set once, one picture a batch.  What the scheduler assigned 0.3 s before the picture ahead of it
# was done must lie ready: on a busy machine it assigns some too late, then there is another round, with
# other sets and texts.
ready=0 read=0 texts=0 encoded=0
for weight in 1 0.9 0.8 0.7 0.6 0.5; do
    for set in l0 l1 l2 l0+l1 l0+l2 l1+l2; do
        echo "{\"prompt\":\"a red star $set $weight\",\"width\":384,\"height\":384,\"steps\":50,\"latents\":\"none\",\"loras\":\"${set//+/:$weight+}:$weight\"}"
    done >jobs.jsonl
    ok kiln enqueue jobs.jsonl --batch "b$weight"
    ok kiln wait "b$weight" --timeout 200
    sets_before=$ready texts_before=$texts
    ready=$(metric 'kiln_worker_lora_sets_total{from="ready"}') read=$(metric 'kiln_worker_lora_sets_total{from="read"}')
    texts=$(metric 'kiln_worker_texts_total{from="ready"}') encoded=$(metric 'kiln_worker_texts_total{from="encoded"}')
    ahead=$(sql "SELECT count(*) FROM (SELECT assigned_at, lag(finished_at) OVER (ORDER BY finished_at) AS before FROM job
        WHERE batch_id = (SELECT id FROM batch WHERE name = 'b$weight')) j WHERE assigned_at < before - interval '0.3 s'")
    [ "$((ready - sets_before))" -ge "$ahead" ] || die "$((ready - sets_before)) sets lay ready; $ahead were assigned in time"
    [ "$((texts - texts_before))" -ge "$ahead" ] || die "$((texts - texts_before)) texts lay ready; $ahead were assigned in time"
    rounds=$((${rounds:-0} + 1))
    [ "$ahead" -lt 4 ] || break
done
[ "$ahead" -ge 4 ] || die "the scheduler was never ahead"
[ "$((ready + read))" = $((6 * rounds)) ] || die "$ready sets lay ready and $read were read; 6 were put in place in each of $rounds rounds"
[ "$((texts + encoded))" = $((6 * rounds)) ] || die "$texts texts lay ready and $encoded were encoded; 6 in each of $rounds rounds"
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
grep -Eq "^$cpu0 .* [0-9.]+%  384x384" out.txt || die "no idle share in: $(cat out.txt)"
echo ok
