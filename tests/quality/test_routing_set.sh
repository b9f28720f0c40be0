#!/bin/bash
# The labelled prompts of `kiln bench routing`: as many of each kind as their page says, labels that
# name LoRAs, no prompt twice, and no three words in a row that test or sealed prompts share with
# dev prompts, or prompts of the kind "para" with the lexicon or the texts of the LoRAs.  And
# the lists of styles: fifty prompts for each style.  named.jsonl asks for nothing.  The second
# labels are complete.
set -u
cd "${KILN_SOURCE:?}/tests/quality/routing" || exit 1
python3 ../../../scripts/bench/routing_agreement.py compare second.tsv || exit 1
exec python3 - ../../../scheduler/router/lexicon.txt <<'END'
import collections, itertools, json, re, sys

SMALL = set("a an the of in on at to and or with as by for from is it its that this style art not no "
            "without painting drawing print photo toy made looks like his her one two".split())
AT_LEAST = {"trigger": 24, "meaning": 36, "para": 28, "team": 20, "plain": 36, "hard": 34, "script": 22}
faults = []

def shingles(text):
    words = re.findall(r"[a-z0-9]+", text.lower().replace("'s", ""))
    for i in range(len(words) - 2):
        three = words[i:i + 3]
        if sum(word not in SMALL for word in three) >= 2:
            yield " ".join(three)

def texts(lora):
    yield lora.get("description", "")
    for key in ("triggers", "positive", "negative", "examples"):
        yield from lora.get(key, [])

loras = json.load(open("loras.json", encoding="utf-8"))["loras"]
names = {lora["name"] for lora in loras}
parts = {part: [json.loads(line) for line in open(part + ".jsonl", encoding="utf-8")]
         for part in ("dev", "test", "sealed")}
if len(loras) < 72 or sum(map(len, parts.values())) < 660:
    faults.append(f"{len(loras)} LoRAs, {sum(map(len, parts.values()))} prompts")
seen = {}
for part, rows in parts.items():
    count = collections.Counter(row["kind"] for row in rows)
    faults += [f"{part}: {count[kind]} prompts of kind {kind}" for kind in AT_LEAST if count[kind] < AT_LEAST[kind]]
    for row in rows:
        if row["prompt"] in seen:
            faults.append(f"{part} and {seen[row['prompt']]}: {row['prompt']}")
        seen[row["prompt"]] = part
        must = [name for group in row.get("must", []) for name in group.split("|")]
        both = set(must + row.get("may", [])) & set(row.get("never", []))
        faults += [f"{part}: no LoRA {name}: {row['prompt']}" for name in must + row.get("may", []) + row.get("never", [])
                   if name not in names]
        faults += [f"{part}: {name} is wanted and not wanted: {row['prompt']}" for name in both]
        if bool(must) != (row["kind"] in ("trigger", "meaning", "para", "team")) and row["kind"] != "script":
            faults.append(f"{part}: kind {row['kind']} with must {must}: {row['prompt']}")

def phrases():
    """Of the lexicon, with each word of a group in turn ("@glow outlines")."""
    groups = {}
    for line in open(sys.argv[1], encoding="utf-8"):
        fields = [field.strip() for field in line.split("|")]
        if line.startswith("@"):
            groups[fields[0]] = [word.strip() for word in fields[1].split(",")]
        elif "|" in line and not line.startswith("#"):
            yield from itertools.chain.from_iterable(
                map(" ".join, itertools.product(*(groups.get(word, [word]) for word in phrase.split())))
                for phrase in fields[-1].split(","))

dev = {three for row in parts["dev"] for three in shingles(row["prompt"])}
written = {three for phrase in phrases() for three in shingles(phrase)}
dev -= written
dev -= {three for lora in loras for key in ("triggers", "positive") for text in lora.get(key, [])
        for three in shingles(text)}
written |= {three for lora in loras for text in texts(lora) for three in shingles(text)}
for part in ("test", "sealed"):
    for row in parts[part]:
        if row["kind"] in ("trigger", "hard"):
            continue  # both must name what they are about
        known = dev | (written if row["kind"] == "para" else set())
        faults += [f"{part}, '{three}' is known: {row['prompt']}" for three in shingles(row["prompt"]) if three in known]
named = [json.loads(line) for line in open("named.jsonl", encoding="utf-8")]
count = collections.Counter(row["writes"] for row in named if not row.get("must"))
if min(count["quoted"], count["denied"]) < 140 or len({row["prompt"] for row in named}) != sum(count.values()):
    faults.append(f"named: {count} of {len(named)} prompts")
lists, every = {}, set()
for name in ("styles", "styles_fresh", "styles_fresh2", "styles_fresh3", "styles_fresh4", "styles_fresh5",
             "styles_fresh6", "styles_fresh7", "styles_fresh8"):
    rows = lists[name] = [json.loads(line) for line in open(f"../{name}.jsonl", encoding="utf-8")]
    count = collections.Counter(row["style"] for row in rows if "style" in row and row["kind"] != "para")
    if len(count) != 6 or set(count.values()) != {50} or sum("style" not in row for row in rows) < 60:
        faults.append(f"{name}: {count}, {len(rows)} prompts")
    every |= {row["prompt"] for row in rows} | {row["seed"] for row in rows}
if len(every) != 2 * sum(map(len, lists.values())):
    faults.append("a prompt or a seed of a style is there twice")
print("\n".join(faults) or "the labelled prompts follow their rules")
sys.exit(bool(faults))
END
