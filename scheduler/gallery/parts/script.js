/* What the gallery adds where scripts run.  Every page of the server is complete without: links lead
 * to pages, forms send themselves, and the list goes on behind "Older pictures".  In an exported page
 * local.js stands in for the server. */
"use strict";
(() => {
  const TILES_MAX = 1000, LOADS_MAX = 3;
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {}))
      if (value === true) element.setAttribute(name, "");
      else if (value !== false) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const read = (text) => new DOMParser().parseFromString(text, "text/html");
  const local = globalThis.kilnLocal?.(make);
  const fetchPage = local ? async (url) => local.page(url) : async (url) => {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    return read(await answer.text());
  };

  /* A short message that screen readers hear too. */
  const live = make("p", { class: "away", role: "status" });
  let toastTimer = 0;
  const say = (text, shown) => {
    live.textContent = text;
    if (!shown) return;
    $(".toast")?.remove();
    const toast = make("p", { class: "toast", "aria-hidden": "true" }, text);
    ($("dialog[open]") || document.body).append(toast);
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => toast.remove(), 2500);
  };

  /* --- copying, stars --- */
  const copy = async (button) => {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { readonly: true, class: "away" });
      area.value = text;
      button.after(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    say("Copied", true);
  };
  const star = async (form) => {
    const on = form.elements.on.value === "1";
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (!answer.ok) return say("The star could not be changed", true);
    const fresh = $(".star", read(await answer.text()));
    const had = form.contains(document.activeElement);
    if (fresh) form.replaceWith(fresh);
    if (had && fresh) $("button", fresh).focus();
    const tile = $(`.grid a[data-job="${form.elements.job.value}"]`)?.closest(".tile");
    tile?.classList.toggle("starred", on);
    say(on ? "Starred" : "Star removed", true);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".copy");
    if (button) copy(button);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".star")) return;
    event.preventDefault();
    star(event.target).catch(() => say("The gallery does not answer", true));
  });
  /* A signed address may have expired: once, the gallery is asked for another.  Some have failed before this
   * script has run. */
  const askAgain = (image) => {
    const { again } = image.dataset;
    if (!again) return;
    delete image.dataset.again;
    image.removeAttribute("srcset");
    image.src = again;
  };
  document.addEventListener("error", ({ target }) => target instanceof HTMLImageElement && askAgain(target), true);
  $$("img").filter((image) => image.complete && image.naturalWidth === 0).forEach(askAgain);

  /* --- the list goes on by itself --- */
  const grid = $("main > .grid");
  let pager = $(".pager"), loads = 0, loading = null;
  const pages = []; /* {url, tiles, spacer, rows}: what was loaded, in order; tiles: in the document */
  const next = () => $("a[rel=next]", pager || undefined);
  const tilesOf = (page) => $$("main > .grid > .tile", page).map((tile) => document.adoptNode(tile));

  /* At most TILES_MAX tiles are in the document: pages far from the eye give their place to a spacer
   * of their height, and are asked for again when it comes near.  Only whole rows go, so that nothing
   * around them moves.  The first page keeps its tiles: its address would have newer pictures. */
  const putAway = (page) => {
    const { tiles } = page, top = (tile) => tile?.offsetTop ?? -1;
    const before = top(tiles[0].previousElementSibling), after = top(tiles[tiles.length - 1].nextElementSibling);
    let from = 0, to = tiles.length;
    while (from < to && top(tiles[from]) === before) from++;
    while (to > from && top(tiles[to - 1]) === after) to--;
    if (from === to) return;
    page.spacer = make("li", { class: "spacer", "aria-hidden": "true" });
    page.spacer.style.height = `${top(tiles[to - 1]) + tiles[to - 1].offsetHeight - top(tiles[from])}px`;
    page.rows = [from, to];
    if (page === pages[0]) page.kept = tiles.slice(from, to);
    tiles[from].before(page.spacer);
    for (const tile of tiles.splice(from, to - from)) tile.remove();
    near.observe(page.spacer);
  };
  const shed = (wanted) => {
    const center = pages.indexOf(wanted);
    const shown = pages.filter((page) => !page.spacer && page !== wanted && page.tiles.length)
      .sort((a, b) => Math.abs(pages.indexOf(b) - center) - Math.abs(pages.indexOf(a) - center));
    let count = $$(".tile", grid).length;
    for (const page of shown) {
      if (count <= TILES_MAX) break;
      if (page.tiles.some((tile) => tile.contains(document.activeElement))) continue;
      putAway(page);
      count = $$(".tile", grid).length;
    }
  };
  const restore = async (spacer) => {
    const page = pages.find((each) => each.spacer === spacer);
    if (!page || page.busy) return;
    near.unobserve(spacer);
    page.busy = true;
    try {
      const tiles = page.kept || tilesOf(await fetchPage(page.url)).slice(...page.rows);
      spacer.replaceWith(...tiles);
      page.tiles.splice(page.rows[0], 0, ...tiles);
      page.spacer = page.kept = null;
      shed(page);
    } catch {
      near.observe(spacer);
    }
    page.busy = false;
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      if (entry.target.matches(".spacer")) restore(entry.target);
      else if (loads < LOADS_MAX) more();
    }
  }, { rootMargin: "150% 0px" });

  const more = () => {
    const link = next();
    if (!link || loading) return loading;
    const url = link.href;
    link.setAttribute("aria-busy", "true");
    loading = fetchPage(url).then((page) => {
      const tiles = tilesOf(page);
      grid.append(...tiles);
      if (tiles.length) pages.push({ url, tiles, spacer: null });
      const fresh = $(".pager", page);
      pager.replaceWith(pager = document.adoptNode(fresh));
      for (const old of $$("a[rel=prev]", pager)) old.remove();
      loads++;
      say(`${tiles.length} more pictures`);
      shed(pages[pages.length - 1]);
      watchPager();
    }).catch(() => {
      link.removeAttribute("aria-busy");
      loads = LOADS_MAX; /* the link itself still works */
      say("No more pictures could be loaded", true);
    }).finally(() => { loading = null; });
    return loading;
  };
  const watchPager = () => {
    const link = next();
    if (!link) return;
    near.disconnect();
    for (const page of pages) if (page.spacer) near.observe(page.spacer);
    near.observe(link);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      loads = 0;
      more();
    });
  };

  /* --- coming back to the same place --- */
  const KEY = "kiln-place";
  const keepPlace = () => {
    if (!grid) return;
    const at = $$(".tile", grid).find((tile) => tile.getBoundingClientRect().bottom > 80);
    const link = at && $("a", at);
    if (link) sessionStorage.setItem(KEY, JSON.stringify({
      list: location.href, job: link.dataset.job, y: at.getBoundingClientRect().top, pages: pages.length,
    }));
  };
  const findPlace = async () => {
    let place = null;
    try { place = JSON.parse(sessionStorage.getItem(KEY)); } catch { /* of another release */ }
    const way = performance.getEntriesByType("navigation")[0]?.type;
    if (!place || place.list !== location.href || (way !== "back_forward" && way !== "reload")) return;
    const find = () => $(`.grid a[data-job="${CSS.escape(place.job)}"]`);
    for (let i = 0; i < Math.min(place.pages, 25) && !find(); i++) await more();
    const link = find();
    if (link) scrollBy(0, link.closest(".tile").getBoundingClientRect().top - place.y);
  };

  /* --- a picture over the list ---
   * It covers the whole window, and is not shown as modal: that would make all tiles behind it inert,
   * and so style each of them again whenever a picture is opened and closed.  Tab stays inside. */
  const dialog = make("dialog", { "aria-label": "Picture", "aria-modal": "true" });
  const stops = () => $$("a[href], button:not(:disabled), input, select, textarea, summary, [tabindex='0']", dialog)
    .filter((element) => element.checkVisibility?.({ visibilityProperty: true }) ?? true);
  const stayInside = (event) => {
    const all = stops(), first = all[0], last = all[all.length - 1];
    const inside = dialog.contains(document.activeElement);
    if (inside && document.activeElement !== (event.shiftKey ? first : last)) return;
    event.preventDefault();
    (event.shiftKey ? last : first)?.focus();
  };
  document.addEventListener("focusin", (event) => { /* from the browser's own bars */
    if (dialog.open && !dialog.contains(event.target)) stops()[0]?.focus();
  });
  let opened = null; /* the link that was opened */
  let listed = location.href; /* the address of the list */
  const links = () => $$("main > .grid .tile > a");
  const linkOf = (job) => $(`main > .grid a[data-job="${CSS.escape(job)}"]`) ||
    (local && make("a", { href: `#j${job}`, "data-job": job }));
  const showIn = async (link, how) => {
    let page;
    try {
      page = await fetchPage(link.href);
    } catch {
      location.href = link.href;
      return;
    }
    const article = $(".picture", page), related = $$(".related", page);
    if (!article) {
      if (!local) location.href = link.href;
      return;
    }
    opened = link;
    const all = links(), at = all.indexOf(link);
    const neighbour = (rel, inList) => inList || $(`a[rel=${rel}]`, page);
    const step = (label, text, target) => {
      const button = make("button", { type: "button", "aria-label": label, disabled: !target }, text);
      if (target) button.addEventListener("click", () => showIn(target, "replace"));
      return button;
    };
    const close = make("button", { type: "button" }, "Close");
    close.addEventListener("click", leave);
    const top = make("div", { class: "top" },
      make("p", { class: "where" }, ...(local ? [] : [make("a", { href: link.href }, "Open as a page")])),
      step("Previous picture", "\u2190", neighbour("prev", all[at - 1])),
      step("Next picture", "\u2192", neighbour("next", at < 0 ? null : all[at + 1])), close);
    const body = make("div", { class: "body", tabindex: "0", role: "group", "aria-label": "About this picture" },
      article, ...related);
    dialog.replaceChildren(top, body);
    if (how === "push") history.pushState({ picture: link.dataset.job }, "", link.href);
    if (how === "replace") history.replaceState(history.state && { picture: link.dataset.job }, "", link.href);
    if (!dialog.open) dialog.show();
    document.documentElement.classList.add("covered");
    close.focus({ focusVisible: false });
    document.title = `${$("h1", body).textContent} \u00b7 Kiln`;
    say($("h1", body).textContent);
    if (at > all.length - 8) more();
  };
  const title = document.title;
  /* Back to the list: the entry before this one, unless the picture's address was opened itself. */
  const leave = () => {
    if (history.state?.picture) return history.back();
    history.replaceState(null, "", listed);
    closeDialog();
  };
  const closeDialog = () => {
    if (!dialog.open) return;
    dialog.close();
    document.documentElement.classList.remove("covered");
    dialog.replaceChildren();
    document.title = title;
    const link = opened && linkOf(opened.dataset.job);
    if (link?.isConnected) link.focus({ preventScroll: false });
    opened = null;
  };
  const followAddress = () => {
    const job = history.state?.picture || local?.job(location.href), link = job && linkOf(job);
    if (link) return showIn(link, "stay");
    closeDialog();
    if (local && listed !== location.href) relist();
  };
  addEventListener("popstate", followAddress);

  /* A swipe over the picture, unless it is enlarged. */
  const SWIPE = 48; /* pixels */
  let from = null;
  dialog.addEventListener("touchstart", (event) => {
    const one = event.touches.length === 1 && (visualViewport?.scale ?? 1) < 1.05;
    from = one && event.target.closest(".stage") ? event.touches[0] : null;
  }, { passive: true });
  dialog.addEventListener("touchend", (event) => {
    const to = event.changedTouches[0];
    if (!from || event.touches.length) return;
    const x = to.clientX - from.clientX, y = to.clientY - from.clientY;
    if (Math.abs(x) > SWIPE && Math.abs(x) > 2 * Math.abs(y))
      $(`[aria-label='${x > 0 ? "Previous" : "Next"} picture']`, dialog).click();
    from = null;
  });

  /* --- keys --- */
  const rows = (from, down) => {
    const here = from.getBoundingClientRect(), middle = here.left + here.width / 2;
    let best = null, distance = Infinity, row = null;
    const all = links(), ordered = down ? all : all.slice().reverse();
    for (const link of ordered) {
      const box = link.getBoundingClientRect();
      if (down ? box.top < here.bottom - 2 : box.bottom > here.top + 2) continue;
      if (row !== null && Math.abs(box.top - row) > 4) break;
      row = row ?? box.top;
      const off = Math.abs(box.left + box.width / 2 - middle);
      if (off < distance) { distance = off; best = link; }
    }
    return best;
  };
  const moveInGrid = (event, link) => {
    const all = links(), at = all.indexOf(link);
    const target = { ArrowRight: () => all[at + 1], ArrowLeft: () => all[at - 1],
      ArrowDown: () => rows(link, true), ArrowUp: () => rows(link, false),
      Home: () => all[0], End: () => all[all.length - 1] }[event.key]?.();
    if (!target) return false;
    target.focus();
    target.scrollIntoView({ block: "nearest" });
    return true;
  };
  const actOn = (key, root) => {
    if (key === "f") { const form = $(".star", root); form?.requestSubmit(); return !!form; }
    const button = $(`.copy[data-key="${CSS.escape(key)}"]`, root);
    button?.click();
    return !!button;
  };
  /* f and c on a tile: its page knows the prompt and has the form. */
  const actOnTile = async (key, link) => {
    const page = await fetchPage(link.href);
    const article = $(".picture", page);
    if (!article) return;
    if (key === "f") await star($(".star", article));
    else { const button = $(`.copy[data-key="${key}"]`, article); if (button) { link.after(button); await copy(button); button.remove(); link.focus(); } }
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (dialog.open && event.key === "Tab") return stayInside(event);
    if (dialog.open && event.key === "Escape") { event.preventDefault(); return leave(); }
    if (event.target.matches?.("input, select, textarea")) return;
    let done = false;
    const tile = event.target.closest?.("main > .grid .tile > a");
    if (dialog.open) {
      if (event.key === "ArrowLeft") $("[aria-label='Previous picture']", dialog).click(), done = true;
      else if (event.key === "ArrowRight") $("[aria-label='Next picture']", dialog).click(), done = true;
      else if (event.key.length === 1) done = actOn(event.key, dialog);
    } else if (tile) {
      done = moveInGrid(event, tile);
      if (!done && /^[fcjr]$/.test(event.key)) { actOnTile(event.key, tile).catch(() => say("The gallery does not answer", true)); done = true; }
    } else if (event.target.closest?.(".picture") && event.key.length === 1) {
      done = actOn(event.key, $(".picture"));
    }
    const inside = dialog.open || tile || event.target.closest?.(".picture") || event.target === document.body;
    if (!done && inside && event.key === "/") { $("#q")?.focus(); done = !dialog.open; }
    if (!done && inside && event.key === "?" && !local) { location.href = "/help"; done = true; }
    if (done) event.preventDefault();
  });

  /* --- new pictures announce themselves, and the progress of a batch goes on ---
   * By the events of the list, while its page is looked at: a browser opens few connections to a
   * server, so pages in the background close theirs and go on from the last id.  An event may be
   * about an old picture that has changed; new is what was made since shortly before the page. */
  const NEW_MAX = 200, SHORTLY_MS = 60000, AGAIN_MS = 15000;
  const showBatch = (box, { jobs, all, state }) => {
    const now = { done: jobs.done, failed: jobs.failed, all, state };
    for (const part of $$("[data-of]", box)) part.textContent = now[part.dataset.of].toLocaleString("en");
    Object.assign($("progress", box), { max: all || 1, value: jobs.done });
    $(".failed", box).hidden = !jobs.failed;
    const why = $(".why");
    if (why) why.hidden = state !== "waiting";
  };
  const watchList = () => {
    const list = new URLSearchParams(location.search), box = $(".batch"), fresh = new Set();
    if (local || location.pathname !== "/" || !pager || list.has("c")) return;
    let stream = null, timer = 0, since = 0, lost = false, saidAt = -AGAIN_MS;
    const enough = () => !box && (lost || fresh.size === NEW_MAX);
    const button = make("button", { type: "button", class: "fresh", hidden: true });
    button.addEventListener("click", () => {
      const to = new URL(location.href); /* among best matches one would not see what is new */
      if (to.searchParams.get("q")) to.searchParams.set("sort", "newest");
      removeEventListener("pagehide", keepPlace); /* the new list begins at its top */
      sessionStorage.removeItem(KEY);
      scrollTo(0, 0);
      if (to.href === location.href) location.reload();
      else location.href = to;
    });
    document.body.append(button);
    const announce = () => {
      const count = `${fresh.size}${fresh.size < NEW_MAX ? "" : "+"} new picture${fresh.size === 1 ? "" : "s"}`;
      const text = lost ? "New pictures" : count;
      button.hidden = !lost && !fresh.size;
      if (button.hidden || button.textContent === text) return;
      button.textContent = text;
      if (dialog.open || performance.now() - saidAt < AGAIN_MS) return;
      saidAt = performance.now();
      say(text);
    };
    const hear = {
      picture: ({ job, created }) => {
        if (fresh.size < NEW_MAX && Date.parse(created) > since && !$(`main > .grid a[data-job="${job}"]`)) fresh.add(job);
      },
      lost: () => { lost = true; },
      batch: (batch) => { if (box) showBatch(box, batch); },
      moment: ({ now }) => { since = since || Date.parse(now) - SHORTLY_MS; announce(); if (enough()) stream?.close(); },
    };
    const follow = () => {
      clearTimeout(timer);
      stream?.close();
      stream = null;
      if (document.hidden || enough()) return;
      stream = new EventSource(`/v1/events?${list}`);
      for (const [name, act] of Object.entries(hear))
        stream.addEventListener(name, (event) => {
          if (event.lastEventId) list.set("last_event_id", event.lastEventId);
          act(JSON.parse(event.data));
        });
      stream.addEventListener("error", () => { /* refused, as when too many are open; else it comes back by itself */
        if (stream?.readyState === EventSource.CLOSED) timer = setTimeout(follow, AGAIN_MS);
      });
    };
    document.addEventListener("visibilitychange", follow);
    follow();
  };

  /* --- the slide show goes on by itself, until somebody pauses it or wants less motion --- */
  const play = $(".play"), following = $("main a[rel=next]");
  if (play && following) {
    const KEPT = "kiln-show", SLIDE_MS = 6000;
    let timer = 0, playing = sessionStorage.getItem(KEPT) !== "paused" &&
      !matchMedia("(prefers-reduced-motion: reduce)").matches;
    const set = () => {
      clearTimeout(timer);
      play.textContent = playing ? "Pause" : "Play";
      if (playing) timer = setTimeout(() => { if (!document.hidden) location.replace(following.href); else set(); }, SLIDE_MS);
    };
    play.hidden = false;
    play.addEventListener("click", () => {
      playing = !playing;
      sessionStorage.setItem(KEPT, playing ? "playing" : "paused");
      set();
    });
    set();
  }

  /* --- an exported page: its list, which changes while one types --- */
  const fillList = (page) => {
    const tiles = $$("main > .grid > .tile", page);
    grid.replaceChildren(...tiles);
    grid.hidden = !tiles.length;
    $("main > .say")?.remove();
    const nothing = $(".say", page);
    if (nothing) grid.before(nothing);
    pager.replaceWith(pager = $(".pager", page));
    $(".count").textContent = $(".count", page).textContent;
    pages.splice(0, pages.length, { url: location.href, tiles, spacer: null });
    loads = 0;
  };
  const relist = () => {
    listed = local.job(location.href) ? location.href.split("#")[0] : location.href;
    const words = local.words(listed);
    if ($("#q").value.trim() !== words) $("#q").value = words;
    fillList(local.page(listed));
    watchPager();
  };
  if (local) {
    const box = $("#q");
    box.form.hidden = false;
    box.form.addEventListener("submit", (event) => event.preventDefault());
    box.addEventListener("input", () => {
      history.replaceState(null, "", local.address(box.value.trim()));
      relist();
    });
    relist();
  }

  document.body.append(live);
  const form = $(".filters form");
  form?.addEventListener("submit", () => {
    for (const field of $$("input, select", form)) if (!field.value) field.disabled = true;
  });
  if (grid) {
    document.body.append(dialog);
    document.addEventListener("click", (event) => {
      const link = event.target.closest?.("main > .grid .tile > a");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      showIn(link, "push");
    });
    if (!local) pages.push({ url: location.href, tiles: $$(".tile", grid), spacer: null });
    addEventListener("pagehide", keepPlace);
    watchPager();
    findPlace();
    if (local) followAddress();
  }
  watchList();
})();
