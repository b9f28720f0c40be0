#!/bin/bash
# Seeds of another client: made in Python from what schemas/bus.md says, they are those of `kiln enqueue`,
# for lines, copies and batches of many kinds; entries that name no key; seeds of an older version stay.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf

cat >client.py <<'PYTHON'
import collections, hashlib, json, sys
# "keys in the order of schemas/job.schema.json, with prompt, width, height and steps and no other key that has
# its default, seed at the end and only if it was given, and no escapes but those that JSON demands"
order = list(json.load(open(sys.argv[1]))["properties"])
order.remove("seed")
order.append("seed")
def key_of(line, copies):
    text = json.dumps({k: line[k] for k in order if k in line}, ensure_ascii=False, separators=(",", ":"))
    content = hashlib.sha256(text.encode()).hexdigest()[:16]
    copies[content] += 1
    return f"h:{content}#{copies[content] - 1}"
def seed_of(batch, key):
    digest = hashlib.sha256(b"kiln seed\0" + batch.encode() + b"\0" + key.encode()).digest()
    return int.from_bytes(digest[:8], "big") & (2**53 - 1)
PYTHON

# --- files of many kinds: what an own client would make of each line, picture by picture
python3 - "$source_dir/schemas/job.schema.json" <<'PYTHON' || exit 1
exec(open("client.py").read())
small = {"width": 64, "height": 64, "steps": 2}
plain = {"prompt": "a red star", **small}
def line(**keys):
    return {**small, **keys}
# (what stands in the file, the lines that it means)
cases = [
    (plain, [plain]),
    ({"steps": 2, "prompt": "a red star", "size": "64x64"}, [plain]),  # the same line, spelled otherwise: a copy
    ({"count": 3, **plain}, [plain] * 3),
    (line(prompt="a {red|blue} ring"), [line(prompt="a red ring"), line(prompt="a blue ring")]),
    (line(prompt="a {b}", template=False), [line(prompt="a {b}", template=False)]),
    *[(line(prompt=p), [line(prompt=p)]) for p in (
        "猫 🐈‍⬛ on a sofa", "e\u0301 is not \u00e9", "\u00e9 is not e\u0301", "قط أحمر", 'a "quoted" \\ word / slash',
        "tab\tnew\nline\rreturn\b\f", "control \u0001 \u001f \u007f \u0085 \u2028", "\U0010ffff", " blanks  stay ", "x" * 3000)],
    (line(prompt="all", negative_prompt="fog, 霧", guidance=2.5, priority=3, tenant="ann", custom_id="c/1 é", latents="none"),),
    (line(prompt="given", seed=18446744073709551615), [line(prompt="given", seed=18446744073709551615)]),
    (line(prompt="given", seed=0), [line(prompt="given", seed=0)]),
    (line(prompt="defaults", guidance=0, priority=0, count=1, negative_prompt=""), [line(prompt="defaults")]),
]
cases = [case if len(case) == 2 else (case[0], [case[0]]) for case in cases]
names = ["b", "v1.2_X-y", "0", "n" * 128, "B"]
for name in names:
    with open(f"{name}.jsonl", "w") as file:
        for written, _ in cases:
            file.write(json.dumps(written, ensure_ascii=name == "B") + "\n")  # with escapes, too
    copies = collections.Counter()
    with open(f"{name}.wanted", "w") as file:
        for _, lines in cases:
            for one in lines:
                key = key_of(one, copies)
                file.write(f"{key} {one.get('seed', seed_of(name, key))}\n")
PYTHON
sort -u b.wanted | cmp -s - <(sort b.wanted) && [ "$(wc -l <b.wanted)" -gt 20 ] || die "an own client gives two jobs one identity"
has_seeds() { # BATCH
    sql "SELECT j.key || ' ' || j.seed FROM job j
        JOIN batch b ON b.id = j.batch_id WHERE b.name = '$1' ORDER BY j.index" >seeds.txt
    diff "$1.wanted" seeds.txt >diff.txt || { cat diff.txt >&2; die "batch $1 has other keys or seeds"; }
}
ok kiln pause --all --yes
for file in *.jsonl; do
    ok kiln enqueue "$file" --batch "${file%.jsonl}"
    has_seeds "${file%.jsonl}"
done
cut -d' ' -f2 ./*.wanted | sort | uniq -d | grep -vx '0\|18446744073709551615' && die "two batches share a seed"
ok kiln enqueue - --batch b <b.jsonl # nothing new
has_seeds b

# --- entries without a key: the custom_id or the entry's own id is the identity, with .0, .1 for several pictures
redis() { redis-cli -s "$(sed -n 's/^redis *= *unix:\([^?]*\).*/\1/p' s/kiln.conf)" "$@"; }
xadd() { redis XADD 'kiln:{default}:intake' '*' batch raw job "$1"; }
xadd '{"prompt":"named","size":"64x64","custom_id":"猫 1"}' >/dev/null
id=$(xadd '{"prompt":"nameless","size":"64x64"}')
two=$(xadd '{"prompt":"two {red|blue}","size":"64x64"}')
xadd '{"prompt":"three","size":"64x64","count":3,"custom_id":"c"}' >/dev/null
until_sql "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = 'raw'" 7
python3 - "$source_dir/schemas/job.schema.json" "$id" "$two" >raw.wanted <<'PYTHON'
exec(open("client.py").read())
for key in ("猫 1", sys.argv[2], *(f"{sys.argv[3]}.{i}" for i in range(2)), *(f"c.{i}" for i in range(3))):
    print(seed_of("raw", key))
PYTHON
sql "SELECT seed FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = 'raw' ORDER BY j.index" | diff raw.wanted - >&2 ||
    die "entries without a key have other seeds"

# --- a batch that an older version wrote, with seeds by place and keys of another kind: sent again, drawn and
# tried again, it keeps them
printf '{"prompt": "old %s", "size": "64x64", "steps": 2, "custom_id": "%s"}\n' 1 one 2 two 3 three >old.jsonl
ok kiln enqueue old.jsonl
sql "UPDATE job SET seed = 1000 + index, source = NULL, key = 'c:' || custom_id || '#0' WHERE prompt LIKE 'old %'"
ok kiln cancel "$(sql "SELECT id FROM job WHERE prompt = 'old 2'")"
echo '{"prompt": "new 4", "size": "64x64", "steps": 2}' >>old.jsonl
ok kiln enqueue old.jsonl --json
json out.txt '(d["accepted"], d["duplicate"], d["gone"]) == (1, 3, 0)'
for batch in b 0 B v1.2_X-y "$(printf 'n%.0s' $(seq 128))" raw; do ok kiln cancel --batch "$batch" --yes; done
ok kiln resume --all
fails 1 kiln wait old --timeout 60
ok kiln retry old
ok kiln wait old --timeout 60
ok kiln export old --out old
json old/results.jsonl '[(r["prompt"], r["seed"]) for r in d][:3] == [("old 1", 1000), ("old 2", 1001), ("old 3", 1002)]'
json old/results.jsonl '[r["state"] for r in d] == ["done"] * 4 and d[3]["seed"] > 2000'
sha256sum old/full/* >before.txt
ok kiln run old.jsonl --out old --dir s
sha256sum -c --quiet before.txt || die "an old batch has other pictures"
echo ok
