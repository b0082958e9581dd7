#!/usr/bin/env python3
"""Follows every link of the HTML pages below a directory: links.py DIR. Ends with 1 if one leads nowhere."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]
        if "id" in attributes:
            self.anchors.add(attributes["id"])


root = Path(sys.argv[1])
pages = {path.resolve(): Page(path.read_text()) for path in root.rglob("*.html")}
broken, count = [], 0
for path, page in pages.items():
    for link in page.links:
        target, anchor = urldefrag(link)
        if "://" in target or target.startswith("mailto:"):
            continue
        count += 1
        there = (path.parent / unquote(target)).resolve() if target else path
        if not there.is_file() or (anchor and anchor not in pages[there].anchors):
            broken.append(f"{path.relative_to(root.resolve())}: {link}")
print("\n".join(broken + [f"{len(pages)} pages, {count} links, {len(broken)} of them broken"]))
sys.exit(1 if broken or not pages else 0)
