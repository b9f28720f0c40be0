# gpu.sh - the image on a GPU: podman gives it one by name, as scripts/containers/README.md says, and
# the parts of Kiln, each in a container of its own without any right of root, render a batch there.
# Sourced by image.sh on a host with NVIDIA's driver, and by what gpu_bundle.sh packs.
# Needs box and pod (image.sh), $gpu_image with kiln-worker-cuda, $gpu_options (of every container that
# renders), $work, die.  The image has Redis and Postgres too, from its base.
say "the image on a GPU"

# What `nvidia-ctk cdi generate` lists, as far as a renderer needs it: nodes, and the driver's libraries
# for programs that compute, under the names by which they are opened.
driver_specification() {
    local node library mounts='' devices='' nodes='' all=''
    for node in /dev/nvidia[0-9]*; do
        devices+="{\"name\": \"${node#/dev/nvidia}\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"$node\"}]}}, "
        all+="${all:+, }{\"path\": \"$node\"}"
    done
    for node in /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools; do
        [ ! -e "$node" ] || nodes+="${nodes:+, }{\"path\": \"$node\"}"
    done
    while read -r library; do
        mounts+="${mounts:+, }{\"hostPath\": \"$(readlink -f "$library")\", \"containerPath\": \"/usr/lib/$(uname -m)-linux-gnu/${library##*/}\", \"options\": [\"ro\", \"nosuid\", \"nodev\", \"bind\"]}"
    done < <(ldconfig -p | awk '$1 ~ /^lib(cuda|nvidia-(ml|ptxjitcompiler|nvvm|gpucomp))[.]so[.]/ && !seen[$1]++ {print $NF}')
    printf '{"cdiVersion": "0.3.0", "kind": "nvidia.com/gpu",\n"devices": [%s{"name": "all", "containerEdits": {"deviceNodes": [%s]}}],\n"containerEdits": {"deviceNodes": [%s], "mounts": [%s]}}\n' \
        "$devices" "$all" "$nodes" "$mounts"
}
if [ ! -e /etc/cdi ] && [ ! -e /var/run/cdi ]; then
    cdi_made=/var/run/cdi # removed by the traps of who sources this
    mkdir "$cdi_made"
    if command -v nvidia-ctk >/dev/null; then
        nvidia-ctk cdi generate --output="$cdi_made/nvidia.yaml" >"$work/out" 2>&1 || { cat "$work/out"; die "nvidia-ctk"; }
    else
        driver_specification >"$cdi_made/nvidia.json"
        echo "NVIDIA's Container Toolkit is not installed; its list of devices is written by this test:"
        cat "$cdi_made/nvidia.json"
    fi
fi

render='kiln render --device cuda:0 --prompt "a red star" --size 256x256 --seed 1 --out /tmp/x.webp'
box "${gpu_options[@]}" "$gpu_image" sh -c "$render" >"$work/out" 2>&1
[ $? = 69 ] && grep -q "NVIDIA's driver is missing" "$work/out" || { cat "$work/out"; die "a container that was given no GPU does not say so"; }
gpu() { box --device nvidia.com/gpu=0 "${gpu_options[@]}" "$gpu_image" "$@"; }
gpu sh -c 'id -u; grep -E "^(CapEff|NoNewPrivs)" /proc/self/status; ls /dev | grep nvidia | tr "\n" " "; kiln-worker --version' >"$work/out" 2>&1
cat "$work/out"
[ "$(head -n 1 "$work/out")" = 990 ] && grep -qE '^CapEff:\s0+$' "$work/out" && grep -qE '^NoNewPrivs:\s1$' "$work/out" ||
    die "the container has rights"
[ "$(grep -oE 'nvidia[0-9]+' "$work/out")" = nvidia0 ] || die "the container does not have the one GPU that it was given"
gpu sh -c "$render >&2 && cat /tmp/x.webp" >"$work/gpu.webp" 2>"$work/out" || { cat "$work/out"; die "the image does not render on the GPU"; }
cat "$work/out"
[ "$(head -c 4 "$work/gpu.webp")" = RIFF ] || die "no picture"

say "scheduler, worker on the GPU and gallery, each in a container"
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
member servers --network none -v "$fleet/data:/var/lib/kiln/data" -v "$fleet/servers.sh:/servers.sh:ro" "$gpu_image" bash /servers.sh
member people "${joined[@]}" "$gpu_image" sleep 600
for try in $(seq 60); do
    people kiln migrate && break
    [ "$try" -lt 60 ] || fails "kiln migrate" servers
    sleep 0.5
done
member scheduler "${joined[@]}" "$gpu_image" kiln-scheduler
member worker "${joined[@]}" -e KILN_DEVICE=cuda:0 --device nvidia.com/gpu=0 "${gpu_options[@]}" "$gpu_image" kiln-worker --id worker-0
member gallery "${joined[@]}" "$gpu_image" kiln gallery serve --port 9480
people sh -c 'echo "a {red|blue|green} {star|ring}" | kiln enqueue - --batch six --set size=512x512' || fails "kiln enqueue" scheduler
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
