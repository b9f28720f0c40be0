#!/bin/bash
# scripts/monitoring: promtool accepts the rules and the example, each alert fires when it must and
# not otherwise, and every metric that rules and dashboard name is on the page of a real daemon;
# /readyz (test_in_the_way has a worker whose store refuses).
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
command -v promtool >/dev/null || die "promtool is missing: \`make setup\` installs it"
cp "$source_dir"/scripts/monitoring/* .
ok promtool check rules kiln.rules.yml
ok promtool check config prometheus.yml
ok promtool test rules kiln.rules.test.yml
# each alert has a case in the tests
for alert in $(sed -n 's/.*alert: //p' kiln.rules.yml); do
    grep -q "$alert\|Kiln\.\*Refused" kiln.rules.test.yml || die "$alert has no test"
done
# and in the hour of two healthy pools, where each metric of the rules has a series in both
python=$(python_with yaml) || exit 1
"$python" - <<'PYTHON' || die "see above"
import re, sys, yaml
rules, healthy = open("kiln.rules.yml").read(), yaml.safe_load(open("kiln.rules.test.yml"))["tests"][0]
alerts = set(re.findall(r"alert: (\w+)", rules))
silent = {t["alertname"] for t in healthy["alert_rule_test"] if t["exp_alerts"] == []}
series = " ".join(s["series"] for s in healthy["input_series"])
lacks = [f"no case of {name}" for name in alerts ^ silent]
for rule in yaml.safe_load(rules)["groups"][0]["rules"]:
    for metric in re.findall(r"kiln_\w+", rule["expr"]):
        lacks += [f"no {metric} of pool {pool}" for pool in "ab" if not re.search(metric + r'\{pool="' + pool, series)]
print(*lacks, sep="\n", file=sys.stderr)
sys.exit(bool(lacks))
PYTHON
# and the tests can fail: a rule that never fires is noticed, and rules that add up two pools
notices() { # SED-COMMAND
    sed "$1" "$source_dir/scripts/monitoring/kiln.rules.yml" >kiln.rules.yml
    cmp -s kiln.rules.yml "$source_dir/scripts/monitoring/kiln.rules.yml" && die "'$1' changes nothing"
    fails 1 promtool test rules kiln.rules.test.yml
}
notices 's/> 60$/> 600/'
notices 's/kiln_leader\[7d\]/kiln_leader[1d]/'
notices 's/sum by (pool) (kiln_leader)/sum(kiln_leader)/'
notices 's/sum by (pool, code) (increase(kiln_job/sum by (code) (increase(kiln_job/'

# --- names against the pages of a scheduler, a worker and the gallery
stacks+=(s)
ok kiln up --dir s --engine testcard --workers 1
export KILN_CONFIG=$PWD/s/kiln.conf
port_in() { sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' "$1" | tail -1; }
scheduler=$(port_in s/log/scheduler.log) worker=$(port_in s/log/worker-0.log)
page_has() { # PORT METRIC FILE
    curl -s "http://127.0.0.1:$1/metrics" >"$3"
    grep -q "^$2{" "$3"
}
# The leader's numbers come after its first look, the device's once all threads run.
soon page_has "$scheduler" kiln_workers pages.txt || die "no numbers of the leader"
soon page_has "$worker" kiln_device_seconds_total page.txt || die "no numbers of the device"
cat page.txt >>pages.txt
cp "$source_dir/scripts/monitoring/kiln.rules.yml" .
python3 - <<'PYTHON' || die "see above"
import json, re, sys
pages = open("pages.txt").read()
there = set(re.findall(r"^(kiln_[a-z_]+)", pages, re.M))
rules = open("kiln.rules.yml").read()
panels = json.load(open("grafana.json"))["panels"]
words = rules + " ".join(t["expr"] for p in panels for t in p["targets"])
asked = set(re.findall(r"\bkiln_[a-z_]+", words))
missing = sorted(asked - there)
samples = [line for line in pages.splitlines() if line.startswith("kiln_")]
poolless = [line for line in samples if 'pool="default"' not in line]
wrong = missing + poolless
for what in wrong:
    print("not on a page, or without its pool:", what, file=sys.stderr)
states = set(re.findall(r'state=~?"([a-z|]+)"', words))
known = set(re.findall(r'state="([a-z]+)"', pages))
unknown = {s for many in states for s in many.split("|")} - known
if unknown:
    print("no page has the state", unknown, file=sys.stderr)
sys.exit(1 if wrong or unknown or len(panels) < 12 or not asked else 0)
PYTHON

# --- /readyz
status() { curl -s -o body.txt -w '%{http_code}' "http://127.0.0.1:$1/$2"; }
[ "$(status "$scheduler" readyz)" = 200 ] && [ "$(status "$worker" readyz)" = 200 ] || die "not ready"
[ "$(status "$worker" livez)" = 200 ] || die "not alive"
echo ok
