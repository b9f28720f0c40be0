#!/usr/bin/env python3
"""Precision of the gallery's four relations between pictures, on a labelled set of its own making.

    alike.py jobs jobs.jsonl again.jsonl                  what to render, by tests/quality/held.jsonl
    kiln run jobs.jsonl --dir DIR --model pipeline/models/sketch --out OUT
    kiln run again.jsonl --dir DIR --model pipeline/models/sketch --out OUT
    alike.py copies CONNINFO DIR/store                    changed copies of pictures, into the ledger
    alike.py judge CONNINFO http://127.0.0.1:PORT         asks /v1/alike of a running gallery

jobs.jsonl has two seeds of each prompt; again.jsonl some of them once more, and some with other
steps.  A copy is a picture of its own, with its own prompt, whose file is an original's: stored at
another quality or size, cropped, brighter, signed in a corner, mirrored.  A near-duplicate is right
if both pictures come from one original.  Same and variants are judged by the parameters in the
ledger, similar by the labels of the prompts.

The connection must belong to the owner of the tables.  Needs psql and Pillow.
"""
import argparse
import collections
import hashlib
import io
import json
import os
import subprocess
import urllib.request

from PIL import Image, ImageDraw, ImageEnhance

HERE = os.path.dirname(os.path.abspath(__file__))
HELD = os.path.join(HERE, "../../tests/quality/held.jsonl")
PROMPTS, AGAIN, STEPS, ORIGINALS = 250, 60, 40, 200


def recompressed(picture, quality):
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=quality)
    return Image.open(io.BytesIO(data.getvalue())).convert("RGB")


def rescaled(picture, share):
    width, height = picture.size
    return picture.resize((round(width * share), round(height * share)), Image.LANCZOS)


def cropped(picture, share):
    width, height = picture.size
    x, y = round(width * share), round(height * share)
    return picture.crop((x, y, width - x, height - y))


def signed(picture):
    picture = picture.copy()
    ImageDraw.Draw(picture).text((picture.width - 70, picture.height - 16), "(c) 2026", (255, 255, 255))
    return picture


CHANGES = {
    "JPEG, quality 50": lambda p: recompressed(p, 50),
    "JPEG, quality 15": lambda p: recompressed(p, 15),
    "half the side": lambda p: rescaled(p, 0.5),
    "twice the side": lambda p: rescaled(p, 2),
    "brighter by 15 %": lambda p: ImageEnhance.Brightness(p).enhance(1.15),
    "signed in a corner": signed,
    "cropped by 2 % a side": lambda p: cropped(p, 0.02),
    "cropped by 5 % a side": lambda p: cropped(p, 0.05),
    "cropped by 10 % a side": lambda p: cropped(p, 0.10),
    "mirrored": lambda p: p.transpose(Image.FLIP_LEFT_RIGHT),
}


def held():
    with open(HELD, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:PROMPTS]


def make_jobs(args):
    prompts = [row["prompt"] for row in held()]
    job = lambda prompt, seed, steps: json.dumps(
        {"prompt": prompt, "size": "256x256", "seed": seed, "steps": steps}) + "\n"
    with open(args.jobs, "w", encoding="utf-8") as file:
        file.writelines(job(prompt, seed, 8) for prompt in prompts for seed in (11, 12))
    with open(args.again, "w", encoding="utf-8") as file:
        file.writelines(job(prompt, 11, 8) for prompt in prompts[:AGAIN])
        file.writelines(job(prompt, 11, 5) for prompt in prompts[AGAIN:AGAIN + STEPS])


def psql(conninfo, sql):
    answer = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", conninfo],
                            input=sql, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in answer.stdout.splitlines()]


def webp(picture):
    data = io.BytesIO()
    picture.save(data, "WEBP", quality=85)
    return data.getvalue()


def make_copies(args):
    originals = psql(args.conninfo, "SELECT DISTINCT ON (i.prompt_hash) i.job_id, o.key FROM image i"
                     " JOIN object o ON o.job_id = i.job_id AND o.role = 'full' WHERE i.seed = 11 AND i.steps = 8"
                     f" ORDER BY i.prompt_hash, i.job_id LIMIT {ORIGINALS}")
    rows = []
    for job, key in originals:
        with Image.open(os.path.join(args.store, key)) as file:
            original = file.convert("RGB")
        for change, make in CHANGES.items():
            picture = make(original)
            small = picture.copy()
            small.thumbnail((256, 256), Image.LANCZOS)
            name = f"{job}-{hashlib.sha256(change.encode()).hexdigest()[:8]}"
            files = []
            for role, image in (("full", picture), ("256", small)):
                data = webp(image)
                path = f"copies/{name}-{role}.webp"
                os.makedirs(os.path.join(args.store, "copies"), exist_ok=True)
                with open(os.path.join(args.store, path), "wb") as file:
                    file.write(data)
                files.append((role, path, len(data), image.width, image.height, hashlib.sha256(data).hexdigest()))
            rows.append((job, change, picture.size, files))
    sql = ["BEGIN; INSERT INTO batch (pool, name) SELECT DISTINCT pool, 'copies' FROM batch"
           " ON CONFLICT DO NOTHING;"]
    columns = ("created_at, guidance, steps, attempt, wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, pool,"
               " negative_prompt, model, model_name, model_hash, loras, lora_set, tenant, worker")
    for n, (job, change, (width, height), files) in enumerate(rows):
        prompt = f"copy of {job}: {change}".replace("'", "''")
        sql.append(
            f"INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s, priority, kind, latents,"
            f" teleport, embed_metadata, lora_auto, pool, key, token, prompt, negative_prompt, tenant, model, loras,"
            f" lora_set, state) SELECT (SELECT id FROM batch b WHERE b.name = 'copies' AND b.pool = j.pool), {n}, 0, {n},"
            f" {width}, {height}, 8, 0, 0, 0, 0, 0, false, false, pool, 'copy {n}', 't', '{prompt}', '', 'copies', '', '[]',"
            f" '', state FROM job j WHERE id = {job};"
            f" INSERT INTO image (job_id, batch_id, seed, width, height, prompt, prompt_hash, {columns})"
            f" SELECT currval('job_id_seq'), (SELECT batch_id FROM job WHERE id = currval('job_id_seq')), {n}, {width},"
            f" {height}, '{prompt}', encode(sha256('{prompt}'), 'hex'), {columns} FROM image WHERE job_id = {job};")
        for role, path, size, w, h, sha256 in files:
            sql.append(f"INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type) VALUES"
                       f" (currval('job_id_seq'), {size}, {w}, {h}, '{role}', '{path}', '{sha256}', 'image/webp');")
    psql(args.conninfo, "\n".join(sql) + "\nCOMMIT;")
    print(len(rows), "copies of", len(originals), "pictures")


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def judge(args):
    labels = {row["prompt"]: row["asked"] for row in held()}
    pictures = {}
    for job, prompt, seed, steps, quality in psql(
            args.conninfo, "SELECT i.job_id, i.prompt, i.seed, i.steps, p.quality FROM image i"
            " LEFT JOIN gallery_picture p ON p.job_id = i.job_id ORDER BY 1"):
        copy = prompt.startswith("copy of ")
        pictures[int(job)] = {
            "prompt": prompt, "settings": (seed, steps), "quality": int(quality or 0),
            "origin": int(prompt.split()[2][:-1]) if copy else int(job),
            "change": prompt.split(": ", 1)[1] if copy else None}
    # One picture that was rendered twice is one original.
    first = {}
    for job, picture in pictures.items():
        if not picture["change"]:
            first.setdefault((picture["prompt"], picture["settings"]), job)
    for picture in pictures.values():
        source = pictures[picture["origin"]]
        picture["origin"] = first[source["prompt"], source["settings"]]
    answers = {}
    for job in pictures:
        with urllib.request.urlopen(f"{args.url.rstrip('/')}/v1/alike/{job}", timeout=10) as answer:
            answers[job] = json.load(answer)
    report(pictures, answers, labels)


def things(asked):
    return {(thing.get("shape"), thing.get("colour")) for thing in asked["things"]}


def report(pictures, answers, labels):
    tally = collections.Counter()
    for job, answer in answers.items():
        own = pictures[job]
        for other in (pictures[tile["job"]] for tile in answer["same"]):
            tally["same", "found"] += 1
            tally["same", "right"] += other["origin"] == own["origin"]
        for other in (pictures[tile["job"]] for tile in answer["variants"]):
            tally["variants", "found"] += 1
            tally["variants", "right"] += (other["prompt"] == own["prompt"]
                                           and other["settings"] != own["settings"])
        for tile in answer["near_duplicates"]:
            other = pictures[tile["job"]]
            tally["near", "found"] += 1
            tally["near", "right"] += other["origin"] == own["origin"]
            prompts = {pictures[p["origin"]]["prompt"] for p in (own, other)}
            tally["near", "seed"] += other["origin"] != own["origin"] and len(prompts) == 1
        if own["prompt"] in labels:
            for tile in answer["similar"]:
                if pictures[tile["job"]]["prompt"] in labels:
                    wanted, got = (things(labels[pictures[p]["prompt"]]) for p in (job, tile["job"]))
                    tally["similar", "found"] += 1
                    tally["similar", "right"] += bool(wanted & got)
    known = [job for job in labels_of(pictures, labels)]
    pairs = [(a, b) for a in known for b in known if pictures[a]["prompt"] != pictures[b]["prompt"]]
    chance = sum(bool(things(labels[pictures[a]["prompt"]]) & things(labels[pictures[b]["prompt"]]))
                 for a, b in pairs)
    flat = sum(picture["quality"] < 50 for picture in pictures.values())
    print(f"{len(pictures)} pictures, {flat} of them too plain ({percent(flat, len(pictures))})\n")
    print("| relation | pairs found | right |\n| --- | --- | --- |")
    for name in ("same", "variants", "near", "similar"):
        print(f"| {name} | {tally[name, 'found']} | {percent(tally[name, 'right'], tally[name, 'found'])} |")
    wrong = tally["near", "found"] - tally["near", "right"]
    print(f"\nOf the {wrong} wrong near-duplicates {tally['near', 'seed']} are another seed of the prompt."
          f"  Similar, by chance: {percent(chance, len(pairs))}.\n")
    print("| change | found, quality above 49 | of | found, all | of |\n| --- | --- | --- | --- | --- |")
    for change in CHANGES:
        copies = [job for job, picture in pictures.items() if picture["change"] == change]
        clear = [job for job in copies if pictures[job]["quality"] > 49
                 and pictures[pictures[job]["origin"]]["quality"] > 49]
        found = {job for job in copies if any(
            pictures[tile["job"]]["change"] is None and pictures[tile["job"]]["origin"] == pictures[job]["origin"]
            for tile in answers[job]["near_duplicates"])}
        print(f"| {change} | {percent(len(found & set(clear)), len(clear))} | {len(clear)} |"
              f" {percent(len(found), len(copies))} | {len(copies)} |")


def labels_of(pictures, labels):
    return [job for job, picture in pictures.items() if picture["prompt"] in labels]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("jobs")
    verb.add_argument("jobs"), verb.add_argument("again"), verb.set_defaults(run=make_jobs)
    verb = verbs.add_parser("copies")
    verb.add_argument("conninfo"), verb.add_argument("store"), verb.set_defaults(run=make_copies)
    verb = verbs.add_parser("judge")
    verb.add_argument("conninfo"), verb.add_argument("url"), verb.set_defaults(run=judge)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
