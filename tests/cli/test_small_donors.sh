#!/bin/bash
# Donors of half size, on a real stack: which jobs begin from them, what is told of it, and that
# `kiln cache build --half` makes them.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
mkdir model
printf '%s\n' '{"teleport": {"rows": [
 {"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}],
 "small": {"rows": [
 {"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["128x128"]}]},
 "coarse": {"mode": "4+2", "rows": [
 {"class": "same_prompt", "depth": 1, "donors": 1, "uses": 8, "variety": 1, "loss": [0, 0], "for": ["128x128"], "change": [0.5, 2]}]}}}' >model/kiln.json
export KILN_MODEL=$PWD/model
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf

late=(100 teleport=6 '"size":"128x128","coarse":"4+3"')
large() { # PROMPT SEED COARSE ALIKE
    draw "$1" "$2" "$4" "\"size\":\"128x128\",\"coarse\":\"$3\""
}

# --- a picture of the small size, with the prompt of a coarse job
printf '{"prompt":"a red fox","size":"64x64","seed":1}\n' >small.jsonl
ok kiln enqueue small.jsonl --batch small
ok kiln wait small --timeout 60
# No job has asked for a stored latent yet: warm has the scheduler read them, and the first one finds it.
ok kiln cache warm --json
json out.txt '(d["latents"], d["prompts"]) == (1, 1) and d["seconds"] < 60'
grep -Eq '"seconds":[0-9.e-]{1,14}}$' out.txt || die "seconds of more than nine digits: $(cat out.txt)"
large 'a red fox' 7001 4+3 100
case $drawn in "teleport=6||"[1-9]*) ;; *) die "the first job after cache warm did not begin from the latent: $drawn" ;; esac
donor=${drawn##*|}
[ "$(sql "SELECT width FROM latent WHERE job_id = $donor")" = 64 ] || die "a donor of another size"
job=$(sql "SELECT job_id FROM image WHERE mode = 'teleport=6'")
ok kiln show "$job"
says "mode       coarse=4+3, rendered teleport=6, cost of 2 full steps" out.txt
says "began from the latent of job $donor (same_prompt) at sigma 0.25, saved 2 of 4 steps" out.txt
[ "$(sql "SELECT width, mode FROM latent WHERE job_id = $job")" = "128|teleport=6" ] || die "its latent does not say how it came about"
ok kiln cache why "$job"
says '^  same_prompt, small size 64x64: 1 donor, the least used began .*; a run saves 2 of 4 steps$' out.txt
ok kiln cache why "$job" --json
json out.txt '{p["small"] for p in d["pools"]} == {False, True} and (d["steps"], d["coarse"], d["steps_saved"]) == (6, False, 2)'
large 'a red fox' 7002 off 100
[ "$drawn" = "||0" ] || die "an exact job began from a smaller latent: $drawn"
large 'a red fox' 7003 4+3 0
[ "$drawn" = "coarse=4+3||0" ] || die "a job that wants variety began from a small latent: $drawn"
large 'a grey wolf' 7004 4+3 100
[ "$drawn" = "coarse=4+3||0" ] || die "another prompt began from it: $drawn"
ok kiln cache stat --json
json out.txt '[(r["pictures"], r["steps_saved"]) for r in d if r.get("mode")] == [(1, 2)]'
# One that is gone is a run in the job's own mode.
rm "s/store/$(sql "SELECT key FROM latent WHERE job_id = $donor")"
large 'a red fox' 7005 4+3 100
[ "$drawn" = "coarse=4+3|missing|$donor" ] || die "a small donor that is gone: $drawn"

# --- donors that are made on purpose
half=(--template 'a large fox' --set size=128x128 --half --json)
ok kiln cache build "${half[@]}"
json out.txt 'd["ordered"] == 1'
ok kiln wait latent-cache --timeout 60
ok kiln cache build "${half[@]}"
json out.txt '(d["stored"], d["ordered"]) == (1, 0)'
ok kiln cache warm
says "^[0-9]* stored latents of [0-9]* prompts in the scheduler's memory, after " out.txt
fails 75 kiln cache warm --timeout 1 --pool another
says 'no scheduler of pool another answered within 1 s'
[ "$(sql "SELECT l.width, l.height, l.encoding FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt = 'a large fox'")" = "64|64|i8-steps" ] || die "not a small donor"
hit 'a large fox' "${late[@]}"
fails 64 kiln cache build --from-history --half
says 'for small ones list the prompts: --prompts FILE --half'
fails 65 kiln cache build --template x --set size=64x64 --half
says 'half: coarse runs of 64x64 have no small size in kiln.json'

# --- a coarse run that leaves out small steps
large 'an early fox' 7101 4+2 0 # the donor
hit 'an early fox' 0 coarse=4+2,teleport=1 '"size":"128x128","coarse":"4+2"'
job=$(sql "SELECT max(job_id) FROM image WHERE mode = 'coarse=4+2,teleport=1'")
ok kiln show "$job"
says "mode       coarse=4+2, rendered coarse=4+2,teleport=1, cost of 2.75 full steps" out.txt
began="from the latent of job [0-9]* (same_prompt) at sigma 0.875, saved 1 of 4 small steps (0.25 of 3 full ones)"
says "$began" out.txt
ok kiln why "$job"
says "$began" out.txt
ok kiln export drawn --out drawn
json_lines drawn/results.jsonl '[(r["job"], r["donor"] > 0, r["donor_class"], r["start_sigma"], r["steps_saved"], r["steps_wasted"], r["fallback"], r["rendered_mode"]) for r in d] == [('"$job"', True, "same_prompt", 0.875, 0.25, None, None, "coarse=4+2,teleport=1")]'
large 'an early fox' 7102 4+3 0
[ "$drawn" = "coarse=4+3||0" ] || die "a run of another mode began from it: $drawn"
large 'an early fox' 7103 off 0
[ "$drawn" = "||0" ] || die "an exact job began from a coarse one: $drawn"
ok kiln cache why "$job"
says "^it began $began$" out.txt
for how in exactly 'coarse first'; do
    says "^  same_prompt, rendered $how: [1-9] donors*, .*; a run saves 1 of 4 small steps (0.25 of 3 full ones)$" out.txt
done
says '^now it would begin from .* and save 1 of 4 small steps (0.25 of 3 full ones)$' out.txt
ok kiln cache why "$job" --json
json out.txt '(d["steps"], d["coarse"], d["steps_saved"]) == (1, True, 0.25) and [(p["coarse"], p["small_steps"], p["steps_saved"]) for p in d["pools"] if p["steps"]] == [(False, True, 0.25), (True, True, 0.25)]'
# What began so is no donor: the first one alone is.
[ "$(sql "SELECT count(DISTINCT donor) FROM image WHERE prompt = 'an early fox' AND donor IS NOT NULL")" = 1 ] || die "a run from a donor is a donor"
# Latents of coarse runs are told of, and are donors for coarse jobs to come alone.
ok kiln cache stat --json
json out.txt "sum(r['latents'] for r in d if r.get('width') == 128) == $(sql "SELECT count(*) FROM latent WHERE width = 128 AND mode IN ('', 'coarse=4+2', 'coarse=4+3')")"
for stag in 7104 7105; do large 'a coarse stag' "$stag" 4+2 0; done
stag=$(sql "SELECT max(job_id) FROM image WHERE prompt = 'a coarse stag'")
sql "UPDATE image SET denoise_ms = 8000 WHERE prompt = 'a coarse stag'" >/dev/null
mkdir late
sed 's/64x64/128x128/' model/kiln.json >late/kiln.json
history() { KILN_COARSE=$1 ok kiln cache build --from-history --alike 100 --model "$PWD/late" --dry-run; }
history 4+2
! grep -q "prompt of job $stag," out.txt || die "another donor for jobs that have one: $(cat out.txt)"
history off
says "^prompt of job $stag, 128x128: 2 pictures, 0 donors stored, 8 to make" out.txt
# A donor that is gone, damaged or does not go with the run is a whole coarse run.
fallback() { # WHY COMMAND: does that to every donor of a prompt of its own
    hit "an early fox, $1" 0 coarse=4+2,teleport=1 '"size":"128x128","coarse":"4+2"'
    for key in $(sql "SELECT l.key FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt = 'an early fox, $1'"); do "$2" "s/store/$key"; done
    large "an early fox, $1" 7106 4+2 0
    case $drawn in "coarse=4+2|$1|"[1-9]*) ;; *) die "a donor that is $1: $drawn" ;; esac
}
garble() { printf 'no latent' >"$1"; }
fallback missing rm
fallback damaged garble
large 'an early fox @change=9' 7107 4+2 0 # the donor; its own run has no bounds
for stubborn in $(seq 7108 7168); do
    large 'an early fox @change=9' "$stubborn" 4+2 0
    case $drawn in "coarse=4+2|unlike|"[1-9]*) break ;; esac
    sleep 0.5
done
[ "$drawn" = "coarse=4+2|unlike|${drawn##*|}" ] || die "a coarse run from a donor that does not fit: $drawn"
ok kiln show "$(sql "SELECT job_id FROM image WHERE seed = $stubborn AND fallback = 'unlike'")" --json
json out.txt '(d["rendered_mode"], d["fallback"], d["steps_wasted"]) == ("coarse=4+2", "unlike", 0.25) and (d["forwards"], d["steps_saved"]) == (3.25, -0.25)'
curl -sS --max-time 60 "http://127.0.0.1:$(port_in s/log/worker-0.log)/metrics" >metrics.txt
grep -q '^kiln_worker_wasted_steps_sum{pool="default"} 0.25$' metrics.txt || die "the small step that was wasted: $(grep wasted metrics.txt)"
ok kiln cache stat --json
json out.txt '[(r["pictures"], r["steps_saved"]) for r in d if r.get("fallback") == "unlike"] == [(1, -0.25)]'
ok kiln usage --json
json out.txt "abs(d['gpu_seconds_saved'] - $(sql "SELECT sum(denoise_ms * (own_forwards / forwards - 1))::float8 / 1000 FROM image WHERE donor > 0 AND coalesce(fallback, 'unlike') = 'unlike'")) < 1e-3"
[ "$(sql "SELECT count(*) FROM job WHERE state = 3")" = 0 ] || die "a job failed for want of a donor"

# --- a model without a table
mkdir bare
echo '{}' >bare/kiln.json
stacks+=(t)
unset KILN_CONFIG KILN_MODEL
ok kiln up --dir t --engine testcard --model "$PWD/bare" --workers 0 --no-gallery
fails 1 kiln cache warm --config t/kiln.conf
says '^no run begins from a stored latent: kiln.json of the setting `model` has no table of teleport'
