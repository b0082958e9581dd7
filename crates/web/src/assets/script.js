// Comforts of pages that are whole without them. The first fetches the text of a page again while it is seen.
"use strict";
(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const pause = 1000 * Number(main.dataset.refresh);
  const refresh = async () => {
    const selected = String(document.getSelection());
    if (document.hidden || selected || main.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("main");
      if (!next) throw new Error("no text");
      const open = new Set([...main.querySelectorAll("details[open]")].map((one) => one.id));
      main.replaceChildren(...next.childNodes);
      for (const one of main.querySelectorAll("details")) if (open.has(one.id)) one.open = true;
      main.classList.remove("stale");
    } catch {
      main.classList.add("stale");
    }
  };
  setInterval(refresh, pause);
  document.addEventListener("visibilitychange", refresh);
})();
// In a thread, j and k go to the next and the previous article.
(() => {
  const articles = [...document.querySelectorAll(".articles > article")];
  if (!articles.length) return;
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !["j", "k"].includes(event.key)) return;
    const tops = articles.map((one) => one.getBoundingClientRect().top);
    const at = event.key === "j" ? tops.findIndex((top) => top > 12) : tops.findLastIndex((top) => top < -2);
    if (at >= 0) {
      history.replaceState(null, "", "#" + articles[at].id);
      articles[at].scrollIntoView();
      articles[at].querySelector("summary, a")?.focus({ preventScroll: true });
    }
  });
})();
// A button copies what stands beside it.
(() => {
  if (!navigator.clipboard) return;
  for (const text of document.querySelectorAll(".copied")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy " + text.textContent);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    });
    text.after(" ", button);
  }
})();
