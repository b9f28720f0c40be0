#!/bin/sh
# gpu_run.sh - run.sh of a bundle (gpu_bundle.sh), started in a checkout on a machine with a GPU:
# the GPU tests, pictures of the sketch model on every device, their timings and differences.
# Goes on after a failure; prints PASS or FAIL a step; full output and the pictures are in $OUT.
# A bundle of kind "fleet" has the step fleet alone: a queue through every GPU, FLEET="--devices 1,2" for
# how many, FLEET_FULL="--jobs 24" of the full-size model.  With STEPS=stream it is the bench of stored
# latents on a stream of jobs instead, STREAM="--points exact" its options, $OUT/stream.tar.gz its records.
# A bundle of kind "gallery" has the step gallery alone: a gallery of a million pictures, with Postgres on
# processors 0 and 1 (bench/gallery_million.sh and its variables; ROOM, a folder with 12 GB; GALLERY_S, the
# seconds that it may take; $OUT/step shows how far it is).
# A bundle of kind "cpu" has the step cpu alone: the sketch model on this host's processors beside
# diffusers, with 2, 8 and 16 threads, as a Markdown table within 8 minutes; CPU="--repeat 2" are options.
# STEPS="kernels bench" runs these alone; without STEPS all but load-full, peer, check, fleet, stream,
# gallery and cpu.
# BENCH="--sizes 1024 --dtype bf16" are options of the bench, PEER those of its peer, which needs diffusers and
# transformers on PYTHONPATH.  With both steps the peer draws the full-size model and writes it (20.5 GB) to
# MODEL_DIR, by default into memory; both read it and are timed side by side, and what they compute is
# compared with diffusers in fp32: the step check, which may also be asked for alone.
usual="kernels kernel-bench ops ops-bench load parity image text image-bench engine graph same lora lora-bench \
render quality errors sketch-bench bench memory small-card sanitize"
steps=" ${STEPS:-$usual} "
for name in $steps; do
    case " $usual load-full peer check fleet stream gallery cpu " in
    *" $name "*) ;;
    *) echo "there is no step $name" >&2 && exit 64 ;;
    esac
done
here=$(mktemp -d)
chmod 755 "$here" # Postgres has a user of its own
python=${PYTHON:-python3}
$python -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
    "$(dirname "$0")/files.tar.xz" "$here" || exit 1
root=${KILN_SOURCE:-$PWD}
out=${OUT:-$(mktemp -d)}
log=$out/log
pictures=$(mktemp -d)
torch=$($python -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>>"$log")
[ -n "$torch" ] || torch=$(ls -d /opt/*/.venv/lib/python3*/site-packages/torch 2>/dev/null | head -n 1)
path=$here/lib:$torch/lib
for dir in "$(dirname "$torch")"/nvidia/*/lib; do path=$path:$dir; done
path=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export KILN_SOURCE="$root"
failed=0
[ ! -e "$here/bin/kiln-scheduler" ] || [ "${STEPS:-}" = stream ] || steps=" fleet "
[ -e "$here/lib/libkiln_cuda.so" ] || steps=" cpu "
[ ! -e "$here/bin/kiln-gallery" ] || steps=" gallery "

# The full-size model; its folder is copied, since the tokenizer in it is a link.
config=$here/z-image-turbo
cp -r "$root/scripts/bench/z-image-turbo" "$config"
rm -rf "$config/tokenizer"
cp -r "$root/pipeline/models/sketch/tokenizer" "$config/tokenizer"

# Whether a step was asked for.
wants() {
    case $steps in *" $1 "*) true ;; *) false ;; esac
}

# step NAME SECONDS COMMAND...: runs our program with the libraries' path.
step() {
    name=$1 limit=$2
    shift 2
    echo "== $name: $*" >>"$log"
    begin=$(date +%s.%N)
    LD_LIBRARY_PATH=$path timeout -k 5 "$limit" "$@" >"$out/step" 2>&1
    status=$?
    took=$(echo "$begin $(date +%s.%N)" | awk '{printf "%.1f", $2 - $1}')
    cat "$out/step" >>"$log"
    word=PASS
    [ $status = 0 ] || { word=FAIL failed=$((failed + 1)); }
    echo "$word $name (status $status, $took s)"
    [ $status = 0 ] || tail -n 12 "$out/step" | cut -c1-400 | sed 's/^/    /'
}

# roomy GB: a folder with so much room, in memory if there is.
roomy() {
    "$root/scripts/bench/roomy.sh" "$1" /dev/shm "$here"
}

# The worst error of each stage over all cases.
table() {
    awk '/ relative / {for (i = 1; i < NF; i++) if ($i == "max") {stage = $2 (i > 3 ? " " $3 : ""); v = $(i + 1)}
            if (v + 0 >= worst[stage] + 0) worst[stage] = v
            if ($NF + 0 >= whole[stage] + 0) whole[stage] = $NF}
        / off by more than / {share = $3 / $5; if (share > most) most = share; if ($NF > far) far = $NF}
        END {for (s in worst) printf "    %-24s max %s relative %s\n", s, worst[s], whole[s]
            printf "    picture: at most %.5f of values beyond the limit, worst %d levels\n", most, far}' "$1"
}

echo "libtorch: $torch"
nvidia-smi -L 2>&1 | head -n 4
step "devices and libraries" 20 "$here/bin/kiln-worker" --version
if wants kernels; then
    step "kernels" 120 "$here/bin/test_kernels"
fi
# Out-of-bounds accesses and races of the kernels; some virtual machines let no tool look at their GPU.
if wants sanitize; then
    sanitizer=$("$root/scripts/find_sanitizer.sh")
    [ -n "$sanitizer" ] || echo "SKIP sanitize: there is no compute-sanitizer on this machine; the kernels were not checked"
    for tool in memcheck racecheck; do
        [ -n "$sanitizer" ] || break
        step "kernels under $tool" "${SANITIZE_S:-120}" "$sanitizer" --tool $tool --error-exitcode 9 \
            --print-limit 20 "$here/bin/test_kernels"
        if grep -q "Device not supported" "$out/step"; then
            echo "SKIP $tool: compute-sanitizer does not work on this machine's GPU; the kernels were not checked"
            failed=$((failed - 1))
        fi
        grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/step" | sed 's/^/    /'
    done
fi
if wants kernel-bench; then
    step "speed of the kernels" 60 "$here/bin/bench_kernels"
    sed 's/^/    /' "$out/step"
fi
if wants ops; then
    step "operations of the transformer" 200 "$here/bin/test_ops_cuda"
    grep -E '^FAIL| passed, ' "$out/step" | sed 's/^/    /'
    step "attention" 200 "$here/bin/test_attention_cuda"
    grep -E '^FAIL| passed, ' "$out/step" | sed 's/^/    /'
fi
if wants ops-bench; then
    step "speed of the operations" 120 "$here/bin/bench_ops"
    sed 's/^/    /' "$out/step"
fi
if wants load; then
    step "loading" 60 "$here/bin/test_load_cuda"
fi
if wants load-full; then # 12.3 GB of bf16, 24.6 of the same weights in fp32
    step "loading at full size" 200 "$here/bin/test_load_cuda" bench "${LOAD_GB:-12.3}" "$(roomy 25)"
    grep '^load' "$out/step" | sed 's/^/    /'
fi
for dtype in fp32 bf16; do
    wants parity || break
    KILN_PARITY=$dtype step "parity $dtype" 60 "$here/bin/test_parity_cuda"
    table "$out/step"
done
if wants image; then
    step "pictures" 120 "$here/bin/test_image_cuda"
    grep -E 'relative|dB|differ' "$out/step" | sed 's/^/    /'
fi
if wants text; then
    step "text" 120 "$here/bin/test_text_cuda"
    grep -E 'relative|layouts|differ' "$out/step" | sed 's/^/    /'
fi
if wants image-bench; then
    step "times of pictures and text" 300 "$here/bin/bench_image"
    grep -E ' ms \(|beside' "$out/step" | sed 's/^/    /'
fi
if wants engine; then
    for test in "$here"/bin/test_*_cuda; do
        case $test in *parity* | *image* | *text* | *lora* | *graph* | *trouble* | *ops* | *load*) continue ;; esac
        step "$(basename "$test")" 120 "$test"
        grep -E '^(sketch|after|load|the device)' "$out/step" | sed 's/^/    /'
    done
fi
if wants graph; then
    for test in graph trouble; do
        step "$test" 240 "$here/bin/test_${test}_cuda"
        grep -vE '^\[|^$' "$out/step" | cut -c1-300 | sed 's/^/    /'
    done
fi
if wants same; then
    for model in "--config $root/pipeline/models/sketch" "--config $config --random-weights"; do
        # shellcheck disable=SC2086
        step "alone and in a batch" 120 "$here/bin/kiln" bench engine $model --device cuda:0 \
            --sizes 512,1024 --batch 4 --dtype bf16,fp8 --deterministic
        sed 's/^/    /' "$out/step"
    done
fi
if wants lora; then
    step "LoRAs" 180 "$here/bin/test_lora_cuda"
    grep -E 'relative|switch|FAILED' "$out/step" | sed 's/^/    /'
fi
if wants lora-bench; then
    step "LoRAs at full size" 300 "$here/bin/test_lora_cuda" full
    grep -E '^full|FAILED' "$out/step" | sed 's/^/    /'
fi

i=0
for prompt in "two red stars above a blue circle at sunset" "a large yellow ring at night" \
    "three orange flowers in the grass" "a purple heart, a green triangle and a white square"; do
    wants render || break
    i=$((i + 1))
    for how in cuda:0/fp32 cuda:0/bf16 cpu/fp32 cpu/bf16; do
        device=${how%/*} dtype=${how#*/}
        file=$pictures/$i-$(echo "$device" | tr -d :)-$dtype
        step "render $i $how" 30 "$here/bin/kiln-worker" render \
            --model "$root/pipeline/models/sketch" --prompt "$prompt" --seed "$i" --width 512 \
            --height 512 --device "$device" --dtype "$dtype" --json --latents "$file.safetensors" \
            --out "$file.webp"
        grep -h denoise_ms "$out/step" | sed 's/.*"text_ms"/    "text_ms"/'
    done
done
wants render && $python - "$pictures" <<'P' 2>>"$log"
import glob, sys
from safetensors.numpy import load_file
import numpy as np
for i in range(1, 5):
    try:
        base = load_file(f"{sys.argv[1]}/{i}-cpu-fp32.safetensors")["latent"]
        for how in ("cuda0-fp32", "cuda0-bf16", "cpu-bf16"):
            d = load_file(f"{sys.argv[1]}/{i}-{how}.safetensors")["latent"] - base
            print(f"latent {i} {how}: relative {np.linalg.norm(d) / np.linalg.norm(base):.2e}")
    except Exception as e:
        print(f"latent {i}: {e}")
P
for how in cuda:0/fp32,bf16 cuda:0/fp8 cpu/fp32; do
    wants quality || break
    step "quality $how" 300 "$here/bin/kiln" bench quality --model "$root/pipeline/models/sketch" \
        --judge "$root/pipeline/models/judge" --prompts "$root/tests/quality/held.jsonl" \
        --device "${how%/*}" --dtype "${how#*/}"
    sed 's/^/    /' "$out/step"
done
if wants errors; then
    status99=0
    LD_LIBRARY_PATH=$path "$here/bin/kiln-worker" render --model "$root/pipeline/models/sketch" \
        --prompt x --device cuda:99 --out "$pictures/none.webp" >>"$log" 2>&1 || status99=$?
    if [ $status99 = 69 ]; then
        echo "PASS cuda:99 ends with 69"
    else
        echo "FAIL cuda:99 ends with $status99"
        failed=$((failed + 1))
    fi
fi
if wants sketch-bench; then
    echo "== sketch-bench" >>"$log"
    LD_LIBRARY_PATH=$path timeout 60 $python "$root/scripts/bench/engine_vs_diffusers.py" \
        --device cuda:0 --model "$root/pipeline/models/sketch" \
        --library "$here/lib/libdiffusionz.so" --sizes 512,1024 --repeat 5 2>&1 | tee -a "$log"
fi
if wants cpu; then
    # shellcheck disable=SC2086
    step "the CPU beside diffusers" 470 "$python" "$root/scripts/bench/engine_vs_diffusers.py" \
        --device cpu --model "$root/pipeline/models/sketch" --library "$here/lib/libdiffusionz.so" \
        --sizes 256,512,768 --repeat 4 --threads all --alone --budget-s 300 ${CPU:-}
    sed 's/^/    /' "$out/step"
fi
if wants fleet || wants stream || wants gallery; then
    PATH=$here/bin:$PATH
    if [ ! -e /usr/share/zoneinfo/UTC ]; then # Postgres asks for it, and nothing else
        mkdir -p /usr/share/zoneinfo && cp "$here/zoneinfo/UTC" /usr/share/zoneinfo/
    fi
fi
if wants stream; then
    # shellcheck disable=SC2086
    step "stored latents on a stream" "${STREAM_S:-570}" "$python" "$root/scripts/bench/teleport_stream.py" \
        --build "$here/bin" --device "${FLEET_DEVICE:-cuda:0}" --out "$here/stream" \
        ${STREAM:---points exact --workers 8 --batch 8}
    sed 's/^/    /' "$out/step"
    tar -C "$here" -czf "$out/stream.tar.gz" stream
fi
if wants gallery; then
    KILN=$here/bin/kiln PYTHON=$python CPUS=${CPUS:-0,1} step "a gallery of a million" "${GALLERY_S:-3600}" \
        "$root/scripts/bench/gallery_million.sh" "${ROOM:-$here}/gallery"
    sed 's/^/    /' "$out/step"
    for name in captions stack; do
        LD_LIBRARY_PATH=$path "$here/bin/kiln" down -q --dir "${ROOM:-$here}/gallery/$name" >>"$log" 2>&1
    done
fi
if wants fleet; then
    # Where the system says that the GPUs are, and what the workers make of it.
    for gpu in /proc/driver/nvidia/gpus/*; do
        bus=$(basename "$gpu" | tr '[:upper:]' '[:lower:]')
        echo "    $bus node $(cat "/sys/bus/pci/devices/$bus/numa_node" 2>&1)"
    done
    step "workers beside their GPUs" 60 sh -c "$here/bin/kiln up -q --dir $here/beside --engine testcard \
        --device ${FLEET_DEVICE:-cuda:all} && $here/bin/kiln down -q --dir $here/beside"
    grep -h numa_ "$here"/beside/log/worker-*.log | sed 's/^/    /'
    # shellcheck disable=SC2086
    step "fleet, sketch model" 300 "$here/bin/kiln" bench fleet --model "$root/pipeline/models/sketch" \
        --device "${FLEET_DEVICE:-cuda:all}" --sizes 512x512,768x512 --loras ,neon,pixel --jobs 400 \
        ${FLEET:---devices 1,2}
    sed 's/^/    /' "$out/step"
    full=${FLEET_CONFIG:-$config}
    $python "$root/scripts/random_loras.py" --config "$full" --rank 16 --out "$here/loras" one two >>"$log" 2>&1
    # shellcheck disable=SC2086
    step "fleet, full-size random model" 500 "$here/bin/kiln" bench fleet --engine random --model "$full" \
        --lora-dir "$here/loras" --device "${FLEET_DEVICE:-cuda:all}" --sizes 1024x1024,512x512 \
        --loras ,one,two ${FLEET:---devices 1,2} ${FLEET_FULL:---jobs 48}
    sed 's/^/    /' "$out/step"
fi
# With its peer in the same run both have the same weights, and what they measured is printed side by side.
model='' beside=''
if wants check || { wants bench && wants peer; }; then
    # Kiln writes its 8-bit rows beside the weights: another 9 GB.
    model=$(mktemp -d "${MODEL_DIR:-$(roomy 32)}/kiln-model.XXXXXX")
    trap 'rm -rf "$model"' EXIT
    step "the model written" 180 env -u LD_LIBRARY_PATH $python "$root/scripts/bench/peer_model.py" \
        --config "$config" --device cuda:0 --out "$model"
    sed 's/^/    /' "$out/step"
    [ "$status" = 0 ] || { rm -rf "$model" && model=; } # each draws its own then
fi
if wants bench; then
    wants peer && beside="--beside $out/bench.json"
    if [ -n "$model" ]; then weights="--config $model"; else weights="--config $config --random-weights"; fi
    # shellcheck disable=SC2086
    step "bench of the engine" "${BENCH_S:-300}" "$here/bin/kiln" bench engine $weights --device cuda:0 \
        ${beside:+--json} ${BENCH:---sizes 512,1024}
    cp "$out/step" "$out/bench.json"
    [ -n "$beside" ] || sed 's/^/    /' "$out/step"
fi
if wants peer; then
    if [ -n "$model" ]; then weights="--model $model"; else weights="--config $config"; fi
    # shellcheck disable=SC2086
    step "bench of its peer" "${PEER_S:-400}" env -u LD_LIBRARY_PATH $python "$root/scripts/bench_peer.py" \
        $weights --device cuda:0 --out "$out/peer.json" $beside ${PEER:---sizes 512,1024}
    sed 's/^/    /' "$out/step"
fi
# The same prompt and noise through both; the sketch model's weights are trained ones.
for weights in "$model" "$root/pipeline/models/sketch --trained"; do
    [ -n "$model" ] || break
    # shellcheck disable=SC2086
    step "both against diffusers in fp32" 200 env -u LD_LIBRARY_PATH $python "$root/scripts/bench/forward_error.py" \
        --model $weights --device cuda:0 --library "$here/lib/libdiffusionz.so" --library-path "$path" \
        --dtypes fp32,bf16,fp8 --sizes "${CHECK_SIZES:-512}"
    sed 's/^/    /' "$out/step"
done
rm -rf "$model"
# What one picture of 1024 px takes of the device in all, by the way in which memory is taken from it.
if wants memory; then
    for how in expandable_segments:False expandable_segments:True; do
        PYTORCH_CUDA_ALLOC_CONF=$how step "memory, $how" 120 "$here/bin/kiln" bench engine \
            --config "$config" --random-weights --device cuda:0 --sizes 1024 --batch 1 --dtype bf16,fp8
        sed 's/^/    /' "$out/step"
    done
fi
# The largest picture in what a card of 24 GiB leaves beside its context, as a share of this one.
if wants small-card; then
    all=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    share=$(awk -v all="${all:-143771}" 'BEGIN {printf "%.4f", (24576 - 1024) / all}')
    PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:$share step "2048 px in $share of the memory" 200 \
        "$here/bin/kiln" bench engine --config "$config" --random-weights --device cuda:0 \
        --sizes 2048 --batch 1 --dtype bf16
    sed 's/^/    /' "$out/step"
fi
rm -f "$out/step"
tar -C "$pictures" -cf "$out/pictures.tar" . && rm -rf "$pictures" "$here"
echo "$failed steps failed; all output in $log, pictures in $out/pictures.tar"
[ $failed = 0 ] || exit 1
