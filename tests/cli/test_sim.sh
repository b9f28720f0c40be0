#!/bin/bash
# kiln sim: the shape of its answers, wrong input, and its sums done again from the schedule.
. "$KILN_SOURCE/tests/cli/lib.sh"

trace() { python3 "$source_dir/scripts/sim/trace.py" "$@"; }

# The keys and their order are a contract.
printf 'arrival_s,tenant,width,height,steps,loras,priority,max_wait_s,service_s\n0,t,1024,1024,8,a+b,0,5,3\n' >one.csv
ok kiln sim --trace one.csv --workers 2 --lora-switch-s 2 --json
[ "$(cat out.txt)" = '{"jobs":1,"makespan_s":5,"lower_bound_s":5,"ratio":1,"switches":1,"switches_min":1,"wait_p50_s":2,"wait_p99_s":2,"wait_max_s":2,"missed_max_wait":0,"fair_gap_gpu_s":0}' ] ||
    die "$(cat out.txt)"
[ ! -s err.txt ] || die "something on stderr"
ok kiln sim --trace - --json <one.csv
ok kiln sim --trace=one.csv
says '^makespan ' out.txt
says '^fairness gap ' out.txt
printf '\xef\xbb\xbfloras\r\na\r\nb' >crlf.csv
ok kiln sim --trace crlf.csv --base-s 2 --lora-switch-s 0.5 --workers 1 --json
json out.txt 'd["jobs"] == 2 and d["makespan_s"] == 5 and d["switches"] == 2'

# No settings are needed, and wrong ones do not matter.
KILN_TYPO=1 ok kiln sim --trace one.csv --json

# Equal input, equal bytes.
trace --kind bursts --jobs 5000 --tenants 7 --sizes mixed --priorities --max-wait 300 --seed 3 >bursts.csv
trace --kind bursts --jobs 5000 --tenants 7 --sizes mixed --priorities --max-wait 300 --seed 3 | cmp - bursts.csv ||
    die "the generator is not deterministic"
for policy in kiln fifo affinity; do
    ok kiln sim --trace bursts.csv --policy $policy --seed 5 --noise 0.2 --json
    mv out.txt first.txt
    ok kiln sim --trace bursts.csv --policy $policy --seed 5 --noise 0.2 --json
    cmp out.txt first.txt || die "$policy: two runs differ"
done
ok kiln sim --trace bursts.csv --seed 6 --noise 0.2 --policy affinity --json
cmp -s out.txt first.txt && die "the seed changes nothing"

# Every number again, from the trace and the schedule, by other means.
trace --jobs 3000 --sets 60 --no-lora 0.3 --tenants 3 --max-wait 250 >backlog.csv
for policy in kiln fifo affinity; do
    ok kiln sim --trace backlog.csv --policy $policy --workers 5 --lora-switch-s 0.7 --json --schedule schedule.csv
    python3 - "$policy" <<'PYTHON' || die "$policy: the schedule does not give the report"
import csv, json, math
report = json.load(open("out.txt"))
jobs = list(csv.DictReader(open("backlog.csv")))
served = list(csv.DictReader(open("schedule.csv")))
assert report["jobs"] == len(jobs) == len(served)
sets, waits, switches, late, resident = {}, [], 0, 0, {}
for row in sorted(served, key=lambda r: (int(r["worker"]), float(r["start_s"]))):
    job = jobs[int(row["line"]) - 2]
    assert job["tenant"] == row["tenant"] and job["loras"] == row["loras"]
    service, start = float(job["service_s"]), float(row["start_s"])
    held, free = resident.get(row["worker"], (None, 0.0))
    changed = held != job["loras"]
    assert changed == (row["switched"] == "1")
    assert start >= free + 0.7 * changed - 1e-6
    assert start >= float(job["arrival_s"]) + 0.7 * changed - 1e-6
    assert abs(float(row["end_s"]) - start - service) < 1e-6
    resident[row["worker"]] = (job["loras"], float(row["end_s"]))
    switches += changed
    sets.setdefault(job["loras"], []).append(service)
    waits.append(start - float(job["arrival_s"]))
    late += waits[-1] > float(job["max_wait_s"]) + 1e-9
waits.sort()
bound = max((sum(map(sum, sets.values())) + 0.7 * len(sets)) / 5,
            max(max(s) + 0.7 for s in sets.values()))
makespan = max(float(r["end_s"]) for r in served)
close = lambda key, value: abs(report[key] - value) < 1e-6 or exit(f"{key}: {report[key]}, not {value}")
close("makespan_s", makespan)
close("lower_bound_s", bound)
close("ratio", makespan / bound)
close("switches", switches)
close("switches_min", len(sets))
close("wait_p50_s", waits[math.ceil(0.50 * len(waits)) - 1])
close("wait_p99_s", waits[math.ceil(0.99 * len(waits)) - 1])
close("wait_max_s", waits[-1])
close("missed_max_wait", late)
PYTHON
done

# What the policy is for: a backlog near the bound, where the window is far from it.
trace --jobs 20000 --sets 400 --no-lora 0.5 >near.csv
ok kiln sim --trace near.csv --lora-switch-s 1 --json
json out.txt 'd["ratio"] <= 1.02 and d["missed_max_wait"] == 0'
ok kiln sim --trace near.csv --lora-switch-s 1 --policy affinity --window 32 --json
json out.txt 'd["ratio"] > 1.02'
# It stays near it where nobody may be passed by more than 2,000 younger ones.
trace --jobs 20000 --sets 400 --no-lora 0.5 --bypass 2000 --switch 1 >capped.csv
ok kiln sim --trace capped.csv --lora-switch-s 1 --json
json out.txt 'd["ratio"] <= 1.05 and d["missed_max_wait"] == 0'
# Online, people wait less than with either of the others.
mean_wait() { kiln sim --trace online.csv --lora-switch-s "$1" --policy "$2" --window 32 | awk '/^wait, mean/ { print $3 }'; }
for load in 0.7 0.95; do
    trace --kind online --load $load --jobs 10000 >online.csv
    for switch_s in 0.03 1; do
        waits="$(mean_wait $switch_s kiln) $(mean_wait $switch_s affinity) $(mean_wait $switch_s fifo)"
        echo "$waits" | awk 'NF != 3 || $1 >= $2 || $1 >= $3 { exit 1 }' ||
            die "at load $load and $switch_s s a switch, kiln, affinity and fifo wait $waits s"
    done
done

# Stored latents: equal input gives equal bytes, the sums are those of the schedule, and the keys are
# a contract.
for policy in kiln fifo; do
    for n in 1 2; do
        ok kiln sim --trace near.csv --policy $policy --hits 30 --depths 1:2,6:1 --lookup-ms 0.5 --seed 4 --json --schedule schedule.csv
        mv out.txt hits-$n.txt
    done
    cmp hits-1.txt hits-2.txt || die "$policy: two runs with hits differ"
    python3 - $policy <<'PYTHON' || die "$policy: the schedule does not give the hits"
import csv, json, sys
report = json.load(open("hits-1.txt"))
cache, served = report["cache"], list(csv.DictReader(open("schedule.csv")))
skips = [int(row["skip"]) for row in served]
assert list(cache) == ["may_hit", "hits", "steps", "steps_saved", "lookup_s", "full"] + (
    ["unknown"] if sys.argv[1] == "kiln" else []) + ["known"]
assert list(cache["known"]) == ["calls", "work_s", "makespan_s", "jobs_per_s", "latency_mean_s",
                                "latency_p50_s", "latency_p99_s", "wait_max_s"]
assert set(skips) == {0, 1, 6} and all(row["skip"] == "0" for row in served if row["loras"])
assert cache["hits"] == sum(s > 0 for s in skips) and cache["steps_saved"] == sum(skips)
assert cache["may_hit"] == sum(not row["loras"] for row in served)
assert cache["steps"] == 8 * len(served) and abs(cache["lookup_s"] - cache["may_hit"] * 5e-4) < 1e-6
latency = sum(float(row["end_s"]) - float(row["arrival_s"]) for row in served) / len(served)
assert abs(cache["known"]["latency_mean_s"] - latency) < 1e-6
assert cache["known"]["makespan_s"] == report["makespan_s"] < cache["full"]["makespan_s"]
PYTHON
done
ok kiln sim --trace near.csv --hits 30 --depths 1:2,6:1 --batch 4 --batch-fixed 0.2
says '^hits save .* of what is left, grouping by the steps left saves' out.txt

# A day's backlog takes a blink of processor time (the limit is for machines that are busy).
trace --jobs 70000 --tenants 20 >day.csv
TIMEFORMAT=%U
used=$({ time kiln sim --trace day.csv --json >out.txt; } 2>&1) || die "the day ended with $?"
json out.txt "d['jobs'] == 70000 and $used < 5"

# The generator: loads are what they are called, bursts are bursts.
trace --kind online --load 0.5 --workers 4 --jobs 20000 >online.csv
trace --kind bursts --load 0.5 --workers 4 --jobs 60000 --burst 90 >bursts.csv
trace --jobs 1000 --bypass 100 --workers 2 --no-lora 1 --switch 0 >bypass.csv
python3 - <<'PYTHON' || die "a trace is not what it should be"
import csv
rows = lambda name: list(csv.DictReader(open(name)))
online = rows("online.csv")
assert abs(sum(float(r["service_s"]) for r in online) / float(online[-1]["arrival_s"]) / 4 - 0.5) < 0.02
bursts = [float(r["arrival_s"]) for r in rows("bursts.csv")]
rate = lambda a, b: sum(a <= t < b for t in bursts) / (b - a)
assert 70 < rate(0, 120) / rate(120, 12000) < 110
bypass = rows("bypass.csv")
assert all(r["loras"] == "" for r in bypass)
assert abs(float(bypass[500]["max_wait_s"]) - 1.05 * 600 / 2) < 0.01
PYTHON

# Wrong input names its place and ends with 65, nothing on stdout.
refused() {
    printf "$1" >bad.csv
    fails 65 kiln sim --trace bad.csv --json
    says "$2"
    [ ! -s out.txt ] || die "a wrong trace wrote to stdout"
}
refused 'width,height\n64,64\n64,big\n' 'bad.csv:3:4: height: "big"'
refused 'widht\n64\n' 'bad.csv:1:1: "widht" is not a column .* did you mean width'
refused 'loras,steps\na\n' 'bad.csv:2:1: the record has 1 cell, the header 2'
refused 'loras\n' 'bad.csv holds no jobs'
refused '' 'bad.csv holds no jobs'
refused 'service_s\n-1\n' 'bad.csv:2:1: service_s: "-1"'
head -c 100000 /dev/zero | tr '\0' 'x' >bad.csv
fails 65 kiln sim --trace bad.csv
says 'bad.csv:1: the line is 100000 bytes long'
printf 'loras,steps\na\n' | fails 65 kiln sim --trace -
says '<stdin>:2:1'
fails 66 kiln sim --trace absent.csv
says 'absent.csv'
echo mine >victim
ln -s "$PWD/victim" planted.csv
ok kiln sim --trace one.csv --schedule planted.csv
[ "$(cat victim)" = mine ] && [ ! -L planted.csv ] || die "a link led the schedule elsewhere"
grep -q '^line,worker' planted.csv || die "no schedule"
kiln sim --trace one.csv --schedule /dev/stdout | cat >out.txt
says "^line,worker" out.txt
fails 74 kiln sim --trace one.csv --schedule absent/schedule.csv

for words in "" "--trace" "--trace one.csv --policy best" "--trace one.csv --workers 0" \
    "--trace one.csv --window 0" "--trace one.csv --base-s 0" "--trace one.csv --lora-switch-s -1" \
    "--trace one.csv --lora-switch-s x" "--trace one.csv --seed -1" "--trace one.csv --noise 2" \
    "--trace one.csv --workrs 3" "--trace one.csv --hits 101" "--trace one.csv --hits 5 --depths 0" \
    "--trace one.csv --depths 2" "--trace one.csv --batch 65" "--trace one.csv --batch-fixed 2" \
    "--trace one.csv --policy fifo --batch 2" "one.csv"; do
    fails 64 kiln sim $words
    [ ! -s out.txt ] || die "'sim $words' wrote to stdout"
done
# --- loras "auto" over sixty LoRAs ---------------------------------------------------------------
# The sets that the router gives to triggers and to labelled prompts, asked for unequally often: all
# at once, and as a stream that arrives faster than eight workers render.  The bound knows no
# arrivals.  A switch of 0.03 s is one between sets that a worker keeps.
python3 - "$kiln_bin/kiln" "$source_dir/tests/quality/routing" <<'PYTHON' || die "no traces of routed jobs"
import json, random, subprocess, sys
kiln, routing = sys.argv[1:]
loras = [l for l in json.load(open(routing + "/loras.json"))["loras"] if l.get("triggers")][:60]
json.dump({"loras": loras}, open("sixty.json", "w"))
prompts = [f'a fox by a lake, {l["triggers"][0]}' for l in loras]
prompts += [json.loads(line)["prompt"] for line in open(routing + "/dev.jsonl", encoding="utf-8")][::12]
sets = []
for prompt in prompts:
    out = subprocess.run([kiln, "lora", "try", prompt, "--loras", "sixty.json", "--json"],
                         capture_output=True, text=True, check=True).stdout
    sets.append("+".join(sorted(f'{l["name"]}_{l["scale"]:g}' for l in json.loads(out)["loras"])))
used = {name.rsplit("_", 1)[0] for text in sets for name in text.split("+") if text}
assert len(used) >= 55 and 0 < sets.count("") < 20, (len(used), sets.count(""))
rng = random.Random(34)
rng.shuffle(sets)
for name, gap_s in ("routed-backlog.csv", 0), ("routed-stream.csv", 1 / (8 * 1.25)):
    at = 0.0
    with open(name, "w") as out:
        print("arrival_s,loras,service_s", file=out)
        for text in rng.choices(sets, [1 / (i + 1) ** 0.8 for i in range(len(sets))], k=6000):
            print(f"{at:.6f},{text},1", file=out)
            at += gap_s * rng.expovariate(1)
PYTHON
for case in "backlog 0.03" "backlog 0.3" "backlog 1" "stream 0.03"; do
    ok kiln sim --trace "routed-${case% *}.csv" --workers 8 --lora-switch-s "${case#* }" --json
    json out.txt 'd["jobs"] == 6000 and d["switches_min"] >= 55 and d["ratio"] <= 1.02'
done
echo ok
