#!/bin/bash
# Donors with a LoRA, on a real stack: which jobs begin from them, what is told of it, and that a file
# exchanged under its name is another LoRA.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
mkdir model loras
echo first >loras/neon.safetensors
echo plain >loras/plain.safetensors
first=$(sha256sum loras/neon.safetensors | cut -d' ' -f1)
echo lamps >lamp.safetensors
lamp=$(sha256sum lamp.safetensors | cut -d' ' -f1)
card() { # SHA256 of the file neon
    printf '%s\n' '{"teleport": {"rows": [
 {"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}],
 "loras": [{"name": "neon", "sha256": "'"$1"'", "strength": 0.8, "rows": [
 {"class": "same_prompt", "depth": 5, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"], "change": [0.5, 2]},
 {"class": "reworded", "depth": 4, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}]},
 {"name": "lamp", "sha256": "'"$lamp"'", "rows": [
 {"class": "same_prompt", "depth": 3, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]},
 {"class": "reworded", "depth": 2, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}]}]}}' >model/kiln.json.new
    mv model/kiln.json.new model/kiln.json
}
card "$first"
printf '[being]\nfox: vixen\n' >model/words.txt
export KILN_MODEL=$PWD/model
ok kiln up --dir s --engine testcard --lora-dir "$PWD/loras"
export KILN_CONFIG=$PWD/s/kiln.conf
registered() { [ "$(sql "SELECT sha256 FROM lora WHERE name = '$1' AND until IS NULL")" = "$2" ]; }
soon registered neon "$first" || die "neon is not registered"
soon registered plain "$(sha256sum loras/plain.safetensors | cut -d' ' -f1)" || die "plain is not registered"
lit() { printf '"size":"64x64","loras":"%s"' "$1"; }
full() { # PROMPT SEED LORAS WHY
    draw "$1" "$2" 100 "$(lit "$3")"
    [ "$drawn" = "||0" ] || die "$4: $drawn"
}

# --- one that was rendered with the same LoRA at the same strength, and no other
hit 'a red fox' 100 teleport=6 # stored without LoRAs
full 'a red fox' 7001 neon:0.8 "a job with a LoRA began from a latent without"
hit 'a red fox' 100 teleport=5 "$(lit neon:0.8)"
job=$(sql "SELECT max(job_id) FROM image WHERE mode = 'teleport=5'")
donor=$(sql "SELECT donor FROM image WHERE job_id = $job")
[ "$(sql "SELECT lora_set FROM latent WHERE job_id = $donor")" = "neon:0.8@${first:0:16}" ] || die "the donor has another LoRA"
ok kiln show "$job"
says "began from the latent of job $donor (same_prompt) at sigma .*, saved 5 of 8 steps" out.txt
hit 'a red vixen' 100 teleport=4 "$(lit neon:0.8)"
full 'a red fox' 7002 neon:0.5 "a job began from a latent of another strength"
full 'a red fox' 7003 neon:0.9 "a job began at a strength that was not measured"
full 'a red fox' 7004 plain "a job began with a LoRA that was not measured"
ok kiln cache why "$(sql "SELECT job_id FROM image WHERE seed = 7004")"
says "^it runs in full: the table of the model's kiln.json has no rows for its LoRA at this strength$" out.txt
full 'a red fox' 7005 neon:0.8+plain "a job with two LoRAs began from a latent"
ok kiln cache why "$(sql "SELECT job_id FROM image WHERE seed = 7005")"
says '^it runs in full: runs with a start, several LoRAs or ' out.txt
draw 'a red fox' 7006 100
case $drawn in "teleport=6||"[1-9]*) ;; *) die "a job without LoRAs: $drawn" ;; esac
[ "$(sql "SELECT count(*) FROM image i JOIN latent l ON l.job_id = i.donor JOIN job j ON j.id = i.job_id WHERE j.lora_set <> l.lora_set")" = 0 ] || die "a run began from a latent of another set"
ok kiln cache stat --json
json out.txt '{(r["class"], r["mode"]) for r in d if r.get("mode")} >= {("same_prompt", "teleport=5"), ("reworded", "teleport=4")}'
ok kiln cache verify
# Its row changed after the scheduler read it: the worker sees that, and renders in full.
hit 'a late fox' 100 teleport=5 "$(lit neon:0.8)"
sql "UPDATE latent SET lora_set = 'neon:0.5@${first:0:16}'
    WHERE prompt_hash = (SELECT l.prompt_hash FROM latent l JOIN job j ON j.id = l.job_id WHERE j.prompt = 'a late fox' LIMIT 1)" >/dev/null
draw 'a late fox' 7007 100 "$(lit neon:0.8)"
case $drawn in "|unfit|"[1-9]*) ;; *) die "a donor whose LoRA is another: $drawn" ;; esac

# --- loras "auto": prompts are compared as they are rendered
install -Dm644 lamp.safetensors "s/store/loras/$lamp.safetensors"
sql "SELECT lora_change('default', 0, 'lamp', '', '$lamp', '{\"bytes\":6,\"rank\":4,\"modules\":2,\"stored\":true}', true, true, false, 'test',
'{\"name\":\"lamp\",\"triggers\":[\"lamp style\"],\"positive\":[\"lit by lamps\"],\"scale\":0.7}'::jsonb)" >/dev/null
hit 'a fox lit by lamps' 100 teleport=3 "$(lit auto)"
[ "$(sql "SELECT prompt_drawn, lora_set FROM job WHERE id = (SELECT max(donor) FROM image WHERE mode = 'teleport=3')")" = "lamp style, a fox lit by lamps|lamp:0.7@${lamp:0:16}" ] || die "another donor"
hit 'a vixen lit by lamps' 100 teleport=2 "$(lit auto)"

# --- donors that are made on purpose
ok kiln cache build --template 'a built fox' --set size=64x64 --loras neon:0.8 --lora-dir loras --json
json out.txt 'd["ordered"] == 1'
ok kiln wait latent-cache --timeout 60
hit 'a built fox' 100 teleport=5 "$(lit neon:0.8)"

# --- another file under the name: neither the rows nor the latents are its own
echo other >loras/neon.safetensors
other=$(sha256sum loras/neon.safetensors | cut -d' ' -f1)
soon registered neon "$other" || die "the exchanged file is not registered"
full 'a red fox' 7101 neon:0.8 "a run began from a latent of the file of before"
card "$other" # and now the rows are
for again in 7102 7103; do
    draw 'a red fox' "$again" 100 "$(lit neon:0.8)"
    ! [[ ${drawn##*|} -gt 0 && ${drawn##*|} -lt $(sql "SELECT job_id FROM image WHERE seed = 7101") ]] || die "a run began from a latent of the file of before: $drawn"
done
[ "$(sql "SELECT count(*) FROM job WHERE state = 3")" = 0 ] || die "a job failed for want of a donor"
echo ok
