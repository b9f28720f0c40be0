#!/usr/bin/env python3
"""How much of what a gallery finds is right, by labels: searches as people type them, and similar ones.

    scripts/bench/caption_lists.py --out W --queries 200
    scripts/bench/gallery_make.py CONNINFO --prompts W/captions.jsonl
    scripts/bench/gallery_quality.py http://127.0.0.1:PORT W/captions.jsonl W/queries.jsonl
    scripts/bench/gallery_quality.py http://127.0.0.1:PORT W/captions.jsonl W/vague.jsonl --similar 0

Waits until a running gallery has embedded all prompts, as its metrics say (--metrics, --wait), asks
its /v1/pictures, and prints the share of right ones among the first ten: those that say a thing of
the query's shape and colour (one of its shapes), and the scene if the query has one.  The queries with
even numbers are for tuning, the odd ones for judging.  Then /v1/alike of --similar pictures: the
share of those it calls similar that have a thing in common.  --beside is a second gallery over the
same ledger, with gallery_embedder = none: words alone.  Standard library only.
"""
import argparse
import json
import sys
import time
import urllib.parse
import urllib.request


NOTHING = (set(), None)


def read(path):
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["prompt"]: ({(t["shape"], t.get("colour")) for t in row["asked"]["things"]},
                            row["asked"].get("scene")) for row in rows}


def is_right(wanted, said):
    return bool(wanted[0] & said[0]) and wanted[1] in (None, said[1])


def get(url, path, **query):
    path = f"{url.rstrip('/')}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(path, timeout=60) as answer:
        return json.load(answer)


def read_metrics(url):
    """Gauges by name, of one gallery and so of one pool."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split("{")[0].split()[0]: float(line.split()[-1]) for line in lines
            if line.startswith("kiln_gallery_")}


def wait_until_embedded(url, metrics, limit_s):
    """A search opens the search by meaning; two looks in a row, since a look may come between the
    index of words and that of meaning."""
    get(url, "/v1/pictures", q="red", limit=1)
    end, ready, seen = time.monotonic() + limit_s, 0, {}
    while ready < 2:
        if time.monotonic() > end:
            sys.exit(f"after {limit_s} s {seen.get('kiln_gallery_meaning_waiting', 0):.0f} prompts wait for their "
                     "vector: is search by meaning on (see /help of the gallery)?  Allow more time with --wait")
        time.sleep(2)
        seen = read_metrics(metrics)
        embedded = seen.get("kiln_gallery_meaning_prompts", 0) > 0 and seen["kiln_gallery_meaning_waiting"] == 0
        ready = ready + 1 if embedded and seen["kiln_gallery_index_complete"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url"), parser.add_argument("captions"), parser.add_argument("queries")
    parser.add_argument("--beside", help="another gallery: how many queries does it answer better?")
    parser.add_argument("--similar", type=int, default=200, help="pictures whose similar ones are judged")
    parser.add_argument("--metrics", default="http://127.0.0.1:9460/metrics", help="of the gallery")
    parser.add_argument("--wait", type=float, default=1800, metavar="S", help="for the gallery, at most")
    args = parser.parse_args()
    wait_until_embedded(args.url, args.metrics, args.wait)
    says, shares, empty, some, better = read(args.captions), ([], []), 0, [], 0

    def share(pictures, wanted):
        return sum(is_right(wanted, says.get(p["prompt"], NOTHING)) for p in pictures) / 10

    for n, (text, wanted) in enumerate(read(args.queries).items()):
        found = get(args.url, "/v1/pictures", q=text, limit=10)["pictures"]
        empty += not found
        some += found
        shares[n % 2].append(share(found, wanted))
        if args.beside:
            other = get(args.beside, "/v1/pictures", q=text, limit=10)["pictures"]
            better += share(other, wanted) > share(found, wanted)
    for name, part in zip(("even", "odd"), shares):
        print(f"{len(part)} queries, {name}: {100 * sum(part) / len(part):.1f} % of the first ten are right")
    print(f"{empty} find nothing" + (f"; {better} are answered better by {args.beside}" if args.beside else ""))
    shown = right = asked = 0
    for picture in {p["job"]: p for p in some if p["prompt"] in says}.values():
        if asked == args.similar:
            break
        asked += 1
        for other in get(args.url, f"/v1/alike/{picture['job']}")["similar"]:
            shown += 1
            right += bool(says[picture["prompt"]][0] & says.get(other["prompt"], NOTHING)[0])
    if asked:
        print(f"similar to {asked} pictures: {shown} are shown, {100 * right / max(shown, 1):.1f} % right")


main()
