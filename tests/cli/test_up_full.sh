#!/bin/bash
# A store without inodes or without room: `kiln up -q` says so within seconds.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(a b)
mkdir inodes room
if ! mount -t tmpfs -o nr_inodes=4 kiln-test "$PWD/inodes" 2>/dev/null; then
    echo "skip: no file system may be mounted here"
    exit 77
fi
trap 'stop_stacks; umount "$PWD/inodes" "$PWD/room"' EXIT
mount -t tmpfs -o size=64k kiln-test "$PWD/room" || die "the second mount was refused"
touch inodes/{1,2,3}
fails 75 timeout 60 "$kiln_bin/kiln" up -q --engine testcard --dir a --workers 1 --store "file://$PWD/inodes"
says '^kiln: the store is full: .*No space left on device.*make room there (.kiln gc., .df -h., .df -i.)'
rm inodes/{1,2,3}
umount "$PWD/inodes" && mount -t tmpfs kiln-test "$PWD/inodes"
ok timeout 60 "$kiln_bin/kiln" up -q --dir a # goes on from there
dd if=/dev/zero of=room/full bs=4k count=100 2>/dev/null
fails 75 timeout 60 "$kiln_bin/kiln" up -q --engine testcard --dir b --workers 1 --store "file://$PWD/room"
says '^kiln: the store is full: '
echo ok
