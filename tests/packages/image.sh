# image.sh - the image of scripts/containers, built on the base system and run by podman, with no right
# of root and a file system that cannot be written to; sourced by run.sh.  Returns where podman cannot run.
say "the image"
if ! command -v podman >/dev/null; then
    left_out "the image is not built: there is no podman here"
    return
fi
# Limits of this process: a runtime may not raise them.  runc also knows hybrid cgroups.
limits=(--ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit nproc=1000:1000)
pod() { podman --root "$work/podman" --runroot "$work/podman-run" $(command -v runc >/dev/null && echo --runtime runc) "$@"; }
box() { pod run --rm --network none --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges "${limits[@]}" "$@"; }
(cd "$base" && tar --one-file-system -c .) | pod import - kiln-base >"$work/image.log" 2>&1
if [ "$(box kiln-base echo runs 2>>"$work/image.log")" != runs ]; then
    left_out "the image is not built: podman cannot run here: $(tail -n 1 "$work/image.log")"
    return
fi
mkdir "$work/context"
cp "$debs"/kiln_*.deb "$debs"/kiln-worker-cpu_*.deb "$work/context/"
build_image() { # OPTION...
    pod build --isolation chroot --network host "${limits[@]}" --build-arg BASE=localhost/kiln-base "$@" \
        -f "$here/../../scripts/containers/Containerfile" "$work/context" >"$work/image.log" 2>&1 ||
        { tail -n 20 "$work/image.log"; die "the image is not built"; }
}
build_image -t kiln
[ "$(box kiln id -u)" = 990 ] || die "the image runs as $(box kiln id)"
for program in kiln kiln-scheduler kiln-worker; do
    box kiln $program --version | grep -qE "^$program [0-9.]+ \(" || die "the image has no $program"
done
box kiln kiln help gallery | grep -q '^kiln gallery' || die "the image has no gallery"
box kiln sh -c 'kiln render --prompt "a red star" --width 64 --height 64 --out /tmp/x.webp && head -c 4 /tmp/x.webp' |
    grep -q '^RIFF' || die "the image does not render"
# A GPU: the image has no library for one, and podman knows of none without NVIDIA's list of them.
box kiln kiln render --device cuda:0 --prompt x --out /tmp/x.webp >"$work/out" 2>&1
[ $? = 69 ] && grep -q 'the package kiln-worker-cuda has it' "$work/out" || { cat "$work/out"; die "the image says nothing of kiln-worker-cuda"; }
if [ ! -e /etc/cdi ] && [ ! -e /var/run/cdi ]; then
    ! box --device nvidia.com/gpu=all kiln true >"$work/out" 2>&1 && grep -q 'nvidia.com/gpu=all' "$work/out" ||
        { cat "$work/out"; die "podman does not refuse a GPU that it does not know"; }
fi
# A scheduler without servers lives, is not ready, and ends when it is told to.
pod run -d --name scheduler --network none --read-only "${limits[@]}" kiln kiln-scheduler >/dev/null || die "the scheduler does not start"
pid=$(pod inspect -f '{{.State.Pid}}' scheduler)
for _ in $(seq 300); do nsenter --target "$pid" --net curl -sf -o /dev/null http://127.0.0.1:9461/livez && break; sleep 0.2; done
[ "$(nsenter --target "$pid" --net curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9461/livez)" = 200 ] || die "no /livez"
[ "$(nsenter --target "$pid" --net curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9461/readyz)" = 503 ] || die "ready without servers"
pod stop -t 60 scheduler >/dev/null
[ "$(pod inspect -f '{{.State.ExitCode}}' scheduler)" = 0 ] || die "the scheduler ended with $(pod inspect -f '{{.State.ExitCode}}' scheduler)"
pod rm scheduler >/dev/null

members=(kiln cpu 128x128)
. "$here/members.sh"

if [ ! -e /proc/driver/nvidia/version ]; then
    echo "the image is not run on a GPU: this machine has none, and gpu_bundle.sh packs it for one that has"
elif [ -z "$cuda" ]; then
    echo "the image is not run on the GPU: kiln-worker-cuda was not built (see make deb)"
else
    cp "$cuda" "$work/context/"
    build_image --build-arg GPU=1 -t kiln-gpu
    gpu_image=kiln-gpu gpu_options=()
    . "$here/gpu.sh"
fi
