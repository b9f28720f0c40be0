#!/usr/bin/env python3
"""trace.py - makes traces for `kiln sim`; standard library alone, a seed makes the same file again.

    trace.py --kind backlog --jobs 70000 --sets 1500 > backlog.csv
    trace.py --kind online --load 0.95 --workers 8 --jobs 50000 | kiln sim --trace - --workers 8
    trace.py --kind bursts --burst 90 --tenants 50 --sizes mixed --max-wait 600 > day.csv

Kinds:
  backlog  everything is there at time 0, in an order without pattern
  online   Poisson arrivals at a share --load of what --workers can compute (switches not counted)
  bursts   the same mean, but in 1 % of the time arrivals come --burst times as fast as in the rest

A share --no-lora of the jobs uses no LoRA.  The others come in sessions, as people send several jobs
of one set: the set by Zipf's law (in proportion to 1 / k^--zipf), the number of jobs by Pareto's
(--runs is its exponent, 0 for sessions of one job), three sessions at a time.  The defaults are
shaped after the public trace GenTD26 (cluster-trace-v2026-GenAI of Alibaba): 22 % of the requests
use a LoRA, about 1,500 sets in 15,000 jobs, a third of them seen once; and a fleet of 8 workers on
them loses to FIFO and to windows of 32 and 4096 what it loses on that trace.

--bypass B promises every job of a backlog the start that it has when B younger ones go first and
the fleet needs 1.05 of the lower bound for them all.
"""
import argparse
import random
import sys
from bisect import bisect
from itertools import accumulate

SIZES = {  # width, height, share of the jobs
    "one": [(1024, 1024, 1)],
    "mixed": [(1024, 1024, 50), (1344, 768, 20), (768, 1344, 20), (512, 512, 5), (1536, 1536, 5)],
}

SESSIONS = 3  # side by side
SESSION_MAX = 400
COARSE = "coarse=4+3"
COARSE_COST = (4 / 4 + 3) / 8  # four steps at half the side and three more, for eight
PACE = 1.05  # of the lower bound, that --bypass counts on


def weighted(items, weights, rng):
    """A function that draws one item."""
    sums = list(accumulate(weights))
    return lambda: items[min(bisect(sums, rng.random() * sums[-1]), len(items) - 1)]


def lora_sets(args, rng):
    """Sets of the jobs that use one, for ever."""
    draw = weighted([f"lora-{k}" for k in range(args.sets)],
                    [1 / (k + 1) ** args.zipf for k in range(args.sets)], rng)
    sessions = []
    while True:
        while len(sessions) < SESSIONS:
            jobs = rng.random() ** (-1 / args.runs) if args.runs else 1
            sessions.append([draw(), min(int(jobs), SESSION_MAX)])
        session = rng.choice(sessions)
        yield session[0]
        session[1] -= 1
        if session[1] == 0:
            sessions.remove(session)


def arrivals(args, rng, mean_s):
    """Seconds at which jobs come, for ever; mean_s is the compute of a job."""
    rate = args.load * args.workers / mean_s
    if args.kind == "backlog":
        while True:
            yield 0.0
    if args.kind == "online":
        now = 0.0
        while True:
            now += rng.expovariate(rate)
            yield now
    # Two rates whose mean is `rate`; bursts last two minutes of every 12,000 seconds.
    calm = rate / (0.99 + 0.01 * args.burst)
    now = 0.0
    while True:
        burst = now % 12000 < 120
        step = rng.expovariate(calm * args.burst if burst else calm)
        edge = now - now % 12000 + (120 if burst else 12000)
        if now + step > edge:  # the rate changes first
            now = edge
            continue
        now += step
        yield now


def service_of(args, width, height, mode=""):
    """By pixels and steps, as good as the cost model for a generator of loads."""
    return args.service * width * height / (1024 * 1024) * (COARSE_COST if mode else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kind", choices=("backlog", "online", "bursts"), default="backlog")
    parser.add_argument("--jobs", type=int, default=70000)
    parser.add_argument("--sets", type=int, default=1900, help="LoRA sets there are")
    parser.add_argument("--zipf", type=float, default=0.6, help="0: all sets alike")
    parser.add_argument("--no-lora", type=float, default=0.777, help="share of jobs without a LoRA")
    parser.add_argument("--runs", type=float, default=1.25, help="0: no two jobs belong together")
    parser.add_argument("--sizes", choices=sorted(SIZES), default="one")
    parser.add_argument("--coarse", type=float, default=0.0, help="share of jobs at coarse=4+3")
    parser.add_argument("--tenants", type=int, default=1, help="Zipf as well, so they are unlike")
    parser.add_argument("--load", type=float, default=0.7, help="of the workers, when online")
    parser.add_argument("--workers", type=int, default=8, help="that the load is of")
    parser.add_argument("--burst", type=float, default=90.0)
    parser.add_argument("--service", type=float, default=1.0, help="seconds of a 1024x1024 picture")
    parser.add_argument("--max-wait", type=float, default=0.0, help="promise, in seconds; 0: none")
    parser.add_argument("--bypass", type=int, default=0, help="promise of a backlog, in jobs")
    parser.add_argument("--switch", type=float, default=1.0, help="seconds, that --bypass counts")
    parser.add_argument("--priorities", action="store_true", help="some jobs at -10 and at 5")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)

    sets = lora_sets(args, rng)
    draw_size = weighted([s[:2] for s in SIZES[args.sizes]], [s[2] for s in SIZES[args.sizes]], rng)
    draw_tenant = weighted([f"tenant-{k}" for k in range(args.tenants)],
                           [1 / (k + 1) for k in range(args.tenants)], rng)
    draw_priority = weighted([0, -10, 5], [90, 5, 5], rng) if args.priorities else lambda: 0
    total = sum(s[2] for s in SIZES[args.sizes])
    mean_s = sum(s[2] * service_of(args, s[0], s[1]) for s in SIZES[args.sizes]) / total
    mean_s *= 1 - args.coarse * (1 - COARSE_COST)
    times = arrivals(args, rng, mean_s)

    jobs = []
    for _ in range(args.jobs):
        width, height = draw_size()
        loras = "" if rng.random() < args.no_lora else next(sets)
        mode = COARSE if args.coarse and rng.random() < args.coarse else ""
        jobs.append((next(times), draw_tenant(), width, height, mode, loras, draw_priority()))

    # What a job takes of the fleet's time at the lower bound, its share of the loads included.
    work_s = sum(service_of(args, *job[2:5]) for job in jobs)
    work_s += args.switch * len({job[5] for job in jobs})
    step_s = PACE * work_s / args.workers / max(1, len(jobs))
    print("arrival_s,tenant,width,height,steps,mode,loras,priority,max_wait_s,service_s")
    for i, (arrival, tenant, width, height, mode, loras, priority) in enumerate(jobs):
        promise = f"{(i + args.bypass) * step_s:.3f}" if args.bypass else \
            f"{args.max_wait:g}" if args.max_wait else ""
        print(f"{arrival:.3f},{tenant},{width},{height},8,{mode},{loras},{priority},{promise},"
              f"{service_of(args, width, height, mode):.6g}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
