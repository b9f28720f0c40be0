#!/bin/bash
# File systems that are full: a store without inodes or without room, of which `kiln up -q` says so
# within seconds, and the disk of Postgres and Redis in the middle of a batch, which loses nothing.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(a b disk/s)
mkdir inodes room disk
if ! mount -t tmpfs -o nr_inodes=4 kiln-test "$PWD/inodes" 2>/dev/null; then
    echo "skip: no file system may be mounted here"
    exit 77
fi
trap 'stop_stacks; umount "$PWD/inodes" "$PWD/room" "$PWD/disk"' EXIT
mount -t tmpfs -o size=64k kiln-test "$PWD/room" || die "the second mount was refused"
mount -t tmpfs -o size=400m,mode=711 kiln-test "$PWD/disk" || die "the third mount was refused"
touch inodes/{1,2,3}
fails 75 timeout 60 "$kiln_bin/kiln" up -q --engine testcard --dir a --workers 1 --store "file://$PWD/inodes"
says '^kiln: the store is full: .*No space left on device.*make room there (.kiln gc., .df -h., .df -i.)'
rm inodes/{1,2,3}
umount "$PWD/inodes" && mount -t tmpfs kiln-test "$PWD/inodes"
ok timeout 60 "$kiln_bin/kiln" up -q --dir a # goes on from there
dd if=/dev/zero of=room/full bs=4k count=100 2>/dev/null
fails 75 timeout 60 "$kiln_bin/kiln" up -q --engine testcard --dir b --workers 1 --store "file://$PWD/room"
says '^kiln: the store is full: '

# --- the disk of the database and of Redis; the store is elsewhere
ok timeout 60 "$kiln_bin/kiln" up -q --engine testcard --dir disk/s --workers 1 --store "file://$PWD/pictures"
export KILN_CONFIG=$PWD/disk/s/kiln.conf
for i in $(seq 1500); do echo "{\"prompt\": \"p$i\", \"size\": \"64x64\"}"; done >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b
dd if=/dev/zero of=disk/full bs=1M 2>/dev/null
kiln wait b >wait.txt 2>&1 &
waits=$!
soon grep -q 'batch b waits: .*No space left on device' wait.txt || die "the wait says: $(cat wait.txt)"
fails 1 kiln doctor
says '^bad  *pg-disk  *.* free at ' out.txt
says '^bad  *redis-disk  *.* free at ' out.txt
soon grep -q 'No space left on device' disk/s/log/postgres.log || die "the disk of Postgres was not full"
rm disk/full
wait $waits || die "the wait ended with $?: $(cat wait.txt)"
[ "$(sql 'SELECT count(*), count(DISTINCT job_id) FROM image')" = '1500|1500' ] || die "pictures: $(sql 'SELECT count(*), count(DISTINCT job_id) FROM image')"
echo ok
