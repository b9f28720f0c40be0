# gpu.sh - the image on a GPU: podman gives it one by name, as scripts/containers/README.md says, and
# the parts of Kiln, each in a container of its own, render a batch there (members.sh).
# Sourced by image.sh on a host with NVIDIA's driver, and by what gpu_bundle.sh packs.
# Needs box and pod (image.sh), $gpu_image with kiln-worker-cuda, $gpu_options (of every container that
# renders), $work, die.
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

members=("$gpu_image" cuda:0 512x512 --device nvidia.com/gpu=0 "${gpu_options[@]}")
. "$(dirname "${BASH_SOURCE[0]}")/members.sh"
