#!/bin/bash
# Coarse first and from the latent of another job, with the sketch model on the CPU: the same jobs
# twice give the same pictures, and none passes for an exact one.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
mkdir model
cp -r "$source_dir"/pipeline/models/sketch/. model
chmod -R u=rwX,go=rX model
echo '{"coarse": {"auto": "4+2", "sizes": ["128x128"], "for": ["256x256"]}}' >model/kiln.json
stacks+=(s)
ok kiln up --dir s --model "$PWD/model"
export KILN_CONFIG=$PWD/s/kiln.conf

cat >first.jsonl <<'LINES'
{"custom_id":"exact","prompt":"a red star on the left","size":"256x256","seed":3,"coarse":"off"}
{"custom_id":"coarse","prompt":"a red star on the left","size":"256x256","seed":3,"coarse":"4+3"}
{"custom_id":"auto","prompt":"a red star on the left","size":"256x256","seed":3,"coarse":"auto"}
{"custom_id":"said","prompt":"a red star on the left","size":"256x256","seed":3,"coarse":"4+2"}
{"custom_id":"small","prompt":"a red star on the left","size":"128x128","seed":3,"coarse":"auto"}
LINES
ok kiln enqueue first.jsonl --batch first
ok kiln wait first --timeout 300
ok kiln export first --out first
sha() { json "$1/results.jsonl" 'True'; python3 -c 'import json, sys
print(*[json.loads(l)["images"][0]["sha256"] for l in open(sys.argv[1] + "/results.jsonl")])' "$1"; }
modes() { sql "SELECT string_agg(i.mode || ' ' || coalesce(i.forwards::text, '-'), ',' ORDER BY j.index) FROM image i JOIN job j ON j.id = i.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name = '$1'"; }
[ "$(modes first)" = " -,coarse=4+3 4,coarse=4+2 3,coarse=4+2 3, -" ] || die "modes: $(modes first)"
read -r exact coarse auto said small <<<"$(sha first)"
[ "$exact" != "$coarse" ] && [ "$coarse" != "$auto" ] && [ "$exact" != "$auto" ] || die "two modes, one picture"
[ "$auto" = "$said" ] || die "auto is not what the card says"

# From the finished latent of another job: one step left, four left, and enlarged from a smaller one.
id() { sql "SELECT j.id FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = 'first' AND j.custom_id = '$1'"; }
cat >second.jsonl <<LINES
{"custom_id":"near","prompt":"a red star on the left","size":"256x256","seed":4,"init_job":$(id exact),"strength":0.125}
{"custom_id":"far","prompt":"a red star on the left","size":"256x256","seed":4,"init_job":$(id exact),"strength":0.5}
{"custom_id":"large","prompt":"a red star on the left","size":"256x256","seed":3,"init_job":$(id small),"start_sigma":0.75}
LINES
for batch in second again; do
    ok kiln enqueue second.jsonl --batch $batch
    ok kiln wait $batch --timeout 300
    ok kiln export $batch --out $batch
done
[ "$(modes second)" = "start=7 1,start=4 4,start@0.75 4" ] || die "modes: $(modes second)"
[ "$(sha second)" = "$(sha again)" ] || die "a start is not repeatable"
[ "$(sql "SELECT count(*) FROM job WHERE parent = init_job AND init_job <> 0")" = 6 ] || die "no parents"

# A donor whose latent is gone fails what starts from it, and nothing else.
rm -r s/store/latents
cat >third.jsonl <<LINES
{"custom_id":"gone","prompt":"a","size":"256x256","seed":4,"init_job":$(id exact)}
{"custom_id":"plain","prompt":"b","size":"256x256","seed":4,"coarse":"off"}
LINES
ok kiln enqueue third.jsonl --batch third
fails 1 kiln wait third --timeout 300
ok kiln errors --json
json out.txt 'd["jobs"] == 1 and "is no longer in the store" in d["error"]'
[ "$(modes third)" = " -" ] || die "modes: $(modes third)"
echo ok
