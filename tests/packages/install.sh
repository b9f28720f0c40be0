# install.sh - the packages are installed, run under systemd, upgraded in mid-batch over an earlier version,
# removed and purged; sourced by run.sh.
cp -a "$base" "$work/root"
root=$work/root

if command -v lintian >/dev/null; then
    say "lintian finds nothing but what is overridden with a reason"
    lintian --fail-on error,warning "$build"/deb/*.deb || die "lintian"
else
    left_out "lintian is not installed: the packages are not checked by it"
fi
say "the earlier version: these packages with a lower number, another file and another kiln.conf"
old=0.1.9 earlier=$work/earlier
mkdir "$work/old" "$earlier"
for deb in "$debs"/*.deb; do
    name=$(dpkg-deb -f "$deb" Package)
    [ "$name" != kiln-worker-cuda ] || continue # 3 GB: the earlier version is made of scripts, below
    dpkg-deb -R "$deb" "$work/old/$name"
    sed -i "s/$(printf '%s' "$new" | sed 's/[.]/\\&/g')/$old/" "$work/old/$name/DEBIAN/control"
    grep -q "^Version: $old$" "$work/old/$name/DEBIAN/control" || die "$name is not made older"
    if [ "$name" = kiln ]; then
        echo '# of 0.1.9' >>"$work/old/$name/etc/kiln/kiln.conf"
        touch "$work/old/$name/usr/share/kiln/gone-since"
    fi
    dpkg-deb --root-owner-group -Znone -b "$work/old/$name" "$earlier/$name.deb" >/dev/null || die "$name is not built again"
    rm -r "${work:?}/old/$name"
    cp "$deb" "$root/var/tmp/$name.new.deb"
done
# kiln-worker-cuda with its scripts and nothing else: the earlier version, and the new one too where
# `make deb` has left it out.
mkdir -p "$work/cuda/DEBIAN"
grep -v DEBHELPER "$here/../../scripts/deb/kiln-worker-cuda.postinst" >"$work/cuda/DEBIAN/postinst"
chmod 755 "$work/cuda/DEBIAN/postinst"
for version in $old "$new"; do
    printf 'Package: kiln-worker-cuda\nVersion: %s\nArchitecture: %s\nDepends: kiln-worker-cpu (= %s)\nMaintainer: none\nDescription: scripts alone\n' \
        "$version" "$(dpkg --print-architecture)" "$version" >"$work/cuda/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$work/cuda" "$earlier/kiln-worker-cuda$([ "$version" = $old ] || echo .new).deb" >/dev/null || die "kiln-worker-cuda"
done
mv "$earlier/kiln-worker-cuda.new.deb" "$root/var/tmp/"
cp "$earlier"/*.deb "$root/var/tmp/"
if [ -n "$cuda" ]; then
    cp "$cuda" "$root/var/tmp/kiln-worker-cuda.new.deb"
else
    echo "kiln-worker-cuda was not built (see make deb): its scripts alone are installed"
fi

say "installed by apt with what they need"
list() { find "$root" -xdev | sed "s#^$root##" | grep -v '^/var/tmp/' | sort; }
list >"$work/before"
chrooted "$root" sh -c 'apt-get update -qq && apt-get install -y --no-install-recommends /var/tmp/kiln.deb /var/tmp/kiln-worker-cpu.deb /var/tmp/kiln-worker-cuda.deb /var/tmp/libdiffusionz-dev.deb' \
    >"$work/install.log" 2>&1 || { tail -n 30 "$work/install.log"; die "apt does not install them"; }
cp -u "$root"/var/cache/apt/archives/*.deb "$base/var/cache/apt/archives/" # for the next time
[ "$(chrooted "$root" stat -c '%a %U' /etc/kiln/secrets)" = '700 kiln' ] || die "the directory of secrets is $(chrooted "$root" stat -c '%a %U' /etc/kiln/secrets)"
chrooted "$root" kiln --version | grep -qxE 'kiln [0-9.]+ \([0-9a-f]+(-dirty)?\)' || die "the release is $(chrooted "$root" kiln --version)"
chrooted "$root" sh -c 'ldd /usr/bin/kiln* /usr/lib/kiln/*.so | grep "not found"' && die "a library is missing"
for page in 'kiln' 'kiln-run' '5 kiln.conf' '8 kiln-worker'; do
    # shellcheck disable=SC2086 # section and name
    chrooted "$root" man -w $page >/dev/null || die "no manual page $page"
done
find "$root/etc/systemd/system" -name '*kiln*' | grep . && die "a unit is enabled by itself"
chrooted "$root" bash -c '. /usr/share/bash-completion/completions/kiln; COMP_WORDS=(kiln enq) COMP_CWORD=1; _kiln; [ "${COMPREPLY[*]}" = enqueue ]' ||
    die "the shell completes nothing"

say "a program is linked with the library that pkg-config finds"
cp "$here/../../scripts/examples/render.c" "$root/var/tmp/"
cp -r "$here/../golden/models/plain" "$root/var/tmp/"
chrooted "$root" sh -c 'apt-get install -y --no-install-recommends gcc libc6-dev pkg-config && cd /var/tmp &&
    cc -o render render.c $(pkg-config --cflags --libs diffusionz) && ./render plain "a red star" picture && test -s picture-3.webp' \
    >"$work/link.log" 2>&1 || { tail -n 30 "$work/link.log"; die "no program is built with libdiffusionz-dev"; }

say "booted: set up as OPERATIONS.md says, a batch rendered under the units"
boot first "$root" || skip "this machine has no $machine_lacks"
until_in() { # SECONDS COMMAND...
    local limit=$1
    shift
    for _ in $(seq $((limit * 5))); do inside "$@" >"$work/out" 2>&1 && return; sleep 0.2; done
    cat "$work/out"
    die "never so: $*"
}
in_ok() { inside "$@" >"$work/out" 2>&1 || { cat "$work/out"; die "'$*' fails"; }; }
as_kiln() { in_ok setpriv --reuid kiln --regid kiln --init-groups "$@"; }
until_in 60 su postgres -c 'psql -c "SELECT 1"'
until_in 60 redis-cli ping
in_ok su postgres -c 'createuser kiln && createdb -O kiln kiln'
as_kiln kiln migrate
inside mkdir -p /etc/systemd/system/kiln-worker@0.service.d
printf '[Service]\nEnvironment=KILN_DEVICE=cpu\n' | inside tee /etc/systemd/system/kiln-worker@0.service.d/cpu.conf >/dev/null
in_ok systemctl daemon-reload
in_ok systemctl enable --now kiln.target kiln-scheduler kiln-worker@0 kiln-gallery kiln-gc.timer
until_in 120 setpriv --reuid kiln --regid kiln --init-groups kiln doctor
printf 'a red star\na blue ring\n' | inside tee /tmp/two.txt >/dev/null
as_kiln kiln enqueue /tmp/two.txt --set size=128x128
as_kiln kiln wait two --timeout 120
in_ok systemctl start kiln-gc.service

without_gpu() { # PATTERN: what a renderer for a GPU says, with exit code 69
    inside kiln render --device cuda:0 --prompt 'a red star' --size 256x256 --out /tmp/x.webp >"$work/out" 2>&1
    [ $? = 69 ] && grep -q "device cuda:0: .*$1" "$work/out" && ! inside test -e /tmp/x.webp || { cat "$work/out"; die "render says nothing of '$1'"; }
}
without_gpu 'the package kiln-worker-cuda has it'

say "upgraded in mid-batch"
printf 'a {red|blue|green|white} {star|ring|heart}\n' | inside tee /tmp/many.txt >/dev/null
as_kiln kiln enqueue /tmp/many.txt --set size=256x256 --set count=2
pid_of() { inside systemctl show -p MainPID --value "$1"; }
until_in 60 setpriv --reuid kiln --regid kiln --init-groups sh -c "kiln status --json | grep -q '\"assigned\": *[1-9]'"
worker=$(pid_of kiln-worker@0) scheduler=$(pid_of kiln-scheduler)
in_ok dpkg -i /var/tmp/kiln.new.deb /var/tmp/kiln-worker-cpu.new.deb /var/tmp/kiln-worker-cuda.new.deb /var/tmp/libdiffusionz-dev.new.deb
for unit in kiln-worker@0 kiln-scheduler kiln-gallery; do until_in 180 systemctl is-active --quiet $unit; done
until_in 120 sh -c "[ \$(systemctl show -p MainPID --value kiln-worker@0) != $worker ] && systemctl is-active kiln-worker@0"
in_ok sh -c 'journalctl -u kiln-worker@0 -o cat | grep -c "^Started "'
[ "$(cat "$work/out")" = 2 ] || die "the worker was started $(cat "$work/out") times, once by hand"
[ "$(pid_of kiln-scheduler)" != "$scheduler" ] || die "the old scheduler still runs"
as_kiln kiln wait many --timeout 300
as_kiln kiln jobs --batch many --json
grep -c '"state":"done"' "$work/out" | grep -qx 24 || { cat "$work/out"; die "not all jobs of the batch are done"; }
in_ok su postgres -c "psql -qAtc 'SELECT max(tries) <= 1 AND max(crashes) = 0 FROM job' kiln"
[ "$(cat "$work/out")" = t ] || die "a job lost an attempt: the worker was not drained"
[ ! -e "$root/usr/share/kiln/gone-since" ] || die "a file of the earlier version stays"
grep -q '0\.1\.9' "$root/etc/kiln/kiln.conf" && die "an unedited kiln.conf is not the new one"

say "a worker for a GPU on a machine without one"
if [ -n "$cuda" ]; then
    in_ok dpkg-query -W -f '${Depends}\n' kiln-worker-cuda
    grep -qF "kiln-worker-cpu (= $new)," "$work/out" || die "kiln-worker-cuda depends on $(cat "$work/out")"
    without_gpu "NVIDIA's driver is missing: .nvidia-smi. must list the GPU"
    in_ok systemctl start --no-block kiln-worker@1
    until_in 120 sh -c "kiln worker ls | grep -q '^first-gpu1 .*given_up .*exit 69'"
    in_ok kiln worker logs gpu1
    grep -q "NVIDIA's driver is missing" "$work/out" || { cat "$work/out"; die "the log does not say why"; }
fi

say "a ledger that is to be migrated first: nothing is restarted"
[ "$(ls "$root/usr/share/kiln/sql" | tail -n 1)" = 0041_job_gone.concurrent.sql ] || die "a later schema: undo its files from the last one that is not gentle"
in_ok su postgres -c "psql -v ON_ERROR_STOP=1 -d kiln -c 'ALTER TABLE image DROP start, DROP parent; ALTER TABLE latent DROP start, DROP parent; DELETE FROM schema_migrations WHERE version >= 40'"
worker=$(pid_of kiln-worker@0)
in_ok /usr/share/kiln/restart-running 'kiln-worker@*.service'
grep -q 'run `kiln migrate`, then: systemctl restart kiln-worker@0.service' "$work/out" || { cat "$work/out"; die "nobody says that the ledger is old"; }
[ "$(pid_of kiln-worker@0)" = "$worker" ] || die "restarted all the same"
as_kiln kiln migrate
in_ok /usr/share/kiln/restart-running 'kiln-worker@*.service'
until_in 120 sh -c "[ \$(systemctl show -p MainPID --value kiln-worker@0) != $worker ] && systemctl is-active kiln-worker@0"

say "removed and purged"
in_ok dpkg --remove libdiffusionz-dev kiln-worker-cuda kiln-worker-cpu kiln
inside sh -c 'grep -h "^kiln" /proc/[0-9]*/comm' && die "something of Kiln still runs"
[ -e "$root/etc/kiln/kiln.conf" ] || die "removal took the settings"
in_ok dpkg --purge libdiffusionz-dev kiln-worker-cuda kiln-worker-cpu kiln
halt
list | comm -13 "$work/before" - | grep -i kiln >"$work/left"
# Pictures and passwords stay, and what the operator made by hand.
grep -vE '^/(var/lib|srv)/kiln(/store(/.*)?)?$|^/etc/kiln(/secrets(/.*)?)?$|^/etc/systemd/system/kiln-worker@0\.service\.d(/cpu\.conf)?$' "$work/left" && die "purging leaves these files"
grep -q '^/var/lib/kiln/store/.*\.webp$' "$work/left" || die "purging took the pictures"
[ ! -e "$root/usr/lib/kiln" ] || die "purging leaves $(ls "$root/usr/lib/kiln")"
rm -rf --one-file-system "$root"
