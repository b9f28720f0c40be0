#!/bin/bash
# Servers that refuse, hang, forbid or are of another version, as a person at the command line and
# the supervisor of a daemon see them: an exit status that tells the cases apart, one sentence that
# names the server and says what to do, within the time limit, and never a secret.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --statement-timeout-s 2 --connect-timeout-s 2
export KILN_CONFIG=$PWD/s/kiln.conf
setting() { sed -n "s/^$1 = //p" s/kiln.conf; }
sql() { psql -qAtX -d "$(setting postgres)" -c "$1" >/dev/null || die "psql: $1"; }
# Both daemons have to name the trouble and end; the supervisor decides when to try again.
daemons_fail() {
    fails "$1" timeout 120 "$kiln_bin/kiln-scheduler" --config s/kiln.conf --pool other
    says "$2"
    fails "$1" timeout 120 "$kiln_bin/kiln-worker" --config s/kiln.conf --pool other --id stranger
    says "$2"
}

# --- nobody listens
KILN_REDIS=redis://127.0.0.1:1 fails 69 kiln status
says '127.0.0.1.*refused'
# what the ledger knows is told all the same, and what it cannot know
says '^pool default: 0 queued, 0 assigned, 0 done' out.txt
says '^unavailable while Redis is down: live workers, the length of the intake stream' out.txt
grep -q 'no worker is alive' out.txt && die "workers that cannot be seen are called dead"
KILN_REDIS=redis://127.0.0.1:1 fails 69 kiln status --json
json out.txt 'd["jobs"] == {"queued": 0, "assigned": 0, "done": 0, "failed": 0, "cancelled": 0} and d["groups"] == [] and d["scheduler"]'
json out.txt 'd["workers"] is None and d["intake"] is None'
KILN_POSTGRES='host=127.0.0.1 port=1 user=kiln' fails 69 kiln status
says 'refused'

printf '%s\n' '{"prompt": "a cat", "width": 64, "height": 64}' '{"prompt": "a dog", "model": "elsewhere"}' >two.jsonl
ok kiln enqueue two.jsonl
rendered() { [ "$(psql -qAtX -d "$(setting postgres)" -c 'SELECT count(*) FROM job WHERE state = 2')" = 1 ]; }
soon rendered || die "nothing is rendered"
KILN_REDIS=redis://127.0.0.1:1 ok kiln why 1
says 'rendered by worker' out.txt
KILN_REDIS=redis://127.0.0.1:1 fails 69 kiln why 2
says '^job 2 is queued' out.txt
says 'unknown while Redis is down: what its worker does, and what it waits for' out.txt
says '127.0.0.1.*refused'

# --- a server that hangs costs the time limit and no more
redis=$(pid_of s redis)
kill -STOP "$redis"
begin=$SECONDS
fails 75 kiln status
kill -CONT "$redis"
says 'Redis at .*time limit'
[ $((SECONDS - begin)) -lt 90 ] || die "it took $((SECONDS - begin)) s to notice"

# --- wrong passwords
redis-server --port 0 --unixsocket "$PWD/closed.sock" --save '' --requirepass right --daemonize yes \
    --pidfile "$PWD/closed.pid" --dir "$PWD" >/dev/null || die "no second Redis"
answers() { redis-cli -s closed.sock ping 2>&1 | grep -q NOAUTH; }
soon answers || die "the second Redis does not answer"
echo s3cret-and-wrong >password
KILN_REDIS=unix:$PWD/closed.sock KILN_REDIS_PASSWORD_FILE=$PWD/password fails 77 kiln status
says 'redis_password_file'
grep -q s3cret out.txt err.txt && die "the password is told"
kill "$(cat closed.pid)"
KILN_POSTGRES="$(setting postgres) user=stranger password=s3cret" fails 77 kiln status
grep -q s3cret out.txt err.txt && die "the password is told"

# --- a schema that is newer than the program, and one that is not there
sql "INSERT INTO schema_migrations (version, name, sha256) VALUES (9999, 'future', 'x')"
fails 78 kiln status
says 'schema 9999'
fails 78 kiln migrate
says 'newer Kiln'
daemons_fail 78 'schema 9999'
sql 'DELETE FROM schema_migrations WHERE version = 9999'
sql 'CREATE DATABASE empty'
KILN_POSTGRES="$(setting postgres) dbname=empty" fails 78 kiln status
says 'kiln migrate'

# --- all is well again, and nothing was harmed
echo '{"prompt": "after all that", "width": 64, "height": 64}' >one.jsonl
ok kiln enqueue one.jsonl --batch after
ok kiln wait after --timeout 60
echo ok
