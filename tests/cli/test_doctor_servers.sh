#!/bin/bash
# `kiln doctor` on servers that are set up wrongly, workers whose clocks are off and jobs that nobody
# can draw: a real Redis whose users, memory policy, append-only file and disk are damaged one after
# the other, each seen, with what to do.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
finding() { # CHECK EXPRESSION [OPTION...]: f is the first such finding
    kiln doctor --json "${@:3}" >out.txt 2>err.txt
    json out.txt "(lambda f: $2)(next((f for f in d['findings'] if f['check'] == '$1'), None))"
}
stacks+=(s)
ok kiln up --dir s --engine testcard --lease-s 4 --heartbeat-s 0.2 --backoff-base-s 60 --backoff-max-s 60
export KILN_CONFIG=$PWD/s/kiln.conf
socket=$(sed -n 's/^redis = unix:\([^?]*\).*/\1/p' "$KILN_CONFIG")
rd() { redis-cli -s "$socket" "$@"; }

# --- as `up` makes it: nothing to find
ok kiln doctor
finding redis-user "f['verdict'] == 'ok' and f['found'] == 'Redis user default may schedule, render as a worker, send control messages, read, enqueue'"
finding memory "f['verdict'] == 'ok' and 'evicts nothing' in f['found']"
finding aof "f['verdict'] == 'ok'"
finding redis-disk "f['verdict'] == 'ok' and f['found'].endswith(' free at $(rd config get dir | tail -n 1)')"
finding pg-disk "f['verdict'] == 'ok' and f['found'].endswith(' free at $(sql 'SHOW data_directory')')"
finding clocks "f['verdict'] == 'ok'"
for check in models sizes loras snapshot; do finding $check "f is None"; done

# --- the scheduler's streams, in a pool that none leads
finding streams "f['verdict'] == 'ok'"
rd set 'kiln:{alone}:control' x >/dev/null
finding streams "f['verdict'] == 'bad' and f['found'].startswith('kiln:{alone}:control is not a stream') and 'scheduler' in f['do']" --pool alone
rd del 'kiln:{alone}:control' >/dev/null
rd xadd 'kiln:{alone}:events' 18446744073709551615-18446744073709551615 a b >/dev/null
finding streams "f['verdict'] == 'bad' and 'kiln:{alone}:events has used up its ids' in f['found']" --pool alone
rd del 'kiln:{alone}:events' >/dev/null
for part in refused blocked; do
    rd set "kiln:{alone}:$part" x >/dev/null
    finding streams "f['verdict'] == 'bad' and f['found'].startswith('kiln:{alone}:$part is not a stream')" --pool alone
    rd del "kiln:{alone}:$part" >/dev/null
    rd xadd "kiln:{alone}:$part" 18446744073709551615-18446744073709551615 a b >/dev/null
    finding streams "f['verdict'] == 'bad' and 'kiln:{alone}:$part has used up its ids' in f['found']" --pool alone
    rd del "kiln:{alone}:$part" >/dev/null
done
finding streams "f['verdict'] == 'ok'" --pool alone

# --- words with a time to come: how old they are cannot be told, and that is what is said
for id in 99999999999999-1 9999999999999999999-1; do
    rd xadd 'kiln:{alone}:blocked' $id blocked_ms 5000 entry 1-1 error forged >/dev/null
    rd xadd 'kiln:{alone}:refused' $id entry 1-1 reason forged >/dev/null
    finding intake "f['verdict'] == 'warning' and '$id' in f['found'] and 'has been blocked' not in f['found'] and 'DEL' in f['do']" --pool alone
    finding refused "f['verdict'] == 'warning' and '$id' in f['found'] and 'within a day' not in f['found'] and 'DEL' in f['do']" --pool alone
    rd del 'kiln:{alone}:blocked' 'kiln:{alone}:refused' >/dev/null
done
finding refused "f is None" --pool alone

# --- memory and what is kept
rd config set maxmemory-policy volatile-ttl >/dev/null
finding memory "f['verdict'] == 'warning' and 'volatile-ttl' in f['found'] and 'noeviction' in f['do']"
rd config set maxmemory 1gb >/dev/null
finding memory "f['verdict'] == 'bad' and 'of 1.1 GB' in f['found']"
fails 1 kiln doctor
rd config set maxmemory-policy noeviction >/dev/null
finding memory "f['verdict'] == 'ok'"
rd config set maxmemory "$(($(rd info memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p') * 102 / 100))" >/dev/null
finding memory "f['verdict'] in ('warning', 'bad') and 'why the intake lags' in f['do']"
rd config set maxmemory 0 >/dev/null
rd config set appendonly no >/dev/null
finding aof "f['verdict'] == 'warning' and 'appendonly yes' in f['do']"
rd config set appendonly yes >/dev/null

# --- users: each of ours may do its part and no more; one that was damaged is told
ok kiln migrate --roles --secrets secrets
user() { finding redis-user "$2" --config "secrets/kiln_$1.conf"; }
user scheduler "f['found'] == 'Redis user kiln_scheduler may schedule, read'"
user worker "f['found'] == 'Redis user kiln_worker may render as a worker'"
user operator "f['found'] == 'Redis user kiln_operator may send control messages, read, enqueue'"
user gallery "f['found'] == 'Redis user kiln_gallery may read'"
user reader "f['found'] == 'Redis user kiln_reader may read'"
finding redis-user "f['found'] == 'Redis user kiln_producer may enqueue'" --config secrets/kiln_producer.conf
finding memory "f['verdict'] == 'ok'" --config secrets/kiln_reader.conf
finding clocks "f['verdict'] == 'ok'" --config secrets/kiln_operator.conf
finding memory "f['verdict'] == 'warning' and 'kiln_operator' in f['do']" --config secrets/kiln_worker.conf
rd acl setuser kiln_worker -pexpire >/dev/null
user worker "f['verdict'] == 'bad' and f['found'] == 'Redis user kiln_worker may render as a worker, but not use PEXPIRE beat:doctor' and '--roles' in f['do']"
rd acl setuser kiln_worker -hset >/dev/null
user worker "f['verdict'] == 'bad' and f['found'] == 'Redis user kiln_worker may not do anything that Kiln needs'"
rd acl setuser kiln_operator -blpop >/dev/null
user operator "f['verdict'] == 'bad' and f['found'] == 'Redis user kiln_operator may not send control messages'"
rd acl setuser kiln_reader -multi >/dev/null
user gallery "f['found'] == 'Redis user kiln_gallery may read'"
user reader "f['verdict'] == 'warning' and 'are unknown' in f['found']"
[ "$(rd exists 'kiln:{default}:receipt:doctor' 'kiln:{default}:beat:doctor' 'kiln:{default}:worker:doctor')" = 0 ] || die "asking has written"

# --- clocks: what a worker says of the time against Redis' own
beat=$(rd hget "kiln:{default}:beat:$cpu0" beat)
forge() { # SECONDS that its clock is ahead
    local now
    now=$(($(date +%s) + $1))000
    rd hset 'kiln:{default}:beat:forged' beat "$(sed "s/\"$cpu0\"/\"forged\"/; s/\"sent_ms\":[0-9]*/\"sent_ms\":$now/" <<<"$beat")" >/dev/null
    rd pexpire 'kiln:{default}:beat:forged' 60000 >/dev/null
}
forge 30
finding clocks "f['verdict'] == 'warning' and f['found'].startswith('the clocks of 1 of 2 workers') and 'forged' in f['found'] and 'ahead' in f['found'] and 'chrony' in f['do']"
forge -600
finding clocks "f['verdict'] == 'bad' and 'behind' in f['found']"
fails 1 kiln doctor
# A heartbeat with what the protocol requires tells no time; one that names another worker is nobody's.
rd hset 'kiln:{default}:beat:forged' beat '{"v":1,"worker":"forged","incarnation":"i","version":1,"room":0,"batch_max":1}' >/dev/null
finding clocks "f['verdict'] == 'ok'"
ok kiln workers --json
json_lines out.txt '"forged" in [x["worker"] for x in d]'
rd hset 'kiln:{default}:beat:forged' beat "$beat" >/dev/null
ok kiln workers --json
json_lines out.txt '"forged" not in [x["worker"] for x in d]'
rd del 'kiln:{default}:beat:forged' >/dev/null
finding clocks "f['verdict'] == 'ok'"

# --- jobs that nobody can draw
job() { echo "{\"prompt\": \"$1\", \"width\": 64, \"height\": 64, \"steps\": 2$2}"; }
ok kiln enqueue - --batch foreign < <(job star ', "model": "other", "count": 3')
finding models "f['verdict'] == 'bad' and f['found'] == '3 queued jobs of 64x64 need model other, such as batch foreign; no live worker has it' and 'cancel BATCH' in f['do']"
ok kiln cancel foreign --yes
finding models "f is None"
ok kiln enqueue - --batch large < <(job '@fail=no_memory' '')
until_sql "SELECT count(*) FROM job WHERE waits AND tries > 0" 1
finding sizes "f['verdict'] == 'warning' and '1 of 1 queued job of 64x64 did not fit' in f['found'] and 'batch large' in f['found']"
ok kiln cancel large --yes
ok kiln pause --all --yes
mkdir loras
touch loras/ghost.safetensors
ok kiln enqueue - --batch styled --lora-dir "$PWD/loras" < <(job star ', "loras": [{"name": "ghost"}]')
rm loras/ghost.safetensors
finding loras "f['verdict'] == 'warning' and 'LoRA ghost is not in' in f['found'] and 'batch styled needs it (1 queued job in all)' in f['found']" --lora-dir "$PWD/loras"
touch loras/ghost.safetensors
finding loras "f is None" --lora-dir "$PWD/loras"
finding loras "f is None" --lora-dir "$PWD/nowhere"

# --- a disk that fills under Redis: a Redis of its own on a file system of 60 MB
mkdir small
if mount -t tmpfs -o size=60m kiln-test "$PWD/small" 2>/dev/null; then
    redis-server --port 0 --unixsocket "$PWD/small/sock" --dir "$PWD/small" --appendonly yes --save '' >small.log 2>&1 &
    small=$!
    trap 'kill $small; wait $small; umount "$PWD/small"; stop_stacks' EXIT
    answers() { redis-cli -s small/sock ping >/dev/null 2>&1; }
    soon answers || die "the small Redis does not answer"
    finding redis-disk "f['verdict'] == 'bad' and f['found'].endswith(' free at $PWD/small') and 'free some space' in f['do']" --redis "unix:$PWD/small/sock"
    dd if=/dev/zero of=small/full bs=1M count=70 2>/dev/null
    redis-cli -s small/sock set key "$(head -c 100000 /dev/zero | tr '\0' x)" >/dev/null
    is_full() { redis-cli -s small/sock info persistence | grep -q 'aof_last_write_status:err'; }
    soon is_full || die "the disk of the small Redis is not full"
    finding aof "f['verdict'] == 'bad' and 'append-only file' in f['found']" --redis "unix:$PWD/small/sock"
fi
echo ok
