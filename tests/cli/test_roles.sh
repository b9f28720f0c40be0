#!/bin/bash
# Least rights on real servers: `kiln migrate --roles --secrets` makes the users; scheduler and worker
# run a batch from end to end as theirs; what nobody may do is refused by the servers themselves.
# A Postgres with a certificate of its own is refused where it must be proven, and Redis' default user
# is switched off.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
mkdir model # for runs that begin from stored latents
printf '{"teleport": {"rows": [{"class": "same_prompt", "depth": 6, "donors": 1, "uses": 1, "variety": 0.1, "loss": [0, 0], "for": ["64x64"]}]}}\n' >model/kiln.json
export KILN_MODEL=$PWD/model
export KILN_LEASE_S=3 KILN_HEARTBEAT_S=0.3
ok kiln up --dir s --engine testcard --lease-s 3 --heartbeat-s 0.3
unset KILN_LEASE_S KILN_HEARTBEAT_S
owner_conf=$PWD/s/kiln.conf
sockets=$(sed -n 's/^postgres = .*host=\([^ ]*\).*/\1/p' s/kiln.conf)
owner=$(sed -n 's/^postgres = .*user=\([^ ]*\).*/\1/p' s/kiln.conf)
base=$(sed -n 's/^postgres = .*dbname=\([^ ]*\).*/\1/p' s/kiln.conf)
redis_socket=$(sed -n 's/^redis = unix:\([^?]*\).*/\1/p' s/kiln.conf)
sql() { psql -X -q -A -t -h "$sockets" -U "${owner:-$(id -un)}" -d "$base" -c "$1"; }
rd() { redis-cli -s "$redis_socket" "$@"; }
for name in scheduler worker-0; do
    pid=$(pid_of s $name)
    kill -TERM "$pid"
    soon gone "$pid" || die "$name does not end"
done

# --- making them
echo 'pool = default' >>"$owner_conf" # made by somebody, though it is the default
fails 64 kiln migrate --secrets x --config "$owner_conf"
fails 64 kiln migrate --roles --dry-run --config "$owner_conf"
mkdir open && chmod 755 open
fails 77 kiln migrate --roles --secrets open --config "$owner_conf"
says 'chmod 700'
ok kiln migrate --roles --secrets secrets --config "$owner_conf"
[ "$(grep -c '^user kiln_[a-z]* on resetpass #[0-9a-f]\{64\} ' out.txt)" = 6 ] || die "not six Redis users"
cp out.txt acl.txt
grep -qx 'pool = default' secrets/kiln_operator.conf || die "a setting that equals the default is lost"
[ "$(stat -c %a secrets secrets/* | sort -u | tr '\n' ' ')" = "600 700 " ] || die "others may read the secrets"
for role in scheduler worker operator reader gallery producer; do
    grep -q "$(cat secrets/kiln_$role.redis)" acl.txt err.txt secrets/kiln_$role.conf && die "a password is told"
done
cp -r secrets first
ok kiln migrate --roles --secrets secrets --config "$owner_conf" --json
json out.txt 'd["made"] == 0 and d["redis_set"] and not d["redis_saved"] and len(d["redis_users"]) == 6'
diff -r first secrets || die "the second run changed passwords"
# An ACL file may be written twice; other users' lines, mode and owner stay, whatever the umask is.
printf 'user default on nopass ~* +@all\nuser kiln_worker on nopass +@all\nuser kiln_workers on nopass\n' >users.acl
chmod 604 users.acl
mask_before=$(umask)
for mask in 022 077; do
    umask $mask
    ok kiln migrate --roles --secrets secrets --acl users.acl --config "$owner_conf"
    [ ! -s out.txt ] || die "the users are printed as well"
    sed 1d acl.txt | cmp -s - <(grep '^user kiln_[a-z]* ' users.acl | sed '1,2d') || die "the users of the file are not those that are printed"
    [ "$(sed 's/ .*//' users.acl | wc -l) $(sort users.acl | uniq -d | wc -l) $(stat -c %a users.acl)" = '8 0 604' ] || die "users.acl is wrong: $(cut -c1-40 users.acl)"
done
umask "$mask_before"
grep -q '^user default on nopass' users.acl && grep -qx 'user kiln_workers on nopass' users.acl || die "a line of somebody else is gone"
fails 64 kiln migrate --roles --acl users.acl --config "$owner_conf"
# What the units read over their own settings: three variables, which a shell reads alike.
(
    . secrets/kiln_worker.env
    [ "$KILN_REDIS_PASSWORD_FILE" = "$PWD/secrets/kiln_worker.redis" ] &&
        grep -qxF "redis = $KILN_REDIS" secrets/kiln_worker.conf && grep -qxF "postgres = $KILN_POSTGRES" secrets/kiln_worker.conf
) || die "kiln_worker.env is not kiln_worker.conf's servers"
# What root writes belongs to the owner of the directory.
if [ "$(id -u)" = 0 ]; then
    chown -R nobody secrets
    ok kiln migrate --roles --secrets secrets --config "$owner_conf"
    [ "$(stat -c %U secrets/* | sort -u)" = nobody ] || die "files of another user than the directory's"
    chown -R root secrets
fi

# --- from now on everybody needs a password: Postgres by SCRAM, Redis without its default user
pgdata=$(sed -n 's/.*"postgres": "\([^"]*\)".*/\1/p' s/stack.json)
cp -p "$pgdata/pg_hba.conf" hba.saved
printf 'local all kiln_scheduler,kiln_worker,kiln_operator,kiln_reader,kiln_gallery scram-sha-256\n' | cat - hba.saved >hba.new
cat hba.new >"$pgdata/pg_hba.conf"
[ "$(sql 'SELECT pg_reload_conf()')" = t ] || die "Postgres does not reload"
as() { local role=$1; shift; PGPASSFILE=$PWD/secrets/kiln_$role.pgpass psql -X -q -A -t -h "$sockets" -U "kiln_$role" -d "$base" -c "$*"; }
[ "$(PGPASSWORD=wrong psql -X -h "$sockets" -U kiln_worker -d "$base" -c 'SELECT 1' 2>&1 | grep -c 'password authentication failed')" = 1 ] ||
    die "any password will do"
[ "$(as worker 'SELECT 1')" = 1 ] || die "the password does not open the database"
rd ACL SETUSER admin on '>admin' '~*' '&*' +@all >/dev/null
rd ACL SETUSER default off >/dev/null

# --- a batch from end to end, each part as itself
"$kiln_bin/kiln-scheduler" --config secrets/kiln_scheduler.conf >scheduler.log 2>&1 &
pids=($!)
"$kiln_bin/kiln-worker" --config secrets/kiln_worker.conf --id w1 >worker.log 2>&1 &
pids+=($!)
trap 'kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null; stop_stacks' EXIT
cat >jobs.jsonl <<'LINES'
{"prompt": "a {red|blue|green} star", "width": 128, "height": 64, "steps": 2, "count": 2}
{"prompt": "@fail=bad_input", "width": 128, "height": 64, "steps": 2}
LINES
operator="--config secrets/kiln_operator.conf" reader="--config secrets/kiln_reader.conf"
ok kiln enqueue jobs.jsonl --batch b --no-wait --config secrets/kiln_producer.conf
if [ ! -S /var/run/postgresql/.s.PGSQL.5432 ]; then # no server of the machine at the default address
    fails 69 kiln cancel b --yes --config secrets/kiln_producer.conf
    says 'secrets/kiln_producer.conf names no database (setting postgres).*--config /etc/kiln/secrets/kiln_reader.conf'
fi
whole() { kiln batches $reader --json >out.txt 2>err.txt && grep -q '"whole":true' out.txt; }
soon whole || die "the batch does not come in: $(cat err.txt)"
fails 1 kiln wait b --timeout 60 $reader
grep -h -i 'permission denied\|NOPERM\|lacks this right' scheduler.log worker.log && die "a right is missing"
ok kiln jobs $reader --json
json out.txt '[job["state"] for job in d].count("done") == 6'
ok kiln status $reader --json
json out.txt 'len(d["workers"]) == 1'
ok kiln why 1 $reader
ok kiln events --since 1h $reader

# --- a run that begins from a stored latent
began() {
    seed=$((seed + 1))
    printf '{"prompt":"a fox","size":"64x64","seed":%s,"teleport":"auto","alike":100}\n' "$seed" >fox.jsonl
    ok kiln enqueue fox.jsonl --batch foxes $operator
    ok kiln wait foxes --timeout 60 $operator
    [ "$(as reader "SELECT count(*) > 0 FROM image WHERE prompt = 'a fox' AND mode = 'teleport=6' AND fallback IS NULL")" = t ]
}
seed=0
soon began || die "no run began from a latent: $(as reader "SELECT mode, donor, fallback FROM image WHERE prompt = 'a fox'")"

# --- drained, killed and lost: leases come back under the same rights
sed 's/red|blue|green/@step_ms=400 red|@step_ms=400 blue/; 2d' jobs.jsonl >more.jsonl
ok kiln enqueue more.jsonl --batch c $operator
kill -9 "${pids[1]}"
"$kiln_bin/kiln-worker" --config secrets/kiln_worker.conf --id w2 >worker2.log 2>&1 &
pids[1]=$!
ok kiln wait c --timeout 60 $operator
ok kiln cancel b --yes $operator
ok kiln retry --batch b $operator
ok kiln cancel b --yes $operator
ok kiln favourite add 1 $operator
ok kiln batch rm c --force --yes $operator
ok kiln gc --grace 0s --yes $operator --json
json out.txt 'd["removed"] > 0 and d["failed"] == 0'
grep -h -i 'permission denied\|NOPERM\|lacks this right' scheduler.log worker2.log && die "a right is missing"

# --- a gallery that takes jobs: its own role in the ledger, the producer's user in Redis
sed 's/^redis/#&/' secrets/kiln_gallery.conf >gallery.conf
grep '^redis' secrets/kiln_producer.conf >>gallery.conf
(umask 077 && echo 0123456789abcdef0123456789abcdef >token)
"$kiln_bin/kiln" gallery serve --config gallery.conf --port 0 --gallery-metrics-port 0 --allow-enqueue \
    --gallery-producer-token-file "$PWD/token" >address.txt 2>gallery.log &
pids+=($!)
soon grep -q '^http.*/$' address.txt || die "no address"
web() { curl -sS --max-time 40 -o answer.json -w '%{http_code}' -H "Authorization: Bearer $(cat token)" "$@"; }
[ "$(web -H 'Content-Type: application/jsonl' --data-binary @jobs.jsonl "$(cat address.txt)v1/batches?batch=web")" = 201 ] ||
    die "the gallery cannot enqueue: $(cat answer.json gallery.log)"
[ "$(web -X POST "$(cat address.txt)v1/batches/web/cancel")" = 200 ] ||
    die "the gallery cannot cancel: $(cat answer.json gallery.log)"
kill "${pids[2]}"
wait "${pids[2]}"
unset 'pids[2]'

# --- what nobody may do
refused() { "$@" >out.txt 2>&1; grep -q 'permission denied\|must be owner' out.txt || { cat out.txt; die "allowed: $*"; }; }
for table in job batch image object event favourite worker schema_migrations; do
    refused as reader "DELETE FROM $table"
    refused as reader "INSERT INTO $table DEFAULT VALUES"
    refused as worker "DELETE FROM $table"
    refused as worker "DROP TABLE $table"
    refused as scheduler "DROP TABLE $table"
    refused as operator "TRUNCATE $table"
done
refused as reader "UPDATE job SET state = 0"
refused as reader "CREATE TABLE t (i integer)"
refused as worker "CREATE TABLE t (i integer)"
refused as worker "UPDATE job SET prompt = 'x'"
refused as worker "UPDATE job SET attempt = 0"
refused as worker "INSERT INTO job DEFAULT VALUES"
refused as worker "SELECT * FROM batch"
refused as worker "SELECT * FROM image"
refused as worker "CREATE ROLE r"
refused as scheduler "DELETE FROM job"
refused as scheduler "DELETE FROM image"
refused as scheduler "UPDATE image SET prompt = 'x'"
refused as scheduler "UPDATE schema_migrations SET version = 0"
# Latents and what began from them: a worker adds its own, the scheduler only reads.
for what in 'UPDATE latent SET sigma = 0' 'UPDATE image SET donor = 1' 'SELECT donor FROM image' 'SELECT donors FROM assignment' \
    "SELECT assignment_note_donors('default', 'x', '{1}')" 'INSERT INTO latent_gone DEFAULT VALUES'; do
    refused as worker "$what"
done
for what in 'DELETE FROM latent' 'UPDATE latent SET sigma = 0' 'INSERT INTO latent DEFAULT VALUES' 'UPDATE image SET donor = 1' 'DELETE FROM latent_gone'; do
    refused as scheduler "$what"
done
refused as operator "ALTER TABLE job DISABLE TRIGGER ALL"
fails 77 kiln cancel b --yes $reader
fails 77 kiln migrate --roles $operator
says 'only the owner of the tables migrates: .*--config /etc/kiln/kiln.conf'
fails 77 kiln enqueue jobs.jsonl --batch d --no-wait $reader
acl() { local role=$1; shift; REDISCLI_AUTH=$(cat secrets/kiln_$role.redis) redis-cli -s "$redis_socket" --user "kiln_$role" "$@" 2>&1; }
denied() { acl "$@" | grep -q NOPERM || die "allowed: $*"; }
[ "$(acl worker PING)" = PONG ] || die "the worker's password does not open Redis"
rd PING | grep -q NOAUTH || die "the default user still works"
fails 1 kiln doctor --config "$owner_conf"
says 'run kiln doctor with the settings of a user who may connect' out.txt
for role in scheduler worker operator reader gallery producer; do
    for command in 'FLUSHALL' 'CONFIG GET dir' 'KEYS x' 'ACL LIST' 'SHUTDOWN' 'SET other 1' 'EVAL 1 0'; do
        denied $role $command
    done
done
denied worker XADD 'kiln:{default}:intake' '*' a b
denied worker XREAD STREAMS 'kiln:{default}:control' 0
denied worker XADD 'kiln:{other}:events' '*' a b
denied reader XADD 'kiln:{default}:control' '*' a b
denied reader DEL 'kiln:{default}:intake'
denied gallery XADD 'kiln:{default}:intake' '*' a b
denied producer XREAD STREAMS 'kiln:{default}:intake' 0
denied producer XADD 'kiln:{default}:events' '*' a b

# --- an ordinary migration later covers tables that came since; a restored ledger has the rights too
sql 'CREATE TABLE later (i integer)'
refused as reader 'SELECT * FROM later'
ok kiln migrate --config "$owner_conf"
as reader 'SELECT * FROM later' || die "a new table is not covered"
sql 'DROP TABLE later'
kill "${pids[@]}"
wait "${pids[@]}" 2>/dev/null
pids=()
ok kiln backup --out b1 --config secrets/kiln_reader.conf
ok kiln restore b1 --yes --config "$owner_conf"
ok kiln status $reader
refused as reader 'DELETE FROM job'

# --- Postgres over TLS: the certificate must be the one that was named
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout server.key -out server.crt >/dev/null 2>&1 || die "openssl made no certificate"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout other.key -out other.crt >/dev/null 2>&1
cp server.crt server.key "$pgdata/"
chown --reference="$pgdata/PG_VERSION" "$pgdata/server.crt" "$pgdata/server.key"
chmod 600 "$pgdata/server.key"
port=$(free_port)
printf 'hostssl all all 127.0.0.1/32 scram-sha-256\n' >>"$pgdata/pg_hba.conf"
bin=$(dirname "$(readlink -f "/proc/$(pid_of s postgres)/exe")")
run_as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid "$(stat -c %u "$pgdata/PG_VERSION")" --regid "$(stat -c %g "$pgdata/PG_VERSION")" --clear-groups "$@"; else "$@"; fi; }
run_as "$bin/pg_ctl" -D "$pgdata" -m fast -w stop >/dev/null || die "Postgres does not stop"
run_as "$bin/pg_ctl" -D "$pgdata" -w -l "$pgdata/tls.log" -o "-c ssl=on -c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=" start >/dev/null ||
    die "Postgres does not start with TLS"
tls="host=localhost hostaddr=127.0.0.1 port=$port dbname=$base user=kiln_reader passfile=$PWD/secrets/kiln_reader.pgpass"
rd --user admin -a admin --no-auth-warning ACL SETUSER default on >/dev/null
jobs_by() { kiln jobs --limit 1 --config "$owner_conf" --postgres "$tls $1"; }
ok jobs_by "sslmode=verify-full sslrootcert=$PWD/server.crt"
fails 69 jobs_by "sslmode=verify-full sslrootcert=$PWD/other.crt"
says 'certificate verify failed'
fails 69 jobs_by "sslmode=verify-full sslrootcert=$PWD/server.crt host=127.0.0.1"
run_as "$bin/pg_ctl" -D "$pgdata" -m fast -w stop >/dev/null
echo ok
