# fleet.sh - a fleet of three hosts in a network, set up by nothing but the commands that OPERATIONS.md
# has under "Install a fleet", as they stand there; sourced by run.sh.  `first` has both servers, a
# scheduler, a worker and the gallery; `second`, with the earlier version, a worker and the standby;
# at `third` people work.  Three system users: kiln, as whom the units run, ann, who enqueues, and
# olga, who operates.
say "a fleet of three hosts, by the commands of the operator's page"
exec </dev/null
hosts=$work/hosts
address=([1]=10.0.0.1 [2]=10.0.0.2 [3]=10.0.0.3)
hub_password='of kiln_owner'

# page STEP N: the Nth block of commands of that step
page() {
    awk -v step="**$1. " -v want="$2" '
        /^## / { section = $0 == "## Install a fleet" }
        !section { next }
        /^(\*\*|What else)/ { on = index($0, step) == 1; block = 0; inside = 0 }
        !on { next }
        /^    / { block += !inside; inside = 1; if (block == want) print substr($0, 5); next }
        NF { inside = 0 }' "$hosts/first/usr/share/doc/kiln/OPERATIONS.md" | grep . || die "the page has no block $2 in step $1"
}
# step STEP N [SED]: runs that block on the host that is meant, as ${user:-root}
user=''
step() {
    page "$1" "$2" >"$work/step" && sed -i "${3:-}" "$work/step"
    inside tee /tmp/step <"$work/step" >/dev/null
    inside ${user:+setpriv --reuid $user --regid $user --init-groups env -C /home/$user HOME=/home/$user} \
        setsid -w bash -eo pipefail /tmp/step >"$work/out" 2>&1 ||
        { cat "$work/out"; die "step $1 of the page fails at its block $2"; }
}
# before_boot ROOT COMMANDS: with the internet, which a booted host does not have
before_boot() {
    chrooted "$1" bash -ec "cd /root && $2" >"$work/out" 2>&1 || { tail -n 30 "$work/out"; die "fails before the boot: $2"; }
}

# 1 and 2. Packages and their user.
mkdir "$hosts"
cp -a "$base" "$hosts/first"
mkdir -p "$hosts/first/etc/apt/apt.conf.d" "$hosts/first/usr/share/doc/kiln"
echo 'APT::Get::Assume-Yes "true"; APT::Install-Recommends "false";' >"$hosts/first/etc/apt/apt.conf.d/90kiln-test"
cp "$here/../../scripts/OPERATIONS.md" "$hosts/first/usr/share/doc/kiln/"
printf '%s %s\n' 127.0.0.1 localhost ${address[1]} first ${address[2]} second ${address[3]} third >"$hosts/first/etc/hosts"
before_boot "$hosts/first" "apt-get update -qq; $(page 1 1 | grep '^apt')"
for name in second third; do
    cp -a "$hosts/first" "$hosts/$name"
    for server in redis-server postgresql; do ln -s /dev/null "$hosts/$name/etc/systemd/system/$server.service"; done
    # What the page does with scp: /run/first is bound to the secrets of the first host.
    printf '#!/bin/bash\nfor from in "${@:1:$#-1}"; do cp -p ${from/#*:*\\/secrets/\\/run\\/first} "${@: -1}" || exit; done\n' >"$hosts/$name/usr/bin/scp"
    chmod 755 "$hosts/$name/usr/bin/scp"
done
useradd --root "$hosts/second" --system --no-create-home somebody # so that the next number is another one
cp "$debs"/kiln_*.deb "$debs"/kiln-worker-cpu_*.deb "$hosts/first/root/"
cp "$debs"/kiln_*.deb "$hosts/third/root/"
for name in kiln kiln-worker-cpu; do cp "$work/earlier/$name.deb" "$hosts/second/root/${name}_$old.deb"; done
for name in first second; do
    before_boot "$hosts/$name" "$(page 2 1)"
    before_boot "$hosts/$name" "$(page 2 2)"
done
before_boot "$hosts/third" "$(page 2 2 | sed 's# ./kiln-worker-cpu_[^ ]*##')"
rm -f "$hosts"/*/root/*.deb
[ "$(for name in first second; do chrooted "$hosts/$name" id -u kiln; done | sort | uniq -c | tr -s ' ')" = ' 2 990' ] ||
    die "kiln has not one number"

# 1. The servers.
boot first "$hosts/first" ${address[1]} || die "the first host does not boot: $machine_lacks"
until_in 60 su postgres -c 'psql -c "SELECT 1"'
until_in 60 redis-cli ping
step 1 1 /^apt/d
until_in 60 redis-cli ping
step 1 2
inside redis-cli ping | grep -q NOAUTH || die "Redis is open"
printf '%s\n%s\n' "$hub_password" "$hub_password" | step 1 3
# 2. Settings.
step 2 1 /^useradd/d
step 2 3
# 3. Tables and users: twice, as after an upgrade.
step 3 1 <<<"$hub_password"
step 3 1 <<<"$hub_password"
! grep -q '^user ' "$work/out" || die "lines for an ACL file that Redis has saved"
[ "$(inside stat -c '%a %U' /etc/kiln/secrets)" = '700 kiln' ] || die "others may look into the directory of secrets"
[ "$(inside sh -c 'stat -c "%a %U %G" /etc/kiln/secrets/*' | sort -u)" = '600 kiln kiln' ] ||
    die "the secrets are not kiln's alone: $(inside sh -c 'stat -c "%a %U %G %n" /etc/kiln/secrets/*')"
in_ok systemctl restart redis-server # which would refuse a file that makes a user twice
until_in 60 sh -c 'redis-cli -a "$(cat /root/redis.password)" ping 2>&1 | grep -q PONG'

# 4. Further hosts get the passwords of what runs there.
boot second "$hosts/second" ${address[2]} || die "the second host does not boot: $machine_lacks"
step 2 3
step 4 1
[ "$(inside sh -c 'stat -c "%a %U %n" /etc/kiln/secrets/*' | sed 's#/etc/kiln/secrets/kiln_##; s#[.].*##' | sort | uniq -c | tr -s ' ' | tr '\n' ',')" = \
    ' 4 600 kiln scheduler, 4 600 kiln worker,' ] || die "the second host has other secrets: $(inside ls -l /etc/kiln/secrets)"

# 5. Start.  A worker waits for the ledger, not for a scheduler.
step 5 1
step 5 2 's/{0..7}/0/'
on first
step 5 1
step 5 3
step 5 2 's/{0..7}/0/'
step 5 4
operator=(sudo -u kiln kiln --config /etc/kiln/secrets/kiln_operator.conf)
until_in 60 sh -c "${operator[*]} workers | grep -q '^second-gpu0 .*live'"
step 5 5
step 5 6 's/$/ -c "kiln status"/'
on second
step 5 3 # the standby
step 4 1 # may be repeated
on first
# A part is its own user of the servers, from its own host; and no unit reads another's file.
in_ok sh -c 'redis-cli --no-auth-warning -a "$(cat /root/redis.password)" CLIENT LIST | sed -n "s/.* addr=\([0-9.]*\):.* user=\(kiln_[a-z]*\).*/\1 \2/p" | sort -u'
grep -qx '10.0.0.2 kiln_worker' "$work/out" && grep -qx '10.0.0.1 kiln_scheduler' "$work/out" || { cat "$work/out"; die "Redis sees other users"; }
for part in worker@0 scheduler gallery; do
    name=${part%@0}
    in_ok systemctl show -p EnvironmentFiles --value "kiln-$part"
    grep -qx "/etc/kiln/secrets/kiln_$name.env (ignore_errors=yes)" "$work/out" || die "kiln-$part reads $(cat "$work/out")"
    seen=$(inside nsenter --target "$(pid_of "kiln-$part")" --mount ls /etc/kiln/secrets | tr '\n' ' ')
    [ "$seen" = "kiln_$name.pgpass kiln_$name.redis " ] || die "kiln-$part sees $seen"
done
! inside setpriv --reuid kiln --regid kiln --init-groups psql -Atc 'SELECT 1' "dbname=kiln user=kiln_owner" >"$work/out" 2>&1 ||
    die "the user of the units is the owner of the tables"

say "people at the third host"
boot third "$hosts/third" ${address[3]} || die "the third host does not boot: $machine_lacks"
in_ok sh -c 'useradd --create-home ann && useradd --create-home olga'
step 6 1
step 6 1 's/ann/olga/g; s/{producer,reader}/operator/'
[ "$(inside sh -c 'stat -c "%a %U %n" /etc/kiln/ann /etc/kiln/ann/* /etc/kiln/olga/*' | sed 's# /etc/kiln/[a-z]*/kiln_# #; s# /etc.*# -#; s#[.].*##' | sort | uniq -c | tr -s ' ' | tr '\n' ',')" = \
    ' 3 600 ann producer, 4 600 ann reader, 4 600 olga operator, 1 700 ann -,' ] || die "people have other secrets"
no_way() { # USER COMMAND...
    local user=$1
    shift
    ! inside setpriv --reuid "$user" --regid "$user" --init-groups "$@" >"$work/out" 2>&1 && grep -qi 'denied\|lacks this right' "$work/out" ||
        { cat "$work/out"; die "$user may do this: $*"; }
}
no_way ann cat /etc/kiln/olga/kiln_operator.redis
no_way olga cat /etc/kiln/ann/kiln_producer.redis
no_way kiln cat /etc/kiln/ann/kiln_reader.pgpass
no_way ann ls /srv/kiln
on first
in_ok useradd ann
for secret in worker.redis scheduler.pgpass operator.conf; do no_way ann cat /etc/kiln/secrets/kiln_$secret; done
on third
no_way ann kiln pause --all --yes --config /etc/kiln/ann/kiln_reader.conf

# A batch from the third host, drawn on the other two.
printf 'a {red|blue|green|white} {star|ring|heart}\n' | inside tee /home/ann/prompts.txt >/dev/null
user=ann step 6 2 '1s/$/ --set size=256x256 --set count=4/; s/^kiln wait.*/& --timeout 300/'
in_ok setpriv --reuid olga --regid olga --init-groups kiln status --config /etc/kiln/olga/kiln_operator.conf
on first
in_ok su postgres -c "psql -qAtc \"SELECT string_agg(DISTINCT worker, ' ' ORDER BY worker) FROM job JOIN batch ON batch.id = job.batch_id WHERE batch.name = 'prompts'\" kiln"
[ "$(cat "$work/out")" = 'first-gpu0 second-gpu0' ] || die "not both hosts have rendered: $(cat "$work/out")"
# Idle workers close their connections, so the list is gathered.
for _ in $(seq 300); do
    inside su postgres -c "psql -qAtF ' ' -c \"SELECT client_addr, usename FROM pg_stat_activity WHERE usename LIKE 'kiln%'\" kiln" >>"$work/users"
    [ "$(sort -u "$work/users" | tr '\n' ',')" != '10.0.0.1 kiln_gallery,10.0.0.1 kiln_scheduler,10.0.0.1 kiln_worker,10.0.0.2 kiln_scheduler,10.0.0.2 kiln_worker,' ] || break
    sleep 0.2
done
[ "$(grep -c . <(sort -u "$work/users"))" = 5 ] && grep -q '^10.0.0.2 kiln_worker' "$work/users" || die "Postgres sees other users: $(sort -u "$work/users")"
in_ok systemctl start kiln-gc.service
in_ok "${operator[@]}" export prompts --out /var/lib/kiln/fleet --html # of both hosts' pictures
in_ok "${operator[@]}" doctor --full

say "the standby on the second host takes over"
printf 'a {red|blue|green|white} {star|ring|heart}\n' | inside tee /tmp/prompts.txt >/dev/null
in_ok "${operator[@]}" enqueue /tmp/prompts.txt --batch over --set size=256x256 --set count=4
in_ok systemctl kill -s KILL kiln-scheduler # systemd starts it again: now it is the standby
until_in 60 systemctl is-active --quiet kiln-scheduler
in_ok systemctl stop kiln-scheduler
in_ok "${operator[@]}" wait over --timeout 300
in_ok "${operator[@]}" enqueue /tmp/prompts.txt --batch alone --set size=64x64 # its intake too
in_ok "${operator[@]}" wait alone --timeout 300
in_ok "${operator[@]}" doctor
in_ok su postgres -c "psql -qAtc 'SELECT max(tries) <= 1 AND max(crashes) = 0 FROM job' kiln"
[ "$(cat "$work/out")" = t ] || die "a job lost an attempt when the scheduler changed"
halt
rm -rf --one-file-system "$hosts"
