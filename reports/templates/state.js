// State of the page in the URL's fragment: "#anchor&key=value&...". Plain anchors keep working; without a script they are all there is.
"use strict";
const State = (() => {
  // Charts wait as the text of a <noscript> until their card opens or the page is printed: a long page then loads in a fraction of the time.
  const fill = (part) => part.querySelectorAll("noscript").forEach((held) => { held.outerHTML = held.textContent; });
  const find = (id) => {
    const named = `id="${id}"`;
    if (!document.getElementById(id)) document.querySelectorAll("noscript").forEach((held) => { if (held.textContent.includes(named)) fill(held.parentElement); });
    return document.getElementById(id);
  };
  const own = (card) => card.querySelectorAll("noscript").forEach((held) => { if (held.closest("details") === card) fill(held.parentElement); });
  const open = (card) => { own(card); card.open = true; };
  document.querySelectorAll("details[open]").forEach(own);
  // A long formula scrolls inside its line; with the keyboard, too.
  const reach = (card) => card.querySelectorAll("dd").forEach((line) => { if (line.scrollWidth > line.clientWidth) line.tabIndex = 0; });
  document.addEventListener("toggle", (event) => { if (event.target.open) { own(event.target); reach(event.target); } }, true);
  matchMedia("print").addEventListener("change", (event) => { if (event.matches) fill(document); });
  const read = () => {
    const [anchor, ...rest] = location.hash.slice(1).split("&");
    const pairs = rest.concat(anchor.includes("=") ? [anchor] : []);
    return { anchor: anchor.includes("=") ? "" : anchor, values: new URLSearchParams(pairs.join("&")) };
  };
  let { anchor, values } = read();
  const listeners = [];
  const write = (push) => {
    const text = values.toString();
    const hash = anchor || text ? "#" + [anchor, text].filter(Boolean).join("&") : location.pathname + location.search;
    history[push ? "pushState" : "replaceState"](null, "", hash);
  };
  const reveal = (id, smooth) => {
    const target = id && find(decodeURIComponent(id));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.localName === "details") open(part);
    target.scrollIntoView({ behavior: smooth ? undefined : "instant", block: "start" });
    const focus = target.matches("details") ? target.querySelector("summary") : null;
    if (focus) focus.focus({ preventScroll: true });
  };
  const announce = () => listeners.forEach((f) => f());
  addEventListener("hashchange", () => { ({ anchor, values } = read()); announce(); reveal(anchor, false); });
  addEventListener("popstate", () => { ({ anchor, values } = read()); announce(); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || link.closest(".proof") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    anchor = link.getAttribute("href").slice(1);
    write(true);
    reveal(anchor, true);
  });
  document.querySelectorAll("[data-open]").forEach((button) => button.addEventListener("click", () => {
    document.querySelectorAll("details.card").forEach((d) => { if (button.dataset.open === "all") open(d); else d.open = false; });
  }));
  document.querySelectorAll(".cardtools").forEach((p) => { p.hidden = false; });
  const opened = [];
  addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((d) => { opened.push(d); open(d); }));
  addEventListener("afterprint", () => opened.splice(0).forEach((d) => { d.open = false; }));
  return {
    get: (key) => values.get(key) || "",
    set: (key, value) => { if (value) values.set(key, value); else values.delete(key); write(false); },
    listen: (f) => { listeners.push(f); f(); },
    start: () => reveal(anchor, false),
    reveal,
    find,
  };
})();
