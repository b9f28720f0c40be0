# machine.sh - a whole Debian in a directory, booted by its own systemd; sourced by run.sh.
#
# make_base DIR         a small Debian with Redis and Postgres, from the mirror
# chrooted DIR CMD...   runs a command in it, with the network, before it is booted
# boot NAME DIR [ADDR]  boots it as a host of that name, with a network of its own.  Hosts with an
#                       address reach each other: the one that is booted first has the bridge.
#                       $work/shared is its /srv/kiln, DIR/etc/kiln/secrets of the first with an
#                       address everybody's /run/first.
# on NAME               the host that is meant from now on
# inside CMD...         runs a command there, as root
# halt                  ends all hosts
declare -A machines=()
machine_pid='' machine_group='' machine_lacks='' hub_pid='' hub_root=''

mirror=${MIRROR:-http://deb.debian.org/debian}
suite=${SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}

make_base() {
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,redis-server,postgresql,man-db \
        "$suite" "$1" "$mirror"
}

chrooted() {
    local root=$1
    shift
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    unshare --mount --fork --pid --kill-child sh -c 'mount -t proc proc "$1/proc"; mount --bind /dev/null "$1/dev/null"
        root=$1; shift; exec chroot "$root" "$@"' - "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

on() { machine_pid=${machines[$1]}; }

boot() {
    local name=$1 root=$2 address=${3:-} group starter
    group=$(sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -n 1)
    [ -n "$group" ] && mkdir "$group/kiln-packages-$$-$name" 2>/dev/null ||
        { machine_lacks="cgroups of version 2 that may be written to"; return 1; }
    machine_group=$group/kiln-packages-$$
    mkdir -p "$root/srv/kiln" "$work/shared"
    cat >"$work/$name.sh" <<BOOT
#!/bin/sh
set -e
ip link set lo up
if [ -n "$address" ] && [ -z "$hub_pid" ]; then
    ip link add fleet type bridge
    ip address add $address/24 dev fleet
    ip link set fleet up
elif [ -n "$address" ]; then
    nsenter --net=/proc/$hub_pid/ns/net ip link add $name type veth peer name eth0 netns 1 # this shell
    nsenter --net=/proc/$hub_pid/ns/net ip link set $name master fleet up
    ip address add $address/24 dev eth0
    ip link set eth0 up
fi
hostname $name
mount --make-rprivate /
mount --bind $root $root
cd $root
mount --bind $work/shared srv/kiln
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
[ -z "$hub_root" ] || { mkdir run/first && mount --bind $hub_root/etc/kiln/secrets run/first; }
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do : >dev/\$node; mount --bind /dev/\$node dev/\$node; done
mkdir dev/shm dev/pts run/lock
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s /proc/self/fd dev/fd
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys # systemd would set what is everybody's
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
export container=kiln-packages
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --show-status=false </dev/null
BOOT
    chmod +x "$work/$name.sh"
    echo "$name" >"$root/etc/hostname"
    ln -sf /dev/null "$root/etc/systemd/system/console-getty.service"
    ln -sf /dev/null "$root/etc/systemd/system/getty.target"
    (echo $BASHPID >"$machine_group-$name/cgroup.procs" && exec unshare --net --pid --fork --kill-child \
        --mount --cgroup --uts --ipc "$work/$name.sh") >"$work/$name.log" 2>&1 &
    starter=$!
    for _ in $(seq 600); do
        machine_pid=$(ps -o pid= --ppid $starter 2>/dev/null | tr -d ' ')
        machines[$name]=$machine_pid
        case $([ -z "$machine_pid" ] || inside systemctl is-system-running 2>/dev/null) in
        running | degraded)
            [ -z "$address" ] || [ -n "$hub_pid" ] || { hub_pid=$machine_pid hub_root=$root; }
            return 0
            ;;
        esac
        kill -0 $starter 2>/dev/null || break
        sleep 0.2
    done
    machine_lacks="namespaces: $(tail -n 1 "$work/$name.log")"
    return 1
}

inside() {
    nsenter --target "$machine_pid" --pid --mount --cgroup --uts --ipc --net --root env -i \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root \
        sh -c 'cd / && exec "$@"' - "$@"
}

halt() {
    local pid
    for pid in "${machines[@]}"; do [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; done
    machines=() machine_pid='' hub_pid='' hub_root=''
    [ -z "$machine_group" ] || for _ in $(seq 100); do
        find "$machine_group"-* -depth -type d -exec rmdir {} \; 2>/dev/null
        ls -d "$machine_group"-* >/dev/null 2>&1 || break
        sleep 0.1
    done
}
