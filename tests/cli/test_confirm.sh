#!/bin/bash
# Verbs that stop or destroy much, on a real stack: each asks whoever sits at a terminal, a no leaves
# everything as it was, --yes is the answer beforehand and the only one where nobody can be asked.  No
# verb that has --yes is left out.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
mkdir loras # none is registered on sight
ok kiln up --dir s --engine testcard --model "$source_dir/pipeline/models/sketch" --lora-dir loras
export KILN_CONFIG=$PWD/s/kiln.conf

# at_tty ANSWER STATUS COMMAND...: on a terminal, where ANSWER is typed; what it shows goes to out.txt.
at_tty() {
    python3 - "$1" "$2" "$kiln_bin/${*:3:1}" "${@:4}" >out.txt 2>&1 <<'PYTHON' || { cat out.txt; die "'${*:3}' at a terminal"; }
import os, pty, re, select, sys, time
answer, wanted, argv = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
if answer == "n":
    print(argv[1], file=open("declined.txt", "a"))
pid, fd = pty.fork()
if pid == 0:
    os.execv(argv[0], argv)
shown, asked, until = b"", False, time.monotonic() + 60
while time.monotonic() < until:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    if b"[y/N] " in shown and not asked:
        asked = True
        os.write(fd, answer.encode() + b"\n")
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
lines = re.split(r"[\r\n]+", re.sub(r"\033\[[0-9;]*[mK]", "", shown.decode()))
wide = [line for line in lines if len(line) > 81]  # and a letter of the answer
print(*shown.decode().split(), *wide, "asked" if asked else "not asked", "status", status)
sys.exit(0 if status == wanted and asked == bool(answer) and not wide else 1)
PYTHON
}
left() { sql "SELECT count(*) FROM job WHERE state IN (0, 1)"; }

# --- an empty listing is a sentence, without the names of columns above it
empty() { # SENTENCE COMMAND...
    fits 60 "${@:2}"
    [ "$(tr -d '\r' <out.txt | sed '/^$/d')" = "$1" ] || die "'${*:2}' shows: $(cat out.txt)"
}
empty 'no backfills' kiln backfill ls
empty 'no cached latents' kiln cache stat
empty 'no jobs' kiln jobs
empty 'no batches' kiln batches
empty 'no quotas' kiln quota ls
empty 'no finished jobs' kiln usage

# --- everything: nothing is assigned any more
at_tty n 64 kiln pause
says 'No job of pool default will be assigned until `kiln resume`.' out.txt
fails 64 kiln pause --all
says 'Nothing was changed. Add --yes to proceed'
[ "$(sql 'SELECT count(*) FROM hold')" = 0 ] || die "a no pauses"
at_tty y 0 kiln pause
at_tty '' 0 kiln resume
at_tty '' 0 kiln pause --tenant ann
fails 64 kiln resume --yes
ok kiln resume --tenant ann
ok kiln pause --all --yes

# --- a batch
for i in 1 2 3; do echo "{\"prompt\": \"p$i\", \"width\": 64, \"height\": 64, \"steps\": 2}"; done >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b
at_tty n 64 kiln cancel b
says 'All queued and assigned jobs of batch b will be cancelled; `kiln retry` undoes it.' out.txt
at_tty '' 66 kiln cancel c
[ "$(left)" = 3 ] || die "a no cancels"
at_tty y 0 kiln cancel b
[ "$(left)" = 0 ] || die "a yes does not cancel"
at_tty '' 0 kiln retry b
[ "$(left)" = 3 ] || die "retry does not take it back"
at_tty '' 0 kiln cancel b --yes
ok kiln retry --batch b
fails 64 kiln cancel b
[ "$(left)" = 3 ] || die "nobody could be asked, and the batch was cancelled"
at_tty n 64 kiln cancel --batch b
ok kiln cancel --batch b # as scripts for older releases spell it
says 'from the next release on, cancel --batch needs --yes in scripts'
[ "$(left)" = 0 ] || die "a script of an older release does not cancel"
! grep -q 'still coming in' err.txt || die "batch b is whole"
job=$(sql 'SELECT min(id) FROM job')
at_tty '' 0 kiln cancel "$job"
ok kiln cancel "$job"
says "job $job was not changed: it is already cancelled"
sql 'UPDATE intake_call SET announced = announced + 1' # as if a line were still on its way
ok kiln cancel b --yes
says 'batch b is still coming in'
sql 'UPDATE intake_call SET announced = announced - 1'
fails 64 kiln retry b --yes
ok kiln resume --all

# --- a number is a job; --batch names a batch of that name
ok kiln pause --all --yes
ok kiln enqueue jobs.jsonl --batch 77777
fails 66 kiln cancel 77777 --yes
says 'there is no job 77777, but a batch has that name: use --batch 77777'
fails 66 kiln events 77777
says 'there is no job 77777, but a batch has that name: use --batch 77777'
fails 66 kiln why 77777
says 'there is no job 77777, but a batch has that name: use --batch 77777'
ok kiln why --batch 77777
says '^batch 77777 is active$' out.txt
fails 66 kiln jobs "$job"
says "there is no batch '$job'; .kiln show $job. shows the job of that number"
fails 66 kiln favourite add 77777
says 'there is no job 77777, but a batch has that name: use --batch 77777'
queued=$(sql 'SELECT max(id) FROM job') # a job and a batch have this number
ok kiln enqueue jobs.jsonl --batch "$queued"
fails 66 kiln favourite add "$queued"
says "job $queued has no picture"
ok kiln cancel --batch "$queued" --yes
ok kiln jobs 77777 --json
json out.txt '[j["state"] for j in d] == ["queued"] * 3'
# --- several jobs; one that does not exist does not keep the others
ids=($(sql "SELECT j.id FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '77777' ORDER BY 1"))
fails 64 kiln cancel "${ids[0]}" "${ids[1]}" --batch b
[ "$(grep -c '^kiln:' err.txt)" = 1 ] || die "one mistake is told twice"
fails 64 kiln cancel "${ids[0]}" b
says "'b' is not a job id"
fails 66 kiln cancel "${ids[0]}" 123456 "${ids[1]}" --json
says 'there is no job 123456'
json out.txt 'd["cancelled"] == 2'
ok kiln retry "${ids[@]:0:2}" --json
json out.txt 'd["retried"] == 2'
ok kiln cancel --batch 77777 --yes --json
json out.txt 'd["cancelled"] == 3'
# --- what a resume leaves paused
ok kiln pause --tenant ann --reason 'too hot'
ok kiln resume --all
says 'still paused: tenant ann .*too hot; `kiln resume --tenant ann` resumes it'
ok kiln resume --tenant ann
grep -q 'still paused' err.txt && die "nothing is paused any more: $(cat err.txt)"
ok kiln enqueue - --batch 77778 <<<'{"prompt": "@fail=bad_input", "size": "64x64"}'
fails 1 kiln wait 77778 --timeout 60
says 'to retry: kiln retry --batch 77778$'

# --- the favourites of a batch
ok kiln retry b
ok kiln wait b --timeout 60
ok kiln favourite add b
at_tty n 64 kiln favourite rm b
says 'The pictures of batch b will no longer be favourites' out.txt
fails 64 kiln favourite rm b
fails 64 kiln favourite ls b --yes
ok kiln favourite ls b --json
json out.txt 'len(d) == 3'
at_tty '' 0 kiln favourite rm "$job"
at_tty y 0 kiln favourite rm b
ok kiln favourite ls b --json
json out.txt 'd == []'

# --- a quota
ok kiln quota set ann --queued 3
fails 64 kiln quota set ann --yes
at_tty n 64 kiln quota rm ann
says 'The quota of tenant ann will be removed' out.txt
fails 64 kiln quota rm ann
says 'Nothing was changed. Add --yes to proceed'
ok kiln quota ls --json
json out.txt 'd["tenant"] == "ann" and d["queued"] == 3'
at_tty y 0 kiln quota rm ann
ok kiln quota set ann --queued 3
ok kiln quota rm ann --yes
ok kiln quota ls
[ ! -s out.txt ] || die "it is still there"

# --- a backfill: its jobs are cancelled, its pictures stay
ok kiln pause --tenant cats
ok kiln backfill add cats --template 'a {red|black} cat' --set size=64x64 --set tenant=cats --low-water 2
until_sql "SELECT count(*) FROM job WHERE state = 0 AND prompt LIKE 'a % cat'" 2
at_tty n 64 kiln backfill rm cats
says 'Backfill cats will be removed and its queued jobs cancelled; its pictures stay' out.txt
fails 64 kiln backfill rm cats
says 'Nothing was changed. Add --yes to proceed'
ok kiln backfill ls
says '^cats ' out.txt
[ "$(left)" = 2 ] || die "a no cancels the jobs of a backfill"
at_tty y 0 kiln backfill rm cats
[ "$(left)" = 0 ] || die "a yes does not cancel the jobs of a backfill"
empty 'no backfills' kiln backfill ls
ok kiln backfill add cats --template 'a green cat' --set size=64x64
ok kiln backfill rm cats --yes
says 'Removed backfill cats and cancelled .*; its pictures stay in batch backfill-cats'
# One that never made a job leaves no batch, which would be coming in for ever.
ok kiln pause --backfill
ok kiln backfill add none --template 'no cat' --set size=64x64
ok kiln batches
says '^backfill-none .* coming in ' out.txt
ok kiln backfill rm none --yes
says 'Removed backfill none, which had made no jobs, and its empty batch backfill-none'
ok kiln batches
grep backfill-none out.txt && die "the empty batch is left"
ok kiln backfill add none --template 'no cat' --set size=64x64
ok kiln backfill rm none --yes --json
json out.txt 'd == {"removed": "none", "batch": None, "cancelled": 0}'
ok kiln resume --backfill
ok kiln resume --tenant cats

# --- cached latents
latents() { kiln cache stat --json | python3 -c 'import json, sys; print(sum(json.loads(l)["latents"] for l in sys.stdin))'; }
ok kiln cache build --template 'a cached {star|ring}' --set size=64x64 --set steps=1
ok kiln wait latent-cache --timeout 60
cached=$(latents)
[ "$cached" -ge 2 ] || die "nothing is cached"
at_tty n 64 kiln cache prune --budget 0 --grace 0
fails 64 kiln cache prune --budget 0 --grace 0
says 'Nothing was changed. Add --yes to proceed'
[ "$(latents)" = "$cached" ] || die "a no evicts latents"
at_tty y 0 kiln cache prune --budget 0 --grace 0
[ "$(latents)" = 0 ] || die "a yes does not evict latents"
at_tty '' 0 kiln cache prune --budget 0 --grace 0 # nothing to ask about

# --- a LoRA
ok kiln lora add "$source_dir/pipeline/models/sketch/loras/neon.safetensors"
at_tty n 64 kiln lora rm neon
says "LoRA 'neon' will be removed from the registry" out.txt
fails 64 kiln lora rm neon
says 'Nothing was changed. Add --yes to proceed'
ok kiln lora ls
says '^neon ' out.txt
at_tty y 0 kiln lora rm neon
! kiln lora ls | grep '^neon ' || die "a yes does not remove a LoRA"
ok kiln lora add "$source_dir/pipeline/models/sketch/loras/neon.safetensors"
ok kiln lora rm neon --yes

# --- workers
ok kiln worker start --workers 2
worker=$(kiln worker ls | sed "/^$cpu0 /d; s/ .*//")
at_tty n 64 kiln worker stop --all
fails 64 kiln worker stop --all
says 'Every worker of this machine will finish its batch and end.  Nothing was changed. Add --yes to proceed'
kiln worker ls | grep -q "^$worker .* running" || die "it was stopped"
at_tty '' 0 kiln worker stop "$worker"
ok kiln worker start "$worker"
at_tty y 0 kiln worker stop --all
kiln workers | grep -q "^$cpu0 .*live" && die "not all were stopped"
ok kiln up --dir s
at_tty n 64 kiln drain --all
says 'Every worker of pool default will finish its batch and end' out.txt
kiln workers | grep -q "^$cpu0 .*live" || die "a no drains"
at_tty y 0 kiln drain --all --wait
ok kiln up --dir s # which sees a worker out that is still ending
at_tty '' 0 kiln drain "$cpu0" --wait
ok kiln up --dir s
at_tty '' 0 kiln drain --all --yes --wait
ok kiln up --dir s
fails 64 kiln drain --all --wait
kiln workers | grep -q "^$cpu0 .*live" || die "nobody could be asked, and the worker was drained"

# --- what is gone for good
pictures() { sql "SELECT count(*) FROM image"; }
[ "$(pictures)" -ge 3 ] || die "there is nothing to remove"
had=$(pictures)
at_tty n 64 kiln batch rm b
says 'Batch b and the rows of its 3 jobs and pictures will be removed for good' out.txt
at_tty n 64 kiln gc --older-than 0s
[ "$(pictures)" = "$had" ] || die "a no removes pictures"
ok kiln backup --out backup
at_tty y 0 kiln batch rm b
[ "$(pictures)" = $((had - 3)) ] || die "a yes does not remove them"
ok kiln down --dir s --daemons
at_tty n 64 kiln restore backup
[ "$(pictures)" = $((had - 3)) ] || die "a no restores"
at_tty y 0 kiln restore backup
[ "$(pictures)" = "$had" ] || die "a yes does not restore"
fails 64 kiln gc --older-than 0s
says 'Nothing was changed. Add --yes to proceed'
at_tty y 0 kiln gc --older-than 0s
[ "$(pictures)" = 0 ] || die "a yes does not remove what is old"
# Objects that look as if they were another ledger's.
others=s/store/images/2026/01/999999
mkdir -p $others
for i in $(seq 1100); do echo x >"$others/512-$(printf '%016x' "$i").webp"; done
touch -d '3 days ago' $others/*
at_tty n 78 kiln gc
says 'perhaps it is the store of another ledger' out.txt
fails 78 kiln gc
[ "$(ls $others | wc -l)" = 1100 ] || die "a no removes objects"
at_tty y 0 kiln gc
[ ! -e $others ] || [ -z "$(ls $others)" ] || die "a yes does not remove objects"

# --- every verb that may be told not to ask has been asked
verbs=0
for verb in $(kiln help | sed -n 's/^  \([a-z]\{1,10\}\)  .*/\1/p'); do
    kiln help "$verb" | grep -q '^  --yes ' || continue
    verbs=$((verbs + 1))
    grep -qx "$verb" declined.txt || die "nobody has said no to kiln $verb"
done
[ $verbs -ge 10 ] || die "the help names only $verbs verbs with --yes"
echo ok
