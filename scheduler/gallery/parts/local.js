/* The pages of an exported gallery, made from the data in it.
 *
 * It stands in for the server: script.js asks it for pages by their addresses, which are behind '#'
 * here.  "#q=red&c=48" is a list from its 49th picture on, "#j17" a picture.  Every text of a user
 * becomes a text node or an attribute, never markup. */
"use strict";
globalThis.kilnLocal = (make) => {
  const PAGE = 48, EAGER = 6, RELATED = 12, ALT = 150, AT_ONCE = 500;
  const records = [], byJob = new Map(), byPrompt = new Map(), children = new Map();
  const note = (map, key, record) => map.has(key) ? map.get(key).push(record) : map.set(key, [record]);
  for (const block of document.querySelectorAll("script.data"))
    for (const line of block.textContent.split("\n")) {
      if (!line) continue;
      const record = JSON.parse(line);
      record.prompt ??= JSON.parse(record.line).prompt;
      records.push(record);
      byJob.set(String(record.job), record);
      if (record.missing) continue;
      note(byPrompt, record.prompt, record);
      if (record.parent) note(children, record.parent, record);
    }

  /* What is invisible and steers the screen is shown by its number. */
  const STEERING = /([\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069])/;
  const shown = (text) => text.split(STEERING).map((part, i) => i % 2 === 0 ? part
    : make("span", { class: "hidden-char" }, `U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`));
  const cut = (text) => text.length > ALT ? `${text.slice(0, ALT)}\u2026` : text;

  /* --- tiles and lists --- */
  const image = (record, sizes, more) => {
    const { files } = record, small = files[files.length - 1], medium = files[files.length - 2] || small;
    return make("img", { src: sizes ? small.path : medium.path, alt: `Prompt: ${cut(record.prompt)}`,
      srcset: files.map((file) => `${file.path} ${file.width}w`).reverse().join(", "),
      width: record.width, height: record.height, decoding: "async", ...more });
  };
  const tile = (record, at) => {
    const words = shown(cut(record.prompt));
    const item = make("li", { class: record.missing ? "tile missing" : "tile" });
    item.style.setProperty("--r", (record.width / record.height).toFixed(3));
    if (record.missing)
      item.append(make("strong", {}, record.missing), make("p", { dir: "auto" }, ...words),
        ...(record.error ? [make("p", { class: "error" }, ...shown(record.error))] : []));
    else
      item.append(make("a", { href: `#j${record.job}`, "data-job": record.job },
        image(record, true, { sizes: "(max-width: 600px) 50vw, 300px", loading: at >= EAGER && "lazy" }),
        make("span", { class: "words", "aria-hidden": "true", dir: "auto" }, ...words)));
    return item;
  };

  /* As the server's search: every word, "phrases", not -these.  The texts are made after the page is
   * shown, some at a time, so that the first letter need not wait for ten thousand of them. */
  const searched = (r) => r.text ??= [r.prompt, r.style, r.loras, r.custom_id, r.mode, r.seed, r.error]
    .filter(Boolean).join("\n").toLowerCase();
  const prepare = (from) => {
    for (const record of records.slice(from, from + AT_ONCE)) searched(record);
    if (from + AT_ONCE < records.length) setTimeout(prepare, 0, from + AT_ONCE);
  };
  setTimeout(prepare, 0, 0);
  let asked = "", list = records;
  const find = (q) => {
    const words = [...q.toLowerCase().matchAll(/(-?)(?:"([^"]*)"?|(\S+))/g)]
      .map(([, minus, phrase, word]) => [!minus, phrase ?? word]).filter(([, word]) => word);
    if (!words.length) return records;
    const within = q.startsWith(asked) && !/["-]/.test(q) ? list : records; /* a letter more finds less */
    return within.filter((record) => words.every(([wanted, word]) => searched(record).includes(word) === wanted));
  };
  const address = (q, from) => {
    const parts = new URLSearchParams(from ? { q, c: from } : { q });
    if (!q) parts.delete("q");
    return `#${parts}`;
  };
  /* Another search replaces the list: what both begin with stays, and its pictures are not loaded again. */
  let shownTiles = new Map();
  const listPage = (q, from) => {
    const again = q !== asked && from === 0 ? shownTiles : new Map();
    if (q !== asked) { list = find(q); asked = q; }
    const page = list.slice(from, from + PAGE), tiles = page.map((record, at) => again.get(record) ?? tile(record, at));
    if (from === 0) shownTiles = new Map(page.map((record, at) => [record, tiles[at]]));
    const pager = make("nav", { class: "pager", "aria-label": "Pages" });
    if (from + PAGE < list.length)
      pager.append(make("a", { class: "button", rel: "next", href: address(q, from + PAGE) }, "More pictures"));
    const count = q ? `${list.length} of ${records.length}` : document.querySelector(".foot p").textContent.slice(0, -1);
    return make("div", {}, make("p", { class: "count" }, count), make("main", {},
      make("ul", { class: "grid", "aria-label": "Pictures", hidden: !tiles.length }, ...tiles),
      ...(tiles.length ? [] : [make("div", { class: "say" }, make("h2", {}, "No picture matches"),
        make("p", {}, "Every word must be in the prompt or a name. Remove a word."))]), pager));
  };

  /* --- one picture --- */
  const facts = (rows) => make("dl", {}, ...rows.filter(([, value]) => value || value === 0)
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, make("bdi", {}, ...shown(String(value)))))));
  const copies = (label, key, text) => make("button", { type: "button", class: "copy", "data-key": key, "data-copy": text }, label);
  const section = (title, all) => all.length ? [make("section", { class: "related" }, make("h2", {}, title),
    make("ul", { class: "grid", "aria-label": title }, ...all.slice(0, RELATED).map(tile)))] : [];
  const kilobytes = (bytes) => `${Math.max(1, Math.round(bytes / 1000))} kB`;
  const near = (record, step) => {
    let at = list.indexOf(record) + step;
    while (list[at]?.missing) at += step;
    return list[at];
  };
  const picturePage = (record) => {
    const title = `Picture ${record.job}`, full = record.files[0];
    const whole = make("a", { href: full.path, target: "_blank", "aria-label": "Open the whole picture" },
      image(record, false, { sizes: "(min-width: 900px) 62vw, 100vw" }));
    const about = make("div", { class: "about" }, make("h1", {}, title),
      make("p", { class: "text prompt", dir: "auto" }, ...shown(record.prompt)),
      make("div", { class: "actions" }, copies("Copy prompt", "c", record.prompt),
        ...(record.line ? [copies("Copy job line", "j", record.line)] : [])),
      facts([["Size", `${record.width}x${record.height}`], ["Steps", record.steps], ["Seed", record.seed],
        ["Style", record.style], ["LoRAs", record.loras], ["Made", record.mode], ["Model", record.model],
        ["Model hash", record.model_hash?.slice(0, 12)]]),
      facts([["Batch", record.batch], ["Index", record.index], ["Custom id", record.custom_id],
        ["Worker", record.worker], ["Finished", record.finished_at?.slice(0, 16).replace("T", " ").concat(" UTC")]]),
      make("h2", {}, "Files"), make("ul", { class: "files" }, ...record.files.map((file) => make("li", {},
        make("a", { href: file.path, download: true }, `${file.width}\u00d7${file.height} `, make("small", {}, kilobytes(file.bytes)))))),
      ...(record.line ? [make("details", {}, make("summary", {}, "Job line"),
        make("pre", { tabindex: "0" }, make("code", { dir: "ltr" }, ...shown(record.line))))] : []));
    const page = make("div", {}, make("article", { class: "picture", "data-job": record.job },
      make("div", { class: "stage" }, whole), about));
    page.querySelector(".stage").style.setProperty("--r", (record.width / record.height).toFixed(3));
    const parent = record.parent && byJob.get(String(record.parent));
    page.append(...section(`Made from picture ${record.parent}`, parent && !parent.missing ? [parent] : []),
      ...section("Made from this", children.get(record.job) || []),
      ...section("Variants", byPrompt.get(record.prompt).filter((other) => other !== record)));
    for (const [rel, other] of [["prev", near(record, -1)], ["next", near(record, 1)]])
      if (other) page.append(make("a", { rel, href: `#j${other.job}`, "data-job": other.job }));
    return page;
  };

  const job = (url) => /#j(\d+)$/.exec(url)?.[1];
  const words = (url) => new URLSearchParams(job(url) ? "" : url.split("#")[1] || "").get("q") || "";
  return {
    job, words, address,
    page(url) {
      const record = byJob.get(job(url));
      if (record && !record.missing) return picturePage(record);
      const from = job(url) ? 0 : Number(new URLSearchParams(url.split("#")[1] || "").get("c")) || 0;
      return listPage(words(url), from);
    },
  };
};
