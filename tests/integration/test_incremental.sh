#!/bin/bash
# A file of thirty prompts is edited and run again: one new picture, the others byte-equal; what is gone
# stays in the batch and out of the export; another stack and another directory make the same pictures.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
python3 - <<'PYTHON'
import json
lines = [{"prompt": f"picture {i}", "size": "64x64", "steps": 2} for i in range(28)]
lines += [{"prompt": "a copy", "size": "64x64", "steps": 2, "custom_id": "twin"},
          {"prompt": "a copy", "size": "64x64", "steps": 2, "count": 2}]
open("prompts.jsonl", "w").write("".join(json.dumps(line) + "\n" for line in lines))
PYTHON
pictures() { (cd "$1/full" && for f in *; do sha256sum <"$f"; done | sort); }

ok kiln run prompts.jsonl --out first --dir s --engine testcard
says "the stack in $PWD/s keeps running (Redis, Postgres, scheduler, 1 worker, web gallery); .kiln down --dir $PWD/s. stops it"
export KILN_CONFIG=$PWD/s/kiln.conf
json first/results.jsonl 'len(d) == 31 and all(r["batch"] == "prompts" and r["seed"] < 2**53 and r["gone"] is False for r in d)'
json first/results.jsonl 'len({r["seed"] for r in d}) == 31'
pictures first >first.txt
[ "$(sort -u first.txt | wc -l)" = 31 ] || die "two pictures are one"

# --- the same file again: nothing new
ok kiln run prompts.jsonl --out first --dir s --json
json out.txt 'd["jobs"]["done"] == 31'
[ "$(sql 'SELECT count(*) FROM job')" = 31 ] || die "running again made jobs"

# --- one line changes, lines move: the plan says it, and one picture is drawn
python3 - <<'PYTHON'
lines = open("prompts.jsonl").read().splitlines()
lines[4] = lines[4].replace("picture 4", "another picture")
open("prompts.jsonl", "w").write("\n".join(reversed(lines)) + "\n")
PYTHON
ok kiln enqueue prompts.jsonl --dry-run --json
json out.txt '(d["batch"], d["jobs"], d["new"], d["unchanged"], d["gone"]) == ("prompts", 31, 1, 30, 1)'
ok kiln run prompts.jsonl --dir s --dry-run # writes nothing, so it needs no --out
says '^batch prompts: 1 new (about .*), 30 unchanged, 1 gone from the file$' out.txt
[ "$(sql 'SELECT count(*) FROM job')" = 31 ] && [ ! -e x ] || die "a dry run did something"
ok kiln run prompts.jsonl --out second --dir s
says '^batch prompts: 1 new, 30 unchanged, 1 gone from the file$'
says 'left out 1 job that the file no longer has (--all exports them too)'
[ "$(sql 'SELECT count(*) FROM job')" = 32 ] || die "not one new job"
json second/results.jsonl 'len(d) == 31 and [r["prompt"] for r in d][-1] == "another picture" and not any(r["prompt"] == "picture 4" for r in d)'
pictures second >second.txt
[ "$(comm -12 first.txt second.txt | wc -l)" = 30 ] || die "an untouched line has another picture"
for verb in show "batch show"; do
    ok kiln $verb prompts
    says '^  gone       1 of the jobs: the file no longer has them' out.txt
    ok kiln $verb prompts --json
    json out.txt 'd["gone"] == 1'
done
ok kiln export prompts --out all --all
json all/results.jsonl 'len(d) == 32 and [r["prompt"] for r in d if r["gone"]] == ["picture 4"]'
pictures all | comm -23 first.txt - | grep -q . && die "a picture that is gone is lost"

# --- the line comes back: nothing is drawn, it is in the export again
sed -i 's/another picture/picture 4/' prompts.jsonl
ok kiln run prompts.jsonl --out third --dir s
says '^batch prompts: 0 new, 31 unchanged, 1 gone from the file$'
pictures third | cmp -s - first.txt || die "not the first pictures again"
[ "$(sql 'SELECT count(*) FROM job WHERE gone')" = 1 ] || die "not one job is gone"

# --- one of three equal lines is taken out: the last copy is gone
sed -i 's/"count": 2/"count": 1/' prompts.jsonl
ok kiln enqueue prompts.jsonl --json
json out.txt '(d["accepted"], d["duplicate"], d["gone"]) == (0, 30, 1)'

# --- a file of another name in the same batch takes nothing away, nor does a pipe
echo '{"prompt": "of another file", "size": "64x64", "steps": 2}' >other.jsonl
ok kiln enqueue other.jsonl --batch prompts --json
json out.txt '(d["accepted"], d["duplicate"], d["gone"]) == (1, 0, 0)'
ok kiln enqueue - --batch prompts --json <other.jsonl
json out.txt '(d["accepted"], d["duplicate"], d["gone"]) == (0, 1, 0)'

echo 'of another format' >prompts.txt # the name of the same batch
ok kiln enqueue prompts.txt --set size=64x64 --set steps=2 --json
json out.txt '(d["batch"], d["accepted"], d["gone"]) == ("prompts", 1, 0)'
ok kiln enqueue prompts.jsonl --json
json out.txt '(d["accepted"], d["gone"]) == (0, 0)'

# --- a batch of another name has other pictures
ok kiln run other.jsonl --out o --dir s
json o/results.jsonl 'd["batch"] == "other"'
[ "$(sql "SELECT count(DISTINCT seed) FROM job WHERE prompt = 'of another file'")" = 2 ] || die "the batch's name is not in the seed"

# --- a batch of an earlier release, whose jobs are named by their custom_id, is not drawn again
sql "UPDATE job SET key = 'c:twin#0', source = NULL WHERE custom_id = 'twin'"
ok kiln enqueue prompts.jsonl --json
json out.txt '(d["accepted"], d["duplicate"], d["gone"]) == (0, 30, 0)'

ok kiln show prompts
says '^batch prompts  all lines received' out.txt

# --- refused lines alone: nothing to wait for, but the stack runs
echo '{"prompt": 1}' >bad.jsonl
fails 65 kiln run bad.jsonl --out bad --dir s
says "the stack in $PWD/s keeps running"

# --- a line that failed and was edited since is no failure of the next run
printf '@fail=device broken\nfine\n' >fix.txt
fails 1 kiln run fix.txt --out fix --dir s --set size=64x64 --set steps=2 --max-attempts 1
printf 'mended\nfine\n' >fix.txt
ok kiln run fix.txt --out fix2 --dir s --set size=64x64 --set steps=2
json fix2/results.jsonl '[r["state"] for r in d] == ["done"] * 2'
says 'rendered in '
ok kiln wait fix --on-done 'echo "$KILN_DONE done, $KILN_FAILED failed"'
says '^batch fix: 2 done, 1 failed, 0 cancelled'
says '^      1 job is gone from the file'
says '^2 done, 0 failed$'
ok kiln wait fix --json
json out.txt '(d["result"], d["gone"], d["jobs"]["failed"]) == ("done", 1, 1)'
ok kiln watch fix
ok kiln jobs fix
grep -qE '^[0-9]+ +failed +0 64x64 +2 steps  device: the test card was told to fail  .gone. @fail=device broken$' out.txt || die "the listing: $(cat out.txt)"
grep -qE '^[0-9]+ +done +1 64x64 +2 steps  fine$' out.txt || die "the listing: $(cat out.txt)"
ok kiln run fix.txt --out fix2 --dir s --set size=64x64 --set steps=2
grep -q 'rendered in' err.txt && die "nothing was rendered: $(cat err.txt)"
ok kiln down --dir s

# --- another machine: the same pictures from the name of the file and its lines
mkdir elsewhere
cp first/results.jsonl elsewhere/first.jsonl
python3 - <<'PYTHON'
import json
lines = [{"prompt": f"picture {i}", "size": "64x64", "steps": 2} for i in (7, 3)]
open("elsewhere/prompts.jsonl", "w").write("".join(json.dumps(line) + "\n" for line in lines))
PYTHON
unset KILN_CONFIG
stacks+=(t)
ok kiln run elsewhere/prompts.jsonl --out there --dir t --engine testcard
[ "$(pictures there | comm -12 first.txt - | wc -l)" = 2 ] || die "another machine makes other pictures"
echo ok
