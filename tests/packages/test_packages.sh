#!/bin/bash
# What the packages are made of, without making them (`make deb-test` does that): manual pages of all
# verbs, which troff reads without a warning; every program, unit and library in one package; settings
# that Kiln takes; scripts that a shell reads.
. "$KILN_SOURCE/tests/cli/lib.sh"
deb=$source_dir/scripts/deb

# --- manual pages
ok python3 "$deb/man.py" "$kiln_bin" man 0.0.0
for verb in $(kiln help | sed -n 's/^  \([a-z]\{1,10\}\)  .*/\1/p'); do
    [ -s "man/man1/kiln-$verb.1" ] || die "kiln $verb has no page"
done
for page in man/man*/*; do
    groff -man -ww -z -Tutf8 "$page" >out.txt 2>&1
    [ ! -s out.txt ] || die "$page: $(head -n 3 out.txt)"
    grep -q '^\.SH NAME' "$page" || die "$page has no name"
done
# Nothing of the help is lost on the way: each option with its sentence, each setting.
for verb in cache enqueue worker; do
    tr -d '\\' <"man/man1/kiln-$verb.1" >page.txt
    kiln help $verb | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | while read -r option; do
        grep -q "^\.B $option" page.txt || die "the page of $verb lacks $option"
    done || exit 1
done
[ "$(grep -c '^\.TP' man/man5/kiln.conf.5)" = "$(kiln help config --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" ] ||
    die "kiln.conf(5) has not all settings"

# --- lists of files: each in exactly one package
python3 - "$source_dir" <<'PYTHON' || exit 1
import fnmatch, glob, os, sys
root = sys.argv[1]
lists = {os.path.basename(f)[:-8]: [w.split()[0] for w in open(f)] for f in glob.glob(f"{root}/scripts/deb/*.install")}
units = [os.path.basename(u) for end in ("service", "timer", "target") for u in glob.glob(f"{root}/scripts/systemd/*.{end}")]
files = [f"usr/lib/systemd/system/{u}" for u in units]
files += [f"usr/bin/{p}" for p in ("kiln", "kiln-scheduler", "kiln-gallery", "kiln-bench", "kiln-worker")]
files += [f"usr/lib/kiln/{l}" for l in ("libdiffusionz.so", "libkiln_bench.so", "libkiln_cuda.so", "libtorch_cpu.so", "libc10.so",
    "libgomp.so.1", "libcudart.so.13", "libcupti.so.13", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so",
    "libc10_cuda.so", "libcaffe2_nvrtc.so", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcudnn_ops.so.9",
    "libcufft.so.12", "libcufile.so.0", "libcurand.so.10", "libcusolver.so.12", "libcusparse.so.12", "libcusparseLt.so.0",
    "libnccl.so.2", "libnvJitLink.so.13", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvshmem_host.so.3")]
packages = open(f"{root}/scripts/deb/control").read().split("\nPackage: ")[1:]
assert {p.split("\n")[0] for p in packages} == set(lists) , "control and the lists name other packages"
for path in files:
    where = [name for name, patterns in lists.items() if any(fnmatch.fnmatch(path, p) for p in patterns)]
    if len(where) != 1:
        sys.exit(f"{path} is in {where or 'no package'}")
PYTHON

# --- what `make install` installs: a program that pkg-config finds the library for, and the completion.
# The build folder is one of links, with the pages above, so that make has nothing to build.
if [ -e "$kiln_bin/libdiffusionz.so" ]; then
    mkdir built && ln -s "$kiln_bin"/* built/ && rm -f built/man && cp -r man built/man
    (unset MAKEFLAGS MFLAGS MAKELEVEL
        ok make -C "$source_dir" BUILD="$PWD/built" -o all -o "$PWD/built/man/made" INSTALL_TORCH= \
            DESTDIR="$PWD/root" PREFIX=/usr install) || exit 1
    export PKG_CONFIG_PATH=$PWD/root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD/root
    [ "kiln $(pkg-config --modversion diffusionz)" = "$(kiln --version | cut -d' ' -f1,2)" ] || die "diffusionz.pc is of another release"
    read -ra flags <<<"$(pkg-config --cflags --libs diffusionz)"
    ok cc -o render "$source_dir/scripts/examples/render.c" "${flags[@]}" "-Wl,-rpath-link,${LIBTORCH:-}/lib"
    ok env LD_LIBRARY_PATH="$PWD/root/usr/lib/kiln:${LIBTORCH:-}/lib" ./render "$source_dir/tests/golden/models/plain" 'a red star' picture
    [ -s picture-3.webp ] || die "the program renders nothing"
    completed=$(PATH=$PWD/root/usr/bin:$PATH
        . root/usr/share/bash-completion/completions/kiln
        COMP_WORDS=(kiln enq) COMP_CWORD=1
        _kiln && echo "${COMPREPLY[*]}")
    [ "$completed" = enqueue ] || die "the installed completion offers '$completed'"
else
    echo "skip: libdiffusionz.so is not built: no program is linked with it"
fi

# --- the release that the programs name is the one that CHANGELOG.md begins with
release=$(sed -n 's/^## //p' "$source_dir/CHANGELOG.md" | head -n 1)
kiln --version | grep -qxE "kiln ${release//./[.]} \([0-9a-z-]+\)" || die "$(kiln --version), and CHANGELOG.md begins with $release"
# An archive of the tree names its commit, and never that of a repository that it was unpacked in.
if git -C "$source_dir" archive HEAD Makefile scripts/deb tests/tests.mk tests/sim/sim.mk >tree.tar 2>err.txt; then
    mkdir -p around/tree
    git -C around init -q
    git -C around -c user.name=x -c user.email=x@example.org commit -q --allow-empty -m 'another tree'
    tar -xf tree.tar -C around/tree
    for commit in "$(git -C "$source_dir" log -1 --format=%h)" unknown; do
        ok make -s -C around/tree BUILD="$PWD/archived" "$PWD/archived/gen/release"
        [ "$(cat archived/gen/release)" = "$release ($commit)" ] || die "an archive says $(cat archived/gen/release)"
        rm around/tree/scripts/deb/commit
    done
else
    echo "skip: the tree is not a repository of git"
fi

# --- settings, scripts
ok kiln help config --json --config "$deb/kiln.conf"
json out.txt '{s["name"] for s in d if s["origin"].endswith("kiln.conf")} == {"redis", "postgres", "store", "model"} or {s["name"] for s in d if s["value"] != s["default"]} == {"model"}'
sed -n 's/^#\([a-z].* = .*\)/\1/p' "$deb/kiln.conf" >examples.conf
[ "$(wc -l <examples.conf)" = 3 ] || die "kiln.conf has not three examples"
ok kiln help config --json --config examples.conf
for script in "$deb"/*.p[or]* "$deb/restart-running"; do
    ok sh -n "$script"
done
# --- containers: the settings exist, commands and ports are those of the programs, and each part of the
# fleet has what it needs
kiln help config | sed -n 's/^  \([a-z][a-z0-9_]*\) .*/\1/p' >settings.txt
schemas=$(dirname "${LIBTORCH:-/var/cache/kiln/x}") # where `make setup` puts them
for name in compose kubernetes; do
    [ -s "$schemas/$name.schema.json" ] || die "$schemas/$name.schema.json is missing: run \`make setup\`"
done
python=$(python_with yaml jsonschema) || exit 1
"$python" - "$source_dir/scripts/containers" "$schemas" <<'PYTHON' || exit 1
import json, jsonschema, re, sys, yaml
compose_schema, api = (json.load(open(f"{sys.argv[2]}/{name}.schema.json")) for name in ("compose", "kubernetes"))
kinds = {(f"{g['group']}/{g['version']}".lstrip("/"), g["kind"]): name for name, s in api["$defs"].items()
         for g in s.get("x-kubernetes-group-version-kind", [])}
wrong = [("compose.yaml", e) for e in jsonschema.Draft7Validator(compose_schema).iter_errors(
    yaml.safe_load(open(f"{sys.argv[1]}/compose.yaml")))]
for d in yaml.safe_load_all(open(f"{sys.argv[1]}/kubernetes.yaml")):
    rule = {"$id": api["$id"], "$ref": f"#/$defs/{kinds[d['apiVersion'], d['kind']]}", "$defs": api["$defs"]}
    wrong += [(f"kubernetes.yaml, {d['kind']}", e) for e in jsonschema.Draft202012Validator(rule).iter_errors(d)]
for where, e in wrong:
    print(f"{where}: {'/'.join(map(str, e.absolute_path))}: {e.message}")
if wrong:
    sys.exit(1)
settings = set(open("settings.txt").read().split())
text = {name: open(f"{sys.argv[1]}/{name}").read() for name in ("Containerfile", "compose.yaml", "kubernetes.yaml")}
def need(what, why):
    if not what:
        sys.exit(f"containers: {why}")
for name, content in text.items():
    for setting in re.findall(r"\bKILN_([A-Z0-9_]+)", content):
        need(setting.lower() in settings, f"{name}: KILN_{setting} is no setting")
need(re.search(r"^USER 990:990$", text["Containerfile"], re.M), "the image runs as root")
compose = yaml.safe_load(text["compose.yaml"])["services"]
need([compose[s]["command"][0] for s in ("scheduler", "standby", "worker-0", "gallery")] ==
     ["kiln-scheduler", "kiln-scheduler", "kiln-worker", "kiln"], "compose: other programs")
need(compose["worker-0"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"], "compose: no GPU")
# A container sees its own GPUs alone, so each worker has one and calls it cuda:0; nothing else gets any.
need("NVIDIA_VISIBLE_DEVICES" not in re.sub("(?m)^#.*", "", text["Containerfile"]), "the image asks for GPUs by itself")
for name, service in compose.items():
    devices = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    if name.startswith("worker"):
        need([d["device_ids"] for d in devices] == [[name.split("-")[1]]], f"compose: {name} has not the one GPU of its number")
        need(service["environment"]["KILN_DEVICE"] == "cuda:0", f"compose: {name} calls its GPU {service['environment']['KILN_DEVICE']}")
    need(name.startswith("worker") or not devices, f"compose: {name} has a GPU")
objects = {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(text["kubernetes.yaml"])}
secret = objects["Secret", "kiln"]["stringData"]
for (kind, name), d in objects.items():
    if kind not in ("Deployment", "StatefulSet", "Job"):
        continue
    pod = d["spec"]["template"]["spec"]
    need(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 990, f"{name} runs as root")
    volumes = {v["name"]: v for v in pod.get("volumes", [])}
    for item in [i for v in volumes.values() if "secret" in v for i in v["secret"]["items"]]:
        need(item["key"] in secret, f"{name}: no secret {item['key']}")
    for c in pod["containers"]:
        need(c["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
             "capabilities": {"drop": ["ALL"]}}, f"{name} has rights that it does not need")
        need(all(m["name"] in volumes for m in c.get("volumeMounts", [])), f"{name} mounts what there is not")
        for e in c["env"]:
            ref = e.get("valueFrom", {}).get("secretKeyRef")
            need(not ref or ref["key"] in secret, f"{name}: no secret {e['name']}")
        if kind != "Job":
            need(c["livenessProbe"]["httpGet"]["path"] == "/livez" and c["readinessProbe"]["httpGet"]["path"] == "/readyz",
                 f"{name}: other probes")
            ports = {p["name"]: p["containerPort"] for p in c["ports"]}
            need(ports["metrics"] == {"scheduler": 9461, "worker": 9462, "gallery": 9460}[name], f"{name}: port")
            selector = d["spec"]["selector"]["matchLabels"]
            need(selector == d["spec"]["template"]["metadata"]["labels"], f"{name}: labels")
            if name != "gallery":
                need(objects["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"] == selector, f"{name}: budget")
need(objects["Deployment", "scheduler"]["spec"]["replicas"] == 2, "no standby")
worker = objects["StatefulSet", "worker"]["spec"]["template"]["spec"]
need(worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1, "not one GPU a worker")
need({"name": "KILN_DEVICE", "value": "cuda:0"} in worker["containers"][0]["env"], "the pod's GPU is not cuda:0")
# The flags that the pages and the worker's message name are those of CDI.
for page in ("containers/README.md", "OPERATIONS.md", "../pipeline/torch/cuda/cuda_device.cpp"):
    with open(f"{sys.argv[1]}/../{page}") as f:
        content = re.sub(r'"\s*"', "", f.read())
    need(re.search(r"--device nvidia\.com/gpu=(0|all)\b", content), f"{page} does not say how a container gets a GPU")
need(worker["terminationGracePeriodSeconds"] >= 60, "a worker has no time to finish its batch")
PYTHON
# The oldest podman-compose that a distribution has (1.0.3) reads the example, and misses what is not set.
if command -v podman >/dev/null && command -v podman-compose >/dev/null; then
    composed() { podman-compose --dry-run -f "$source_dir/scripts/containers/compose.yaml" up -d; }
    PGPASSWORD=x MODEL=/models/model ok composed
    PGPASSWORD=x composed >out.txt 2>err.txt && die "podman-compose starts without MODEL"
else
    echo "skip: podman-compose is not installed: only its schema is held against compose.yaml"
fi
echo ok
