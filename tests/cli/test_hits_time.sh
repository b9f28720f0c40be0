#!/bin/bash
# Stored latents on a device that takes as long for eight pictures as for one, as a GPU does with small ones: jobs that
# all come at once, three of four repeats, must not take it longer than the same jobs without. Which is a matter of
# calls: jobs that begin at different steps share none, so few are assigned together. Then the same at `alike` 0, where
# little is saved, in groups of 30 that come when the one before is done: the last few of a group are one call, whatever
# they begin from. Prints the seconds of all.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
mkdir model
printf '%s\n' '{"teleport": {"rows": [
 {"class": "same_prompt", "depth": 1, "donors": 1, "uses": 4, "variety": 1, "loss": [0, 0], "for": ["64x64"]},
 {"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}]}}' >model/kiln.json
export KILN_MODEL=$PWD/model
ok kiln up --dir s --engine testcard --batch-max 8 --no-gallery
export KILN_CONFIG=$PWD/s/kiln.conf
stream() { # stream NAME HOW ALIKE: 960 lines in NAME.jsonl
    python3 - "$@" >"$1.jsonl" <<'P'
import json, random, sys
name, how, alikes, rng = sys.argv[1], sys.argv[2], sys.argv[3].split(","), random.Random(7)
for i in range(960):
    scene = i if rng.randrange(4) == 0 or i < 8 else rng.randrange(i)
    alike = int(rng.choice(alikes))
    print(json.dumps({"prompt": f"{name} fox {scene // 2} @step_ms=10", "size": "64x64", "seed": i, "teleport": how,
                      **({"alike": alike} if how == "auto" else {})}))
P
}
for how in off auto; do
    stream $how $how 0,100
    ok kiln enqueue $how.jsonl --batch $how
    ok kiln wait $how --timeout 300
done
of="FROM image i JOIN job j ON j.id = i.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name ="
took="round((sum(i.denoise_ms) / 1000)::numeric, 1)"
off=$(sql "SELECT $took $of 'off'") auto=$(sql "SELECT $took $of 'auto'")
echo "device: $off s without stored latents, $auto s with them" >&2
sql "SELECT coalesce(nullif(i.mode, ''), i.fallback, 'in full'), count(*), $took $of 'auto' GROUP BY 1 ORDER BY 1" >&2
[ "$(sql "SELECT count(*) > 100 $of 'auto' AND i.mode LIKE 'teleport=%'")" = t ] || die "hardly a job began from a stored latent"
curl -s "http://127.0.0.1:$(port_in s/log/scheduler.log)/metrics" >page.txt
mixed=$(sed -n 's/^kiln_assignment_mixed_jobs_total{.*} //p' page.txt)
echo "$mixed of 960 jobs assigned beside others that begin at another step" >&2
[ "$mixed" -lt 120 ] || die "$mixed of 960 jobs are in batches that must be cut"
[ "$(sql "SELECT $auto < 1.1 * $off")" = t ] || die "stored latents took $auto s of the device, $off s without"

of="FROM image i JOIN job j ON j.id = i.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name LIKE"
for how in off auto; do
    stream groups-$how $how 0
    for group in {0..15}; do
        sed -n "$((30 * group + 1)),$((30 * group + 30))p" groups-$how.jsonl >group.jsonl
        ok kiln enqueue group.jsonl --batch groups-$how-$group
        ok kiln wait groups-$how-$group --timeout 300
    done
done
off=$(sql "SELECT $took $of 'groups-off-%'") auto=$(sql "SELECT $took $of 'groups-auto-%'")
echo "device, in groups at alike 0: $off s without stored latents, $auto s with them" >&2
sql "SELECT coalesce(nullif(i.mode, ''), i.fallback, 'in full'), count(*), $took $of 'groups-auto-%' GROUP BY 1 ORDER BY 1" >&2
[ "$(sql "SELECT count(*) > 100 $of 'groups-auto-%' AND i.mode LIKE 'teleport=%'")" = t ] || die "hardly a job of a group began from a stored latent"
[ "$(sql "SELECT $auto < 1.1 * $off")" = t ] || die "in groups stored latents took $auto s of the device, $off s without"
