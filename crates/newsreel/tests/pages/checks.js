// What a page must have for those who do not see it, or not as others do; returns what is wrong, in words.
(() => {
  const wrong = [];
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = (element) => {
    const style = getComputedStyle(element);
    return element.getClientRects().length > 0 && style.visibility !== "hidden" && style.clipPath === "none";
  };
  const name = (element) => (element.getAttribute("aria-label") || element.textContent || "").trim()
    || all("img[alt], svg title", element).map((one) => one.alt || one.textContent).join("").trim();
  const where = (element) => element.outerHTML.slice(0, 90);

  if (!document.documentElement.lang) wrong.push("no language");
  if (!document.title.trim()) wrong.push("no title");
  if (all("main").length !== 1) wrong.push("not one main");
  if (!all("header, nav").length) wrong.push("no landmark above main");
  all("nav").length > 1 && all("nav").filter((nav) => !nav.getAttribute("aria-label"))
    .forEach((nav) => wrong.push("one of several navs has no name: " + where(nav)));

  const levels = all("h1, h2, h3, h4, h5, h6").map((heading) => Number(heading.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) wrong.push("not one h1: " + levels);
  levels.forEach((level, at) => at > 0 && level > levels[at - 1] + 1 && wrong.push("a level of headings is left out: " + levels));
  all("h1, h2, h3").filter((heading) => !heading.textContent.trim()).forEach((heading) => wrong.push("an empty " + where(heading)));

  const ids = all("[id]").map((element) => element.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => wrong.push("an id twice: " + id));
  all("input, textarea, select").filter((field) => field.type !== "hidden" && !field.labels.length && !field.getAttribute("aria-label"))
    .forEach((field) => wrong.push("a field without a label: " + where(field)));
  all("a[href], button").filter((element) => !name(element)).forEach((element) => wrong.push("a link without a name: " + where(element)));
  all("img").filter((image) => !image.hasAttribute("alt")).forEach((image) => wrong.push("an image without alt: " + where(image)));
  all("svg").filter((svg) => !svg.getAttribute("aria-label") && !svg.querySelector("title") && svg.getAttribute("aria-hidden") !== "true")
    .forEach((svg) => wrong.push("a drawing without a name: " + where(svg)));
  all("[aria-labelledby], [aria-describedby]").forEach((element) => {
    const named = `${element.getAttribute("aria-labelledby") || ""} ${element.getAttribute("aria-describedby") || ""}`;
    named.split(/\s+/).filter((id) => id && !document.getElementById(id)).forEach((id) => wrong.push("nothing has the id " + id));
  });
  all("table").filter((table) => !table.querySelector("th")).forEach((table) => wrong.push("a table without headings: " + where(table)));
  all("script:not([src]), style, [style]").forEach((element) => wrong.push("script or style in the page: " + where(element)));
  all("[src], link[href]").map((element) => new URL(element.src || element.href, location.href))
    .filter((url) => url.origin !== location.origin && url.protocol.startsWith("http")).forEach((url) => wrong.push("from another host: " + url));
  if (document.documentElement.scrollWidth > innerWidth + 1) {
    const wide = all("main *").filter((element) => element.getBoundingClientRect().right > innerWidth + 1
      && getComputedStyle(element.parentElement).overflowX === "visible")[0];
    wrong.push(`wider than the window by ${document.documentElement.scrollWidth - innerWidth}: ${wide ? where(wide) : ""}`);
  }

  // WCAG 2: contrast of text with what is behind it, 4.5, or 3 where it is large.
  const parts = (colour) => {
    const numbers = (colour.match(/[\d.]+/g) || []).map(Number);
    return colour.startsWith("color(") ? [...numbers.slice(0, 3).map((n) => n * 255), numbers[3] ?? 1] : [...numbers.slice(0, 3), numbers[3] ?? 1];
  };
  const over = (front, back) => front.slice(0, 3).map((n, at) => n * front[3] + back[at] * (1 - front[3]));
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(parts(getComputedStyle(one).backgroundColor));
    const base = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((back, layer) => over(layer, back), base);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((n) => n / 255).map((n) => (n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // And of the border of what is filled in, 3: else nobody sees where it is.
  all("input, textarea, select").filter((field) => shown(field) && field.type !== "hidden").forEach((field) => {
    const back = behind(field.parentElement);
    const front = over(parts(getComputedStyle(field).borderTopColor), back);
    const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 3) wrong.push(`border with a contrast of ${ratio.toFixed(2)}: ${where(field)}`);
  });
  const told = new Set();
  all("body *").filter((element) => shown(element) && !element.closest("svg")
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).forEach((element) => {
    const style = getComputedStyle(element);
    const back = behind(element);
    const front = over(parts(style.color), back);
    const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const pixels = parseFloat(style.fontSize);
    const large = pixels >= 24 || (pixels >= 18.66 && Number(style.fontWeight) >= 700);
    const key = style.color + back;
    if (ratio < (large ? 3 : 4.5) - 0.01 && !told.has(key)) {
      told.add(key);
      wrong.push(`contrast of ${ratio.toFixed(2)}: ${where(element)}`);
    }
  });
  return wrong;
})()
