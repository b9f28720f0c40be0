# systemd_here.sh - a systemd of the test's own; sourced after tests/cli/lib.sh by tests that need one.
#
# boot_systemd starts the real systemd as the first process of new namespaces: its /run and its
# /etc/systemd/system are empty, nothing but its journal is started, the network and all other files
# are the machine's.  `inside COMMAND...` runs a command there.  It needs root, and a kernel that
# lets root make namespaces and has cgroups of version 2; elsewhere boot_systemd fails, and
# systemd_lacks says why.
systemd_pid='' systemd_group='' systemd_lacks=''

stop_systemd() {
    [ -z "$systemd_pid" ] || kill -9 "$systemd_pid" 2>/dev/null
    [ -z "$systemd_group" ] || for _ in $(seq 100); do
        find "$systemd_group" -depth -type d -exec rmdir {} \; 2>/dev/null
        [ -d "$systemd_group" ] || break
        sleep 0.05
    done
}

inside() { nsenter --target "$systemd_pid" --pid --mount --cgroup --uts --ipc "$@"; }

boot_systemd() { # DIRECTORY with units
    local init=/lib/systemd/systemd group
    systemd_lacks="root's rights"
    [ "$(id -u)" = 0 ] || return 1
    systemd_lacks="systemd"
    [ -x $init ] && command -v journalctl nsenter unshare >/dev/null || return 1
    systemd_lacks="cgroups of version 2 that may be written to"
    group=$(sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -n 1)
    [ -n "$group" ] && mkdir "$group/kiln-test-$$" 2>/dev/null || return 1
    systemd_group=$group/kiln-test-$$
    cat >first.sh <<BOOT
#!/bin/bash
set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755 kiln-test /run
mount -t tmpfs -o mode=755 kiln-test /etc/systemd/system
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys # systemd would set what is everybody's
mount -o remount,bind,ro /proc/sys
mkdir -p /run/lock /run/log/journal
cp "$1"/* /etc/systemd/system/
cat >/etc/systemd/system/kiln-test.target <<UNIT
[Unit]
DefaultDependencies=no
Requires=systemd-journald.socket systemd-journald.service
UNIT
tr -d - </proc/sys/kernel/random/uuid >/run/machine-id.test
[ ! -e /etc/machine-id ] || mount --bind /run/machine-id.test /etc/machine-id
container=kiln-test exec $init --system --unit=kiln-test.target --log-target=journal --show-status=false
BOOT
    chmod +x first.sh
    (echo $BASHPID >"$systemd_group/cgroup.procs" && exec unshare --pid --fork --kill-child --mount --cgroup --uts --ipc ./first.sh) >boot.log 2>&1 &
    for _ in $(seq 600); do
        systemd_pid=$(ps -o pid= --ppid $! 2>/dev/null | tr -d ' ')
        [ -n "$systemd_pid" ] && [ "$(inside systemctl is-system-running 2>/dev/null)" = running ] && return
        sleep 0.1
    done
    systemd_lacks="namespaces: $(tail -n 1 boot.log)"
    return 1
}
