#!/bin/bash
# The main job in one command, with the worker killed in the middle: every job done exactly once, seen
# from the ledger and from the store.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
python3 - <<'PYTHON'
import json
with open("jobs.jsonl", "w") as out:
    for i in range(240):
        out.write(json.dumps({"custom_id": f"job-{i}", "prompt": f"picture {i}",
                              "width": 512 + 64 * (i % 3), "height": 512}) + "\n")
PYTHON
"$kiln_bin/kiln" run jobs.jsonl --out gallery --dir s --engine testcard --lease-s 3 --heartbeat-s 0.5 \
    --backoff-base-s 0.1 >out.txt 2>err.txt &
run=$!
state() { kiln status --json --config s/kiln.conf 2>/dev/null | python3 -c "import json,sys; print(json.load(sys.stdin)['jobs']['$1'])" 2>/dev/null || echo 0; }
for i in $(seq 600); do
    done_now=$(state done)
    [ "$done_now" -ge 20 ] && break
    kill -0 $run 2>/dev/null || break
    sleep 0.05
done
[ "$done_now" -lt 240 ] || die "the run was over before the worker could be killed"
kill -9 "$(pid_of s worker-0)" || die "there is no worker to kill"
wait $run
status=$?
[ $status = 0 ] || { cat err.txt >&2; tail -n 20 s/log/*.log >&2; die "kiln run ended with $status"; }
says "$cpu0 has ended"
[ "$(tail -n 1 out.txt)" = "$PWD/gallery/index.html" ] || die "run does not end with the page"
[ "$(wc -l <out.txt)" = 1 ] || die "run says more than the page on stdout"

# The ledger: all done; some on a second attempt, because the first worker died with them.
json gallery/results.jsonl 'len(d) == 240 and all(r["state"] == "done" for r in d)'
json gallery/results.jsonl 'sorted(r["custom_id"] for r in d) == sorted(f"job-{i}" for i in range(240))'
json gallery/results.jsonl 'any(r["attempt"] > 1 for r in d)'
# The store: export has checked every file against the ledger; each picture has its three sizes.
json gallery/results.jsonl 'all([i["size"] for i in r["images"]] == ["full", "512", "256"] for r in d)'
[ "$(find gallery/full gallery/512 gallery/256 -name '*.webp' | wc -l)" = 720 ] || die "files are missing"
kiln jobs --config s/kiln.conf --json >jobs.txt
json jobs.txt 'len({r["job"] for r in d}) == 240'

# The same command again draws nothing.
ok kiln run jobs.jsonl --out gallery --dir s --json
json out.txt 'd["jobs"]["done"] == 240'
kiln jobs --config s/kiln.conf --json >again.txt
cmp -s jobs.txt again.txt || die "running again changed a job"

# A dry run plans with the settings that the run would have, and starts nothing.
echo '{"prompt": "of no size"}' >one.jsonl
sed -i '/^size =/d' s/kiln.conf
echo 'size = 640x64' >>s/kiln.conf
ok kiln run one.jsonl --out none --dir s --dry-run --json
json out.txt 'd["jobs"] == 1 and d["groups"][0]["width"] == 640 and d["refused"] == []'
ok kiln run one.jsonl --out none --dir other --dry-run --json --size 768x64
json out.txt 'd["groups"][0]["width"] == 768 and (d["new"], d["unchanged"], d["gone"]) == (1, 0, 0)'
[ ! -e none ] && [ ! -e other ] || die "a dry run left something"
echo ok
