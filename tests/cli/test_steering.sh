#!/bin/bash
# Characters that nobody sees and that steer a terminal, a page or the eye: kept as they were sent,
# never written raw.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(a)
ok kiln up --engine testcard --dir a --workers 1
export KILN_CONFIG=$PWD/a/kiln.conf
python3 - >one.jsonl <<'PYTHON'
import json
codes = [*range(1, 0x20), *range(0x7f, 0xa0), *range(0x2028, 0x202f), *range(0x2066, 0x206a)]
print(json.dumps({"prompt": "".join(f"x{chr(c)}" for c in codes), "width": 64, "height": 64}))
PYTHON
clean() { # FILE...: nothing raw but line ends; a page may hold tabs too
    python3 - "$@" <<'PYTHON' || die "raw characters in $*"
import re, sys
bad = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
for name in sys.argv[1:]:
    text = open(name, encoding="utf-8", newline="").read()
    if found := bad.search(text):
        sys.exit(print(name, f"U+{ord(found[0]):04X}", repr(text[:300])) or 1)
PYTHON
}
ok kiln enqueue one.jsonl --batch b
ok kiln wait b --timeout 60
for verb in "show 1" "show 1 --json" "jobs b" "jobs b --json" "why 1" "why 1 --json" "show b" "show b --json"; do
    # shellcheck disable=SC2086
    kiln $verb >out.txt 2>err.txt
    clean out.txt err.txt
done
ok kiln show 1 --json # and nothing is lost
json out.txt 'd["prompt"][-1] == "\u2069" and "\x85" in d["prompt"] and "\x7f" in d["prompt"]'
ok kiln export b --out x --html
clean x/results.jsonl x/index.html
says 'u202e' x/index.html
ok kiln batch show b --json
clean out.txt a/log/scheduler.log a/log/worker-0.log
# names that somebody with rights on the ledger or the bus has forged
forged="E'w\\x1b]0;mine\\x07\\u202e\\u009b'"
sql "SET session_replication_role = replica; UPDATE job SET worker = $forged; UPDATE event SET worker = $forged;
     INSERT INTO worker (pool, name, host, device, state) VALUES ('default', $forged, $forged, $forged, 'running')" >/dev/null
for verb in "show 1" "workers --all" "workers --all --json" "doctor" "status" "events --json"; do
    # shellcheck disable=SC2086
    kiln $verb >out.txt 2>err.txt
    clean out.txt err.txt
done
kiln show 1 >out.txt
says 'to w.u001b]0;mine.u0007.u202e.u009b$' out.txt
fails 65 kiln enqueue - --batch c <<<"$(printf '{"prompt": "x", "custom_id": "a\xe2\x80\xaeb"}')"
says 'custom_id: byte 2 begins U+202E; it must be'
clean err.txt
echo ok
