#!/usr/bin/env python3
"""Fills a ledger with a million pictures, for benches of the gallery.

    kiln up --dir stack && kiln run jobs.jsonl ...        a few real pictures, the models of the others
    scripts/bench/gallery_make.py "host=... dbname=..." --pictures 1000000 --store stack/store

Each row copies a picture that the pool has: its size, its bytes and hashes.  What differs is the
prompt, 8 to 220 words of six languages, and tenant, style, LoRA, level, time and fingerprint,
which is of random bits.  Word r of a language has a frequency of 1/r (Zipf).  The objects of the
newest pictures (--files) are hard links to those that they copy, so they can be opened; the others
are only rows.

--prompts takes the prompts of a file (JSON lines, caption_lists.py) instead, one a picture, all of
level 0, for gallery_quality.py.

The connection must belong to the owner of the tables.  Needs psql, and nothing else.
"""
import argparse
import bisect
import concurrent.futures
import itertools
import json
import os
import random
import subprocess
import sys

VOCABULARY = 30000
CHUNK = 50000
STYLES = ["noir", "watercolour", "neon-punk", "isometric", "ukiyo-e"]
LORAS = ["ink_wash", "pixel-art", "clay", "blueprint"]
COMMON = {
    "en": "a the of in with and on red blue star sky light over green field black white old city "
          "night photo detailed soft sun sea tree house cat painting golden forest river".split(),
    "de": "ein der die und im mit auf rot blau stern himmel licht über grün feld schwarz alt stadt "
          "nacht weich sonne meer baum haus katze wald fluss große straße".split(),
    "ru": "и в на с красный синий звезда небо свет над зелёный поле чёрный старый город ночь "
          "солнце море дерево дом кошка лес река".split(),
    "fr": "un le de et dans avec sur rouge bleu étoile ciel lumière vert champ noir vieux ville nuit "
          "soleil mer arbre maison chat forêt rivière".split(),
}
LETTERS = {"en": ("bcdfghklmnprstvw", "aeiou"), "de": ("bdfghklmnrstwz", "aeiouäöü"),
           "ru": ("бвгдзклмнпрст", "аеиоуы"), "fr": ("bcdfglmnprstv", "aeiouéè")}
HAN = "的红色星天光绿田黑白老城夜照片柔日海树屋猫画金林河山水人大小花草风云雨雪火石鸟鱼马车门书"
KANA = "の赤い星空光緑野黒白古町夜写真柔らか太陽海木家猫絵金森川山水人大きな花草風雲雨雪"
SHARES = [("en", 70), ("de", 9), ("ru", 7), ("fr", 6), ("zh", 5), ("ja", 3)]


def vocabulary(language, rng):
    """The words of a language by falling frequency."""
    if language in ("zh", "ja"):
        signs = HAN if language == "zh" else KANA
        return ["".join(rng.choice(signs) for _ in range(rng.randint(1, 3)))
                for _ in range(VOCABULARY)]
    hard, soft = LETTERS[language]
    words = list(COMMON[language])
    seen = set(words)
    while len(words) < VOCABULARY:
        word = "".join(rng.choice(hard) + rng.choice(soft) for _ in range(rng.randint(2, 4)))
        if word not in seen:
            seen.add(word)
            words.append(word)
    return words


def new_prompt(rng, words, weights, languages, shares):
    language = languages[bisect.bisect(shares, rng.random() * shares[-1])]
    length = int(8 * (220 / 8) ** rng.random())  # as many of 8 to 16 as of 110 to 220
    chosen = rng.choices(words[language], cum_weights=weights, k=length)
    return ("" if language in ("zh", "ja") else " ").join(chosen)


def rows(count, seed):
    """The lines of COPY: n, prompt, tenant, style, lora, level."""
    rng = random.Random(seed)
    words = {language: vocabulary(language, rng) for language, _ in SHARES}
    weights = list(itertools.accumulate(1 / (r + 1) for r in range(VOCABULARY)))
    languages = [language for language, _ in SHARES]
    shares = list(itertools.accumulate(share for _, share in SHARES))
    prompt = ""
    for n in range(count):
        if not prompt or rng.random() >= 0.2:  # every fifth is a variant: the same prompt again
            prompt = new_prompt(rng, words, weights, languages, shares)
        style = rng.choice(STYLES) if rng.random() < 0.15 else r"\N"
        lora = rng.choice(LORAS) if rng.random() < 0.1 else r"\N"
        level = rng.choices(["0", "1", "2", "3", r"\N"], weights=[80, 6, 3, 1, 10])[0]
        yield f"{n}\t{prompt}\tt{min(int(rng.expovariate(0.5)), 9)}\t{style}\t{lora}\t{level}\n"


def rows_of(path):
    with open(path, encoding="utf-8") as lines:
        for n, line in enumerate(lines):
            prompt = json.loads(line)["prompt"].replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n")
            yield f"{n}\t{prompt}\tt0\t\\N\t\\N\t0\n"


HEAD = """
SET client_min_messages = warning; SET synchronous_commit = off;
SET session_replication_role = replica; -- the references are right by construction
CREATE TEMP TABLE model AS SELECT row_number() OVER (ORDER BY i.job_id) - 1 AS n, i.job_id AS of
    FROM image i WHERE i.pool = '{pool}' ORDER BY i.job_id LIMIT 64;
INSERT INTO batch (pool, name) SELECT '{pool}', 'made-' || n FROM generate_series(0, 19) n
    ON CONFLICT DO NOTHING;
CREATE TEMP TABLE made (n bigint, prompt text, tenant text, style text, lora text, level smallint);
"""
CHUNK_HEAD = "TRUNCATE made; COPY made FROM STDIN;\n"
CHUNK_TAIL = """\\.
BEGIN;
CREATE TEMP TABLE chosen ON COMMIT DROP AS
    SELECT m.*, o.of, b.id AS batch_id, nextval(pg_get_serial_sequence('job', 'id')) AS id,
        now() - ({count} - m.n) * interval '31 seconds' AS at,
        CASE WHEN m.lora IS NULL THEN '[]'::jsonb
        ELSE jsonb_build_array(jsonb_build_object('name', m.lora, 'scale', 1)) END AS loras
    FROM made m JOIN model o ON o.n = m.n % (SELECT count(*) FROM model)
    JOIN batch b ON b.pool = '{pool}' AND b.name = 'made-' || (m.n * 20 / {count});
INSERT INTO job (id, batch_id, created_at, seed, guidance, index, width, height, steps, max_wait_s,
    priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token, custom_id, prompt,
    negative_prompt, style, tenant, model, loras, lora_set, state, finished_at, mode)
    OVERRIDING SYSTEM VALUE SELECT c.id, c.batch_id, c.at, c.n, j.guidance, c.n, j.width, j.height,
    j.steps, 0, 0, 0, 2, 0, true, false, j.pool, 'made' || c.id, '', 'made-' || c.n, c.prompt, '',
    c.style, c.tenant, j.model, c.loras, coalesce(c.lora || ':1', ''), 2, c.at, j.mode
    FROM chosen c JOIN job j ON j.id = c.of ORDER BY c.id;
INSERT INTO image (job_id, batch_id, created_at, seed, guidance, width, height, steps, attempt,
    wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, safety_flag, safety_source, pool,
    prompt, negative_prompt, prompt_hash, model, model_name, model_hash, loras, lora_set, style,
    tenant, worker, mode) SELECT c.id, c.batch_id, c.at, c.n, i.guidance, i.width, i.height, i.steps,
    1, i.wait_ms, i.text_ms, i.denoise_ms, i.decode_ms, i.encode_ms, i.upload_ms, c.level,
    CASE WHEN c.level IS NOT NULL THEN 'rule:1' END, i.pool, c.prompt, '',
    encode(sha256(convert_to('kiln prompt ' || octet_length(c.prompt) || ' 0 ' || c.prompt, 'UTF8')),
    'hex'), i.model, i.model_name,
    i.model_hash, c.loras, coalesce(c.lora || ':1', ''), c.style, c.tenant, i.worker, i.mode
    FROM chosen c JOIN image i ON i.job_id = c.of ORDER BY c.id;
INSERT INTO object (job_id, bytes, created_at, width, height, role, key, sha256, content_type)
    SELECT c.id, o.bytes, c.at, o.width, o.height, o.role, to_char(c.at AT TIME ZONE 'UTC',
    '"images/"YYYY/MM/') || c.id || '/' || o.role || '-' || left(o.sha256, 16) || '.webp', o.sha256,
    o.content_type FROM chosen c JOIN object o ON o.job_id = c.of AND o.role <> 'latent'
    ORDER BY c.id;
INSERT INTO gallery_picture (job_id, file, quality, colour, pdq) SELECT c.id,
    hashtextextended(o.sha256, 0), 100, ('x' || left(md5(c.id::text), 6))::bit(24)::integer,
    sha256(int8send(c.id)) FROM chosen c JOIN object o ON o.job_id = c.of AND o.role = 'full'
    ORDER BY c.id;
COMMIT;
"""


def make(conninfo, pool, count, lines):
    psql = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", conninfo],
                            stdin=subprocess.PIPE, text=True, encoding="utf-8")
    ahead = concurrent.futures.ThreadPoolExecutor(1)

    def next_chunk():
        return "".join(itertools.islice(lines, CHUNK))

    try:
        psql.stdin.write(HEAD.format(pool=pool))
        coming = ahead.submit(next_chunk)  # while psql has the one before
        for first in range(0, count, CHUNK):
            psql.stdin.write(CHUNK_HEAD)
            chunk, coming = coming.result(), ahead.submit(next_chunk)
            psql.stdin.write(chunk)
            psql.stdin.write(CHUNK_TAIL.format(pool=pool, count=count))
            psql.stdin.flush()
            print(f"{min(first + CHUNK, count)} of {count}", file=sys.stderr)
        psql.stdin.write("ANALYZE job, image, object, gallery_picture;\n")
        psql.stdin.close()
    except BrokenPipeError:
        pass  # psql has said why
    return psql.wait()


def link(conninfo, pool, store, files):
    """Hard links of the newest pictures' objects to files with the same bytes."""
    query = ("SELECT o.key, m.key FROM (SELECT job_id FROM image WHERE pool = '%s' ORDER BY job_id"
             " DESC LIMIT %d) i JOIN object o USING (job_id) JOIN LATERAL (SELECT s.key FROM object s"
             " JOIN job j ON j.id = s.job_id WHERE s.job_id IN (SELECT job_id FROM image WHERE pool"
             " = '%s' ORDER BY job_id LIMIT 64) AND s.role = o.role AND s.sha256 = o.sha256 ORDER BY"
             " s.job_id LIMIT 1) m ON true" % (pool, files, pool))
    pairs = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-F", " ", "-c", query, conninfo],
                           check=True, capture_output=True, text=True).stdout.split("\n")
    for pair in filter(None, pairs):
        new, old = (os.path.join(store, key) for key in pair.split(" "))
        os.makedirs(os.path.dirname(new), exist_ok=True)
        if not os.path.exists(new):
            os.link(old, new)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("conninfo", help="of the ledger's database, for psql")
    parser.add_argument("--pictures", type=int, default=1000000)
    parser.add_argument("--pool", default="default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prompts", help="a file of prompts, instead of --pictures and --seed")
    parser.add_argument("--store", help="directory of the object store")
    parser.add_argument("--files", type=int, default=20000, help="newest pictures that have files")
    args = parser.parse_args()
    if not args.pool.replace("-", "").replace("_", "").replace(".", "").isalnum():
        parser.error("--pool: not the name of a pool")
    have = subprocess.run(["psql", "-X", "-A", "-t", "-c", "SELECT count(*) FROM image WHERE pool ="
                           f" '{args.pool}'", args.conninfo], check=True, capture_output=True,
                          text=True).stdout.strip()
    if have == "0":
        sys.exit(f"pool {args.pool} has no picture to copy: render a few first")
    lines = rows(args.pictures, args.seed)
    if args.prompts:
        args.pictures, lines = len(list(rows_of(args.prompts))), rows_of(args.prompts)
    status = make(args.conninfo, args.pool, args.pictures, lines)
    if status == 0 and args.store:
        link(args.conninfo, args.pool, args.store, args.files)
    return status


if __name__ == "__main__":
    sys.exit(main())
