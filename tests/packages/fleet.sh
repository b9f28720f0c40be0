# fleet.sh - a fleet of two hosts with access rights, set up with the commands of OPERATIONS.md; sourced
# by run.sh after the upgrade.  Both servers are on the first host and answer over TCP; the second has
# a worker of the earlier version, and both share the directory of the store.
say "two hosts with access rights"
second=$work/second
in_ok systemctl stop kiln.target kiln-scheduler kiln-worker@0 kiln-gallery

# 1. The servers.
in_ok sh -c 'printf "appendonly yes\nmaxmemory-policy noeviction\naclfile /etc/redis/users.acl\n" >>/etc/redis/redis.conf
    install -o redis -g redis -m 640 /dev/null /etc/redis/users.acl && systemctl restart redis-server'
in_ok su postgres -c "psql -c \"ALTER ROLE kiln CREATEROLE PASSWORD 'of the owner'\""
until_in 60 redis-cli ping

# 2. Settings, the same on both hosts.
settings='redis = redis://127.0.0.1:6379/0
postgres = host=127.0.0.1 dbname=kiln user=kiln
store = file:///srv/kiln
model = /usr/share/kiln/models/sketch'
printf '%s\n' "$settings" >"$root/etc/kiln/kiln.conf"
printf '%s\n' "$settings" >"$second/etc/kiln/kiln.conf"
in_ok sh -c 'cp -a /var/lib/kiln/store/. /srv/kiln && chown kiln: /srv/kiln'

# 3. Tables and users: twice, as after an upgrade.
for _ in 1 2; do
    in_ok env PGPASSWORD='of the owner' kiln migrate --roles --secrets /etc/kiln/secrets
    ! grep -q '^user ' "$work/out" || die "lines for an ACL file that Redis has saved"
    [ "$(inside sh -c 'stat -c "%a %U" /etc/kiln/secrets/*' | sort -u)" = '600 kiln' ] || die "the secrets are not kiln's alone"
    in_ok systemctl restart redis-server # which would refuse a file that makes a user twice
    until_in 60 redis-cli ping
done
in_ok redis-cli ACL SETUSER default off

# 4. A further host gets the passwords of what runs there.
cp "$root"/etc/kiln/secrets/kiln_{worker,scheduler}.* "$second/etc/kiln/secrets/"
chrooted "$second" sh -c 'chown kiln: /etc/kiln/secrets/*' || die "chown"
boot second "$second" || die "the second host does not boot: $machine_lacks"
in_ok systemctl disable --now redis-server postgresql

# 5. Start.
in_ok mkdir -p /etc/systemd/system/kiln-worker@0.service.d
printf '[Service]\nEnvironment=KILN_DEVICE=cpu\n' | inside tee /etc/systemd/system/kiln-worker@0.service.d/cpu.conf >/dev/null
in_ok systemctl daemon-reload
in_ok systemctl enable --now --no-block kiln.target kiln-worker@0
on first
in_ok systemctl start kiln.target kiln-scheduler kiln-worker@0 kiln-gallery
operator=(setpriv --reuid kiln --regid kiln --init-groups kiln --config /etc/kiln/secrets/kiln_operator.conf)
until_in 120 sh -c "${operator[*]} workers | grep -q '^second-gpu0 .*live'"
in_ok "${operator[@]}" doctor
printf 'a {red|blue|green|white} {star|ring|heart}\n' | inside tee /tmp/fleet.txt >/dev/null
in_ok "${operator[@]}" enqueue /tmp/fleet.txt --set size=256x256 --set count=4
in_ok "${operator[@]}" wait fleet --timeout 300
in_ok su postgres -c "psql -qAtc \"SELECT string_agg(DISTINCT worker, ' ' ORDER BY worker) FROM job JOIN batch ON batch.id = job.batch_id WHERE batch.name = 'fleet'\" kiln"
[ "$(cat "$work/out")" = 'first-gpu0 second-gpu0' ] || die "not both hosts have rendered: $(cat "$work/out")"
in_ok su postgres -c "psql -qAtc \"SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename) FROM pg_stat_activity WHERE usename LIKE 'kiln%'\" kiln"
[ "$(cat "$work/out")" = 'kiln_gallery kiln_scheduler kiln_worker' ] || die "units are other users: $(cat "$work/out")"
# A unit sees the passwords of its own part alone.
seen() { inside nsenter --target "$(pid_of "$1")" --mount ls /etc/kiln/secrets | tr '\n' ' '; }
[ "$(seen kiln-worker@0)" = 'kiln_worker.pgpass kiln_worker.redis ' ] || die "the worker sees $(seen kiln-worker@0)"
[ "$(seen kiln-scheduler)" = 'kiln_scheduler.pgpass kiln_scheduler.redis ' ] || die "the scheduler sees $(seen kiln-scheduler)"
in_ok systemctl start kiln-gc.service
in_ok "${operator[@]}" export fleet --out /var/lib/kiln/fleet --html
in_ok rm -r /var/lib/kiln/fleet

say "the standby on the second host takes over"
on second
in_ok systemctl enable --now kiln-scheduler
on first
in_ok "${operator[@]}" enqueue /tmp/fleet.txt --batch over --set size=256x256 --set count=4
in_ok systemctl kill -s KILL kiln-scheduler # systemd starts it again: now it is the standby
until_in 60 systemctl is-active --quiet kiln-scheduler
in_ok systemctl stop kiln-scheduler
in_ok "${operator[@]}" wait over --timeout 300
in_ok "${operator[@]}" enqueue /tmp/fleet.txt --batch alone --set size=64x64 # its intake too
in_ok "${operator[@]}" wait alone --timeout 300
in_ok "${operator[@]}" doctor
in_ok su postgres -c "psql -qAtc 'SELECT max(tries) <= 1 AND max(crashes) = 0 FROM job' kiln"
[ "$(cat "$work/out")" = t ] || die "a job lost an attempt when the scheduler changed"
in_ok systemctl start kiln-scheduler
