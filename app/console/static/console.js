// Reloads the page's content every five seconds, and keeps what is open, focused and scrolled. Without this the page reloads by itself (noscript).
"use strict";
(() => {
  const EVERY_MS = 5000;
  const PATIENCE_MS = 10000;
  const button = document.getElementById("pause");
  const told = document.getElementById("told");
  let paused = new URLSearchParams(location.search).has("still");
  let said = headline();

  function headline() {
    const element = document.getElementById("headline");
    return element ? element.textContent.trim() : "";
  }

  function show() {
    button.hidden = false;
    button.textContent = paused ? "Resume" : "Pause";
    button.setAttribute("aria-pressed", String(paused));
  }

  function exchange(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const next = fresh.getElementById("main");
    const now = document.getElementById("main");
    if (!next) throw new Error("no page of the console");
    const selected = document.getSelection();
    if (selected && !selected.isCollapsed && now.contains(selected.anchorNode)) return; // somebody copies something
    const open = [...now.querySelectorAll("details[open][id]")].map((one) => one.id);
    const scrolled = [...now.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    const focused = path(document.activeElement, now);
    for (const id of open) {
      const one = next.querySelector("#" + CSS.escape(id));
      if (one) one.open = true;
    }
    now.replaceChildren(...next.childNodes);
    document.title = fresh.title;
    now.querySelectorAll(".scroll").forEach((one, k) => { one.scrollLeft = scrolled[k] || 0; });
    const again = focused && follow(focused, now);
    if (again) again.focus({ preventScroll: true });
    if (headline() !== said) {
      said = headline();
      told.textContent = said;
    }
  }

  // Where an element is among those that can have the focus, and what it says: it may have moved.
  function reachable(root) {
    return [...root.querySelectorAll("a[href], summary, [tabindex]")];
  }
  function path(element, root) {
    if (!element || element === root || !root.contains(element)) return null;
    return { text: element.textContent, place: reachable(root).indexOf(element) };
  }
  function follow(focused, root) {
    const all = reachable(root);
    const same = all.filter((one) => one.textContent === focused.text);
    return same.length === 1 ? same[0] : all[focused.place];
  }

  async function turn() {
    if (!paused && !document.hidden) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(PATIENCE_MS) });
        if (!answer.ok && answer.status !== 404) throw new Error(`status ${answer.status}`); // a query that is gone has a page that says so
        const text = await answer.text();
        if (!paused) exchange(text);
        document.documentElement.classList.remove("stale");
      } catch {
        document.documentElement.classList.add("stale"); // the driver is away, or fails: what is shown is old
        if (said !== "No answer") told.textContent = said = "No answer";
      }
    }
    setTimeout(turn, EVERY_MS);
  }

  button.addEventListener("click", () => { paused = !paused; show(); });
  show();
  setTimeout(turn, EVERY_MS);
})();
