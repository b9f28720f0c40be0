#!/bin/bash
# LoRAs that lie in MODEL/loras are there by their names without any setting: for the check of the
# lines, for the worker, alone and mixed, and for the command that a page of the gallery shows.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
golden=$source_dir/tests/golden
cp -r "$golden/models/plain" model
mkdir model/loras
cp "$golden/loras/kohya.safetensors" model/loras/ink.safetensors
cp "$golden/loras/second.safetensors" model/loras/paper.safetensors
chmod -R u=rwX,go=rX model
stacks+=(s)
ok kiln up --dir s --model "$PWD/model"
export KILN_CONFIG=$PWD/s/kiln.conf

cat >jobs.jsonl <<'LINES'
{"custom_id":"none","prompt":"a red star","width":64,"height":64,"steps":2,"seed":3}
{"custom_id":"ink","prompt":"a red star","width":64,"height":64,"steps":2,"seed":3,"loras":"ink"}
{"custom_id":"weak","prompt":"a red star","width":64,"height":64,"steps":2,"seed":3,"loras":[{"name":"ink","scale":0.5}]}
{"custom_id":"mix","prompt":"a red star","width":64,"height":64,"steps":2,"seed":3,"loras":"paper:0.5+ink:0.5"}
{"custom_id":"mix again","prompt":"a red star","width":64,"height":64,"steps":2,"seed":3,"loras":"ink:0.5+paper:0.5"}
{"custom_id":"misspelt","prompt":"a red star","width":64,"height":64,"steps":2,"seed":3,"loras":"inc"}
LINES
fails 65 kiln enqueue jobs.jsonl --batch b
says 'jobs.jsonl:6: .*did you mean "ink"'
ok kiln wait b --timeout 120
ok kiln export b --out out
json out/results.jsonl 'len(d) == 5 and all(r["state"] == "done" for r in d)'
# None, full, half and mixed strength are four pictures; the order of the names is no difference.
json out/results.jsonl 'len({r["images"][0]["sha256"] for r in d}) == 4'
json out/results.jsonl 'd[3]["images"][0]["sha256"] == d[4]["images"][0]["sha256"]'
json out/results.jsonl 'all(sorted(l["name"] for l in d[i]["loras"]) == ["ink", "paper"] for i in (3, 4))'

# The command on the page of a picture renders it again.
url=$(cat s/run/gallery.url)
ln -s "$kiln_bin/kiln" kiln
for id in weak mix; do
    job=$(sql "SELECT id FROM job WHERE custom_id = '$id'")
    curl -sS --max-time 60 "${url}v1/pictures/$job" >picture.json
    command=$(python3 -c 'import json; print(json.load(open("picture.json"))["command"])')
    ok env PATH="$PWD:$PATH" sh -c "$command"
    want=$(sql "SELECT sha256 FROM object WHERE job_id = $job AND role = 'full'")
    [ "$(sha256sum <"kiln-$job.webp")" = "$want  -" ] || die "another picture by: $command"
done

# What a worker could not put in place it does not say that it holds.
: >model/loras/broken.safetensors
echo '{"prompt":"a red star","width":64,"height":64,"steps":2,"loras":"broken"}' >broken.jsonl
ok kiln enqueue broken.jsonl --batch broken
fails 1 kiln wait broken --timeout 120
ok kiln workers --json
json_lines out.txt '"ink" in d[0]["loras"] and "broken" not in d[0]["loras"]'
echo ok
