#!/usr/bin/env python3
"""teleport_stream.py - what stored latents save and lose on a stream of jobs like a gallery's, rendered for real.

    python3 scripts/bench/teleport_stream.py [--jobs 5000] [--size 256] [--device cuda:0] [--workers 8] [--waves 20]
        [--out DIR] [--points exact,coarse,repeats]

A job asks for a new scene, repeats a prompt of the stream with a new seed, or says one in other words: typed
otherwise, the same sentence in other words, or another sentence, in equal parts (tests/quality/reuse/make_pairs.py).
Which scene: those of the stream have ranks by chance, and the n-th is asked for 1/n as often as the first (Zipf).
The stream runs once with teleport off and once for each `alike`, each time through a private stack of its own: queue,
store, ledger, workers.  Both runs have the same lines and seeds.  Then `kiln bench judge` looks at the pictures.

Steps: forwards of the full size, of results.jsonl. GPU: seconds of the device, of `kiln usage`. CPU: time of the
processor that the workers took, which other load on the machine hardly changes. wall: from the first job sent to the
last one stored. Several workers on one GPU hold each other up, and so do several --stacks: to measure time, take one
of each. Attributes and whole prompts are differences to the same jobs without teleport in points, below 0 a loss;
distances are in % of the run without teleport; after each its standard error, over scenes. A scene's pictures are
neighbours whether their prompts have the same words or not. near: mean distance of a picture to the nearest other of
its scene, for all that have one; of hits alone; and for all pictures to the nearest of all.

Needs no Python package.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "quality", "reuse")]

import make_pairs  # noqa: E402

SHARES = (30, 15)        # % of repeats and rewordings
ALIKE = (0, 50, 75, 100)
OTHER_SHARES = (0, 10, 60)
POINTS = {
    "exact": [("off", SHARES[0], alike) for alike in ALIKE],
    "coarse": [("auto", SHARES[0], alike) for alike in (0, 50, 100)],
    "repeats": [("off", repeats, alike) for repeats in OTHER_SHARES for alike in (0, 100)],
}
BATCH = "stream"


# ---- The stream

class Scene:
    """What is asked for, and the prompts that asked for it so far, repeats included."""

    def __init__(self, rng, found):
        if rng.random() < 0.3:               # the grammar whose author had not seen the other
            text, _, self.asked = found.pair(rng, "same")
            self.plan, self.key = None, found.key(self.asked)
        else:
            self.plan = make_pairs.some_plan(rng)
            self.speaker, self.seed = make_pairs.speaker(rng), rng.randrange(1 << 30)
            text = make_pairs.say(self.plan, self.speaker, self.seed)
            self.asked = make_pairs.asked_json(make_pairs.asked_of(self.plan))
        self.texts = [text]

    def reword(self, rng, found):
        """Another prompt for it."""
        how, text = rng.choice(["typed", "alike", "freely"]), None
        for _ in range(50):
            if how == "typed":
                text = make_pairs.typed(rng, self.texts[0])
            elif self.plan and how == "alike":
                text = make_pairs.say(self.plan, self.speaker, self.seed, words=rng.randrange(1, 1 << 30))
            elif self.plan:
                text = make_pairs.say(self.plan, make_pairs.speaker(rng), rng.randrange(1 << 30))
            else:
                text = rng.choice(found.by_key[self.key])
            if text not in self.texts:
                break
        return text


def make_stream(jobs, repeats, rewordings, seed):
    """[(scene number, prompt, what it asks for)]"""
    rng, found = random.Random(seed), make_pairs.Found(30000, seed)
    kinds = [rng.choices(["repeat", "reword", "new"], [repeats, rewordings, 100 - repeats - rewordings])[0]
             for _ in range(jobs)]
    kinds[0] = "new"
    ranks = list(range(1, kinds.count("new") + 1))
    rng.shuffle(ranks)
    scenes, weights, stream = [], [], []
    for kind in kinds:
        if kind == "new":
            weights.append((weights[-1] if weights else 0) + 1 / ranks[len(scenes)])
            scenes.append(Scene(rng, found))
            number, text = len(scenes) - 1, scenes[-1].texts[0]
        else:
            number = rng.choices(range(len(scenes)), cum_weights=weights)[0]
            scene = scenes[number]
            text = rng.choice(scene.texts) if kind == "repeat" else scene.reword(rng, found)
            scene.texts.append(text)
        stream.append((number, text, scenes[number].asked))
    return stream


# ---- A point

def run(args, *words, capture=False, **options):
    return subprocess.run([os.path.join(args.build, "kiln"), *words], check=True, text=True,
                          stdout=subprocess.PIPE if capture else sys.stderr, **options).stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lookups(port):
    """(how many, seconds) of the scheduler's look-ups."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines() if line[:1] != "#")
    named = {name.split("{")[0]: float(value) for name, value in lines.items()}
    return named.get("kiln_donor_lookup_seconds_count", 0), named.get("kiln_donor_lookup_seconds_sum", 0)


def worker_cpu_s(stack):
    """Of the stack's workers so far, all threads."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().split("\0")
            if os.path.basename(words[0]) == "kiln-worker" and os.path.join(stack, "kiln.conf") in words:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        except OSError:                      # it ended meanwhile
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def render(args, stream, coarse, alike, place):
    """Runs the stream; alike None: without teleport.  Returns what is to be known of it; pictures and latents are in
    place/out."""
    os.makedirs(place)
    os.chmod(place, 0o711)                   # Postgres has a user of its own
    lines, port = os.path.join(place, BATCH + ".jsonl"), free_port()
    stack = os.path.join(place, "stack")
    run(args, "up", "-q", "--dir", stack, "--workers", str(args.workers), "--device", args.device,
        "--model", args.model, "--dtype", args.dtype, "--size", f"{args.size}x{args.size}", "--no-gallery", "--scheduler-port", str(port),
        "--batch-max", str(args.batch), *(["--threads", str(args.threads)] if args.threads else []))
    config = ["--config", os.path.join(stack, "kiln.conf")]
    try:
        begin, cpu = time.monotonic(), worker_cpu_s(stack)
        for wave in range(args.waves):       # the file grows: what is in the batch already stays as it is
            with open(lines, "a", encoding="utf-8") as file:
                for number in range(len(stream) * wave // args.waves, len(stream) * (wave + 1) // args.waves):
                    file.write(json.dumps({"prompt": stream[number][1], "seed": args.seed * 1000003 + number,
                                           "coarse": coarse, "teleport": "off" if alike is None else "auto",
                                           "alike": alike or 0}) + "\n")
            run(args, "enqueue", lines, "--batch", BATCH, "-q", *config)
            run(args, "wait", BATCH, "--timeout", str(args.limit), "-q", *config)
        seconds, cpu = time.monotonic() - begin, worker_cpu_s(stack) - cpu
        run(args, "export", BATCH, "--out", os.path.join(place, "out"), "--latents", "-q", *config)
        usage = json.loads(run(args, "usage", "--json", *config, capture=True).splitlines()[0])
        count, looked = lookups(port)
    finally:
        run(args, "down", "-q", "--dir", stack)
        shutil.rmtree(stack, ignore_errors=True)
    return {"seconds": seconds, "cpu_s": cpu, "gpu_s": usage["gpu_seconds"], "gpu_saved_s": usage["gpu_seconds_saved"],
            "lookups": count, "lookup_s": looked}


def judge(args, stream, place):
    """[what is known of each job], by `kiln bench judge` on what was rendered"""
    out, rows = os.path.join(place, "out"), {}
    with open(os.path.join(out, "results.jsonl"), encoding="utf-8") as file:
        for row in map(json.loads, file):
            rows[row["index"]] = row
    if len(rows) != len(stream) or any(row["state"] != "done" for row in rows.values()):
        sys.exit(f"{place}: not all jobs have pictures")
    asked = os.path.join(place, "list.jsonl")
    with open(asked, "w", encoding="utf-8") as file:
        for number, (scene, _, what) in enumerate(stream):
            files = rows[number]["files"]
            file.write(json.dumps({"picture": os.path.join(out, files["full"]), "asked": what, "group": scene,
                                   "latent": os.path.join(out, files["latent"])}) + "\n")
    found = [json.loads(line) for line in run(
        args, "bench", "judge", "--list", asked, "--model", args.model, "--judge",
        os.path.join(ROOT, "pipeline/models/judge"), "--device", args.device, capture=True).splitlines()]
    shutil.rmtree(os.path.join(place, "out"))
    return [{"scene": scene, "forwards": rows[i]["forwards"], "class": rows[i]["donor_class"] if hit(rows[i]) else None,
             "depth": rows[i]["steps_saved"] if hit(rows[i]) else 0, "fallback": rows[i]["fallback"], **found[i]}
            for i, (scene, _, _) in enumerate(stream)]


def hit(row):
    return bool(row["donor"]) and not row["fallback"]


# ---- Figures

def by_scene(jobs, value):
    sums = collections.defaultdict(float)
    for job in jobs:
        sums[job[0]["scene"]] += value(job)
    return sums


def ratio(pairs, upper, lower):
    """(ratio of sums over pairs of (job, the same job without teleport), its standard error over scenes)."""
    if not pairs:
        return None
    a, b = by_scene(pairs, upper), by_scene(pairs, lower)
    total = sum(b.values())
    if not total:
        return None
    share, n = sum(a.values()) / total, len(a)
    spread = sum((a[scene] - share * b[scene]) ** 2 for scene in a)
    return share, math.sqrt(spread * n / max(n - 1, 1)) / total


def difference(pairs, key, of):
    """Points between the shares key/of of both runs."""
    now, before = (sum(job[i][key] for job in pairs) / sum(of(job[i]) for job in pairs) for i in (0, 1))
    total = sum(of(job[0]) for job in pairs)
    off = by_scene(pairs, lambda job: job[0][key] - job[1][key] - (now - before) * of(job[0]))
    n = len(off)
    return 100 * (now - before), 100 * math.sqrt(sum(v * v for v in off.values()) * n / max(n - 1, 1)) / total


def near(pairs, key="near"):
    pairs = [job for job in pairs if job[0][key] is not None and job[1][key] is not None]
    found = ratio(pairs, lambda job: job[0][key], lambda job: job[1][key])
    return found and tuple(100 * value for value in found)


def show(value, sign=""):
    return "-" if value is None else f"{value[0]:{sign}.1f} ± {value[1]:.1f}"


def figures(jobs, full, about, about_full):
    pairs = list(zip(jobs, full))
    forwards = [sum(job["forwards"] for job in side) for side in (jobs, full)]
    hits = [pair for pair in pairs if pair[0]["class"]]
    return {"saved": 100 * (1 - forwards[0] / forwards[1]), "gpu": 100 * (1 - about["gpu_s"] / about_full["gpu_s"]),
            "cpu": 100 * (1 - about["cpu_s"] / about_full["cpu_s"]),
            "wall": 100 * (1 - about["seconds"] / about_full["seconds"]),
            "hits": 100 * len(hits) / len(pairs), "fallbacks": sum(bool(job["fallback"]) for job in jobs),
            "classes": {f"{kind} {depth}": round(100 * n / len(pairs), 1) for (kind, depth), n in
                        sorted(collections.Counter((p[0]["class"], p[0]["depth"]) for p in hits).items())},
            "attributes": difference(pairs, "right", lambda job: job["asked"]),
            "whole": difference(pairs, "whole", lambda job: 1),
            "near": near(pairs), "near_hits": near(hits), "near_any": near(pairs, "near_any"),
            "lookups": 100 * about["lookup_s"] / about["gpu_s"]}


def mean(jobs, key):
    values = [job[key] for job in jobs if job[key] is not None]
    return sum(values) / len(values) if values else math.nan


def print_table(args, points):
    print(f"\n{args.jobs} jobs of {args.size}x{args.size}, {args.dtype} on {args.device}, {args.workers} workers, "
          f"{args.stacks} stacks, {args.waves} waves, seed {args.seed}\n")
    print("| runs | repeats | alike | steps saved | GPU saved | CPU saved | wall saved | hits | attributes | whole | "
          "near | of hits | of all pictures | look-ups |\n" + "| --- " * 14 + "|")
    for point in points:
        f, name = point["figures"], "coarse" if point["coarse"] == "auto" else "exact"
        if not f:
            right = 100 * sum(j["right"] for j in point["jobs"]) / sum(j["asked"] for j in point["jobs"])
            print(f"| {name} | {point['repeats']} % | off | {sum(j['forwards'] for j in point['jobs']):.0f} forwards | "
                  f"{point['about']['gpu_s']:.1f} s | {point['about']['cpu_s']:.1f} s | "
                  f"{point['about']['seconds']:.1f} s | - | {right:.1f} % right | "
                  f"{100 * mean(point['jobs'], 'whole'):.1f} % right | {mean(point['jobs'], 'near'):.3f} | - | "
                  f"{mean(point['jobs'], 'near_any'):.3f} | - |")
            continue
        print(f"| {name} | {point['repeats']} % | {point['alike']} | {f['saved']:.1f} % | {f['gpu']:.1f} % | "
              f"{f['cpu']:.1f} % | {f['wall']:.1f} % | {f['hits']:.1f} % | {show(f['attributes'], '+')} | "
              f"{show(f['whole'], '+')} | "
              f"{show(f['near'])} % | {show(f['near_hits'])} % | {show(f['near_any'])} % | {f['lookups']:.3f} % |")
    print("\nHits by class and steps skipped, % of the jobs:")
    for point in points:
        if point["figures"] and point["figures"]["classes"]:
            print(f"- {'coarse' if point['coarse'] == 'auto' else 'exact'}, {point['repeats']} % repeats, alike "
                  f"{point['alike']}: " + ", ".join(f"{k}: {v}" for k, v in point["figures"]["classes"].items()) +
                  (f"; {point['figures']['fallbacks']} fell back" if point["figures"]["fallbacks"] else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where kiln is")
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline/models/sketch"))
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="all on that device")
    parser.add_argument("--batch", type=int, default=4, help="most jobs of an assignment")
    parser.add_argument("--threads", type=int, default=0, help="of a worker on the CPU")
    parser.add_argument("--points", default="exact", help="of " + ", ".join(POINTS) + ", or COARSE:REPEATS:ALIKE")
    parser.add_argument("--rewordings", type=int, default=SHARES[1], help="%% of the jobs, if any repeat")
    parser.add_argument("--waves", type=int, default=1, help="parts of the stream, each enqueued when the one before is done")
    parser.add_argument("--stacks", type=int, default=1, help="points rendered at a time")
    parser.add_argument("--judges", type=int, default=4, help="at a time")
    parser.add_argument("--limit", type=int, default=3600, help="seconds of a run")
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--out", default="teleport-stream", help="a new folder; what each job became is left there")
    args = parser.parse_args()
    if not 1 <= args.waves <= args.jobs:
        parser.error("--waves: from 1 to the number of jobs")
    args.model, args.build, args.out = (os.path.abspath(p) for p in (args.model, args.build, args.out))
    wanted = []
    for name in args.points.split(","):
        coarse, repeats, alike = (name.split(":") + ["", ""])[:3]
        wanted += POINTS[name] if name in POINTS else [(coarse, int(repeats), int(alike))]
    runs = list(dict.fromkeys(point for coarse, repeats, alike in wanted
                              for point in ((coarse, repeats, None), (coarse, repeats, alike))))
    os.makedirs(args.out)
    os.chmod(args.out, 0o711)
    streams, points = {}, []
    for coarse, repeats, alike in runs:
        if repeats not in streams:
            streams[repeats] = make_stream(args.jobs, repeats, args.rewordings if repeats else 0, args.seed)
        points.append({"coarse": coarse, "repeats": repeats, "alike": alike, "place": os.path.join(
            args.out, f"{coarse}-{repeats}-{'off' if alike is None else alike}")})

    def make(point):
        return render(args, streams[point["repeats"]], point["coarse"], point["alike"], point["place"])

    def see(point):
        return judge(args, streams[point["repeats"]], point["place"])

    for key, work, at_once in ("about", make, args.stacks), ("jobs", see, args.judges):
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for point, found in zip(points, pool.map(work, points)):
                point[key] = found
        print(f"{work.__name__}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    full = {}
    for point in points:
        kind = point["coarse"], point["repeats"]
        if point["alike"] is None:
            full[kind] = point
        point["figures"] = None
        if point["alike"] is not None:
            point["figures"] = figures(point["jobs"], full[kind]["jobs"], point["about"], full[kind]["about"])
        with open(point["place"] + ".jsonl", "w", encoding="utf-8") as file:
            file.write(json.dumps({k: v for k, v in point.items() if k not in ("jobs", "place")}) + "\n")
            file.writelines(json.dumps(job, separators=(",", ":")) + "\n" for job in point["jobs"])
        shutil.rmtree(point["place"])
    print_table(args, points)


if __name__ == "__main__":
    main()
