#!/bin/bash
# Pictures of an export as other programs read them: the reading rules of AUTOMATIC1111 (last line of
# settings, "Negative prompt:", values in JSON's quotes), of ComfyUI's import (PNG only, which asks for both
# lines) and of Civitai (EXIF UserComment or PNG text, <lora:NAME:SCALE>), each written here on its own.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --model "$source_dir/pipeline/models/sketch"
export KILN_CONFIG=$PWD/s/kiln.conf
python3 - >jobs.jsonl <<'PYTHON'
import json
small = {"size": "64x96", "steps": 3}
for line in (
        {"prompt": "猫 🐈 on a \"sofa\", قط\nsecond line: café, {x}", "negative_prompt": "霧, fog: \"thick\"\nand blur",
         "guidance": 2.5, "seed": 18446744073709551615, "template": False,
         "loras": [{"name": "neon", "scale": 0.8}, {"name": "clay", "scale": 1}], **small},
        {"prompt": "a red star", "seed": 7, **small},
        {"prompt": "a stair, Steps: 3, Seed: none\nSize: small", "seed": 8, "loras": [{"name": "pixel", "scale": 0.55}], **small}):
    print(json.dumps(line))
PYTHON
ok kiln enqueue jobs.jsonl --batch b
ok kiln wait b --timeout 60
for format in webp png jpeg; do ok kiln export b --out $format --format $format; done
python=$(python_with PIL) || exit 1
"$python" - <<'PYTHON' || die "a reader understands something else"
import glob, json, re
from PIL import Image

def text_of(path):
    """PNG: the text "parameters"; else EXIF's UserComment, whose first 8 bytes name its code."""
    image = Image.open(path)
    if image.format == "PNG":
        return image.text["parameters"]
    comment = image.getexif().get_ifd(0x8769)[0x9286]
    assert comment[:8] == b"UNICODE\0", comment[:8]
    return comment[8:].decode("utf-16-be")

def a1111(text):
    *lines, last = text.strip().split("\n")
    settings = re.findall(r'\s*(\w[\w \-/]+):\s*("(?:\\.|[^\\"])+"|[^,]*)(?:,|$)', last)
    assert len(settings) >= 3, last
    prompt, negative, at_negative = [], [], False
    for line in lines:
        if line.startswith("Negative prompt:"):
            at_negative, line = True, line[len("Negative prompt:"):].strip()
        (negative if at_negative else prompt).append(line)
    found = {name: json.loads(value) if value.startswith('"') else value for name, value in settings}
    size = re.fullmatch(r"(\d+)x(\d+)", found["Size"])
    loras = re.findall(r"<lora:([^:>]+):([^:>]+)>", prompt[-1])
    return {"prompt": re.sub(r"\s*<lora:[^>]+>", "", "\n".join(prompt)), "negative": "\n".join(negative), "loras": loras,
            "steps": int(found["Steps"]), "cfg": float(found["CFG scale"]), "seed": int(found["Seed"]),
            "size": tuple(map(int, size.groups())), "sampler": found["Sampler"], "model": found["Model"]}

def comfyui(text):
    at = text.rfind("\nSteps:")
    options = {}
    for part in re.finditer(r'\s*([^:]+:\s*([^"{].*?|".*?"|\{.*?\}))\s*(,|$)', text[at:].split("\n")[1]):
        name, value = part.group(0).split(":")[:2]
        options[name.strip().lower()] = value.rstrip(",").strip()
    negative = text.rfind("\nNegative prompt:", 0, at)
    assert at >= 0 and negative >= 0, "nothing is imported"
    positive, loras = text[:negative].strip(), []
    def lora(match):
        name, weight = match.group(1).split(":")
        loras.append((name, weight))
        float(weight)
        return ""
    positive = re.sub(r"<lora:([^:]+:[^>]+)>", lora, positive).strip()
    width, height = options["size"].split("x")
    return {"prompt": positive, "negative": text[negative + 18:at].strip(), "loras": loras, "steps": int(options["steps"]),
            "cfg": float(options["cfg scale"]), "seed": int(options["seed"]), "size": (int(width), int(height)),
            "sampler": options["sampler"], "model": options["model"]}

def civitai(text):
    assert "Steps: " in text
    lines = [line for line in text.split("\n") if line.strip()]
    details = next(i for i, line in enumerate(lines) if line.startswith("Steps: "))
    negative = next((i for i, line in enumerate(lines) if line.startswith("Negative prompt: ")), details)
    prompt = "\n".join(lines[:negative])
    values, name, value, quoted = {}, "", "", False
    for letter in lines[details] + ",":
        if letter == '"':
            quoted = not quoted
        elif letter == ":" and not quoted:
            name, value = value.strip(), ""
        elif letter == "," and not quoted:
            values[name], value = value.strip(), ""
        else:
            value += letter
    loras = re.findall(r"<lora:([a-zA-Z0-9_.\-]+):([0-9.]+)>", prompt)
    width, height = values["Size"].split("x")
    return {"prompt": re.sub(r"\s*<lora:[^>]+>", "", prompt), "loras": loras, "steps": int(values["Steps"]),
            "negative": "\n".join(lines[negative:details]).removeprefix("Negative prompt: ").strip(), "cfg": float(values["CFG scale"]),
            "seed": int(values["Seed"]), "size": (int(width), int(height)), "sampler": values["Sampler"], "model": values["Model"]}

wrong = []
for folder in ("webp", "png", "jpeg"):
    jobs = [json.loads(line) for line in open("jobs.jsonl")]
    paths = sorted(glob.glob(f"{folder}/full/*"))
    assert len(paths) == len(jobs)
    for path, job in zip(paths, jobs):
        wanted = {"prompt": job["prompt"], "negative": job.get("negative_prompt", ""),
                  "loras": [(l["name"], f"{l['scale']:g}") for l in job.get("loras", [])], "steps": 3,
                  "cfg": 1 + job.get("guidance", 0), "seed": job["seed"], "size": (64, 96), "sampler": "Euler", "model": "testcard"}
        text = text_of(path)
        for read in (a1111, civitai) + ((comfyui,) if folder == "png" else ()):
            got = read(text)
            got["loras"], wanted["loras"] = sorted(got["loras"]), sorted(wanted["loras"])
            wrong += [f"{path}, {read.__name__}: {name} is {got[name]!r}, not {wanted[name]!r}" for name in wanted if got[name] != wanted[name]]
print(*wrong, sep="\n")
raise SystemExit(bool(wrong))
PYTHON
echo ok
