#!/bin/bash
# Secrets and prompts of a run at info: in no command line, log, status, metric, bus key or help
# text, and in no core dump.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
trap 'kill $daemons 2>/dev/null; stop_stacks' EXIT
daemons=

# --- a stack whose Redis asks for a password; three more secrets lie about
redis_word=Vogelbeere-71 pg_word=Quittenbrot-62 pg_file_word=Kirschkern-53 s3_word=Hagebutte-44
ok kiln up --dir s --engine testcard --workers 1
socket=$(sed -n 's/^redis = unix:\([^?]*\).*/\1/p' s/kiln.conf)
first="$(pid_of s scheduler) $(pid_of s worker-0)"
kill $first
for pid in $first; do soon gone "$pid" || die "process $pid does not end"; done
redis-cli -s "$socket" config set requirepass "$redis_word" >/dev/null
printf '%s\n' "$redis_word" >redis.password
chmod 600 redis.password
sed -e "s/^\(postgres = .*\)/\1 password=$pg_word/" s/kiln.conf >own.conf
echo "redis_password_file = $PWD/redis.password" >>own.conf
chmod 600 own.conf
export KILN_CONFIG=$PWD/own.conf AWS_ACCESS_KEY_ID=some AWS_SECRET_ACCESS_KEY=$s3_word PGPASSWORD=$pg_file_word

"$kiln_bin/kiln-scheduler" 2>scheduler.log &
daemons=$!
"$kiln_bin/kiln-worker" --id w0 2>worker.log &
daemons="$daemons $!"
ok kiln enqueue - --batch b <<<'{"prompt": "a Pfefferminz field", "width": 64, "height": 64}
{"prompt": "a Pfefferminz field @fail=bad_input", "width": 64, "height": 64}'
fails 1 kiln wait b --timeout 60

# --- everything that is said while and after that
{
    for pid in $daemons; do tr '\0' '\n' <"/proc/$pid/cmdline"; done
    kiln status; kiln status --json; kiln workers; kiln workers --json; kiln doctor; kiln doctor --json
    COLUMNS=1000 kiln help config; kiln help config --json; kiln errors; kiln usage; kiln batches
    for log in scheduler.log worker.log; do
        port=$(sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' $log)
        for path in metrics healthz; do
            exec 3<>"/dev/tcp/127.0.0.1/$port"
            printf 'GET /%s HTTP/1.0\r\n\r\n' $path >&3
            timeout 60 cat <&3
        done
    done
} >said.txt 2>&1
says '^kiln_jobs{state="done",pool="[^"]*"} ' said.txt
says 'now: host=.* password=\*\*\*  \[.*own.conf' said.txt
export REDISCLI_AUTH=$redis_word
{
    for key in $(redis-cli -s "$socket" --scan | grep -v ':intake$'); do
        redis-cli -s "$socket" dump "$key"
    done
} >keys.txt
[ -s keys.txt ] || die "no keys to look at"
for word in "$redis_word" "$pg_word" "$pg_file_word" "$s3_word"; do
    ! grep -n -e "$word" said.txt scheduler.log worker.log keys.txt s/log/* || die "a secret is told"
done
! grep -n Pfefferminz said.txt scheduler.log worker.log s/log/* || die "a prompt is told"

# --- wrong passwords are said to be wrong, not said
printf '%s\n' "$s3_word" >wrong.password
fails 77 kiln status --redis-password-file wrong.password
KILN_POSTGRES="$(sed -n 's/^postgres = \(.*\) password=.*/\1/p' own.conf) user=stranger password=$pg_word" fails 77 kiln status
! grep -e "$pg_word" -e "$s3_word" err.txt || die "an error tells a password"

# --- a password on a command line would be everybody's: it is not taken
for flag in "host=x password=$pg_word" "host=x password = '$pg_word' dbname=k" "postgresql://me:$pg_word@x/k" "postgresql://x/k?password=$pg_word"; do
    fails 64 kiln status --postgres "$flag"
    says 'PGPASSFILE'
    fails 78 "$kiln_bin/kiln-worker" --postgres="$flag"
    ! grep -e "$pg_word" err.txt || die "the refusal tells the password"
    KILN_POSTGRES=$flag ok kiln help config
    ! grep -e "$pg_word" out.txt || die "kiln help config tells the password of '$flag'"
    says '\*\*\*' out.txt
done

# --- no core dumps, and no look into the memory of a daemon for others of its user
for pid in $daemons; do
    says '^Max core file size *0 *0 ' "/proc/$pid/limits"
    [ "$(stat -c %u "/proc/$pid/environ")" = 0 ] || die "the environment of a daemon lies open"
done
for mode in "$(stat -c %a s/kiln.conf)" "$(stat -c %a s/log/worker-0.log)"; do
    case $mode in *00) ;; *) die "a file of the stack has the mode $mode" ;; esac
done
