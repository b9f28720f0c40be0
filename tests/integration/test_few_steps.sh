#!/bin/bash
# A model distilled for two steps, as its kiln.json says: a job that names no steps gets the latent that the
# reference in Python has (tests/golden, twin_two), and one that names steps gets these.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
golden=$source_dir/tests/golden
cp -r "$golden/models/twinflow" model
chmod -R u=rwX,go=rX model
echo '{"schedule": {"steps": 2, "sigmas": [0.999, 0.6], "noise": 1}}' >model/kiln.json
stacks+=(s)
ok kiln up --dir s --model "$PWD/model"
export KILN_CONFIG=$PWD/s/kiln.conf
cat >jobs.jsonl <<'LINES'
{"custom_id":"two","prompt":"a red circle above a blue square","width":64,"height":64,"seed":61,"latents":"final"}
{"custom_id":"other","prompt":"a red circle above a blue square","width":64,"height":64,"seed":62,"latents":"final"}
{"custom_id":"three","prompt":"a red circle above a blue square","width":64,"height":64,"seed":61,"steps":3,"latents":"none"}
LINES
ok kiln enqueue jobs.jsonl --batch b
ok kiln wait b --timeout 300
ok kiln export b --out out --latents
json out/results.jsonl 'all(r["state"] == "done" for r in d) and [r["steps"] for r in d] == [2, 2, 3]'
json out/results.jsonl 'len({r["images"][0]["sha256"] for r in d}) == 3'

zstd -qd "$(find out/latents -name '*.zst' | sort | head -1)" -o one.safetensors
zstd -qd "$(find out/latents -name '*.zst' | sort | tail -1)" -o two.safetensors
python3 - "$golden/cases/twin_two.safetensors" <<'PYTHON' || die "no latent is that of the reference"
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    head = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = json.loads(data[8:head])
    return tensors, lambda name: data[head + tensors[name]["data_offsets"][0]:head + tensors[name]["data_offsets"][1]]
_, tensor = read(sys.argv[1])
states = tensor("latents")
want = struct.unpack(f"<{len(states) // 8}f", states[len(states) // 2:])
errors = []
for path in "one.safetensors", "two.safetensors":
    tensors, tensor = read(path)
    assert tensors["__metadata__"]["schedule"] == "euler steps=2 listed noise=1", tensors["__metadata__"]
    planes = zip(tensor("latent.hi"), tensor("latent.lo"))
    got = [struct.unpack("<f", bytes((0, 0, low, high)))[0] for high, low in planes]
    assert len(got) == len(want)
    errors.append(max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want)))
print(errors)
# The worker computes in bf16 where the processor is fast at it; the other seed is far off.
sys.exit(not (min(errors) < 0.02 and max(errors) > 0.2))
PYTHON
echo ok
