#!/bin/bash
# gpu_run.sh - run.sh of a bundle (gpu_bundle.sh): the image on the GPU of this host, by the podman and
# crun that it carries.  As root in a checkout; needs PyTorch with the LibTorch that Kiln was built with.
# PYTHON names an interpreter that has it.  Picture and log are in $OUT.
set -u
source_dir=${KILN_SOURCE:-$PWD}
say() { echo "--- $*"; }
die() {
    echo "FAIL: $*" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || die "podman needs root here"
work=$(mktemp -d /var/tmp/kiln-gpu.XXXXXX)
cdi_made=''
trap 'pod rm -f -t 2 --all >/dev/null 2>&1; umount -R "$work/podman/overlay" 2>/dev/null; rm -rf "$work" $cdi_made' EXIT
tar -C "$work" -xf "$(dirname "$0")/files.tar.xz" || die "the bundle is damaged"
for program in conmon crun; do # podman starts them without LD_LIBRARY_PATH
    mv "$work/bin/$program" "$work/bin/$program.bin"
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$work/lib" "$work/bin/$program.bin" >"$work/bin/$program"
    chmod 755 "$work/bin/$program"
done
export HOME=$work/home
mkdir -p "$HOME/.config/containers"
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$HOME/.config/containers/policy.json"
pod() {
    LD_LIBRARY_PATH=$work/lib "$work/bin/podman" --root "$work/podman" --runroot "$work/podman-run" --storage-driver "${driver:-overlay}" \
        --runtime "$work/bin/crun" --conmon "$work/bin/conmon" --cgroup-manager cgroupfs --events-backend none "$@"
}
# RUN_OPTIONS: of every container, such as --cgroups=disabled.
limits=(--ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit nproc=4096:4096 ${RUN_OPTIONS:-})
box() { pod run --rm --network none --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges "${limits[@]}" "$@"; }
pod load -i "$work/image.tar" >"$work/out" 2>&1 || { cat "$work/out"; die "podman does not load the image"; }
gpu_image=localhost/kiln-gpu
[ "$(box $gpu_image echo runs 2>"$work/out")" = runs ] || { cat "$work/out"; die "podman does not run the image"; }
pod --version
pod image inspect -f 'image of {{.Size}} bytes, user {{.Config.User}}' $gpu_image

torch=$("${PYTHON:-python3}" -c 'import os, torch; print(os.path.dirname(torch.__file__))') || die "there is no PyTorch"
gpu_options=(-v "$source_dir/pipeline/models:/usr/share/kiln/models:ro")
for library in "$torch"/lib/lib*.so* "$(dirname "$torch")"/nvidia/*/lib/lib*.so*; do
    [ ! -e "$library" ] || gpu_options+=(-v "$library:/usr/lib/kiln/${library##*/}:ro")
done
. "$(dirname "$0")/gpu.sh"
[ -z "${OUT:-}" ] || cp "$work/gpu.webp" "$OUT/"
echo "ok: the image runs on $(nvidia-smi -L 2>/dev/null | head -n 1)"
