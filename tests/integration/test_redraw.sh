#!/bin/bash
# `kiln redraw` with the sketch model on the CPU: enlarged pictures are the same picture, variations
# are as alike as asked for, and a worker that is killed in the middle loses nothing.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
mkdir model
cp -r "$source_dir"/pipeline/models/sketch/. model
chmod -R u=rwX,go=rX model
stacks+=(s)
ok kiln up --dir s --model "$PWD/model" --lease-s 2 --heartbeat-s 0.5 --backoff-base-s 0.1
export KILN_CONFIG=$PWD/s/kiln.conf

cat >draw.jsonl <<'LINES'
{"prompt":"a large red circle left of a small blue star on a yellow background","size":"256x256","seed":11,"coarse":"off"}
{"prompt":"three green triangles in a row on a white background","size":"256x256","seed":12,"coarse":"off"}
LINES
ok kiln enqueue draw.jsonl --batch draw
ok kiln wait draw --timeout 300
read -r first second <<<"$(sql "SELECT string_agg(id::text, ' ' ORDER BY id) FROM job")"

# Enlarged, varied, edited and drawn anew at once: batches are mixed as they come, and while a worker is
# killed.
ok kiln redraw "$first" "$second" --size 2x --batch large
for alike in 0 31 80 100; do
    ok kiln redraw "$first" --count 4 --alike $alike --batch "alike$alike"
done
ok kiln redraw "$second" --prompt 'three blue triangles in a row on a white background' --batch edit
ok kiln enqueue draw.jsonl --batch again
until_sql "SELECT count(*) > 3 FROM job WHERE state = 2" t
kill -9 "$(pid_of s worker-0)"
for batch in large alike0 alike31 alike80 alike100 edit again; do
    ok kiln wait $batch --timeout 300
    ok kiln export $batch --out $batch --latents
done
[ "$(sql "SELECT count(*) FROM image")" = 23 ] || die "not every job has one picture"
[ "$(sql "SELECT max(attempt) FROM job")" -ge 2 ] || die "nothing was interrupted"
[ "$(sql "SELECT string_agg(DISTINCT mode || ' ' || forwards, ',' ORDER BY mode || ' ' || forwards) FROM image WHERE mode <> ''")" = \
    'edit=3 7,start=1 7,start=4 4,start=7 1,start@0.75 3' ] || die "other modes: $(sql "SELECT DISTINCT mode, forwards FROM image")"

# The pictures of a model as JPEG and PNG: the same pictures, whole and with what made them.
for format in jpeg png; do
    ok kiln export large --out large-$format --format $format --html
    [ -s large-$format/index.html ] || die "no page of $format"
done
pillow=$(python_with PIL) || exit 1
"$pillow" - <<'PYTHON' || die "as JPEG or PNG they are other pictures"
import json, pathlib
from PIL import Image
for name, most in (("jpeg", 4), ("png", 0)):
    folder = pathlib.Path(f"large-{name}")
    rows = [json.loads(line) for line in open(folder / "results.jsonl")]
    assert len(rows) == len(list((folder / "full").iterdir())) == 2
    page = (folder / "index.html").read_text()
    for row, stored in zip(rows, map(json.loads, open("large/results.jsonl"))):
        path = row["files"]["full"]
        assert path in page and path.endswith({"jpeg": ".jpg", "png": ".png"}[name]), path
        ours, theirs = Image.open(folder / path), Image.open("large/" + stored["files"]["full"])
        assert ours.format == name.upper() and ours.size == theirs.size == (512, 512), (path, ours.size)
        a, b = ours.convert("RGB").tobytes(), theirs.convert("RGB").tobytes()
        mean = sum(abs(x - y) for x, y in zip(a, b)) / len(a)
        assert mean <= most, (path, mean)
        assert len(set(a)) > 50, f"{path} is empty"
PYTHON

python3 - "$(sql "SELECT key FROM latent WHERE job_id = $first")" "$(sql "SELECT key FROM latent WHERE job_id = $second")" <<'PYTHON' || die "distances"
import json, math, struct, subprocess, sys

def latent(path):
    data = subprocess.run(["zstd", "-dqc", path], check=True, capture_output=True).stdout
    length, = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8:8 + length]), data[8 + length:]
    planes = [body[slice(*head[name]["data_offsets"])] for name in ("latent.hi", "latent.lo")]
    _, channels, height, width = head["latent.hi"]["shape"]
    values = [struct.unpack(">f", bytes((hi, lo, 0, 0)))[0] for hi, lo in zip(*planes)]
    return values, channels, height, width

def low(path, cells=8):
    """The mean of each of cells x cells places of each channel: what is where."""
    values, channels, height, width = latent(path)
    h, w = height // cells, width // cells
    return [sum(values[(c * height + y * h + j) * width + x * w + i] for j in range(h) for i in range(w)) / (h * w)
            for c in range(channels) for y in range(cells) for x in range(cells)]

def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / len(a))

def exported(batch):
    return [low(f"{batch}/{json.loads(line)['files']['latent']}") for line in open(f"{batch}/results.jsonl")]

first, second = (low("s/store/" + key) for key in sys.argv[1:])
apart = distance(first, second)
# The same picture at twice the side; the values of a larger picture's latent are not exactly those.
large = exported("large")
print("apart", apart, "enlarged", distance(first, large[0]), distance(second, large[1]))
assert distance(first, large[0]) < 0.3 * apart and distance(second, large[1]) < 0.3 * apart
# Three blue triangles where three green ones were.
edit, = exported("edit")
print("edited", distance(second, edit))
assert 0 < distance(second, edit) < 0.5 * apart
# The more alike, the nearer to the donor and to each other.
spreads = []
for alike in (0, 31, 80, 100):
    pictures = exported(f"alike{alike}")
    pairs = [distance(a, b) for i, a in enumerate(pictures) for b in pictures[:i]]
    spreads.append((sum(pairs) / len(pairs), sum(distance(first, p) for p in pictures) / len(pictures)))
print("spread and distance to the donor", spreads)
assert all(a[0] > b[0] and a[1] > b[1] for a, b in zip(spreads, spreads[1:]))
assert spreads[3][0] < 0.25 * spreads[0][0]
assert 0 < min(spreads[3]), "four seeds, one picture"
PYTHON

# The same call again adds nothing, and the same picture is made of the same start.
ok kiln redraw "$first" --count 4 --alike 80 --batch alike80 --json
json out.txt 'd["accepted"] == 0 and d["duplicate"] == 4'
ok kiln redraw "$first" --count 4 --alike 80 --batch twice
ok kiln wait twice --timeout 300
sha() { sql "SELECT string_agg(o.sha256, ' ' ORDER BY j.index) FROM object o JOIN job j ON j.id = o.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name = '$1' AND o.role = 'full'"; }
[ "$(sha twice)" = "$(sha alike80)" ] || die "variations are not repeatable"
echo ok
