# members.sh - scheduler, worker and gallery, each in a container of its own without any right of root, render
# a batch; sourced by image.sh and gpu.sh.
# Needs pod, $limits (image.sh), $work, die and members=(IMAGE DEVICE SIZE OPTION...): the options are the worker's.
# The image has Redis and Postgres too, from its base.
image=${members[0]} device=${members[1]} size=${members[2]}
say "scheduler, worker on $device and gallery, each in a container"
fleet=$work/fleet
mkdir -m 711 "$fleet" && mkdir -m 700 "$fleet/store" "$fleet/data" && chown 990:990 "$fleet"/*
cat >"$fleet/servers.sh" <<'SERVERS'
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
redis-server --port 6379 --save '' --maxmemory-policy noeviction --dir /tmp &
initdb -D /var/lib/kiln/data/postgres -U kiln -A trust -E UTF8 --locale=C.UTF-8
echo 'CREATE DATABASE kiln' | postgres --single -D /var/lib/kiln/data/postgres postgres
exec postgres -D /var/lib/kiln/data/postgres -k /tmp -c shared_memory_type=mmap
SERVERS
member() { # NAME OPTION... IMAGE COMMAND...
    pod run -d --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges "${limits[@]}" \
        -v "$fleet/store:/var/lib/kiln/store" -e KILN_REDIS=redis://127.0.0.1:6379/0 --name "$@" \
        >/dev/null 2>"$work/out" || fails "the container $1 does not start" "$1"
}
people() { pod exec people "$@" >"$work/out" 2>&1; }
fails() { # WHAT CONTAINER
    cat "$work/out"
    pod logs "$2" 2>&1 | tail -n 20
    die "$1"
}
ledger='host=127.0.0.1 dbname=kiln user=kiln'
joined=(--network container:servers -e "KILN_POSTGRES=$ledger" -e KILN_STORE=file:///var/lib/kiln/store)
member servers --network none -v "$fleet/data:/var/lib/kiln/data" -v "$fleet/servers.sh:/servers.sh:ro" "$image" bash /servers.sh
member people "${joined[@]}" "$image" sleep 600
for try in $(seq 60); do
    people kiln migrate && break
    [ "$try" -lt 60 ] || fails "kiln migrate" servers
    sleep 0.5
done
member scheduler "${joined[@]}" "$image" kiln-scheduler
member worker "${joined[@]}" -e "KILN_DEVICE=$device" "${members[@]:3}" "$image" kiln-worker --id worker-0
member gallery "${joined[@]}" "$image" kiln gallery serve --port 9480
people sh -c 'echo "a {red|blue|green} {star|ring}" | kiln enqueue - --batch six --set size='"$size" || fails "kiln enqueue" scheduler
people kiln wait six --timeout 120 || fails "the batch is not rendered" worker
people kiln workers || fails "kiln workers" worker
cat "$work/out"
grep -q '^worker-0 .*live' "$work/out" || fails "the worker is not live" worker
people kiln jobs --batch six --json || fails "kiln jobs" scheduler
[ "$(grep -c '"state":"done"' "$work/out")" = 6 ] || fails "not all jobs are done" worker
people bash -c 'exec 3<>/dev/tcp/127.0.0.1/9480 && printf "GET /v1/pictures HTTP/1.1\r\nHost: 127.0.0.1:9480\r\nConnection: close\r\n\r\n" >&3 && cat <&3'
[ "$(grep -o '"job":' "$work/out" | wc -l)" = 6 ] || fails "the gallery does not show the six pictures" gallery
pod stop -t 60 worker >/dev/null
code=$(pod inspect -f '{{.State.ExitCode}}' worker)
[ "$code" = 0 ] || fails "the worker ended with $code" worker
pod rm -f -t 1 gallery worker scheduler people >/dev/null 2>&1
pod rm -f -t 1 servers >/dev/null 2>&1 # whose network the others had
