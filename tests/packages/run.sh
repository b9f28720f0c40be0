#!/bin/bash
# `make deb-test`: the packages in a Debian of their own: installed, run under its systemd with the
# servers of the distribution, upgraded in mid-batch over an earlier version, removed and purged.
# `tests/packages/run.sh image`: the image alone.  What this machine cannot do is said, and the exit
# code is then 77, not 0.
set -u
here=$(cd "$(dirname "$0")" && pwd)
case ${BUILD:-build} in /*) build=$BUILD ;; *) build=$PWD/${BUILD:-build} ;; esac
skip() { echo "skip: $*"; exit 77; }
not_run=() # parts
left_out() { echo "skip: $*"; not_run+=("$*"); }
say() { echo "--- $*"; }
die() {
    echo "FAIL line ${BASH_LINENO[-2]}: $*" >&2
    [ -z "$machine_pid" ] || inside journalctl --no-pager -n 40 >&2
    exit 1
}
[ "$(id -u)" = 0 ] || skip "installing packages in a Debian of its own needs root"
for tool in debootstrap unshare nsenter dpkg-deb ip hostname pivot_root; do
    command -v $tool >/dev/null || skip "there is no $tool here"
done
. "$here/machine.sh"
[ -n "$suite" ] || skip "this distribution has no code name for debootstrap"
work=$(mktemp -d /var/tmp/kiln-packages.XXXXXX)
cdi_made='' # by gpu.sh
trap 'halt; umount -R "$work/podman/overlay" 2>/dev/null; rm -rf --one-file-system "$work" $cdi_made' EXIT
trap 'exit 1' INT TERM
base=$build/deb-base-$suite
if [ ! -e "$base/made" ]; then
    say "a base system of $suite"
    rm -rf "$base"
    make_base "$base" >"$work/base.log" 2>&1 || { cat "$work/base.log"; rm -rf "$base"; skip "debootstrap cannot fetch $suite from $mirror"; }
    touch "$base/made"
fi
debs=$build/deb
new=$(dpkg-deb -f "$(ls "$debs"/kiln_*.deb 2>/dev/null)" Version 2>/dev/null) || die "no packages in $debs: make deb"
cuda=$(ls "$debs"/kiln-worker-cuda_*.deb 2>/dev/null)
if [ "${1:-}" != image ]; then
    . "$here/install.sh"
    . "$here/fleet.sh"
fi
. "$here/image.sh"
if [ ${#not_run[@]} -gt 0 ]; then
    printf 'not run: %s\n' "${not_run[@]}"
    exit 77
fi
echo "ok: $new on $suite"
