#!/usr/bin/env python3
"""How well two people agree on the labels of tests/quality/routing.

    routing_agreement.py sample DIR     writes what the second labeller gets: README.txt (the rules),
                                        descriptions.txt, prompts.tsv; 200 prompts without labels
    routing_agreement.py compare FILE   compares the answers (id, must, may; tabs) with the set

The sample is the same in every run: of each kind and part its share, by the hash of the prompt, which
is the id as well.  `compare` takes the team of one person as if a router had chosen it, judges it by
the labels of the other as `kiln bench routing` does, and the other way round.
"""
import argparse
import collections
import hashlib
import json
import pathlib
import random
import shutil
import sys

SET = pathlib.Path(__file__).resolve().parents[2] / "tests/quality/routing"
COUNT = 200
PARTS = ("dev", "test", "sealed")
RESAMPLES = 1000


def digest(prompt):
    return hashlib.sha256(("second labels\n" + prompt).encode()).hexdigest()


def read_set():
    """All prompts by id."""
    rows = {}
    for part in PARTS:
        for line in open(SET / f"{part}.jsonl", encoding="utf-8"):
            row = json.loads(line) | {"part": part}
            rows[digest(row["prompt"])[:8]] = row
    return rows


def sample(rows):
    """Ids of the sample: of each stratum its share, the largest remainders rounded up."""
    strata = collections.defaultdict(list)
    for id_, row in rows.items():
        strata[row["part"], row["kind"]].append(id_)
    share = {key: len(ids) * COUNT / len(rows) for key, ids in strata.items()}
    take = {key: int(value) for key, value in share.items()}
    rest = sorted(share, key=lambda key: (take[key] - share[key], key))
    for key in rest[: COUNT - sum(take.values())]:
        take[key] += 1
    chosen = [id_ for key, ids in strata.items() for id_ in sorted(ids)[: take[key]]]
    return sorted(chosen)


def describe(lora):
    lines = [f"{lora['name']}  ({lora.get('category', 'style')}, {lora.get('type', 'image')}, base "
             f"{lora.get('base', 'any')}, variant {lora.get('variant', 'any')}"
             + (f", family {lora['family']}" if "family" in lora else "") + ")"]
    for key, word in (("triggers", "triggers"), ("positive", "keywords")):
        if lora.get(key):
            lines.append(f"    {word}: " + "; ".join(lora[key]))
    lines.append("    " + lora.get("description", "(no description)"))
    return "\n".join(lines) + "\n"


def write_sample(out):
    rows = read_set()
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(SET / "LABELLING.md", out / "README.txt")
    loras = json.load(open(SET / "loras.json", encoding="utf-8"))["loras"]
    with open(out / "descriptions.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(describe(lora) for lora in sorted(loras, key=lambda lora: lora["name"])))
    with open(out / "prompts.tsv", "w", encoding="utf-8") as file:
        for id_ in sample(rows):
            file.write(f"{id_}\t{rows[id_]['prompt']}\n")


class Label:
    """must: wishes, each a list of LoRAs that fulfil it; may: a set."""

    def __init__(self, must, may):
        self.must = [wish.split("|") for wish in must]
        self.may = {name for entry in may for name in entry.split("|")}
        self.names = {name for wish in self.must for name in wish}

    def team(self, other):
        """One LoRA a wish; of alternatives one that the other names, if there is any."""
        return [next((name for name in wish if name in other.names), wish[0]) for wish in self.must]


def read_answers(path, rows):
    names = {lora["name"] for lora in json.load(open(SET / "loras.json", encoding="utf-8"))["loras"]}
    answers = {}
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\r\n")
        if not line or line.startswith("#") or line.split("\t")[0] == "id":
            continue
        columns = line.split("\t")
        if len(columns) != 3 or columns[0] not in rows or columns[0] in answers:
            sys.exit(f"{path}, line {number}: not 'id, must, may' of a prompt of the set, or given twice")
        must, may = ([] if c.strip() in ("", "-") else [n.strip() for n in c.split(",")] for c in columns[1:])
        label = Label(must, may)
        unknown = (label.names | label.may) - names
        if unknown or len(must) > 3:
            sys.exit(f"{path}, line {number}: more than three wishes, or no LoRA {sorted(unknown)}")
        answers[columns[0]] = label
    missing = set(sample(rows)) - set(answers)
    if missing:
        sys.exit(f"{path}: {len(missing)} prompts of the sample have no answer: {sorted(missing)[:5]}")
    return answers


def judge(a, b):
    """The team of a by the labels of b: top-1 acceptable or None, counts of F1."""
    team = a.team(b)
    found = sum(any(name in wish for name in team) for wish in b.must)
    extra = sum(name not in b.names | b.may for name in team)
    top = None if not b.must else bool(team) and team[0] in b.names | b.may
    return top, found, extra, len(b.must) - found


def kappa(pairs):
    """Cohen 1960: agreement on some or none beyond what chance gives."""
    n = len(pairs)
    same = sum(x == y for x, y in pairs) / n
    x, y = (sum(p[i] for p in pairs) / n for i in (0, 1))
    chance = x * y + (1 - x) * (1 - y)
    return (same - chance) / (1 - chance) if chance < 1 else 1.0


def figures(pairs):
    tops, found, extra, missed = [], 0, 0, 0
    for first, second in pairs:
        for a, b in ((second, first), (first, second)):
            top, f, e, m = judge(a, b)
            tops += [top] if top is not None else []
            found, extra, missed = found + f, extra + e, missed + m
    wanted = [(a.names, b.names) for a, b in pairs if a.names or b.names]
    return {"top-1 acceptable, %": 100 * sum(tops) / max(len(tops), 1),
            "F1 of the teams": 2 * found / max(2 * found + extra + missed, 1),
            "overlap of the names (Jaccard)": sum(len(a & b) / len(a | b) for a, b in wanted) / max(len(wanted), 1),
            "same answer to none or some, %": 100 * sum(bool(a.must) == bool(b.must) for a, b in pairs) / len(pairs),
            "Cohen's kappa, none or some": kappa([(bool(a.must), bool(b.must)) for a, b in pairs])}


def compare(path, wrong):
    rows = read_set()
    answers = read_answers(path, rows)
    first = {id_: Label(rows[id_].get("must", []), rows[id_].get("may", [])) for id_ in answers}
    groups = {"all": list(answers)}
    for id_ in answers:
        groups.setdefault(rows[id_]["kind"], []).append(id_)
    pairs = [(first[id_], answers[id_]) for id_ in groups["all"]]
    rng = random.Random(1)
    resampled = collections.defaultdict(list)
    for _ in range(RESAMPLES):
        for name, value in figures(rng.choices(pairs, k=len(pairs))).items():
            resampled[name].append(value)
    print(f"{len(pairs)} prompts")
    for name, value in figures(pairs).items():
        values = sorted(resampled[name])
        print(f"{name:32s} {value:7.3f}  [{values[25]:.3f} - {values[974]:.3f}]")
    for kind, ids in groups.items():
        if kind != "all":
            f = figures([(first[id_], answers[id_]) for id_ in ids])
            more = any(first[id_].must or answers[id_].must for id_ in ids)
            print(f"  {kind:8s} {len(ids):3d} prompts: none or some {f['same answer to none or some, %']:5.1f} %"
                  + (f", top-1 {f['top-1 acceptable, %']:5.1f} %, F1 {f['F1 of the teams']:.3f}" if more else ""))
    if wrong:  # dev alone: the others stay unseen
        for id_ in groups["all"]:
            a, b = first[id_], answers[id_]
            if rows[id_]["part"] == "dev" and sum(judge(a, b)[2:]) + sum(judge(b, a)[2:]):
                print(f"{id_}  {rows[id_]['prompt']}\n    first {a.must} may {sorted(a.may)}, second {b.must} may {sorted(b.may)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("sample").add_argument("dir", type=pathlib.Path)
    verb = verbs.add_parser("compare")
    verb.add_argument("file")
    verb.add_argument("--wrong", action="store_true", help="list the disagreements of dev.jsonl")
    args = parser.parse_args()
    if args.verb == "sample":
        write_sample(args.dir)
    else:
        compare(args.file, args.wrong)


if __name__ == "__main__":
    main()
