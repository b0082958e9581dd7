// Fetches the text of a page again while somebody looks at it. Pages are whole without this.
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
