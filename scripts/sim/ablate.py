#!/usr/bin/env python3
"""ablate.py - what each rule and constant of the scheduling policy is worth.

    scripts/sim/ablate.py [--traces PART] [NAME...] > table.md

Switches off one rule at a time in a copy of the source, builds `kiln` there, runs it over the same
traces as table.sh plus bursts and priorities, and prints what changed against the policy as it is.
A rule that changes no makespan, mean wait or missed promise does not earn its lines.  The results
are those of virtual time: a busy machine changes nothing.  All rules take about ten minutes; --traces
keeps to the traces with PART in their names.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICK, CHOOSE, URGENT, ESTIMATES, DUE, STATE = (
    "scheduler/policy/" + name for name in
    ("pick.c", "choose.c", "urgent.c", "estimates.c", "deadlines.c", "state.h"))
SWITCHES = ["0.03", "0.3", "1", "5"]
SEEDS = ["1", "2", "3"]
ONLINE = ["--kind", "online", "--jobs", "30000", "--load"]
MIXED = ["--tenants", "20", "--sizes", "mixed"]
TRACES = {
    "backlog": ["--kind", "backlog", "--jobs", "70000"],
    "backlog, all LoRA": ["--kind", "backlog", "--jobs", "15202", "--no-lora", "0"],
    "backlog, bypass": ["--kind", "backlog", "--jobs", "70000", "--bypass", "2000", "--switch", "@"],
    "backlog, tenants": ["--kind", "backlog", "--jobs", "70000", *MIXED],
    "bursts": ["--kind", "bursts", "--jobs", "20000"],
    "priorities": ["--kind", "online", "--jobs", "20000", "--load", "0.9", "--priorities",
                   "--tenants", "5"],
    "mixed promises": [*ONLINE, "0.9", *MIXED, "--max-wait", "60", "--priorities"],
    "short": [*ONLINE, "0.95", "--service", "0.05", "--max-wait", "8"],
}
# In these, workers fetch files of LoRAs: the disks of eight workers hold half of 300 files each, or
# a fifth.
SIM = {}
for disk in "150", "60":
    files = ["--no-lora", "0.2", "--sets", "300"]
    for name, options in {"backlog": ["--kind", "backlog", "--jobs", "20000"],
                          "online 0.70": [*ONLINE, "0.7"]}.items():
        TRACES[f"{name}, files on disks of {disk}"] = [*options, *files]
        SIM[f"{name}, files on disks of {disk}"] = ["--lora-fetch-s", "2", "--lora-disk", disk]
for load in "0.70", "0.95":
    TRACES["online " + load] = [*ONLINE, load]
    TRACES["online, tenants " + load] = [*ONLINE, load, *MIXED]
    TRACES["online, promises " + load] = [*ONLINE, load, "--max-wait", "120"]

# What it is, the file, its text, the text that switches it off.
RULES = [
    ("a set joins another worker only beyond the mean load", ESTIMATES,
     "kiln_policy_holders_s(p, set) > mean * OVERLOAD + kiln_policy_switch_s(p, set)",
     "kiln_policy_holders_s(p, set) > 2 * kiln_policy_switch_s(p, set)"),
    ("OVERLOAD 1.05, not 1", ESTIMATES, "#define OVERLOAD 1.05", "#define OVERLOAD 1.0"),
    ("promises of a set that nobody holds may overtake", URGENT,
     "if (own_due && due_ms != INT64_MAX && too_far", "if (false && too_far"),
    ("... and one that cannot wait any longer", URGENT,
     "return due_ms <= last_ms && due_ms >= now_ms && due_ms <",
     "return false && due_ms <= last_ms && due_ms <"),
    ("two loads' worth of work before promises pull a worker away", URGENT,
     "#define STAY_MIN 2.0", "#define STAY_MIN 0.0"),
    ("a holder that is free in time is waited for", URGENT,
     "set == worker->set || holder_in_time(p, set, now_ms)", "set == worker->set"),
    ("... and for a lost promise any holder", URGENT, "        return !kiln_policy_overloaded(p, set);",
     "        return false;"),
    ("an idle worker helps with a held set", CHOOSE,
     "best == KILN_NONE && worker->busy == 0;", "best == KILN_NONE && false;"),
    ("a set in memory is worth what it will save", ESTIMATES,
     "    return kiln_policy_switch_s(p, set) * asked", "    return 0 * asked"),
    ("the worker that loses least takes the set", PICK,
     "if (w->in_flight_count > 0 || w->set == set)", "if (true || w->set == set)"),
    ("waiting counts beyond half of one's own", CHOOSE, "/ 1000 - my_age / 2;",
     "/ 1000 - 0 * my_age;"),
    ("tenants are balanced", CHOOSE,
     "return fmax(waited / PATIENCE, served / FAIR_PATIENCE);",
     "return waited / PATIENCE + 0 * served;"),
    ("a worker keeps its size", CHOOSE, "if (is_size_of(worker, &p->groups[group]) &&",
     "if (false && is_size_of(worker, &p->groups[group]) &&"),
    ("PATIENCE 256, not 128", STATE, "#define PATIENCE 256.0", "#define PATIENCE 128.0"),
    ("QUANTUM_S 20, not 80", STATE, "#define QUANTUM_S 20.0", "#define QUANTUM_S 80.0"),
    ("promised work counts from half of the time", DUE, "#define SHARE 0.5", "#define SHARE 1.0"),
    ("the reserve has two batches", DUE, "short_s + 2 * p->batch_s;", "short_s;"),
    ("the reserve has what lies ahead of short jobs", DUE, "RESERVE_MIN_S + short_s",
     "RESERVE_MIN_S + 0 * short_s"),
    ("what is on the disks of the workers counts", ESTIMATES,
     "i < s->file_count && worker->tells_files; i++)", "i < s->file_count && false; i++)"),
    ("promised work counts its load", DUE,
     "p->sets[set].holders == 0 ? kiln_policy_switch_s(p, set) : 0;",
     "p->sets[set].holders == 0 ? 0 : 0;"),
]
KEYS = ["ratio", "wait, mean", "missed promises"]


def trace(work, name, options, switch, seed):
    """The path of a trace, made once; @ in the options is the cost of a switch."""
    options = [switch if o == "@" else o for o in options]
    path = work / (re.sub("[^a-z0-9]+", "-", " ".join([name, *options])) + seed + ".csv")
    if not path.exists():
        path.write_bytes(subprocess.check_output([ROOT / "scripts/sim/trace.py", "--seed", seed,
                                                  *options]))
    return path


def measure(work, kiln):
    """Of every trace and cost of a switch the means of KEYS."""
    cells = {}
    for name, options in TRACES.items():
        for switch in SWITCHES:
            sums = [0.0] * len(KEYS)
            for seed in SEEDS:
                out = subprocess.check_output(
                    [kiln, "sim", "--trace", trace(work, name, options, switch, seed),
                     "--lora-switch-s", switch, *SIM.get(name, [])], text=True)
                for i, key in enumerate(KEYS):
                    sums[i] += float(re.search("^" + key + r"\s+([0-9.]+)", out, re.M)[1])
            cells[name, switch] = [s / len(SEEDS) for s in sums]
    return cells


def changes(base, other):
    """What became different by half a percent or a promise, the worst first."""
    found = []
    for (name, switch), was in base.items():
        now = other[name, switch]
        for i, key in enumerate(KEYS):
            if key == "ratio" and not name.startswith("backlog"):
                continue  # the last arrival decides
            if key == "missed promises":
                share = (now[i] - was[i]) / max(was[i], 1) if abs(now[i] - was[i]) >= 1 else 0
            else:
                share = now[i] / was[i] - 1
                if abs(share) < 0.005 or abs(now[i] - was[i]) < 0.001:
                    share = 0
            if share:
                found.append((share, f"{name} at {switch} s: {key} {was[i]:.4g} -> {now[i]:.4g}"))
    return sorted(found, reverse=True)


def main():
    wanted = sys.argv[1:]
    if wanted[:1] == ["--traces"]:
        for name in [name for name in TRACES if wanted[1] not in name]:
            del TRACES[name]
        wanted = wanted[2:]
    with tempfile.TemporaryDirectory(prefix="kiln-ablate.") as scratch:
        work, tree = pathlib.Path(scratch), pathlib.Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(".git", "tests"))
        build = ["make", "-s", "-C", tree, "WARN=-Wall -Wno-unused", "build/kiln",
                 "build/kiln-bench"]
        subprocess.check_call(build, stdout=sys.stderr)
        base = measure(work, tree / "build/kiln")
        print("| without: | worse in | better in | most | least |\n| --- | --- | --- | --- | --- |")
        for what, file, on, off in RULES:
            if wanted and not any(w in what for w in wanted):
                continue
            text = (ROOT / file).read_text()
            if text.count(on) != 1:
                sys.exit(f"{file} does not hold exactly one: {on}")
            (tree / file).write_text(text.replace(on, off))
            subprocess.check_call(build, stdout=sys.stderr)
            found = changes(base, measure(work, tree / "build/kiln"))
            (tree / file).write_text(text)
            worse = [f for f in found if f[0] > 0]
            better = [f for f in found if f[0] < 0]
            print(f"| {what} | {len(worse)} | {len(better)} | {worse[0][1] if worse else '-'} | "
                  f"{better[-1][1] if better else '-'} |", flush=True)


if __name__ == "__main__":
    main()
