/* What /review adds where scripts run: keys, and decisions without a new page.  Without it every
 * button posts its form. */
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const list = $(".cases");
  if (!list) return;
  const live = document.createElement("p");
  live.className = "away";
  live.setAttribute("role", "status");
  document.body.append(live);
  const done = []; /* {item, before, undo}: the newest last */

  const post = async (fields) => {
    const answer = await fetch("/verdict", { method: "POST", body: new URLSearchParams(fields) });
    if (!answer.ok) throw new Error(String(answer.status));
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };
  const look = (item) => item && $(".look", item).focus();
  const decide = async (form, button) => {
    const item = form.closest(".case"), fields = Object.fromEntries(new FormData(form));
    form.setAttribute("aria-busy", "true");
    try {
      const page = await post({ ...fields, list: fields.list || "waiting", level: button.value });
      const undo = $(".undo button", page);
      const before = item.nextElementSibling, near = before || item.previousElementSibling;
      done.push({ item, before, fields, level: undo ? undo.value : "none" });
      item.remove();
      look(near);
      live.textContent = `Picture ${item.dataset.job}: ${button.value}. u undoes it.`;
      if (!near) location.reload();
    } catch {
      live.textContent = "The gallery could not record that";
    }
    form.removeAttribute("aria-busy");
  };
  const undo = async () => {
    const last = done.pop();
    if (!last) { $(".undo")?.requestSubmit($(".undo button")); return; }
    try {
      await post({ ...last.fields, level: last.level });
      if (last.before?.isConnected) last.before.before(last.item);
      else list.append(last.item);
      look(last.item);
      live.textContent = `Picture ${last.item.dataset.job} is as it was.`;
    } catch {
      done.push(last);
      live.textContent = "The gallery could not undo that";
    }
  };
  list.addEventListener("submit", (event) => {
    if (!event.submitter) return;
    event.preventDefault();
    decide(event.target, event.submitter);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.matches?.("input, select, textarea")) return;
    const item = event.target.closest?.(".case");
    let used = true;
    if (event.key === "u" && (item || event.target === document.body)) undo();
    else if (!item) used = false;
    else if (event.key === "ArrowDown" || event.key === "ArrowRight") look(item.nextElementSibling);
    else if (event.key === "ArrowUp" || event.key === "ArrowLeft") look(item.previousElementSibling);
    else {
      const button = $(`button[data-key="${CSS.escape(event.key)}"]`, item);
      if (button && event.key) button.form.requestSubmit(button);
      else used = false;
    }
    if (used) event.preventDefault();
  });
})();
