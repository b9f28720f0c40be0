#!/bin/bash
# Workers that are missing are said where people look, as in test_in_the_way.sh: none is alive, all
# have another model, one cannot load its model or write to its store, and no scheduler leads.
. "$KILN_SOURCE/tests/cli/in_the_way.sh"

# --- no worker
ok kiln up --dir s --workers 0 --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
begin "no worker alive" nobody few.jsonl
said 'no worker is alive in pool default'
told 'kiln worker start.*kiln up --workers N'
says '^batch nobody waits: ' wait.txt
named status='! no worker is alive' workers='no worker is alive' errors='now in the way: no worker is alive' \
    why.0='no worker is alive in pool default'

# --- and the batch is not even in the ledger because no scheduler runs
scheduler=$(pid_of s scheduler)
kill -STOP "$scheduler" # it leads no more once Postgres has ended its session
soon grep -q '^batch nobody waits: no scheduler leads pool default' wait.txt || die "the wait says: $(cat wait.txt)"
ok kiln enqueue few.jsonl --batch unread --no-wait
kiln wait unread >unread.txt 2>&1 &
others+=($!)
soon grep -q 'batch unread waits: no scheduler leads' unread.txt || die "of an unread batch the wait says: $(cat unread.txt)"
kill -CONT "$scheduler"
"$kiln_bin/kiln-worker" --config s/kiln.conf --engine testcard --id helper >helper.log 2>&1 &
helper=$!
over 20
nothing_lost unread 20
wait "${others[0]}" || die "the wait for the unread batch ended with $?"
others=("$helper")

# --- workers of another model alone
begin "workers of another model" strange few.jsonl --set model=nonesuch
lacking="queued jobs need model 'nonesuch', which no live worker has"
said "$lacking"
told 'start a worker with that model, or cancel the batch'
named status="! $lacking" workers="$lacking" errors="now in the way: $lacking" why.0="$lacking"
ok kiln enqueue few.jsonl --batch stranger --set model=nonesuch
says "no live worker has model 'nonesuch', so these jobs wait for a worker with it"
# The bus alone knows: a producer may have no ledger.
ok env KILN_POSTGRES=host=/nonexistent "$kiln_bin/kiln" enqueue few.jsonl --batch stranger --set model=nonesuch
says "no live worker has model 'nonesuch'"
ok kiln enqueue few.jsonl --dry-run --set model=nonesuch
says "no live worker has model 'nonesuch', so these jobs wait for a worker with it"
ok kiln cancel stranger --yes
ok kiln enqueue few.jsonl --batch usual
grep -q 'no live worker' err.txt && die "these jobs do not wait: $(cat err.txt)"
nothing_lost usual 20
ok kiln cancel strange --yes
for pid in "${listeners[@]}"; do wait "$pid" && die "0 for a cancelled batch"; done
listeners=()

# --- a pause of everything: of the pool as of its batch
ok kiln pause --yes --reason lunch
begin "paused" paused few.jsonl
said 'everything is paused since .*lunch'
named status='^paused: everything is paused since ' workers='now in the way: everything is paused since ' \
    errors='now in the way: everything is paused since ' why.0='paused since .*lunch'
ok kiln status
[ "$(grep -c lunch out.txt)" = 1 ] || die "status says the pause twice: $(cat out.txt)"
ok kiln why paused
says '^batch paused is active$' out.txt
says '  - everything is paused since ' out.txt
ok kiln doctor
says '^warning  paused     everything is paused since .*lunch.*`kiln resume --all` resumes it' out.txt
ok kiln resume
ok kiln doctor
grep -q paused out.txt && die "the doctor still says a pause: $(cat out.txt)"
over 20

# --- a model that does not load
stop_others
mkdir empty-model
"$kiln_bin/kiln-worker" --config s/kiln.conf --engine pipeline --model "$PWD/empty-model" --id broken >broken.log 2>&1
begin "model does not load" unloaded few.jsonl
said 'worker broken on .* does not start: '
told 'kiln worker logs'
named status='! worker broken on .* does not start: ' workers='^broken' \
    errors='now in the way: worker broken on .* does not start: ' why.0='worker broken on .* does not start: '
ok kiln workers --json
json_lines out.txt 'any(w["worker"] == "broken" and w["trouble"]["trouble"] == "start" for w in d)'
ok kiln up --dir s --workers 1 --engine testcard
over 20

# --- a worker that starts while its store is full
kiln worker stop --all --yes >/dev/null 2>&1
ok kiln up --dir s --workers 0
mkdir tiny
if mount -t tmpfs -o size=64k kiln-test "$PWD/tiny" 2>/dev/null; then
    mounts+=("$PWD/tiny")
    dd if=/dev/zero of=tiny/full bs=4k count=100 2>/dev/null
    sed "s#^store = .*#store = file://$PWD/tiny#; /^worker_port/d" s/kiln.conf >tiny.conf
    "$kiln_bin/kiln-worker" --config tiny.conf --engine testcard --id waits >waits.log 2>&1 &
    others+=($!)
    begin "starts with a full store" tiny few.jsonl
    said 'worker waits on .* does not start: .*No space left on device'
    named status='! worker waits on .* does not start: ' workers='! .*No space left on device' \
        errors='now in the way: worker waits on .* does not start: ' why.0='worker waits on .* does not start: '
    rm tiny/full
    until_kiln '^waits  *live' kiln workers
    ok kiln workers --json
    json_lines out.txt 'next(w for w in d if w["worker"] == "waits")["trouble"] is None'
    kill "${listeners[@]}" && wait "${listeners[@]}" 2>/dev/null
    listeners=()
else
    echo "skip: no file system can be mounted here: a worker that starts with a full store is not tried"
fi
print_rows
echo ok
